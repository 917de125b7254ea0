"""From a window's raw readings to :class:`Evidence`."""

from __future__ import annotations

import os

from probes.actions.reader import Actions
from probes.cgroups.bandwidth import bandwidth_use
from probes.coverage import coverage
from probes.interrupts.reader import Interrupts
from probes.memory.hugetlb import sample_hugetlb
from probes.node.system import run_delay
from probes.state import State, nohz_full
from probes.switches import tally
from probes.switches.owners import classify
from probes.window import Window
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.pci_devices import read_devices
from toolkit.model import names
from toolkit.model.evidence import Environment, Evidence, Intruder


def evidence(state: State, window: Window) -> Evidence:
    """Put together what is known of a window, closed or still open."""
    edge = window.end()
    offences, intruders = window.collect()
    use, bandwidth, delays = [], [], {}
    for subject in window.all_subjects():
        cuts = {cpu: count for (ident, cpu), count in window.shares.cuts.items() if ident == subject.ident}
        use += tally.cpu_use(subject.name, window.rows(subject), state.sampled, cuts)
    present = {subject.name: subject for subject in window.all_subjects()}
    for subject in present.values():
        used = window.usage_since_first_read(subject)
        bandwidth += bandwidth_use(subject.claim, window.lives.accounts, window.first.files, used)
        before, after = window.first.run_delay.get(subject.name, {}), edge.run_delay.get(subject.name, {})
        if after:
            delays[subject.name] = run_delay(before, after)
    ledger = state.ledger
    spent = edge.bpf_ns - window.first.bpf_ns
    claims = [subject.claim for subject in window.present()]
    return Evidence(
        started_at=window.started_at,
        start_monotonic_ns=window.start_ns,
        duration_ns=edge.at_ns - window.start_ns,
        environment=environment(state),
        coverage=coverage(state, window, edge),
        cpu_use=tuple(use),
        offenders=tally.offenders(offences, state.names, window.start_ns),
        intruders=_intruders(state, intruders, window.start_ns),
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
        pages=window.pages.latest(state.hierarchy, claims, state.root, now=window.closed),
        hugetlb=sample_hugetlb(state.hierarchy, claims),
        devices=read_devices((device for claim in claims for device in claim.devices), state.root),
        cgroup_moves=ledger.side(Actions).moves(window.number, state.names, window.start_ns),
        affinity_changes=ledger.side(Actions).affinities(window.number, state.names, window.start_ns),
        irq_use=ledger.side(Interrupts).rows(window.number),
        steal_by_cpu_ns={
            cpu: steal - window.first.after.steal_by_cpu_ns[cpu]
            for cpu, steal in edge.after.steal_by_cpu_ns.items()
            if cpu in window.first.after.steal_by_cpu_ns
        },
        standstill_by_cpu_ns={
            cpu: edge.states[cpu].standstill_ns - window.first.states[cpu].standstill_ns for cpu in state.sampled
        }
        or None,
    )


def _intruders(state: State, found: tally.Intruders, start_ns: int) -> tuple[Intruder, ...]:
    own = os.getpid()
    if found:
        state.cgroups.refresh()
    rows = [
        tally.intruder(key, sums, classify(sums, own), state.cgroups[key.cgroup], start_ns)
        for key, sums in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.cpu, row.tid)))


def environment(state: State) -> Environment:
    """Return the least that is known of the machine; the pipeline puts the whole in its place."""
    return Environment(
        kernel=os.uname().release,
        cgroup=state.hierarchy.mode.value,
        cmdline=names.from_text((read_control(state.root / "proc/cmdline") or "").strip()),
        cpus_online=state.ledger.online(),
        cpus_nohz_full=nohz_full(state.root),
    )
