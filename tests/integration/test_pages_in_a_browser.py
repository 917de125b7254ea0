"""Pages in a real browser: their program runs under their own policy, without an error, and does what it is for.

What axe finds, and what is on paper, is asked through playwright: ``pip install -e '.[pages]'``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.fleet.fleet_builder import save, session

pytestmark = pytest.mark.slow
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RECORDED = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pages: a run that failed, a watch, a fleet of 300, and a comparison."""
    if BROWSER is None:
        pytest.skip("no chromium: apt-get install chromium")
    place = tmp_path_factory.mktemp("pages")
    for at in range(300):
        save(place / "results", f"n{at:03}", session(f"n{at:03}"))
    for arguments in (
        ("report", RECORDED / "runs/quota-half-busy-host", "--html", place / "run.html"),
        ("report", RECORDED / "watches/escape-seen", "--html", place / "watch.html"),
        ("fleet", place / "results", "--html", place / "fleet.html"),
        ("compare", *[RECORDED / "runs/quota-half-busy-host"] * 2, "--html", place / "comparison.html"),
    ):
        subprocess.run(["pinproof", *map(str, arguments)], check=False, stdout=subprocess.DEVNULL)
    return place


def opened(page: Path, width: int) -> str:
    """Open a page; return its elements after its program ran. An error of it, or of the policy, is one here."""
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={page.parent}/profile", "--virtual-time-budget=20000", f"--window-size={width},30000",
         f"file://{page}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert re.findall(r"CONSOLE.*", done.stderr) == []
    return done.stdout


def test_a_run_is_drawn(pages: Path) -> None:
    """The timeline has its keys, the quota its curve, in 390 pixels as well."""
    for width in (1280, 390):
        shown = opened(pages / "run.html", width)
        assert 'class="tools noprint"><button' in shown, "the program shows what only it can do"
        assert '<div class="uplot' in shown


def test_rows_of_a_fleet_are_drawn_when_they_are_scrolled_to(pages: Path) -> None:
    """All of them, in a window that is long enough; 200 are part of the page."""
    source, shown = (pages / "fleet.html").read_text(), opened(pages / "fleet.html", 1280)

    assert source.count('<th scope="row"><bdi>n') == 200
    assert shown.count('<th scope="row"><bdi>n') == 300


KINDS = ("run", "watch", "fleet", "comparison")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, steered."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright (pip install 'pinproof[pages]')")
    with sync_api.sync_playwright() as steering:
        running = steering.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(pages: Path, browser: Any, kind: str, scheme: str) -> None:
    """All unfolded, in 390 pixels, which have room for it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe (pip install 'pinproof[pages]')")
    # The page's own policy lets nothing else run, axe included.
    with browser.new_context(viewport={"width": 390, "height": 900}, color_scheme=scheme, bypass_csp=True) as context:
        page = context.new_page()
        page.goto(f"file://{pages / kind}.html")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        found = axe.Axe().run(page).response["violations"]
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")

    assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []
    assert over <= 0


@pytest.mark.parametrize("kind", KINDS)
def test_paper_is_white_and_has_everything_and_no_controls(pages: Path, browser: Any, kind: str) -> None:
    """Also of a reader whose system is dark; without the page's program as well."""
    with browser.new_context(color_scheme="dark", java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"file://{pages / kind}.html")
        page.emulate_media(media="print", color_scheme="dark")
        folded = page.locator("details > :not(summary)")
        shown = [folded.nth(at).is_visible() for at in range(folded.count())]
        controls = page.locator("button:visible, input:visible, select:visible").count()
        styles = "(all) => all.map((one) => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color])"
        colours = page.locator("body, .answer").evaluate_all(styles)

    assert all(shown)
    assert controls == 0
    assert colours == [["rgb(255, 255, 255)", "rgb(0, 0, 0)"]] * 2
