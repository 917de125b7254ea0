"""Probes are compiled once: the next start loads what was kept, the same instructions, without the compiler."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from probes import loader, unit
from probes.builder import Request
from probes.composition import build_request
from probes.loader import LoadedPrograms
from probes.options import ObserveOptions
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


def test_the_second_start_loads_the_same_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that the kernel refuses is compiled again."""
    request = build_request(Path("/"), ObserveOptions())
    first = loader.load(request, tmp_path)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(loader, "_start", no_helper)
            second = loader.load(request, tmp_path)
        try:
            assert tags(second) == tags(first)
            assert len(set(tags(second).values())) == len(second.programs) > 10
            assert {name: map_info(fd) for name, fd in second.maps.items()} == {
                name: map_info(fd) for name, fd in first.maps.items()
            }
            assert second.left_out == first.left_out
        finally:
            second.close()

        file = refused(request, tmp_path)
        bad = file.read_text()
        third = loader.load(request, tmp_path)
        try:
            assert tags(third) == tags(first)
            assert file.read_text() != bad
        finally:
            third.close()
    finally:
        first.close()
