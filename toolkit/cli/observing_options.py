"""The options of how a watch observes, as one argument ``observing``: with which programs, and on which CPUs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

import click

from toolkit.cli.live_lines import Say
from toolkit.errors import InputError
from toolkit.host import own_threads
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import EMPTY, CpuSet, cpus_text
from toolkit.session.engine.window import Window, Without
from toolkit.session.planning.preflight import require_watch

ISOLATED, EXCLUSIVE = "isolated", "exclusive"


class Bpf(StrEnum):
    """Whether programs are to be loaded in the kernel: where it loads them, always, or never."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observing:
    """What was asked for.

    :param quiet: CPUs that are quiet all the time, beside which ``left`` are left to us; both empty: none was named.
    :param exclusive: those that claims have for themselves are quiet.
    :param trace_syscalls, timeline: as in :class:`toolkit.session.engine.window.Window`.
    """

    bpf: Bpf = Bpf.AUTO
    quiet: CpuSet = EMPTY
    left: CpuSet = EMPTY
    exclusive: bool = False
    trace_syscalls: bool = False
    timeline: bool = False

    def begin(self) -> None:
        """Leave quiet CPUs, before anything starts a thread."""
        if self.quiet:
            own_threads.confine(frozenset(self.left))

    def require(self) -> str:
        """Check what the host needs, as :func:`require_watch` does; return why the watch goes on without programs."""
        return require_watch("--bpf off" if self.bpf is Bpf.OFF else "", needed=self.bpf is Bpf.REQUIRE)

    def ask(self, window: Window, refused: str, say: Say) -> Window:
        """Ask a window for it. :param refused: what :meth:`require` returned."""
        without = None if self.bpf is Bpf.REQUIRE else Without(partial(_say_without, say), refused)
        return replace(
            window,
            trace_syscalls=self.trace_syscalls,
            timeline=self.timeline,
            without=without,
            quiet=self.quiet,
            quiet_exclusive=self.exclusive,
            cpus=self.left or window.cpus,
        )


_BPF = click.option(
    "--bpf",
    type=click.Choice([str(one) for one in Bpf]),
    default=str(Bpf.AUTO),
    show_default=True,
    help="Where the kernel loads no programs (auto), or always (off), go on with masks, control files and counters: "
    "what needs switches is undecided then, and the exit code never 0. For gates: require ends with exit code 4.",
)
_QUIET = click.option(
    "--quiet-cpus",
    "quiet",
    metavar="CPUS|isolated|exclusive",
    help="CPUs without a sampler, a thread or a control of ours: a list, those of isolcpus= and nohz_full=, or those "
    "that claims have for themselves at the time. A task that never switches there is seen when the window ends.",
)

_TRACE = click.option(
    "--trace-syscalls",
    is_flag=True,
    help="On kernels without BPF trampolines, trace every system call (some 35 ns each) to name the tasks that write "
    "control files and change affinity masks.",
)
_TIMELINE = click.option(
    "--timeline",
    is_flag=True,
    help="Keep what each claim ran and waited for on each CPU in bins of 10 ms, of the first 32 claims, for the page "
    "and the trace of a run (`pinproof report`). Runs of scenarios always have it.",
)


def observing_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options."""

    @functools.wraps(command)
    def with_observing(bpf: str, quiet: str | None, trace_syscalls: bool, timeline: bool, **words: Any) -> None:
        cpus, left = _quiet_of(quiet)
        observing = Observing(
            bpf=Bpf(bpf),
            quiet=cpus,
            left=left,
            exclusive=quiet == EXCLUSIVE,
            trace_syscalls=trace_syscalls,
            timeline=timeline,
        )
        command(observing=observing, **words)

    return _BPF(_QUIET(_TRACE(_TIMELINE(with_observing))))


def _quiet_of(text: str | None) -> tuple[CpuSet, CpuSet]:
    """Return the CPUs that are to be quiet all the time, and those that are left to us.

    :raises InputError: it is no list of this machine's CPUs, or leaves us none.
    """
    if text is None or text == EXCLUSIVE:
        return EMPTY, EMPTY
    topology = read_topology()
    last = max((cpu.cpu for cpu in topology.cpus), default=0)
    cpus = topology.isolated | topology.nohz_full
    if text != ISOLATED:
        cpus = CpuSet.parse_kernel(text, last, "--quiet-cpus")
    if not cpus <= topology.online | topology.offline:
        raise InputError("--quiet-cpus", cpus_text(cpus - topology.online), f"CPUs of {topology.online}")
    left = CpuSet.of(os.sched_getaffinity(0)) - cpus
    if not left:
        raise InputError("--quiet-cpus", f"no CPU is left for pinproof beside {cpus}", "one that is not quiet")
    return (cpus, left) if cpus else (EMPTY, EMPTY)


def _say_without(say: Say, why: str) -> None:
    say(
        f"no BPF ({why}): going on with masks, control files and counters; what needs switches is undecided "
        f"(--bpf {Bpf.REQUIRE} ends with exit code 4 instead)"
    )
