"""What a process may open is raised before programs are loaded; a limit that is wide enough stays."""

import ctypes
import resource
import subprocess
import sys

import pytest

from probes.limits import widen

_ASK = (
    "import resource; from probes.limits import widen; widen(200); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE = 24, 24


def _limited(before: tuple[int, int]) -> None:
    """Set the limit; what is run next may not raise it beyond the hard one, whoever runs this test."""
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
