"""From a window's raw readings to :class:`Evidence`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from probes import tally
from probes.blindness import softirq_count, window_spots
from probes.owners import classify
from probes.sampling.bandwidth import bandwidth_use
from probes.sampling.hugetlb import sample_hugetlb
from probes.sampling.system import run_delay
from probes.window import Edge, Window
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.pci_devices import read_devices
from toolkit.model import names
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage, Environment, Evidence, Intruder

if TYPE_CHECKING:
    from probes.observer import Observer


def evidence(observer: Observer, window: Window) -> Evidence:
    """Put together what is known of a window, closed or still open."""
    edge = window.end()
    offences, intruders = window.collect()
    use, bandwidth, delays = [], [], {}
    for subject in window.all_subjects():
        cuts = {cpu: count for (ident, cpu), count in window.shares.cuts.items() if ident == subject.ident}
        use += tally.cpu_use(subject.name, window.rows(subject), observer.sampled, cuts)
    present = {subject.name: subject for subject in window.all_subjects()}
    for subject in present.values():
        used = window.usage_since_first_read(subject)
        bandwidth += bandwidth_use(subject.claim, window.lives.accounts, window.first.files, used)
        before, after = window.first.run_delay.get(subject.name, {}), edge.run_delay.get(subject.name, {})
        if after:
            delays[subject.name] = run_delay(before, after)
    ledger = observer.ledger
    spent = edge.bpf_ns - window.first.bpf_ns
    claims = [subject.claim for subject in window.present()]
    return Evidence(
        started_at=window.started_at,
        start_monotonic_ns=window.start_ns,
        duration_ns=edge.at_ns - window.start_ns,
        environment=environment(observer),
        coverage=coverage(observer, window, edge),
        cpu_use=tuple(use),
        offenders=tally.offenders(offences, observer.names, window.start_ns),
        intruders=_intruders(observer, intruders, window.start_ns),
        thread_masks=window.masks.values(),
        files_before=tuple(window.first.files.values()),
        files_after=window.files_at_end(edge),
        files_during=window.files.changes(window.start_ns),
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
    online = edge.online
    if window.closed:
        judged = sum(state.closed_judged for state in states if state.closed_window == window.number)
        seen = CpuSet.of(cpu for cpu, state in enumerate(states) if state.closed_window == window.number)
    else:
        judged = sum(state.judged for state in states if state.window == window.number)
        seen = CpuSet.of(cpu for cpu, state in enumerate(states) if state.window == window.number)
    hidden = window.hidden or window.untraced(edge)
    gaps = window.masks.gaps(window.all_subjects(), edge.at_ns) if observer.options.threads else ()
    softirqs = softirq_count(observer, window, edge)
    spots = window_spots(observer, window, edge, gaps, softirqs)
    return Coverage(
        switches_judged=judged,
        switches_kernel=max(least, min(most, (least + most) // 2)),
        switches_skew=(most - least + 1) // 2 + hidden.skew,
        switches_untraced=hidden.switches,
        lost_events=edge.lost - first.lost,
        map_full=edge.full - first.full + window.pieces_dropped + (observer.trails.forgotten - window.forgotten),
        missed_runs=edge.missed - first.missed,
        cpus_seen=seen,
        cpus_online=online,
        cpus_unsampled=online - observer.sampled,
        sampler_hz=observer.options.sampler_hz,
        window_skew_ns=edge.turn_ns,
        witness_skew_ns=sum(end.at_ns + end.turn_ns - end.stats_at_ns for end in (first, edge)),
        proc_scans=window.masks.scans,
        file_readings=window.files.readings,
        file_gap_ns=window.files.gap_ns(edge.at_ns),
        cgroup_moves_dropped=edge.dropped[0] - first.dropped[0],
        affinity_changes_dropped=edge.dropped[1] - first.dropped[1],
        softirqs_judged=softirqs[0],
        softirqs_kernel=softirqs[1],
        softirqs_skew=softirqs[2],
        blind_spots=tuple(dict.fromkeys(spot.text for spot in spots)),
        blindness=spots,
        scan_gaps=gaps,
    )


def _intruders(observer: Observer, found: tally.Intruders, start_ns: int) -> tuple[Intruder, ...]:
    own = os.getpid()
    if found:
        observer.cgroups.refresh()
    rows = [
        tally.intruder(key, sums, classify(sums, own), observer.cgroups[key.cgroup], start_ns)
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
        cmdline=names.from_text((read_control(observer.root / "proc/cmdline") or "").strip()),
        cpus_online=observer.ledger.online(),
        cpus_nohz_full=nohz_full(observer.root),
    )
