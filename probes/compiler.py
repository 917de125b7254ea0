"""The one place that knows bcc: find it, and compile the C sources into one module with its maps.

bcc comes from the distribution (``python3-bpfcc``); the ``bcc`` on PyPI is an unrelated project and is recognised.
One module holds all probes: bcc shares maps only inside a compilation unit, so own headers are put in textually.
Files are named by their path below ``probes`` (``switches/ledger.h``), in an ``#include`` too.
Instead of a kernel's headers bcc gets ``probes/kernel_tree``. bcc compiles and makes the maps, nothing more: loading is
:mod:`probes.builder`'s, so that the library's own loader (which ends the process in bcc 0.31) is never asked.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from toolkit import presence
from toolkit.errors import HostUnsupportedError
from toolkit.host.bcc_package import find_bcc

KERNEL_TREE = Path(__file__).resolve().parent / "kernel_tree"
_INCLUDE = re.compile(r'^#include "([a-z_]+/[a-z_]+\.h)"$')
_LLVM = re.compile(r"/libLLVM(?:\.so\.|-)([0-9]+(?:\.[0-9]+)*)")
"""Debian and Fedora name the library so: ``libLLVM-14.so.1``, ``libLLVM.so.21.1``."""


def import_bcc() -> Any:
    """Import the BPF Compiler Collection.

    :raises HostUnsupportedError: it is missing, or ``bcc`` is the unrelated package from PyPI.
    """
    module, cause, remedy = find_bcc()
    if module is None:
        raise HostUnsupportedError(f"{cause}: {remedy}")
    return module


def version() -> str:
    """Say which compiler this process has loaded: ``bcc 0.35.0 with LLVM 21.1``."""
    bcc = getattr(import_bcc(), "__version__", "of unknown version")
    try:
        found = _LLVM.search(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    return f"bcc {bcc}" + (f" with LLVM {found[1]}" if found else "")


def source_text(names: tuple[str, ...]) -> str:
    """Return one compilation unit from files below ``probes``, each own header put in once, at its first include."""
    seen: set[str] = set()
    return "".join(_expand(name, seen) for name in names)


@functools.cache
def programs_digest() -> str:
    """Return a hash of the sources of all programs: results of one hash were counted by the same programs."""
    root = Path(str(resources.files("probes")))
    digest = hashlib.sha256()
    for path in presence.below(root, "*/*.[ch]"):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _expand(name: str, seen: set[str]) -> str:
    seen.add(name)
    lines = [f'#line 1 "{name}"']
    text = resources.files("probes").joinpath(name).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        match = _INCLUDE.match(line)
        if match is None:
            lines.append(line)
        elif match[1] not in seen:
            lines += [_expand(match[1], seen), f'#line {number + 1} "{name}"']
    return "\n".join(lines) + "\n"


def build(text: str, settings: Mapping[str, int] | None = None) -> Any:
    """Compile a unit with ``-D`` integers, make its maps, and return bcc's module.

    What the compiler says goes to stderr.

    :raises HostUnsupportedError: no bcc.
    :raises Exception: it does not compile, or a map cannot be made; bcc raises nothing more exact.
    """
    bcc = import_bcc()
    defined = {**(settings or {}), "MACHINE_PAGE_SIZE": os.sysconf("SC_PAGE_SIZE")}
    flags = [f"-D{name}={value}" for name, value in sorted(defined.items())]
    with _environment("BCC_KERNEL_SOURCE", str(KERNEL_TREE)):
        return bcc.BPF(text=text.encode(), cflags=[*flags, "-Wno-macro-redefined", "-w"])


def code(module: Any, name: str) -> bytes:
    """Return a program's instructions, with descriptors of this process where it names maps; empty: no such program."""
    lib = import_bcc().lib
    start, size = (ask(module.module, name.encode()) for ask in (lib.bpf_function_start, lib.bpf_function_size))
    return ctypes.string_at(start, size) if start and size else b""


def maps(module: Any) -> dict[str, int]:
    """Return the descriptors of all maps, by name."""
    lib, handle = import_bcc().lib, module.module
    # The Python package declares only the functions that it calls itself.
    lib.bpf_num_tables.argtypes, lib.bpf_num_tables.restype = (ctypes.c_void_p,), ctypes.c_size_t
    for ask, answer in ((lib.bpf_table_name, ctypes.c_char_p), (lib.bpf_table_fd_id, ctypes.c_int)):
        ask.argtypes, ask.restype = (ctypes.c_void_p, ctypes.c_size_t), answer
    numbers = range(lib.bpf_num_tables(handle))
    return {lib.bpf_table_name(handle, number).decode(): lib.bpf_table_fd_id(handle, number) for number in numbers}


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
