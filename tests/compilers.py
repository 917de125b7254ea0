"""Does the verifier take what other compilers than this machine's make: ``python -m tests.compilers clang-16 …``.

bcc is built with one LLVM. It rewrites the sources first, and what it rewrote any clang can compile, with the headers
that bcc brings along: so one machine can ask for many releases. Needs root. Prints a line for each compiler, with the
number of instructions that the verifier went through; exit code 1 where one is refused.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes import compiler, subprograms
from probes.builder import Request
from probes.composition import build_request
from probes.options import ObserveOptions
from probes.program import load_all
from toolkit.errors import HostUnsupportedError
from toolkit.host import limits
from toolkit.host.bpf_syscalls import object_info

DEBUG_PREPROCESSOR = 4
"""bcc writes what it rewrote to stderr (``bcc.DEBUG_PREPROCESSOR``)."""
HEADERS = {
    "bpf.h": b"_UAPI__LINUX_BPF_H__",
    "workaround.h": b"__HAVE_BUILTIN_BSWAP16__",
    "helpers.h": b"__BPF_HELPERS_H",
}
"""Headers that bcc includes before a program, and a word by which each is found in its library."""
TABLE = re.compile(r"^BPF_(?:PERCPU_)?(?:ARRAY|TABLE|RINGBUF_OUTPUT)\((?:\"[a-z_]+\",[^,]+,[^,]+,)?\s*(\w+)", re.M)
VERIFIED_AT = 216
"""Of ``verified_insns`` in ``struct bpf_prog_info`` (aba64c7da983, Linux 5.16)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What bcc made of the sources: C that names maps by descriptors of this process."""

    request: Request
    text: str
    module: Any


def rewritten(root: Path = Path("/")) -> Rewritten:
    """Let bcc compile the probes, and keep what it compiled.

    :raises HostUnsupportedError: no bcc.
    """
    limits.widen()
    request = build_request(root, ObserveOptions())
    bcc = compiler.import_bcc()
    plain = bcc.BPF
    with tempfile.TemporaryFile() as said, _output_to(said.fileno()):
        bcc.BPF = lambda **how: plain(debug=DEBUG_PREPROCESSOR, **how)
        try:
            module = compiler.build(compiler.source_text(request.sources), request.settings)
        finally:
            bcc.BPF = plain
        said.seek(0)
        text = said.read().decode()
    # Before the C stands how clang was called, behind it a header of bcc that this library has no more use for.
    begin = text.index('#line 1 "switches/')
    text = re.sub(r"^#include <bcc/footer\.h>$", "", text[begin:], flags=re.M)
    descriptors = compiler.maps(module)
    names = [name for name in TABLE.findall(text) if name in descriptors]
    assert set(names) == set(descriptors), set(names) ^ set(descriptors)
    for number, name in enumerate(names, 1):
        text = text.replace(f"bpf_pseudo_fd(1, -{number})", f"bpf_pseudo_fd(1, {descriptors[name]})")
    return Rewritten(request=request, text=text, module=module)


@contextmanager
def _output_to(fd: int) -> Iterator[None]:
    """Let what a library writes to our standard output and error go elsewhere."""
    sys.stdout.flush()
    kept = [os.dup(number) for number in (1, 2)]
    for number in (1, 2):
        os.dup2(fd, number)
    try:
        yield
    finally:
        for number, was in zip((1, 2), kept, strict=True):
            os.dup2(was, number)
            os.close(was)


def code_by(clang: str, cpu: str, source: Rewritten, folder: Path) -> dict[str, bytes]:
    """Compile with this clang; returns the programs' instructions by name.

    :param cpu: instruction set: ``v1`` is LLVM's default up to 19, ``v3`` from 20 on.
    :raises HostUnsupportedError: it does not compile.
    """
    tree = compiler.KERNEL_TREE / "include"
    (folder / "main.c").write_text(source.text)
    before = [word for name in ("linux/kconfig.h", *HEADERS) for word in ("-include", name)]
    defined = {**source.request.settings, "MACHINE_PAGE_SIZE": os.sysconf("SC_PAGE_SIZE")}
    done = subprocess.run(
        [clang, "-target", "bpf", f"-mcpu={cpu}", "-O2", "-w", "-nostdinc", "-c", "main.c", "-o", "main.o"]
        + [f"-I{place}" for place in (folder, tree, tree / "uapi")]
        + ["-D__KERNEL__", "-D__BPF_TRACING__", '-DKBUILD_MODNAME="bcc"', "-D__x86_64__" if _x86() else "-D__other__"]
        + [f"-D{name}={value}" for name, value in defined.items()]
        + before,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr[-300:])
        raise HostUnsupportedError(f"it does not compile: {first}")
    return {name[len(".bpf.fn.") :]: code for name, code in sections(folder / "main.o") if name.startswith(".bpf.fn.")}


def _x86() -> bool:
    return os.uname().machine == "x86_64"


def write_headers(folder: Path) -> None:
    """Take the headers out of bcc's library, where they are kept as text."""
    library = Path(_library()).read_bytes()
    for name, word in HEADERS.items():
        at = library.index(word)
        begin, end = library.rindex(b"\0", 0, at) + 1, library.index(b"\0", at)
        (folder / name).write_bytes(library[begin:end].lstrip(bytes(range(1, 9))))


def _library() -> str:
    """Return the file of the library that is loaded."""
    found = re.search(r"(/\S*libbcc\.so\S*)", Path("/proc/self/maps").read_text())
    assert found is not None
    return found[1]


def sections(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of an ELF file's sections (64 bits, little-endian; elf(5))."""
    data = path.read_bytes()
    at, size, count, names = struct.unpack_from("<Q10xHHH", data, 40)
    headers = [struct.unpack_from("<IIQQQQ", data, at + number * size) for number in range(count)]
    text = data[headers[names][4] :]
    for name, _, _, _, begin, length in headers:
        yield text[name : text.index(b"\0", name)].decode(), data[begin : begin + length]


def verified(fd: int) -> int:
    """Return how many instructions the verifier went through for a program; 0: this kernel does not say."""
    info = object_info(fd)
    return int.from_bytes(info[VERIFIED_AT : VERIFIED_AT + 4], sys.byteorder)


def load_counted(request: Request, codes: dict[str, bytes]) -> tuple[int, dict[str, str]]:
    """Load all programs and let them go; returns how many instructions were verified, and what was refused and may be.

    :raises HostUnsupportedError: one is refused.
    """
    loaded, left_out = load_all(request.programs, lambda name: codes.get(name, b""))
    total = sum(map(verified, loaded.values()))
    for fd in loaded.values():
        os.close(fd)
    return total, left_out


def main(clangs: list[str]) -> int:
    """Try each compiler; returns the exit code."""
    source = rewritten()
    names = (*(one.name for one in source.request.programs), *subprograms.FUNCTIONS)
    codes = {name: compiler.code(source.module, name) for name in names}
    refused, worst = {}, 0
    try:
        total, refused = load_counted(source.request, codes)
        print(f"{compiler.version()}: accepted, {total:,} instructions verified; left out: {sorted(refused)}")
    except HostUnsupportedError as error:
        worst = 1
        print(f"{compiler.version()}: REFUSED: {error}")
    for clang in clangs:
        if shutil.which(clang) is None:
            print(f"{clang}: is not installed")
            worst = 1
            continue
        for cpu in ("v1", "v3"):
            with tempfile.TemporaryDirectory() as folder:
                write_headers(Path(folder))
                try:
                    total, left_out = load_counted(source.request, code_by(clang, cpu, source, Path(folder)))
                except HostUnsupportedError as error:
                    worst = 1
                    print(f"{clang} -mcpu={cpu}: REFUSED: {error}")
                    continue
            more = sorted(set(left_out) - set(refused))
            worst |= bool(more)
            said = f"; REFUSED: {[left_out[name] for name in more]}" if more else ""
            print(f"{clang} -mcpu={cpu}: accepted, {total:,} instructions verified{said}")
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
