"""What a guest's architecture decides: which kernels exist, what emulates it, and how its packages are named.

Source: QEMU documentation "'virt' generic virtual platform"; PEP 600 (names of wheels); dpkg-architecture(1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.lab.harness import debian

HOST = "amd64"
"""Of the machines that the lab runs on: its emulators are programs of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One architecture of guests.

    :param name: Debian's.
    :param releases: of Debian, the preferred one last; empty: what the host's own apt knows.
    :param kernels: the lab's name of a kernel and Debian's package.
    :param emulator: Debian's package, and ``program`` in it.
    :param machine: words for QEMU; ``cpu``: the model.
    :param console: the kernel's name of the serial port.
    :param wheels: platforms of Python packages.
    :param compiler: makes the foreign programs of the tests on the host; of ``compiler_packages``.
    :param boot_s: how long a guest may take until it answers.
    """

    name: str
    releases: tuple[str, ...] = ()
    kernels: Mapping[str, str]
    emulator: str
    program: str
    machine: tuple[str, ...]
    cpu: str
    console: str
    wheels: tuple[str, ...]
    compiler: str
    compiler_packages: tuple[str, ...]
    boot_s: float = 250

    @property
    def is_host(self) -> bool:
        """Whether the host runs programs of a guest."""
        return self.name == HOST

    def folder(self, content: str) -> str:
        """Return the name of a folder of the lab's cache that each architecture has of its own."""
        return content if self.is_host else f"{content}-{self.name}"


AMD64 = Architecture(
    name="amd64",
    kernels=debian.KERNELS,
    emulator="qemu-system-x86",
    program="qemu-system-x86_64",
    # SeaBIOS asks for a topology level (CPUID leaf 0x1f) that does not exist, whereupon QEMU 10.0 aborts on machines
    # with dies.
    machine=("-bios", "qboot.rom", "-machine", "q35"),
    cpu="max,vendor=GenuineIntel,la57=off",
    console="ttyS0",
    wheels=("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    compiler="cc",
    compiler_packages=("gcc", "libc6-dev"),
)
ARM64 = Architecture(
    name="arm64",
    # Of Debian 12's kernel (6.1) no function can be followed on arm64: ftrace has direct calls from 6.4 on. Pages of
    # 64 KiB: Debian 13 has no such kernel.
    releases=("trixie",),
    kernels={"6.12": "linux-image-arm64", "6.12-16k": "linux-image-arm64-16k"},
    emulator="qemu-system-arm",
    program="qemu-system-aarch64",
    machine=("-machine", "virt,gic-version=3"),
    # The oldest that has pages of 16 KiB, and no pointer authentication, which is slow to emulate.
    cpu="neoverse-n1",
    console="ttyAMA0",
    wheels=("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    compiler="aarch64-linux-gnu-gcc",
    compiler_packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    boot_s=900,  # its image has no byte code
)
