"""What the pictures of a page are made of: SVG elements whose attributes and texts are escaped here, in one place."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from toolkit.text.names import printable


def svg(
    kind: str, size: tuple[int, int], content: Iterable[str], *, label: str = "", stretched: bool = False
) -> Markup:
    """Return a picture.

    :param kind: its class. :param size: width and height, in its own units and in pixels. :param content: elements.
    :param label: what it shows, in words; empty: text beside it says so, and it is hidden from screen readers.
    :param stretched: as wide as there is room for, whatever its own width.
    """
    width, height = size
    place = 'preserveAspectRatio="none"' if stretched else f'width="{width}"'
    said = f'role="img" aria-label="{_safe(label)}"' if label else 'aria-hidden="true"'
    head = f'<svg class="{_safe(kind)}" {place} height="{height}" viewBox="0 0 {width} {height}" {said}>'
    return Markup(f"{head}{''.join(content)}</svg>")  # noqa: S704 its texts and attributes went through _safe


def group(kind: str, content: Iterable[str], title: str = "") -> str:
    """Return elements that belong together. :param kind: their classes. :param title: shown beside a pointer."""
    told = f"<title>{_safe(title)}</title>" if title else ""
    return f'<g class="{_safe(kind)}">{told}{"".join(content)}</g>'


def path(outline: str, kind: str = "") -> str:
    """Return a path. :param outline: its commands, numbers alone."""
    return f'<path{_kind(kind)} d="{outline}"/>'


def box(left: int, top: int, width: int, height: int, *, kind: str = "", round_by: int = 0) -> str:
    """Return a rectangle."""
    corners = f' rx="{round_by}"' if round_by else ""
    return f'<rect{_kind(kind)} x="{left}" y="{top}" width="{width}" height="{height}"{corners}/>'


def words(left: int, top: int, text: object, kind: str = "") -> str:
    """Return a text."""
    return f'<text{_kind(kind)} x="{left}" y="{top}">{_safe(str(text))}</text>'


def _kind(kind: str) -> str:
    return f' class="{_safe(kind)}"' if kind else ""


def _safe(text: str) -> str:
    return str(escape(printable(text)))
