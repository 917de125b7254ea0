"""Pages in a real browser: their program runs under their own policy, without an error, and does what it is for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.toolkit.fleet.fleet_builder import save, session

pytestmark = pytest.mark.slow
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RECORDED = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page of a run that failed, and one of a fleet of 300."""
    if BROWSER is None:
        pytest.skip("no chromium: apt-get install chromium")
    place = tmp_path_factory.mktemp("pages")
    for at in range(300):
        save(place / "results", f"n{at:03}", session(f"n{at:03}"))
    for arguments in (
        ("report", RECORDED / "runs/quota-half-busy-host", "--html", place / "run.html"),
        ("fleet", place / "results", "--html", place / "fleet.html"),
    ):
        subprocess.run(["pinproof", *map(str, arguments)], check=False, stdout=subprocess.DEVNULL)
    return place


def opened(page: Path, width: int) -> str:
    """Open a page; return its elements after its program ran. An error of it, or of the policy, is one here."""
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={page.parent}/profile", "--virtual-time-budget=4000", f"--window-size={width},30000",
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
