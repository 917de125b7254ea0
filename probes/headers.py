"""Kernel headers for bcc: found where they lie, merged by links where a distribution splits them.

Our programs read no kernel struct through headers (only helper functions, and offsets taken from the running kernel's
BTF), so headers of another kernel serve as well. Nothing is written outside ``workdir``.

Source: bcc INSTALL.md, "Kernel Configuration"; Documentation/kbuild/modules.rst; Debian's linux-headers-*-common split.
"""

from __future__ import annotations

import os
import platform
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import HostUnsupportedError

_ARCH = {"x86_64": "x86", "aarch64": "arm64", "ppc64le": "powerpc", "s390x": "s390", "riscv64": "riscv"}

HOW_TO_GET = (
    "install linux-headers-$(uname -r) (Debian, Ubuntu: any linux-headers package serves; Fedora: kernel-devel)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTree:
    """One usable tree for ``BCC_KERNEL_SOURCE``, and where it came from."""

    path: Path
    origin: str


def kernel_arch(machine: str | None = None) -> str:
    """Return the kernel's name (``arch/<name>``) of a ``uname -m`` machine."""
    name = machine or platform.machine()
    return _ARCH.get(name, name)


def find_headers(root: Path, workdir: Path) -> HeaderTree:
    """Return the best header tree of this host.

    :raises HostUnsupportedError: there is none; the message says what to install.
    """
    for tree in header_trees(root, workdir):
        return tree
    raise HostUnsupportedError(f"no kernel headers for bcc under /lib/modules, /usr/src or /sys/kernel: {HOW_TO_GET}")


def header_trees(root: Path, workdir: Path) -> Iterator[HeaderTree]:
    """Walk every usable tree, best first: the running kernel's own, its kheaders archive, any other installed one."""
    arch = kernel_arch()
    chosen = os.environ.get("BCC_KERNEL_SOURCE")
    if chosen and complete(Path(chosen), arch):
        yield HeaderTree(path=Path(chosen), origin="BCC_KERNEL_SOURCE")
    release = _release(root)
    seen: set[Path] = set()
    own = root / "lib/modules" / release / "build"
    if release:
        yield from _usable(own, own.parent / "source", arch, workdir, seen)
        archive = root / "sys/kernel/kheaders.tar.xz"
        unpacked = _unpack(archive, workdir / "kheaders") if archive.is_file() else None
        if unpacked is not None and complete(unpacked, arch):
            yield HeaderTree(path=unpacked, origin=str(archive))
    for candidate in _others(root, release):
        yield from _usable(candidate, candidate.parent / "source", arch, workdir, seen)


def complete(tree: Path, arch: str) -> bool:
    """Say whether bcc can compile with this tree: generated configuration, generic and architecture headers."""
    return all(
        (tree / part).exists()
        for part in (
            "include/generated/autoconf.h",
            "include/linux/kconfig.h",
            "include/uapi/linux/bpf.h",
            f"arch/{arch}/include/asm",
            f"arch/{arch}/include/generated",
        )
    )


def merge(trees: tuple[Path, ...], target: Path, arch: str) -> Path:
    """Make one tree of links from several; what an earlier tree has hides the same file of a later one."""
    for part in ("include", f"arch/{arch}/include"):
        _merge_dir(tuple(tree / part for tree in trees if (tree / part).is_dir()), target / part)
    return target


def _merge_dir(sources: tuple[Path, ...], target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    names = {entry.name for source in sources for entry in source.iterdir()}
    for name in sorted(names):
        found = tuple(source / name for source in sources if (source / name).exists())
        if len(found) > 1 and all(entry.is_dir() for entry in found):
            _merge_dir(found, target / name)
        elif found and not (target / name).is_symlink():
            (target / name).symlink_to(found[0].resolve())


def _usable(candidate: Path, source: Path, arch: str, workdir: Path, seen: set[Path]) -> Iterator[HeaderTree]:
    if not candidate.is_dir() or candidate.resolve() in seen:
        return
    seen.add(candidate.resolve())
    real = candidate.resolve()
    if complete(real, arch):
        yield HeaderTree(path=real, origin=str(real))
        return
    # Debian: linux-headers-6.1.0-56-amd64 holds what was generated, linux-headers-6.1.0-56-common all the rest;
    # SUSE: linux-6.4.0-obj/<arch>/default beside linux-6.4.0, named by the "source" link.
    common = re.sub(r"-[^-]+$", "-common", real.name)
    for partner in (real.parent / common, source.resolve()):
        if partner.is_dir() and partner != real:
            merged = merge((real, partner), workdir / f"headers-{real.name}", arch)
            if complete(merged, arch):
                yield HeaderTree(path=merged, origin=f"{real} + {partner}")
                return


def _others(root: Path, release: str) -> list[Path]:
    found = [
        *(root / "lib/modules").glob("*/build"),
        *(root / "usr/src").glob("linux-headers-*"),
        *(root / "usr/src/kernels").glob("*"),
    ]
    wanted = _version(release)

    def rank(path: Path) -> tuple[bool, list[int]]:
        # Newer than the running kernel is the greater risk: an old bcc may not parse headers that it never saw.
        version = _version(path.parent.name if path.name == "build" else path.name)
        return version <= wanted, version

    return sorted((path for path in found if not path.name.endswith("-common")), key=rank, reverse=True)


def _version(name: str) -> list[int]:
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?(?:-(\d+))?", name)
    return [int(part or 0) for part in match.groups()] if match else [0]


def _release(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _unpack(archive: Path, target: Path) -> Path | None:
    if target.is_dir():
        return target
    partial = target.with_name(target.name + ".partial")
    try:
        with tarfile.open(archive, "r:xz") as tar:
            members = [
                m for m in tar if (m.isfile() or m.isdir()) and not m.name.startswith("/") and ".." not in m.name
            ]
            tar.extractall(partial, members=members)  # noqa: S202 - members are filtered above
        partial.rename(target)
    except (OSError, tarfile.TarError, EOFError):
        return None
    return target
