"""From what was read of the node to its parts of the evidence: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.node.system import SystemCounters, run_delay
from probes.node.untraced import Untraced
from probes.readings import Frame, Part, Reading, Readings
from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot, Witness
from toolkit.model.evidence import HotplugEvent
from toolkit.model.evidence.node import (
    HotplugEvidence,
    OwnCoverage,
    OwnEvidence,
    SystemCoverage,
    SystemEvidence,
    WaitEvidence,
)
from toolkit.text.wording import first_of

Delays = Mapping[str, Mapping[int, int]]
"""Claim -> thread -> for how long it was runnable and waited (ns)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReading(Reading):
    """The kernel's own counters of threads: how long those of claims waited, and which were never seen switching."""

    first: Delays = field(default_factory=dict)
    last: Delays = field(default_factory=dict)
    untraced: Untraced

    def decode(self, readings: Readings) -> Part:
        """Return how long each claim waited, and whose evidence hidden threads are missing in."""
        frame = readings.frame
        delays = {
            name: run_delay(self.first.get(name, {}), self.last[name]) for name in frame.claims if self.last.get(name)
        }
        return Part(
            evidence=WaitEvidence(run_delay_ns=delays),
            spots=hidden_spots(self.untraced, frame),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEdge:
    """``/proc/stat`` on both sides of the ledger's moment."""

    before: SystemCounters
    after: SystemCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemReading(Reading):
    """The kernel's counters at both ends of a window."""

    first: SystemEdge
    last: SystemEdge

    def decode(self, readings: Readings) -> Part:
        """Return steal, and the kernel's own count of switches.

        The count is read before and after the ledger's own moment, at both ends: the truth lies between
        last.before - first.after and last.after - first.before, and the ledger must lie there too. The larger is the
        kernel's count of a time that holds all of the window: nothing judges more switches than it has.
        """
        first, last, untraced = self.first, self.last, readings.of(ThreadReading).untraced
        least = last.before.context_switches - first.after.context_switches
        most = last.after.context_switches - first.before.context_switches
        begun = first.after.steal_by_cpu_ns
        return Part(
            evidence=SystemEvidence(
                steal_ns=last.after.steal_ns - first.after.steal_ns,
                steal_by_cpu_ns={
                    cpu: steal - begun[cpu] for cpu, steal in last.after.steal_by_cpu_ns.items() if cpu in begun
                },
            ),
            coverage=SystemCoverage(
                switches_kernel=most,
                switches_kernel_least=least,
                switches_skew=most - least + untraced.skew,
                switches_untraced=untraced.switches,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEdge:
    """What this process and its programs have used, and how many runs the kernel skipped, since they were loaded.

    :param missed_before, missed: before and after the ledger's moment.
    """

    process_ns: int = 0
    bpf_ns: int = 0
    missed: int = 0
    missed_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnReading(Reading):
    """What we cost in one window."""

    first: OwnEdge
    last: OwnEdge

    def decode(self, readings: Readings) -> Part:
        """Return the differences."""
        del readings
        spent = self.last.bpf_ns - self.first.bpf_ns
        return Part(
            evidence=OwnEvidence(
                toolkit_cpu_ns=self.last.process_ns - self.first.process_ns, bpf_run_ns=spent if spent > 0 else None
            ),
            coverage=OwnCoverage(missed_runs=self.last.missed - self.first.missed_before),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuReading(Reading):
    """CPUs that came or went in one window. ``lapses``: what was said of times in which events were lost."""

    events: tuple[HotplugEvent, ...] = ()
    lapses: tuple[str, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Return the events."""
        del readings
        return Part(
            evidence=HotplugEvidence(hotplug=self.events),
            spots=tuple(BlindSpot(text=text, witnesses=EVERY_WITNESS) for text in self.lapses),
        )


def hidden_spots(untraced: Untraced, frame: Frame) -> list[BlindSpot]:
    """Say whose evidence threads are missing in that the kernel hides from its tracepoints.

    They have no claim, and the kernel's own count of their switches accounts for the switch count. What remains is
    where they ran: on a watched CPU they would have been seen, if their mask allows one. One in the pods' cgroup, or
    one that is gone, may be a pod's. And what they interrupted: no switch ends that task's interval, so
    that what it ran since the sampler looked last is not in the ledger as its own (``probes/switches/arrivals.h``).
    """
    watched = frame.watched
    root = None if frame.pods_root is None else "/" + frame.pods_root.strip("/")
    weak: dict[tuple[Witness, ...], list[str]] = {}
    for thread in untraced.threads:
        kinds: tuple[Witness, ...] = ()
        if watched and (thread.cpus is None or thread.cpus & watched):
            foreign = thread.cgroup is None or (root is not None and (thread.cgroup + "/").startswith(root + "/"))
            kinds = (Witness.SWITCHES, Witness.SYSTEM_TASKS) if foreign else (Witness.SYSTEM_TASKS,)
        weak.setdefault(kinds, []).append(thread.name)
    return [
        BlindSpot(
            text=f"this kernel hides threads from its tracepoints: {first_of(names, 8)}"
            + ("" if kinds else " (their switches are counted from /proc, and no watched CPU is theirs)")
            + _interrupted(untraced.switches, frame.options.sampler_hz),
            witnesses=kinds,
            cpus=watched if kinds else None,
        )
        for kinds, names in sorted(weak.items())
    ]


def _interrupted(switches: int, sampler_hz: int) -> str:
    """Say how much may be missing of the tasks that they interrupted: what no tick of the sampler had counted yet."""
    bound = f"{1000 / sampler_hz:.0f} ms" if sampler_hz else "an interval"
    return f"; at most {bound} of a task that one of them interrupts is missing ({switches} switches in the window)"
