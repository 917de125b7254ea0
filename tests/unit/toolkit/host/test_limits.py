"""What a process may open is raised before programs are loaded; a limit that is wide enough stays."""

import ctypes
import resource
import subprocess
import sys

import pytest

from toolkit.host import limits
from toolkit.host.limits import widen

_ASK = "import resource as r; from toolkit.host.limits import widen; widen(200); print(*r.getrlimit(r.RLIMIT_NOFILE))"


_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE = 24, 24


def _limited(before: tuple[int, int]) -> None:
    """Set the limit; what is run next may not raise it beyond the hard one, whichever user runs this test."""
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE, 0, 0, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [((64, 100), (100, 100)), ((64, 300), (200, 300)), ((250, 300), (250, 300))],
    ids=["hard", "enough", "wide"],
)
def test_open_files(before: tuple[int, int], after: tuple[int, int]) -> None:
    """The soft limit goes up to the hard one or to what is enough, never down; the hard one stays."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        preexec_fn=lambda: _limited(before),
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(int(word) for word in done.stdout.split()) == after


def test_the_hard_limit_is_raised_where_we_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service may begin with a hard limit that is less than what stays open; not every root has CAP_SYS_RESOURCE."""
    asked: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 100))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append((which, limits)))
    widen(200)
    assert (resource.RLIMIT_NOFILE, (200, 200)) in asked
    assert (resource.RLIMIT_NOFILE, (100, 100)) not in asked


_SAY = """
import errno
from toolkit.host import limits
print(limits.enough_files(), limits.files_found())
print(limits.shortage(OSError(errno.EMFILE, "")))
print(limits.shortage(OSError(errno.EPERM, "")))
limits.require_files()
"""


def test_too_few_are_said_with_what_is_needed() -> None:
    """Found and needed, soft and hard, and how to get them; other errors are no matter of a limit."""
    done = subprocess.run(
        [sys.executable, "-c", _SAY],
        preexec_fn=lambda: _limited((64, 100)),
        capture_output=True,
        text=True,
        check=False,
    )
    found, met, other = done.stdout.splitlines()
    needed = limits.needed_files()
    said = f"this process may have 64 (hard limit: 100) open at once; {needed} are needed"

    assert found == f"False {said}"
    assert met == f"too many open files for this process: {said}"
    assert other == ""
    assert done.stderr.strip().endswith(f"open files: {said}: {limits.files_remedy()}")
    assert f"LimitNOFILE={needed}" in limits.files_remedy()
