"""A compiled unit is kept, read back as it was, and never believed when others could have written it."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from probes import unit
from probes.unit import CACHE, KEPT, Unit, bound
from toolkit.host.bpf_syscalls import MapInfo

INSTRUCTION = struct.Struct("=BBhi")
BY_FD = 0x10  # src_reg 1, dst_reg 0, little endian
TERMS = MapInfo(kind=2, key_size=4, value_size=8, max_entries=16, flags=0)


def load_map(number: int) -> bytes:
    """Return the two halves of ``r0 = map`` by number."""
    return INSTRUCTION.pack(0x18, BY_FD, 0, number) + INSTRUCTION.pack(0, 0, 0, 0)


def constant(value: int) -> bytes:
    """Return ``r0 = value ll``, which looks alike and names no map."""
    return INSTRUCTION.pack(0x18, 0, 0, value) + INSTRUCTION.pack(0, 0, 0, 1)


EXIT = INSTRUCTION.pack(0x95, 0, 0, 0)
CODE = load_map(1) + constant(1) + load_map(0) + EXIT
UNIT = Unit(programs={"on_switch": CODE}, maps={"rows": TERMS, "state": TERMS})


def test_maps_are_named_by_the_descriptors_of_the_process_that_loads() -> None:
    """Only what names a map changes: a constant of the same value stays."""
    assert bound(CODE, [7, 9]) == load_map(9) + constant(1) + load_map(7) + EXIT
    with pytest.raises(KeyError):
        bound(load_map(2), [7, 9])


def test_a_unit_is_read_back_as_it_was(tmp_path: Path) -> None:
    """And under no other name."""
    unit.keep(tmp_path, "one", UNIT)

    assert unit.read(tmp_path, "one") == UNIT
    assert unit.read(tmp_path, "two") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of root's")
def test_a_unit_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    """Nor one that was damaged, nor what a link leads to."""
    unit.keep(tmp_path, "one", UNIT)
    folder = tmp_path / CACHE
    file = folder / "one.json"
    good = file.read_text()

    (folder / "link.json").symlink_to(file)
    assert unit.read(tmp_path, "link") is None
    file.chmod(0o666)
    assert unit.read(tmp_path, "one") is None
    file.chmod(0o644)
    assert unit.read(tmp_path, "one") == UNIT
    folder.chmod(0o777)
    assert unit.read(tmp_path, "one") is None
    folder.chmod(0o755)
    os.chown(file, 65534, 65534)
    assert unit.read(tmp_path, "one") is None
    os.chown(file, 0, 0)
    file.write_text(good.replace("on_switch", "on_twitch"))
    assert unit.read(tmp_path, "one") is None
    file.write_text(good[: len(good) // 2])
    assert unit.read(tmp_path, "one") is None


def test_the_oldest_units_go(tmp_path: Path) -> None:
    """The folder does not grow with every kernel and every number of claims."""
    for number in range(KEPT + 2):
        unit.keep(tmp_path, str(number), UNIT)
        os.utime(tmp_path / CACHE / f"{number}.json", ns=(number, number))

    unit.keep(tmp_path, "last", UNIT)

    kept = {file.stem for file in (tmp_path / CACHE).iterdir()}
    assert len(kept) == KEPT
    assert "last" in kept
    assert "0" not in kept


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    """The unit is compiled again next time."""
    (tmp_path / "var").write_text("a file")

    unit.keep(tmp_path, "one", UNIT)

    assert unit.read(tmp_path, "one") is None


def test_the_key_changes_with_all_that_the_code_depends_on() -> None:
    """Sources, settings, and which programs there are."""
    keys = [
        unit.key("a", {"X": 1}, ("on_switch",)),
        unit.key("b", {"X": 1}, ("on_switch",)),
        unit.key("a", {"X": 2}, ("on_switch",)),
        unit.key("a", {"X": 1}, ("on_switch", "on_tick")),
    ]

    assert len(set(keys)) == 4
    assert keys[0] == unit.key("a", {"X": 1}, ("on_switch",))


def test_without_a_compiler_any_compilers_unit_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one, its own alone: another's may have been taken by the kernel, and its own be refused, or the reverse."""
    asked = ("a", {"X": 1}, ("on_switch",))
    monkeypatch.setattr(unit, "compiler_id", lambda: "bcc of then")
    unit.keep(tmp_path, unit.key(*asked), UNIT)

    monkeypatch.setattr(unit, "compiler_id", lambda: "bcc of now")
    assert unit.read(tmp_path, unit.key(*asked)) is None
    monkeypatch.setattr(unit, "compiler_id", lambda: "")
    assert unit.read(tmp_path, unit.key(*asked)) == UNIT
    assert unit.read(tmp_path, unit.key("b", {"X": 1}, ("on_switch",))) is None


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda folder: folder.chmod(0o777), r"can be written by others \(mode 0777\)$"),
        (lambda folder: folder.chmod(0o775), r"can be written by others \(mode 0775\)$"),
        (lambda folder: (folder.rename(folder.with_name("else")), folder.symlink_to("else")), "is a symbolic link$"),
        (lambda folder: (folder.rename(folder.with_name("else")), folder.write_text("")), "is not a directory$"),
    ],
    ids=["all", "group", "link", "file"],
)
def test_a_strange_folder_is_neither_read_nor_written(
    tmp_path: Path, deed: Callable[[Path], object], said: str
) -> None:
    """And it is said why; one that is not there yet is made."""
    assert unit.strange(tmp_path) == ""
    unit.keep(tmp_path, "one", UNIT)
    folder = tmp_path / CACHE
    assert unit.strange(tmp_path) == ""

    deed(folder)
    assert re.search(said, unit.strange(tmp_path))
    unit.keep(tmp_path, "two", UNIT)

    assert unit.read(tmp_path, "one") is None
    assert not list(tmp_path.rglob("two.json"))
