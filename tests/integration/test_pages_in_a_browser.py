"""Pages in a real browser: their program runs under their own policy, without an error, and does what it is for.

Chromium, the distribution's, is steered through playwright, its keys included: ``pip install -e '.[pages]'``.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.fleet.fleet_builder import save, session
from tests.unit.toolkit.saved_runs import packed_run
from toolkit.model.conformance import ControlResult
from toolkit.model.verdict import Outcome
from toolkit.session.index import save_session, session_of
from toolkit.store import load_run

pytestmark = pytest.mark.slow
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RECORDED = Path(__file__).resolve().parents[1] / "data"
BROKEN, HEALTHY = RECORDED / "runs/quota-half-busy-host", RECORDED / "runs/three-classes"
KINDS = ("run", "watch", "session", "fleet", "comparison")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pages: a run that failed, a watch of three windows, a session, a fleet of 300, a comparison."""
    if BROWSER is None:
        pytest.skip("no chromium: apt-get install chromium")
    place = tmp_path_factory.mktemp("pages")
    for at in range(300):
        save(place / "results", f"n{at:03}", session(f"n{at:03}", fails="cpuset-containment" if at % 7 == 6 else ""))
    conformance(place / "session")
    for arguments in (
        ("report", BROKEN, "--html", place / "run.html"),
        ("report", RECORDED / "watches/escape-seen", "--html", place / "watch.html"),
        ("report", place / "session", "--html", place / "session.html"),
        ("fleet", place / "results", "--html", place / "fleet.html"),
        ("compare", HEALTHY, BROKEN, "--html", place / "comparison.html"),
    ):
        subprocess.run(["pinproof", *map(str, arguments)], check=False, stdout=subprocess.DEVNULL)
    return place


def conformance(folder: Path) -> None:
    """Save a session of two scenarios with their runs: one failed, and is the other's promise broken on purpose."""
    broken, healthy = load_run(BROKEN), load_run(HEALTHY)
    failed, passed = (packed_run(folder, one.path.name, one.claims, one.evidence) for one in (broken, healthy))
    bad = next(one for one in failed.verdicts if one.outcome is Outcome.FAILED)
    control = ControlResult(
        rule=bad.rule,
        fault="set-quota",
        subject=bad.subject,
        target=bad.subject,
        outcome=Outcome.PASSED,
        reason=bad.reason,
        packed=failed.packed,
    )
    results = [failed, replace(passed, controls=(control,))]
    where, when = broken.evidence.environment, "2026-11-28T01:02:03Z"
    index = session_of(folder.name, results, where, started_at=when, duration_s=8.0, complete=True)
    save_session(folder, index)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, steered."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright (pip install 'pinproof[pages]')")
    with sync_api.sync_playwright() as steering:
        running = steering.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


@contextmanager
def opened(browser: Any, page: Path, width: int = 390, **options: Any) -> Iterator[Any]:
    """Open a page as wide as a telephone, or wider. An error of its program, or of its policy, is one here."""
    said: list[str] = []
    with browser.new_context(viewport={"width": width, "height": 900}, **options) as context:
        shown = context.new_page()
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.goto(f"file://{page}")
        yield shown
    assert said == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["run", "session"])
def test_a_run_is_drawn(pages: Path, browser: Any, kind: str, width: int) -> None:
    """The timeline has its keys, the quota its curve once it is in sight."""
    with opened(browser, pages / f"{kind}.html", width) as page:
        assert page.locator(".timeline .tools button").first.is_visible(), "the program shows what only it can do"
        page.locator(".curve").first.scroll_into_view_if_needed()
        page.wait_for_selector(".curve .uplot")


def test_rows_of_a_fleet_are_drawn_when_they_are_scrolled_to(pages: Path, browser: Any) -> None:
    """All of them; 200 are part of the page."""
    with opened(browser, pages / "fleet.html", 1280) as page:
        assert page.locator("#rows > tr").count() == 200
        page.locator("#more").scroll_into_view_if_needed()
        page.wait_for_selector("#rows > tr:nth-child(300)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(pages: Path, browser: Any, kind: str, scheme: str) -> None:
    """All unfolded, in 390 pixels, which have room for it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe (pip install 'pinproof[pages]')")
    # The page's own policy lets nothing else run, axe included.
    with opened(browser, pages / f"{kind}.html", color_scheme=scheme, bypass_csp=True) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        found = axe.Axe().run(page).response["violations"]
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")

    assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []
    assert over <= 0


@pytest.mark.parametrize("kind", KINDS)
def test_paper_is_white_and_has_everything_and_no_controls(pages: Path, browser: Any, kind: str) -> None:
    """Also of a reader whose system is dark; without the page's program as well."""
    with opened(browser, pages / f"{kind}.html", 1280, color_scheme="dark", java_script_enabled=False) as page:
        page.emulate_media(media="print", color_scheme="dark")
        folded = page.locator("details > :not(summary)")
        shown = [folded.nth(at).is_visible() for at in range(folded.count())]
        controls = page.locator("button:visible, input:visible, select:visible").count()
        styles = "(all) => all.map((one) => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color])"
        colours = page.locator("body, .answer").evaluate_all(styles)

    assert all(shown)
    assert controls == 0
    assert colours == [["rgb(255, 255, 255)", "rgb(0, 0, 0)"]] * 2


STOPS = "a[href], button, input, select, summary, [tabindex='0']"
LANE = "one.closest('.timeline').querySelector('svg.lane').getAttribute('viewBox')"
FOUND = "document.querySelector('#found').textContent"
DOES = {
    "a.skip": ("document.activeElement.id", ["Enter"]),
    "a": ("document.querySelector(one.hash).open", ["Enter"]),
    "summary": ("one.parentElement.open", ["Enter", "Space"]),
    ".timeline": (LANE, ["+", "ArrowRight", "ArrowLeft", "+", "-", "0"]),
    "button[data-zoom='in']": (LANE, ["Enter", "Space"]),
    "button[data-zoom]": (LANE, ["Enter"]),
    ".plot": (
        "one.querySelector('canvas')?.toDataURL() + one.textContent",
        ["ArrowRight", "End", "ArrowLeft", "+", "-", "Home"],
    ),
    "input": (FOUND, ["n", "1", "1"]),
    "select": (FOUND, ["ArrowDown"]),
    ".scroll": ("one.scrollLeft", ["ArrowRight"]),
}
"""What can be reached, the first that fits: a look at it, and keys of which each changes what is seen there."""


@pytest.mark.parametrize("kind", KINDS)
def test_all_is_done_by_keys(pages: Path, browser: Any, kind: str) -> None:
    """Tab reaches everything that a pointer does, shows where it is, and what a key is for happens."""
    with opened(browser, pages / f"{kind}.html", reduced_motion="reduce") as page:
        reached = 0
        page.keyboard.press("Tab")
        while page.evaluate("document.activeElement !== document.body"):
            here = page.evaluate_handle("document.activeElement")
            here.evaluate("(one) => one.setAttribute('data-reached', '')")
            check_focus(here)
            check_keys(page, here)
            page.keyboard.press("Tab")
            reached += 1
            assert reached < 200, "the walk has no end"
        left = page.locator(STOPS).evaluate_all(
            "(all) => all.filter((one) => one.checkVisibility() && !one.matches('[data-reached]'))"
            ".map((one) => one.outerHTML)"
        )

    assert left == []


def check_focus(here: Any) -> None:
    """What has the focus is in sight, with a ring around it."""
    shown = here.evaluate("""(one) => {
        const area = one.getBoundingClientRect(), style = getComputedStyle(one);
        return [style.outlineStyle, parseInt(style.outlineWidth) >= 2, area.bottom > 0 && area.top < innerHeight,
                area.right > 0 && area.left < innerWidth];
    }""")
    assert shown == ["solid", True, True, True], here.evaluate("(one) => one.outerHTML")


def check_keys(page: Any, here: Any) -> None:
    """Each key changes what it is for; then what was folded is open, and the focus where it was."""
    look, keys = next(does for what, does in DOES.items() if here.evaluate(f"(one) => one.matches({what!r})"))
    if here.evaluate("(one) => one.matches('.scroll') && one.scrollWidth <= one.clientWidth"):
        return
    here.evaluate("(one) => { if (one.hash) document.querySelector(one.hash).open = false; }")
    for key in keys:
        before = here.evaluate(f"(one) => {look}")
        page.keyboard.press(key)
        page.wait_for_function(f"([one, before]) => ({look}) !== before", arg=[here, before], timeout=5000)
    here.evaluate("(one) => { if (one.matches('summary')) one.parentElement.open = true; one.focus(); }")
