"""pytest in pytest where nothing can be judged: an error, unless it is allowed; never green by itself."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from validators.pytest_notes import ALLOW_UNFIT, in_words_of_pytest

PROJECT = Path(__file__).resolve().parents[3]
FALSE_PROMISE = """
def test_a_promise_that_is_false(pinproof_sandbox, pinproof_observe):
    box = pinproof_sandbox({"db": "0"}, exclusive=["db"])
    box.live.set_cpus("db", "0-1")
    pinproof_observe(box).require()

def test_of_the_machine_alone(pinproof_host):
    pass
"""
BESIDE = "def test_beside(): pass\n"
_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE = 24, 24


def no_room() -> None:
    """A machine that cannot run pinproof, for root and others: too few open files, and none may raise that."""
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


def run(folder: Path, *arguments: str, room: bool = True) -> subprocess.CompletedProcess[str]:
    """Run pytest with our plugin, and with pytest-xdist."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), "-rs"),
            *("-p", "validators.plugin", "-p", "xdist", "-p", "no:cacheprovider", *arguments),
        ],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        preexec_fn=None if room else no_room,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def checks(tmp_path: Path) -> Path:
    """Two tests that need this machine, one of a promise that is false, and one that does not."""
    (tmp_path / "test_own.py").write_text(FALSE_PROMISE)
    (tmp_path / "test_beside.py").write_text(BESIDE)
    return tmp_path


def test_where_nothing_can_be_judged_is_an_error(checks: Path) -> None:
    """With the reason, and with the option that allows it; other people's tests are not touched."""
    done = run(checks, room=False)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 passed, 2 errors" in done.stdout
    assert "nothing can be judged here: " in done.stdout
    assert f"{ALLOW_UNFIT} skips such tests" in done.stdout


def test_it_may_be_allowed(checks: Path) -> None:
    """Then they are skipped, and the reason stands beside each."""
    done = run(checks, ALLOW_UNFIT, room=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 2 skipped" in done.stdout
    assert "open files: " in done.stdout or "run it with sudo" in done.stdout, done.stdout


UNFIT = """
import pytest
from validators.pytest_notes import JUDGED, note, skip_unfit

def test_unfit(request):
    skip_unfit(request.node, "needs 96 CPUs")

def test_judges(request):
    note(request.node, JUDGED)

@pytest.mark.skip(reason="the user's own")
def test_own():
    pass
"""


@pytest.mark.parametrize(
    ("chosen", "allowed", "code", "workers"),
    [
        ("unfit", False, 1, ()),
        ("unfit", True, 0, ()),
        ("unfit or judges", False, 0, ()),
        ("own", False, 0, ()),
        ("unfit or own", False, 1, ()),
        ("unfit or own", False, 1, ("-n", "2")),
        ("unfit or judges", False, 0, ("-n", "2")),
    ],
)
def test_skipped_for_this_machine_alone_is_not_green(
    tmp_path: Path, chosen: str, allowed: bool, code: int, workers: tuple[str, ...]
) -> None:
    """A scenario that does not fit is skipped; where none judged, the session is red. What a user skips is his."""
    (tmp_path / "test_some.py").write_text(UNFIT)
    done = run(tmp_path, "-k", chosen, *workers, *([ALLOW_UNFIT] if allowed else []))

    assert done.returncode == code, done.stdout + done.stderr
    assert ("nothing was judged, 1 test skipped for this machine" in done.stdout) == (code == 1), done.stdout


@pytest.mark.parametrize(
    ("said", "there"),
    [
        ("nothing was started (--on-live-node insists)", "nothing was started (--pinproof-on-live-node insists)"),
        ("boot with cgroup v2, or --runtime cgroupfs", "boot with cgroup v2, or --pinproof-runtime cgroupfs"),
        ("only with --full", "only with --pinproof-full"),
        ("--pinproof-full", "--pinproof-full"),
        ("docker run --privileged --fuller", "docker run --privileged --fuller"),
    ],
)
def test_options_are_named_as_pytest_has_them(said: str, there: str) -> None:
    """What the command line's words say is an option of the command line."""
    assert in_words_of_pytest(said) == there
