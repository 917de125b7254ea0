"""One QEMU process under software emulation, with its monitor; what runs inside is :mod:`guest`'s business.

QEMU's working directory is the machine's own run folder and all its paths are relative, so that the command line is
the same for every run and can key a snapshot.
Source: QEMU Machine Protocol (QMP) reference; QEMU documentation "Migration" (``migrate`` to ``exec:``).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.lab.harness import emulator, settings
from tests.lab.harness.architecture import AMD64, Architecture
from tests.lab.harness.inside import wire
from tests.lab.harness.settings import tool

POLL_S = 0.02
BUS = "bus=pcie.0"
KERNEL_WORDS = (
    "quiet",
    "loglevel=4",
    "panic=-1",
    # Emulation makes the time-stamp counter look unstable; the alternatives trap on every read.
    "tsc=reliable",
    # The host may take the guest's CPUs away for seconds: neither a lockup nor a stall.
    "nowatchdog",
    "rcupdate.rcu_cpu_stall_timeout=300",
    # Page-table isolation flushes the emulated TLB at every system call.
    "mitigations=off",
    "nokaslr",
)


class MachineError(Exception):
    """QEMU or the guest's kernel ended, or does not answer; the message ends with the console's tail."""


def version(architecture: Architecture = AMD64) -> str:
    """Return QEMU's version line."""
    done = subprocess.run([*emulator.command(architecture), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def command_line(
    architecture: Architecture, kernel: Path, initramfs: Path, root: Path, hardware: list[str], words: list[str]
) -> list[str]:
    """Return the QEMU command of a machine, without where it resumes from."""
    append = " ".join([f"console={architecture.console}", *KERNEL_WORDS, *words])
    return [
        *(*emulator.command(architecture), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *(*architecture.machine, "-cpu", architecture.cpu, "-accel", "tcg,thread=multi,tb-size=256", *hardware),
        *("-kernel", str(kernel), "-initrd", str(initramfs), "-append", append),
        *("-serial", "file:console", "-qmp", "unix:monitor,server=on,wait=off"),
        *("-drive", f"file={root},if=none,id=root,format=raw,read-only=on,file.locking=off"),
        # On the first bus: QEMU would take that of a port otherwise, where only bridges may be.
        *("-device", f"virtio-blk-pci,drive=root,{BUS}", "-device", f"virtio-rng-pci,{BUS}"),
        *("-device", f"virtio-serial-pci,{BUS}"),
        *("-chardev", "socket,id=agent,path=agent,server=on,wait=off"),
        *("-device", f"virtserialport,chardev=agent,name={wire.PORT_NAME}"),
    ]


class Machine:
    """A running QEMU. Make it, use it, :meth:`close` it; it dies with this process too."""

    def __init__(self, command: list[str], resume_from: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pinproof-lab-"))
        resume = ["-incoming", f"exec:cat {resume_from}"] if resume_from else []
        guard = [tool("setpriv"), "--pdeathsig", "KILL", "nice", "-n", str(settings.NICENESS)]
        with (self.folder / "qemu").open("wb") as log:
            self._process = subprocess.Popen(
                [*guard, *command, *resume], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._monitor = self.connect("monitor").makefile("rw")
            self._monitor.readline()
            self.monitor("qmp_capabilities")
        except BaseException:
            self.close()
            raise

    def connect(self, name: str, timeout_s: float = 60) -> socket.socket:
        """Connect to one of QEMU's sockets, waiting until it listens.

        :raises MachineError: QEMU ended or does not listen.
        """
        deadline = time.monotonic() + timeout_s
        connection = socket.socket(socket.AF_UNIX)
        while True:
            try:
                connection.connect(str(self.folder / name))
            except OSError:
                if self.ended or time.monotonic() > deadline:
                    connection.close()
                    raise self.error(f"QEMU's socket {name!r} cannot be reached") from None
                time.sleep(POLL_S)
            else:
                return connection

    @property
    def ended(self) -> bool:
        """Whether QEMU has ended."""
        return self._process.poll() is not None

    def monitor(self, command: str, **arguments: Any) -> Any:
        """Execute a monitor command and return its result.

        :raises MachineError: it was refused, or QEMU ended.
        """
        self._monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._monitor.flush()
        for line in self._monitor:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise self.error(f"monitor command {command}: {answer['error'].get('desc')}")
        raise self.error("QEMU closed its monitor")

    def resume(self, timeout_s: float = 120) -> None:
        """Wait until a saved state is loaded, then let the machine run."""
        deadline = time.monotonic() + timeout_s
        while self.monitor("query-status")["status"] == "inmigrate":
            if time.monotonic() > deadline:
                raise self.error("the saved state does not load")
            time.sleep(POLL_S)
        self.monitor("cont")

    def stand_still(self, seconds: float) -> None:
        """Stop all of the machine for a moment; its clocks go on, unlike those of a machine that the monitor stops."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGCONT)

    def prefer_first_cpu(self) -> None:
        """Give the thread that emulates CPU 0 the priority that the host's own work has.

        A guest's loads fill all of its CPUs, and the host has two: the observer, on CPU 0, would get a sixteenth of
        a core, and a run would take minutes.
        """
        first = next(cpu for cpu in self.monitor("query-cpus-fast") if cpu["cpu-index"] == 0)
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, first["thread-id"], 0)

    def save(self, target: Path, timeout_s: float = 120) -> None:
        """Stop the machine and write its whole state; the file appears only when complete."""
        self.monitor("stop")
        partial = target.with_suffix(f".{os.getpid()}.partial")
        self.monitor("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.monitor("migrate", uri=f"exec:cat > {partial}")
        deadline = time.monotonic() + timeout_s
        while (state := self.monitor("query-migrate").get("status")) != "completed":
            if state in ("failed", "cancelled") or time.monotonic() > deadline:
                partial.unlink(missing_ok=True)
                raise self.error(f"the state cannot be saved ({state})")
            time.sleep(POLL_S)
        partial.rename(target)

    def console_tail(self, lines: int = 40) -> str:
        """Return the last lines of the guest's console and of QEMU's own messages."""
        texts = []
        for name in ("console", "qemu"):
            path = self.folder / name
            if path.exists():
                texts += path.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(texts)

    def error(self, problem: str) -> MachineError:
        """Make the exception for a problem, with what the machine last said."""
        return MachineError(f"{problem}\n--- console ---\n{self.console_tail(15)}")

    def close(self) -> None:
        """End QEMU at once and remove the run folder."""
        if not self.ended:
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
