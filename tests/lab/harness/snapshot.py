"""Starting guests: restore the snapshot that fits, or boot once and save it.

A snapshot is keyed by everything that decides what it holds: QEMU's version and full command line (so the topology,
the kernel's words and the image), the kernel, and the initramfs (so the init script, the agent and the modules).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.harness import debian, image, initramfs, machine, settings
from tests.lab.harness.architecture import Architecture
from tests.lab.harness.flavours import BY_NAME, PLAIN
from tests.lab.harness.guest import Guest
from tests.lab.harness.machine import Machine, MachineError
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.topology import SMALL, Topology

RESTORE_TIMEOUT_S = 60
BOOTS = 3
CLOCK_S = 3.0
CGROUP_WORDS = {"v2": ("cgroup_no_v1=all", "lab.cgroup=v2"), "hybrid": ("lab.cgroup=hybrid",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestKind:
    """A kind of guest that tests ask for."""

    topology: Topology = SMALL
    kernel: str = "6.1"
    cgroup: str = "v2"
    flavour: str = PLAIN.name
    """``systemd``: systemd is the first process."""

    def __str__(self) -> str:
        hierarchy = "" if self.cgroup == "v2" else f"-{self.cgroup}"
        flavour = "" if self.flavour == PLAIN.name else f"-{self.flavour}"
        return f"{self.topology.name}-{self.kernel}{hierarchy}{flavour}"

    @property
    def architecture(self) -> Architecture:
        """What its flavour is made for."""
        return BY_NAME[self.flavour].architecture


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that is needed to start a kind of guest."""

    release: str
    command: tuple[str, ...]
    snapshot: Path


def recipe(kind: GuestKind) -> Recipe:
    """Find the files and compose the command of a guest.

    :raises LabUnavailableError: a program or the image is missing.
    """
    files, architecture = image.current(BY_NAME[kind.flavour]), kind.architecture
    release = debian.kernel_release(files.kernels, kind.kernel, architecture.kernels)
    vmlinuz = files.kernels / "boot" / f"vmlinuz-{release}"
    start = initramfs.build(files, release)
    words = [*CGROUP_WORDS[kind.cgroup], f"lab.init={kind.flavour}", *kind.topology.kernel_args()]
    command = machine.command_line(architecture, vmlinuz, start, files.root, kind.topology.qemu_args(), words)
    parts = [machine.version(architecture), *command, hashlib.sha256(vmlinuz.read_bytes()).hexdigest()]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    target = settings.cache() / f"{kind}_{key}.snapshot"
    return Recipe(release=release, command=tuple(command), snapshot=target)


def make(kind: GuestKind, what: Recipe) -> float:
    """Boot a guest, save its snapshot, end it; return the guest's uptime when it answered."""
    for old in settings.cache().glob(f"{kind}_*.snapshot"):
        old.unlink()
    why = ""
    for _ in range(BOOTS):
        try:
            booted = _started(kind, what, None, kind.architecture.boot_s)
        except MachineError as error:  # once a timer of an emulated CPU never came: the kernel stood still
            why = str(error)
            continue
        try:
            uptime = booted.wait_ready(RESTORE_TIMEOUT_S)
            if _keeps_time(booted):
                booted.machine.save(what.snapshot)
                return uptime
            why = "its clock runs wrong: this host is too busy"
        finally:
            booted.close()
    raise LabUnavailableError(f"{kind} cannot be booted ({BOOTS} attempts): {why}")


def _keeps_time(booted: Guest) -> bool:
    """Say whether the guest's clock runs as the host's.

    A kernel that measures its time-stamp counter while the host starves it takes it for slower than it is: such a
    guest's clock ran ten times too fast, and whatever has a timeout in it failed.
    """
    first, began = booted.wait_ready(RESTORE_TIMEOUT_S), time.monotonic()
    time.sleep(CLOCK_S)
    passed = booted.wait_ready(RESTORE_TIMEOUT_S) - first
    return 0.5 < passed / (time.monotonic() - began) < 2.0


@contextlib.contextmanager
def running(kind: GuestKind) -> Iterator[Guest]:
    """Start a guest in a known state and end it afterwards, when it is its turn.

    :raises LabUnavailableError: a program or the image is missing.
    """
    with settings.turn():
        what = recipe(kind)
        if not what.snapshot.exists():
            make(kind, what)
        restored = _started(kind, what, what.snapshot, RESTORE_TIMEOUT_S)
        try:
            yield restored
        finally:
            restored.close()


def _started(kind: GuestKind, what: Recipe, resume_from: Path | None, timeout_s: float) -> Guest:
    emulated = Machine(list(what.command), resume_from)
    try:
        if resume_from:
            emulated.resume()
        emulated.prefer_first_cpu()
        started = Guest(kind.topology, kind.architecture, kind.kernel, what.release, emulated)
        started.wait_ready(timeout_s)
    except BaseException:
        emulated.close()
        raise
    return started
