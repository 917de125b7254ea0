"""Which CPU a starved observer lacked: from the kernel's own account of a thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.waits import LONG_NS, Waits

STAT = "77 (pin proof) (x) S " + " ".join(str(number) for number in range(4, 39)) + " 5 0 0\n"


def account(folder: Path, waited_ns: int) -> None:
    (folder / "schedstat").write_text(f"1000 {waited_ns} 7\n")
    (folder / "stat").write_text(STAT)


@pytest.mark.parametrize(("more_ns", "said"), [(0, False), (LONG_NS, False), (LONG_NS + 1, True)])
def test_a_long_wait_names_its_cpu_and_the_remedy(tmp_path: Path, more_ns: int, *, said: bool) -> None:
    """A wait that every witness allows for is none; one is told once."""
    account(tmp_path, 3_000_000_000)
    waits = Waits(tmp_path)
    account(tmp_path, 3_000_000_000 + more_ns)
    text = waits.long()
    assert bool(text) is said
    assert not said or ("waited 0.50 s for CPU 5," in text and "--nice" in text)
    assert waits.long() == ""


@pytest.mark.parametrize("content", [None, "", "12", "a b c"])
def test_a_kernel_that_does_not_count_says_nothing(tmp_path: Path, content: str | None) -> None:
    """No schedstat, or another one."""
    if content is not None:
        (tmp_path / "schedstat").write_text(content)
    waits = Waits(tmp_path)
    assert waits.long() == ""
    account(tmp_path, 9 * LONG_NS)
    assert waits.long() == ""
