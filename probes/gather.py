"""From a window's raw readings to :class:`Evidence`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from probes import tally
from probes.owners import classify, own_processes
from probes.sampling.bandwidth import bandwidth_use
from probes.sampling.hugetlb import sample_hugetlb
from probes.sampling.system import run_delay
from probes.sampling.untraced import untraced
from probes.window import Edge, Window
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.pci_devices import read_devices
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage, Environment, Evidence, Intruder
from toolkit.model.interrupts import IrqKind

if TYPE_CHECKING:
    from probes.observer import Observer


def evidence(observer: Observer, window: Window) -> Evidence:
    """Put together what is known of a window, closed or still open."""
    edge = window.end()
    now = time.monotonic_ns()
    offences, pending, intruders = window.collect()
    patience = observer.options.pending_ms * 1_000_000
    settled = tally.settle(pending, observer.joins, now, patience)
    use, bandwidth, delays = [], [], {}
    for subject in window.all_subjects():
        use += tally.cpu_use(subject.name, subject.ident, window.rows(subject), settled, observer.sampled)
    for subject in observer.subjects.values():
        bandwidth += bandwidth_use(
            subject.claim,
            window.first.stats,
            edge.stats,
            window.first.files,
            window.usage_since_first_read(subject),
        )
        before, after = window.first.run_delay.get(subject.name, {}), edge.run_delay.get(subject.name, {})
        if after:
            delays[subject.name] = run_delay(before, after)
    ledger = observer.ledger
    spent = edge.bpf_ns - window.first.bpf_ns
    claims = [subject.claim for subject in observer.subjects.values()]
    return Evidence(
        started_at=window.started_at,
        start_monotonic_ns=window.start_ns,
        duration_ns=edge.at_ns - window.start_ns,
        environment=environment(observer),
        coverage=coverage(observer, window, edge),
        cpu_use=tuple(use),
        offenders=tally.offenders((offences, settled.violations), observer.names, window.start_ns),
        intruders=_intruders(observer, intruders, window.start_ns),
        thread_masks=window.masks.values(),
        files_before=tuple(window.first.files.values()),
        files_after=tuple(edge.files.values()),
        bandwidth=tuple(bandwidth),
        usage_bins=tuple(row for bins in window.bins.values() for row in bins.values()),
        transitions=tuple(window.transitions),
        hotplug=tuple(window.hotplug),
        steal_ns=edge.after.steal_ns - window.first.after.steal_ns,
        run_delay_ns=delays,
        toolkit_cpu_ns=edge.process_ns - window.first.process_ns,
        bpf_run_ns=spent if spent > 0 else None,
        pages=window.pages.latest(observer.hierarchy, claims, observer.root, now=window.closed),
        hugetlb=sample_hugetlb(observer.hierarchy, claims),
        devices=read_devices((device for claim in claims for device in claim.devices), observer.root),
        cgroup_moves=ledger.actions.moves(window.number, observer.names, window.start_ns),
        affinity_changes=ledger.actions.affinities(window.number, observer.names, window.start_ns),
        irq_use=ledger.interrupts.rows(window.number),
        steal_by_cpu_ns={
            cpu: steal - window.first.after.steal_by_cpu_ns[cpu]
            for cpu, steal in edge.after.steal_by_cpu_ns.items()
            if cpu in window.first.after.steal_by_cpu_ns
        },
        standstill_by_cpu_ns={
            cpu: edge.states[cpu].standstill_ns - window.first.states[cpu].standstill_ns for cpu in observer.sampled
        }
        or None,
    )


def coverage(observer: Observer, window: Window, edge: Edge) -> Coverage:
    """Say how much of what happened was seen.

    The kernel's count is read before and after the ledger's own moment, at both ends: the truth lies between
    last.before - first.after and last.after - first.before, and the ledger must lie there too.
    """
    states, first = edge.states, window.first
    least = edge.before.context_switches - first.after.context_switches
    most = edge.after.context_switches - first.before.context_switches
    online = observer.ledger.online()
    if window.closed:
        judged = sum(state.closed_judged for state in states if state.closed_window == window.number)
        seen = CpuSet.of(cpu for cpu, state in enumerate(states) if state.closed_window == window.number)
    else:
        judged = sum(state.judged for state in states if state.window == window.number)
        seen = CpuSet.of(cpu for cpu, state in enumerate(states) if state.window == window.number)
    ledger = observer.ledger
    told = (observer.blind_spots, ledger.blind_spots, ledger.interrupts.blind_spots, ledger.actions.blind_spots)
    spots = list(dict.fromkeys(spot for spots in told for spot in spots))
    hidden = untraced(first.switches, edge.switches, first.members | edge.members, observer.root)
    if hidden.names:
        spots.append(f"this kernel hides threads from its tracepoints: {', '.join(hidden.names[:8])}")
    unsampled = online - observer.sampled
    if unsampled:
        spots.append(
            f"CPUs {unsampled} carry no sampler: a task that never switches there is seen when the window ends"
        )
    if window.masks.dropped:
        spots.append(f"{window.masks.dropped} thread masks were not kept: too many distinct ones")
    soft = _softirqs(observer, window, edge)
    missing = soft.kernel - soft.judged
    if missing > soft.skew:
        spots.append(f"{missing} of {soft.kernel} softirqs on watched CPUs passed no tracepoint")
    return Coverage(
        switches_judged=judged,
        switches_kernel=max(least, min(most, (least + most) // 2)),
        switches_skew=(most - least + 1) // 2 + hidden.skew,
        switches_untraced=hidden.switches,
        lost_events=edge.lost - first.lost,
        map_full=edge.full - first.full,
        missed_runs=edge.missed - first.missed,
        cpus_seen=seen,
        cpus_online=online,
        cpus_unsampled=unsampled,
        sampler_hz=observer.options.sampler_hz,
        window_skew_ns=edge.turn_ns,
        witness_skew_ns=sum(end.at_ns + end.turn_ns - end.stats_at_ns for end in (first, edge)),
        proc_scans=window.masks.scans,
        cgroup_moves_dropped=edge.dropped[0] - first.dropped[0],
        affinity_changes_dropped=edge.dropped[1] - first.dropped[1],
        softirqs_judged=soft.judged,
        softirqs_kernel=soft.kernel,
        softirqs_skew=soft.skew,
        blind_spots=tuple(spots),
    )


@dataclass(frozen=True, slots=True)
class _Softirqs:
    judged: int
    kernel: int
    skew: int


def _softirqs(observer: Observer, window: Window, edge: Edge) -> _Softirqs:
    """Compare the interrupt ledger with the kernel's own count: as for switches the truth lies between two readings."""
    interrupts = observer.ledger.interrupts
    (before, after), (last_before, last_after) = window.first.softirqs, edge.softirqs
    cpus = [cpu for cpu in interrupts.cpus if all(cpu in counts for counts in (before, after, last_before, last_after))]
    least = sum(max(0, last_before[cpu] - after[cpu]) for cpu in cpus)
    most = sum(last_after[cpu] - before[cpu] for cpu in cpus)
    rows = interrupts.rows(window.number) or ()
    judged = sum(row.count for row in rows if row.kind is IrqKind.SOFT and row.cpu in cpus) if cpus else 0
    return _Softirqs(judged=judged, kernel=max(least, (least + most) // 2), skew=(most - least + 1) // 2)


def _intruders(observer: Observer, found: tally.Intruders, start_ns: int) -> tuple[Intruder, ...]:
    own = own_processes(observer.root) if found else frozenset()
    if found:
        observer.cgroups.refresh()
    rows = [
        tally.intruder(key, sums, classify(sums, own), observer.cgroups[sums.cgroup], start_ns)
        for key, sums in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.cpu, row.tid)))


def nohz_full(root: Path) -> CpuSet:
    """Return the CPUs that run without a tick."""
    text = (read_control(root / "sys/devices/system/cpu/nohz_full") or "").strip()
    return CpuSet() if text in ("", "(null)") else CpuSet.parse(text, "nohz_full")


def environment(observer: Observer) -> Environment:
    """Return the least that is known of the machine; the pipeline puts the whole in its place."""
    return Environment(
        kernel=os.uname().release,
        cgroup=observer.hierarchy.mode.value,
        cmdline=(read_control(observer.root / "proc/cmdline") or "").strip(),
        cpus_online=observer.ledger.online(),
        cpus_nohz_full=nohz_full(observer.root),
    )
