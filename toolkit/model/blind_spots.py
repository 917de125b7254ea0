"""What a run did not see, and which witnesses are incomplete because of it. No judgement.

A blind spot names witnesses, a rule names the witnesses that it rests on (``validators``), and a rule that rests on a
blind one cannot come out ``passed``. So a new blind spot, or a new rule, touches one place. A spot that is accounted
for otherwise names no witness, and its text says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value

TELLS_AUTHORS = "watch --trace-syscalls"
"""The option by which authors are seen where the kernel takes no program at the return of its functions."""

STATE_AUTHORS = "what writes the kubelet's state files is not observed"
"""Begins what says why no author of a state file is known."""


NO_PROGRAMS = "no program is loaded in the kernel"
"""Begins what says that nothing is observed that needs one: every switch, and all that rests on switches."""


class Witness(StrEnum):
    """A source of evidence; each can be doubted by itself."""

    SWITCHES = "switches"
    """The switch ledger and the CPU-clock sampler (eBPF)."""
    MASKS = "masks"
    """Thread masks from ``/proc/<pid>/task/<tid>/status``."""
    FILES = "files"
    """Cgroup control files read back."""
    BANDWIDTH = "bandwidth"
    """``cpu.stat`` and ``cpuacct`` deltas."""
    SLOTS = "slots"
    """CPU time in slots of the window."""
    SYSTEM_TASKS = "system-tasks"
    """Tasks of no pod and no claim on watched CPUs: what the switch ledger records beyond pods."""
    INTERRUPTS = "interrupts"
    """Time in interrupt handlers on watched CPUs."""
    WAITS = "waits"
    """How long claims' tasks waited for a CPU: the ledger's waits, and the kernel's pressure stall information."""
    ACTIONS = "actions"
    """Moves of tasks and changes of masks, with their authors: explanation only, no rule judges by it."""


EVERY_WITNESS = tuple(Witness)
BLINDED_BY = {
    Witness.SWITCHES: "events, map entries or program runs lost; events not handled when the window closed; CPUs never "
    "seen; switches missing; a control that was missed; threads of pods that the kernel hides from its tracepoints; a "
    "thread that is in the claim's v1 cpuset but not in its v2 cgroup",
    Witness.MASKS: "a thread of the claim that was not read for longer than the stated time (the observer was "
    "stopped or starved, or could not read /proc); masks that were discarded",
    Witness.FILES: "control files that were not read, or that changed during every reading; a thread of the claim that "
    "is in another v1 cgroup",
    Witness.BANDWIDTH: "CPU time and throttling that were not read, or that the switch ledger contradicts; a thread of "
    "the claim that is in another v1 cgroup",
    Witness.SLOTS: "slots that were not closed in time: the observer was stopped or starved",
    Witness.SYSTEM_TASKS: "threads that the kernel hides from its tracepoints and that may run on a watched CPU",
    Witness.INTERRUPTS: "interrupt tracepoints that this kernel lacks; softirqs that no tracepoint reported",
    Witness.WAITS: "waits and pressure stall information that differ by more than their definitions explain",
    Witness.ACTIONS: "moves and affinity changes that were lost",
}
"""What leaves each witness doubtful, for people."""
BLINDED_ALL = (
    "CPUs that went online or offline; hotplug events that were lost or cannot be received; a thread of the observer "
    "that ended or met an error; evidence that contradicts itself; a followed source of claims that did not answer, or "
    "that named a subject which could not be watched"
)
"""What leaves all of them doubtful."""

_NUMBER = re.compile(r"\d+")
_TASKS = re.compile(r"[^,:;()]+ \(#\)(?:, [^,:;()]+ \(#\))*(?: and # more)?")
"""Tasks by name and number, which are others in each run."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpot:
    """Something that was not seen.

    :param witnesses: those with incomplete evidence because of it; none: accounted for otherwise.
    :param claim: the only claim that it is about; ``None``: the whole node.
    :param cpus: CPUs that it is about, where that is known: what was not seen of ``claim`` may have run on these, and
        leaves every owner of one of them as doubtful.
    :param start_at_ns, end_at_ns: when, since the window opened, where that is known.
    :param weakens: rules that rest on these witnesses; filled in where verdicts are given, empty in evidence.
    """

    text: str
    witnesses: tuple[Witness, ...] = ()
    claim: str | None = None
    cpus: CpuSet | None = None
    start_at_ns: int | None = None
    end_at_ns: int | None = None
    weakens: tuple[str, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanGap:
    """How closely the threads of a claim were looked at: the resolution of the witness ``masks``.

    :param scans: complete scans of all its threads.
    :param longest_ns: at most so long was any of its threads not read, both ends of the window included; time in which
        its set was being changed is left out.
    :param at_ns: when that gap began, since the window opened.
    :param allowed_ns: the stated resolution: a longer gap is a blind spot.
    """

    claim: str
    scans: int
    longest_ns: int
    at_ns: int
    allowed_ns: int


def kind_of_spot(text: str) -> str:
    """Return what two runs have in common of a blind spot: "3 of 100 ..." and "4 of 120 ..." are one."""
    return _TASKS.sub("TASKS", _NUMBER.sub("#", text))
