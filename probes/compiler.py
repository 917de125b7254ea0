"""The one place that knows bcc: find it, compile the C sources into one module, load and attach.

bcc comes from the distribution (``python3-bpfcc``); the ``bcc`` on PyPI is an unrelated project and is told apart.
One module holds all probes: bcc shares maps only inside a compilation unit, so own headers are put in textually.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from probes.headers import HOW_TO_GET, header_trees
from toolkit.errors import HostUnsupportedError

_INCLUDE = re.compile(r'^#include "([a-z_]+\.h)"$')

GET_BCC = (
    "install python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora); a virtual environment needs --system-site-packages"
)


def import_bcc() -> Any:
    """Import the BPF Compiler Collection.

    :raises HostUnsupportedError: it is missing, or ``bcc`` is the unrelated package from PyPI.
    """
    try:
        module = importlib.import_module("bcc")
    except (ImportError, OSError) as error:
        raise HostUnsupportedError(f"the BPF Compiler Collection cannot be imported ({error}): {GET_BCC}") from None
    if not (hasattr(module, "BPF") and hasattr(module, "PerfType")):
        raise HostUnsupportedError(f"the package at {module.__file__} is not the BPF Compiler Collection: {GET_BCC}")
    return module


def source_text(names: tuple[str, ...]) -> str:
    """Return one compilation unit from files of ``probes/bpf``, each own header put in once, at its first include."""
    seen: set[str] = set()
    return "".join(_expand(name, seen) for name in names)


def _expand(name: str, seen: set[str]) -> str:
    seen.add(name)
    lines = [f'#line 1 "{name}"']
    text = resources.files("probes").joinpath("bpf", name).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        match = _INCLUDE.match(line)
        if match is None:
            lines.append(line)
        elif match[1] not in seen:
            lines += [_expand(match[1], seen), f'#line {number + 1} "{name}"']
    return "\n".join(lines) + "\n"


def build(names: tuple[str, ...], settings: Mapping[str, int], root: Path, workdir: Path) -> Any:
    """Compile the sources with ``-D`` integers and return bcc's module; headers are tried best first.

    :raises HostUnsupportedError: no bcc, no headers, or nothing compiles; with the compiler's first complaint.
    """
    bcc = import_bcc()
    text = source_text(names)
    flags = [f"-D{name}={value}" for name, value in sorted(settings.items())] + ["-Wno-macro-redefined", "-w"]
    complaint = ""
    for tree in header_trees(root, workdir):
        log = workdir / "compiler.log"
        try:
            with _environment("BCC_KERNEL_SOURCE", str(tree.path)), _stderr_to(log):
                return bcc.BPF(text=text.encode(), cflags=flags)
        except Exception as error:  # bcc raises bare Exception
            first = next((line for line in _read(log).splitlines() if "error:" in line), str(error))
            complaint = complaint or f"{first} (headers {tree.origin})"
    if complaint:
        raise HostUnsupportedError(f"the probes do not compile: {complaint}")
    raise HostUnsupportedError(f"no kernel headers for bcc under /lib/modules, /usr/src or /sys/kernel: {HOW_TO_GET}")


def load(module: Any, name: str, kind: int, log: Path) -> int:
    """Load one program; returns its descriptor.

    :raises HostUnsupportedError: the kernel refuses it; with the end of the verifier's log.
    """
    try:
        with _stderr_to(log):
            return int(module.load_func(name.encode(), kind).fd)
    except Exception as error:  # bcc raises bare Exception
        said = " / ".join(_read(log).strip().splitlines()[-3:])
        raise HostUnsupportedError(f"the kernel refuses the program {name}: {error} {said}") from None


def attach_raw_tracepoint(module: Any, tracepoint: str, function: str) -> None:
    """Attach a loaded program; one program may be attached to several tracepoints.

    :raises HostUnsupportedError: the kernel has no such tracepoint, or no BPF for tracepoints.
    """
    try:
        with _stderr_to(Path(os.devnull)):  # the library prints what it raises
            module.attach_raw_tracepoint(tracepoint.encode(), function.encode())
    except Exception as error:  # bcc raises bare Exception
        raise HostUnsupportedError(f"raw tracepoint {tracepoint}: {error}; CONFIG_BPF_EVENTS is needed") from None


def attach_return(module: Any, name: str, function: str, log: Path) -> tuple[int, int]:
    """Load a program and attach it to the return of a kernel function; returns both descriptors, the caller's to close.

    bcc's own way is a program name that it acts on while it compiles, and a kernel that refuses spoils everything.

    :raises HostUnsupportedError: this kernel or architecture has no BPF trampolines, or no such function.
    """
    bcc = import_bcc()
    lib, c, symbol = bcc.lib, module.module, name.encode()
    with _stderr_to(log):
        program = lib.bcc_func_load(
            *(c, bcc.BPF.TRACING, b"kretfunc__" + function.encode(), lib.bpf_function_start(c, symbol)),
            *(lib.bpf_function_size(c, symbol), lib.bpf_module_license(c), lib.bpf_module_kern_version(c)),
            *(0, None, 0, None, -1),
        )
        link = lib.bpf_attach_kfunc(program) if program >= 0 else -1
    if link < 0:
        if program >= 0:
            os.close(program)
        said = " / ".join(_read(log).strip().splitlines()[-3:])
        raise HostUnsupportedError(f"the kernel refuses a program at the return of {function}(): {said}")
    return int(program), int(link)


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


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


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send what C code prints to a file: clang and the verifier write to descriptor 2."""
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
