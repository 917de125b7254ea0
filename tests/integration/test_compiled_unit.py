"""Probes are compiled once: the next start loads what was kept, the same instructions, without the compiler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from probes import loader, unit
from probes.builder import Request
from probes.composition import build_request
from probes.loader import LoadedPrograms
from probes.options import ObserveOptions
from tests.descriptors import few_descriptors
from toolkit.errors import HostUnsupportedError
from toolkit.host.bpf_syscalls import map_info, object_info

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="eBPF needs root"),
]
TAG = slice(8, 16)
"""``bpf_prog_info.tag``: the kernel's hash of a program's instructions, whatever the descriptors of its maps are."""


def tags(loaded: LoadedPrograms) -> dict[str, bytes]:
    """Return the kernel's hash of each program."""
    return {name: object_info(fd)[TAG] for name, fd in loaded.programs.items()}


def no_helper(*_: object) -> None:
    """Stand where the helper would be started."""
    raise AssertionError("the compiler was asked")


def refused(request: Request, root: Path) -> Path:
    """Put a unit in the place of the good one, whose programs the kernel refuses; returns the file."""
    (file,) = (root / unit.CACHE).glob("*.json")
    good = unit.read(root, file.stem)
    assert good is not None
    no_exit = dict.fromkeys(good.programs, bytes.fromhex("b700000000000000"))
    unit.keep(root, file.stem, replace(good, programs=no_exit))
    return file


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Request, Path, LoadedPrograms]]:
    """A request, the root below which its unit is kept, and what was loaded when it was compiled."""
    request, root = build_request(Path("/"), ObserveOptions()), tmp_path_factory.mktemp("root")
    first = loader.load(request, root)
    yield request, root, first
    first.close()


def test_a_host_without_room_does_not_spoil_it(compiled: tuple[Request, Path, LoadedPrograms]) -> None:
    """Too few descriptors are no fault of the unit: it stays for the next start."""
    request, root, _ = compiled
    (file,) = (root / unit.CACHE).glob("*.json")
    good = file.read_text()

    with few_descriptors(3), pytest.raises(HostUnsupportedError):
        loader.load(request, root)

    assert file.read_text() == good


def test_the_second_start_loads_the_same_without_the_compiler(
    compiled: tuple[Request, Path, LoadedPrograms], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that the kernel refuses is compiled again."""
    request, root, first = compiled
    with monkeypatch.context() as patch:
        patch.setattr(loader, "_start", no_helper)
        second = loader.load(request, root)
    try:
        assert tags(second) == tags(first)
        assert len(set(tags(second).values())) == len(second.programs) > 10
        assert {name: map_info(fd) for name, fd in second.maps.items()} == {
            name: map_info(fd) for name, fd in first.maps.items()
        }
        assert second.left_out == first.left_out
    finally:
        second.close()

    file = refused(request, root)
    bad = file.read_text()
    third = loader.load(request, root)
    try:
        assert tags(third) == tags(first)
        assert file.read_text() != bad
    finally:
        third.close()
