"""Programs are loaded side by side: what is loaded, what is left out, and what stays when a needed one is refused."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from probes import program
from probes.program import Program, load_all
from probes.subprograms import Linked
from toolkit.errors import HostUnsupportedError

NAMES = tuple(f"on_{number}" for number in range(12))


def some(*optional: str) -> tuple[Program, ...]:
    """Return programs of these names."""
    return tuple(Program(name=name, optional=name in optional) for name in NAMES)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stand where the kernel is: what bears the number 5 is refused; returns the descriptors that were given out."""
    given: list[int] = []

    def load(linked: Linked, wanted: Program) -> int:
        if not linked.code:
            raise HostUnsupportedError(f"the compiler made no program {wanted.name}")
        if wanted.name == "on_5":
            raise HostUnsupportedError("the kernel refuses it")
        given.append(os.open(os.devnull, os.O_RDONLY))
        return given[-1]

    monkeypatch.setattr(program, "load", load)
    return given


def test_what_may_be_refused_is_left_out(kernel: list[int]) -> None:
    """The others are there in their order, each step was said in that order, before the code was asked for."""
    said: list[str] = []

    def code_of(name: str) -> bytes:
        assert said[-1] == f"loading the program {name}"
        return b"" if name == "on_7" else b"code"

    loaded, left_out = load_all(some("on_5", "on_7"), code_of, said.append)
    try:
        assert list(loaded) == [name for name in NAMES if name not in ("on_5", "on_7")]
        assert sorted(loaded.values()) == sorted(kernel)
        assert left_out == {"on_5": "the kernel refuses it", "on_7": "the compiler made no program on_7"}
        assert said == [f"loading the program {name}" for name in NAMES]
    finally:
        for fd in loaded.values():
            os.close(fd)


def test_none_stays_when_a_needed_one_is_refused(kernel: list[int]) -> None:
    """Those that the kernel took are closed, and no thread is left."""
    with pytest.raises(HostUnsupportedError, match="the kernel refuses it"):
        load_all(some(), lambda _name: b"code")

    assert len(kernel) >= 5
    assert not any(Path(f"/proc/self/fd/{fd}").exists() for fd in kernel)
    assert not any(thread.name.startswith("load-") for thread in threading.enumerate())


def test_none_stays_when_the_code_cannot_be_had(kernel: list[int]) -> None:
    """What is raised while programs are on their way goes through when all have arrived."""

    def code_of(name: str) -> bytes:
        if name == "on_9":
            raise KeyError(name)
        return b"code"

    with pytest.raises(KeyError):
        load_all(some("on_5"), code_of)

    assert len(kernel) >= 7
    assert not any(Path(f"/proc/self/fd/{fd}").exists() for fd in kernel)
