"""The verifier takes what every clang makes of the probes that is installed here beside bcc's own compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CLANGS = sorted(
    {
        file.name
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)
        for file in Path(folder).glob("clang-[1-9][0-9]")
    }
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="eBPF needs root"),
]


def told(*clangs: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines of ``python -m tests.compilers``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.compilers", *clangs], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert not done.returncode or done.stdout, done.stderr
    # bcc itself may print, too.
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith(("bcc ", "clang"))]


def test_the_compiler_of_this_machine_is_named() -> None:
    """What bcc itself makes is taken, and it is said which LLVM it was built with; a compiler that is not there is."""
    code, (own, other) = told("clang-none")

    found = re.match(r"bcc [0-9.]+ with LLVM [0-9.]+: accepted, ([0-9,]+) instructions verified", own)
    assert found is not None, own
    # What is verified by itself (probes/subprograms.py) is gone through once a program: 100,000 by LLVM 14. In each
    # caller, gone through for each state in which it is reached, the walks along the levels of cgroups made 240,000
    # more, and the long way of an interval and the turns before a wait 230,000.
    assert int(found[1].replace(",", "")) < 130_000
    assert (code, other) == (1, "clang-none: is not installed")


@pytest.mark.parametrize("clang", CLANGS or [""])
def test_other_compilers_make_programs_that_are_taken(clang: str) -> None:
    """By both instruction sets that LLVM's releases take by default, no program is refused that bcc's own is not."""
    if not clang:
        pytest.skip("no other compiler is installed: apt install clang-16, or any other clang-NN")
    code, (_, *others) = told(clang)

    assert code == 0, others
    assert [line.partition(":")[0] for line in others] == [f"{clang} -mcpu={cpu}" for cpu in ("v1", "v3")]
