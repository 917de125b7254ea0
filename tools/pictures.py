"""``python -m tools.pictures``: the pictures of docs/pictures.md, of saved sessions and recordings of a terminal.

Needs Chromium (the distribution's) and ``pip install -e '.[pages]'``. The fleet is made up: a recorded session under
the names of 2,000 nodes, of which one hardware class fails. A recording is what a terminal got (``script --log-out``).
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from tests.unit.toolkit.fleet.fleet_builder import save, session
from toolkit.model.identity import HardwareClass

PICTURES = Path(__file__).resolve().parents[1] / "docs/pictures"
WIDE, NARROW = (1280, 960), (390, 844)
COLOURS = 96
CLASSES = (
    (HardwareClass(name="epyc-9454-2s-96c-smt-nps4", hash="1" * 16), 1200, "6.12.48"),
    (HardwareClass(name="platinum-8480-2s-112c-smt-nps1", hash="2" * 16), 640, "6.12.48"),
    (HardwareClass(name="ampere-altra-1s-80c-nosmt-nps1", hash="3" * 16), 160, "6.18.3"),
)
BAD = CLASSES[-1][0]
TERMINAL = "#0f1520", "#dfe5ee"
NAMED = {
    "black": "#3a4250", "red": "#ff8080", "green": "#7ddb9a", "brown": "#f0c35c", "blue": "#7db8f5",
    "magenta": "#d59af0", "cyan": "#6fd3dc", "white": "#dfe5ee",
}  # fmt: skip
"""Colours by the names that pyte gives them."""


@click.command()
@click.option("--passed", type=click.Path(exists=True, path_type=Path), required=True, help="A session that passed.")
@click.option("--failed", type=click.Path(exists=True, path_type=Path), required=True, help="One that failed.")
@click.option("--undecided", type=click.Path(exists=True, path_type=Path), required=True, help="One that is undecided.")
@click.option("--live", type=click.Path(exists=True, path_type=Path), required=True, help="A recording, 112 by 30.")
@click.option("--live-narrow", type=click.Path(exists=True, path_type=Path), required=True, help="One, 52 by 40.")
def main(passed: Path, failed: Path, undecided: Path, live: Path, live_narrow: Path) -> None:
    """Write them to docs/pictures; each page is that of today's code."""
    with TemporaryDirectory() as name:
        place = Path(name)
        _pinproof("report", passed, "--html", place / "passed.html")
        _pinproof("report", failed, "--base", passed, "--html", place / "failed.html")
        _pinproof("report", undecided, "--base", passed, "--html", place / "undecided.html")
        _pinproof("compare", passed, undecided, "--html", place / "comparison.html")
        _fleet(place)
        (place / "live.html").write_text(_terminal(live, 112, 30), encoding="utf-8")
        (place / "live-narrow.html").write_text(_terminal(live_narrow, 52, 40), encoding="utf-8")
        for picture, content in _pictures(place):
            (PICTURES / picture).write_bytes(content)
            click.echo(f"{picture}: {len(content):,} bytes")


def _pinproof(*arguments: object, inside: Path | None = None) -> str:
    """Run a verb; what it answers is in what it writes, not in its exit code. :param inside: where it runs."""
    command = [str(Path(sys.executable).with_name("pinproof")), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=inside).stdout


def _fleet(place: Path) -> None:
    """Write the page of 2,000 nodes against an answer before, in which all of them had passed."""
    for results, broken in (("before", False), ("now", True)):
        number = 0
        for hardware, nodes, kernel in CLASSES:
            for at in range(nodes):
                host = f"rack{number // 40:02}-n{number % 40:02}"
                fails = "cpuset-containment" if broken and hardware is BAD and at % 7 else ""
                save(place / results, host, session(host, hardware=hardware, kernel=kernel, fails=fails))
                number += 1
    (place / "last.json").write_text(_pinproof("fleet", "before", "--json", inside=place), encoding="utf-8")
    _pinproof("fleet", "now", "--against", "last.json", "--html", "fleet.html", inside=place)


def _terminal(recording: Path, columns: int, lines: int) -> str:
    """Return a page with what a terminal of this size shows at the end of a recording."""
    import pyte

    screen = pyte.Screen(columns, lines)
    pyte.ByteStream(screen).feed(recording.read_bytes().rpartition(b"\x1b[?1049l")[0] or recording.read_bytes())
    rows = ["".join(_character(screen.buffer[at][column]) for column in range(columns)) for at in range(lines)]
    ground, ink = TERMINAL
    style = f"margin:0;padding:10px;background:{ground};color:{ink};font:LETTERpx/1.25 'DejaVu Sans Mono',monospace"
    letter = 11 if columns < 100 else 14
    return f'<body><pre style="{style.replace("LETTER", str(letter))}">' + "\n".join(rows).rstrip() + "</pre>"


def _character(one: Any) -> str:
    if one.fg == "default" and one.bg == "default" and not one.bold and not one.reverse:
        return escape(one.data)
    ground, ink = (_colour(one.bg, TERMINAL[0]), _colour(one.fg, TERMINAL[1]))
    if one.reverse:
        ground, ink = ink, ground
    style = f"background:{ground};color:{ink};font-weight:{700 if one.bold else 400}"
    return f'<span style="{style}">{escape(one.data)}</span>'


def _colour(name: str, otherwise: str) -> str:
    if name == "default":
        return otherwise
    plain = name.removeprefix("bright")
    return NAMED.get(plain, f"#{plain}" if len(plain) == 6 else otherwise)


def _pictures(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield a name and a picture: the first screen of each page, wide and as on a telephone."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as steering:
        browser = steering.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for kind in ("passed", "failed", "undecided", "comparison", "fleet", "live"):
            for words, size in (("wide", WIDE), ("390", NARROW)):
                name = f"{kind}-narrow" if kind == "live" and words == "390" else kind
                with browser.new_context(viewport={"width": size[0], "height": size[1]}) as context:
                    page = context.new_page()
                    page.goto(f"file://{place / name}.html")
                    shown = page.locator("pre") if kind == "live" else page
                    yield f"{kind}-{words}.webp", _small(shown.screenshot())
        browser.close()


def _small(picture: bytes) -> bytes:
    """Return it with few colours, without loss beyond that."""
    from PIL import Image

    out = io.BytesIO()
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.convert("RGB").save(out, "WEBP", lossless=True, method=6, quality=100)
    return out.getvalue()


if __name__ == "__main__":
    main()
