"""What a process may open is raised before programs are loaded; a limit that is wide enough stays."""

import resource
import subprocess
import sys

import pytest

_ASK = (
    "import resource; from probes.limits import widen; widen(200); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(
    ("before", "after"), [((64, 100), 100), ((64, 300), 200), ((250, 300), 250)], ids=["hard", "enough", "wide"]
)
def test_open_files(before: tuple[int, int], after: int) -> None:
    """The soft limit goes up to the hard one or to what is enough, never down; the hard one stays."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, before),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [str(after), str(before[1])]
