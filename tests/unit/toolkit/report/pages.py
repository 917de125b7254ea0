"""A page read as a browser reads it: its elements in order, with attributes and texts. What tests of pages share."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Element:
    """One element. :param text: its own and that of its children."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: tuple[str, ...] = ()


@dataclass
class Page(HTMLParser):
    """The elements of a page. :param open: those that are not closed yet."""

    source: str
    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element."""
        made = Element(tag, {name: value or "" for name, value in attrs}, inside=tuple(one.tag for one in self.open))
        self.elements.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element without content."""
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """Close the last of its kind; anything else that is open is a fault of the page."""
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Give a text to all elements that it is in."""
        for one in self.open:
            one.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return the elements of a tag with these attributes."""
        return [one for one in self.elements if one.tag == tag and attributes.items() <= one.attributes.items()]

    def headings(self) -> list[tuple[str, str]]:
        """Return the headings in order."""
        return [(one.tag, " ".join(one.text.split())) for one in self.elements if re.fullmatch("h[1-6]", one.tag)]


def check_page(source: str) -> Page:
    """Check what is so of every page: nothing from elsewhere, nothing runs but our program, everything has a name."""
    page = Page(source)
    assert page.open == []
    assert source.startswith("<!DOCTYPE html>")
    (html,), (policy,) = page.all("html"), [
        one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes
    ]  # fmt: skip
    assert html.attributes["lang"] == "en"
    (style,) = page.all("style")
    programs = [one for one in page.all("script") if "type" not in one.attributes]
    assert len(programs) == 1
    assert policy.startswith("default-src 'none'; ")
    for element, kind in ((programs[0], "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+", source) == [], "an address elsewhere"
    assert "@import" not in style.text
    assert "url(" not in style.text
    for one in page.elements:
        assert not {name for name in one.attributes if name.startswith("on") or name in ("style", "src", "srcset")}, one
        assert one.attributes.get("href", "#").startswith("#")
        assert one.tag not in ("iframe", "object", "embed", "form", "base", "link", "img")
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    assert {one.attributes["href"][1:] for one in page.all("a")} <= set(ids)
    assert {one.attributes["aria-labelledby"] for one in page.elements if "aria-labelledby" in one.attributes} <= set(
        ids
    )
    _check_named(page)
    return page


def _check_named(page: Page) -> None:
    """Every landmark once; headings without a gap; a table has a caption and heads; a picture a text, or is hidden."""
    for tag in ("main", "header", "footer", "title", "h1"):
        assert len([one for one in page.all(tag) if "svg" not in one.inside]) == 1, tag
    levels = [int(tag[1]) for tag, _ in page.headings()]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("table")) == len(page.all("caption"))
    assert all("scope" in one.attributes for one in page.all("th"))
    for picture in page.all("svg"):
        named = picture.attributes.get("role") == "img" and picture.attributes.get("aria-label")
        assert named or picture.attributes.get("aria-hidden") == "true"
    assert all(one.text.strip() for one in page.all("button"))
    assert all(one.attributes.get("aria-label") for one in page.elements if one.attributes.get("role") == "group")
