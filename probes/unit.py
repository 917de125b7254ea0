"""A compiled unit: instructions that name maps by number, and what those maps are; kept for the next start.

Compiling takes longer than all else before the first window, and its result depends on nothing but the sources, the
settings (offsets of the running kernel's structs among them) and the compiler. It is kept below
``/var/cache/pinproof``, where root alone may write (of user N: ``/var/cache/pinproof-N``); whatever is not as it was
written, or is another's, is compiled again.

Source: Documentation/bpf/standardization/instruction-set.rst, "64-bit immediate instructions" (src_reg 1: map_by_fd).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import struct
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from toolkit import presence
from toolkit.disk import write_atomically
from toolkit.errors import InputError
from toolkit.host.bcc_package import origin
from toolkit.host.bpf_syscalls import MapInfo, make_map, map_info
from toolkit.regular_file import open_regular

CACHE = Path("var/cache/pinproof")
MAX_BYTES = 4 << 20
KEPT = 8
"""Units at a time: a kernel or a number of claims is one. The oldest goes."""
UNUSED = "compiled probes that are kept there are not read, and none is written"
REMEDY = f"remove /{CACHE}: it is made again, root's alone"
_FORMAT = 2
_LOAD_IMM64, _BY_FD = 0x18, 1
_INSTRUCTION = struct.Struct("=BBhi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Programs by name, whose instructions name the map ``n`` of ``maps`` by ``n``."""

    programs: Mapping[str, bytes]
    maps: Mapping[str, MapInfo]


def unit_of(programs: Mapping[str, bytes], maps: Mapping[str, int]) -> Unit:
    """Take descriptors out of what was compiled in this process.

    :param maps: descriptors by name.
    """
    number = {fd: index for index, fd in enumerate(maps.values())}
    return Unit(
        programs={name: _renumbered(code, number) for name, code in programs.items()},
        maps={name: map_info(fd) for name, fd in maps.items()},
    )


def make_maps(unit: Unit) -> dict[str, int]:
    """Make the maps of a unit; returns descriptors by name.

    :raises OSError: the kernel refuses one; none stays.
    """
    made: dict[str, int] = {}
    try:
        for name, terms in unit.maps.items():
            made[name] = make_map(terms, name)
    except OSError:
        for fd in made.values():
            os.close(fd)
        raise
    return made


def bound(code: bytes, descriptors: Iterable[int]) -> bytes:
    """Return instructions that name maps by these descriptors."""
    return _renumbered(code, dict(enumerate(descriptors)))


def _renumbered(code: bytes, number: Mapping[int, int]) -> bytes:
    """:raises KeyError: a map that is none of ours."""
    out = bytearray(code)
    second_half = False
    for at in range(0, len(code), _INSTRUCTION.size):
        operation, registers, offset, immediate = _INSTRUCTION.unpack_from(code, at)
        if second_half:
            second_half = False
        elif operation == _LOAD_IMM64:
            second_half = True
            if (registers >> 4 if sys.byteorder == "little" else registers & 0xF) == _BY_FD:
                _INSTRUCTION.pack_into(out, at, operation, registers, offset, number[immediate])
    return bytes(out)


def compiler_id() -> str:
    """Say which compiler there is, without loading it: where its package is, its size and its time."""
    place = origin()
    if place is None:
        return ""
    files = [one for one in (place, place.with_name("version.py")) if presence.exists(one)]
    return " ".join(f"{one} {one.stat().st_size} {one.stat().st_mtime_ns}" for one in files)


def key(text: str, settings: Mapping[str, int], programs: tuple[str, ...]) -> str:
    """Return the name under which a unit is kept: a digest of what it is made from, and one of the compiler."""
    kernel = os.uname()
    parts = [_FORMAT, kernel.release, kernel.version, kernel.machine, text, dict(settings), programs]
    made_from = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return made_from + (f"-{hashlib.sha256(own.encode()).hexdigest()[:8]}" if (own := compiler_id()) else "")


def read(root: Path, name: str) -> Unit | None:
    """Return the unit that is kept under this key, or ``None``: none, damaged, or others could have written it.

    Where there is no compiler (an image that carries programs) any compiler's will do, the latest first.
    """
    wanted = [name] if "-" in name else _names(root, name)
    found = (_read(folder, one) for one in wanted for folder in _folders(root))
    return next((kept for kept in found if kept is not None), None)


def _names(root: Path, made_from: str) -> list[str]:
    files = [file for folder in _folders(root) for file in presence.below(folder, f"{made_from}*.json")]
    return [file.stem for file in sorted(files, key=lambda one: one.stat().st_mtime_ns, reverse=True)]


def _folders(root: Path) -> tuple[Path, ...]:
    """Return where units are looked for: root's folder and, of another user, its own, into which it writes."""
    user = os.geteuid()
    return (root / CACHE, *([root / f"{CACHE}-{user}"] if user else []))


def _read(folder: Path, name: str) -> Unit | None:
    if _strange(folder):
        return None
    try:
        with open_regular(folder / f"{name}.json") as file:
            if not _only_we_write(os.fstat(file.fileno())):
                return None
            digest, _, body = file.read(MAX_BYTES).partition(b"\n")
    except OSError:
        return None
    if digest.decode(errors="replace") != hashlib.sha256(body).hexdigest():
        return None
    plain = json.loads(body)
    return Unit(
        programs={one: base64.b64decode(code) for one, code in plain["programs"].items()},
        maps={one: MapInfo(**terms) for one, terms in plain["maps"].items()},
    )


def keep(root: Path, name: str, unit: Unit) -> None:
    """Keep a unit. Nothing happens where that cannot be done: it is compiled again next time."""
    folder = _folders(root)[-1]
    programs = {one: base64.b64encode(code).decode() for one, code in unit.programs.items()}
    body = json.dumps({"programs": programs, "maps": {one: asdict(terms) for one, terms in unit.maps.items()}})
    with suppress(OSError, InputError):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if _strange(folder):
            return
        write_atomically(folder / f"{name}.json", f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
        by_age = sorted(folder.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
        for old in by_age[:-KEPT]:
            old.unlink()


def strange(root: Path) -> str:
    """Say why nothing is read from the folder of kept units, and nothing written there; empty: it is ours, or not made.

    What is loaded into the kernel must be root's alone, or that of the user that loads it.
    """
    return _strange(_folders(root)[-1])


def _strange(folder: Path) -> str:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if stat.S_ISLNK(found.st_mode):
        return f"{folder} is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a directory"
    if found.st_uid not in (0, os.geteuid()):
        return f"{folder} belongs to user {found.st_uid}"
    if not _only_we_write(found):
        return f"{folder} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def _only_we_write(place: os.stat_result) -> bool:
    return place.st_uid in (0, os.geteuid()) and not place.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
