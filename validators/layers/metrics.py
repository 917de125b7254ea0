"""The kubelet's gauges of its CPU manager against its own state file: some are known to be wrong after deletions.

``exclusive_cpu_allocation_count`` counts CPUs, ``shared_pool_size_millicores`` is the shared pool less reserved CPUs,
``allocation_per_numa`` counts exclusive CPUs of a node.
Source: kubelet metrics documentation; docs/facts.md K-kubelet-9.
"""

from __future__ import annotations

from itertools import pairwise

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.evidence.following import ALLOCATION_ERRORS, ASSIGNMENTS
from toolkit.model.layers import Layer
from toolkit.model.state_files import CpuStateFile
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.layers import assigned
from validators.placement import groups
from validators.queries import view
from validators.state_files import cpu_state
from validators.wording import listed, moment

SUBJECT = "kubelet metrics"
PREFIX = "kubelet_cpu_manager_"
COUNT = f"{PREFIX}exclusive_cpu_allocation_count"
POOL = f"{PREFIX}shared_pool_size_millicores"
PER_NODE = f"{PREFIX}allocation_per_numa"
GAUGES = (COUNT, POOL, PER_NODE)

LASTS_NS = 3 * view.NANOSECONDS
"""What differs for so long, at two readings or more, is no moment between two writes."""


def check(rule: str, evidence: Evidence) -> list[Verdict]:
    """Judge the gauges that were read, where the state file can be read too."""
    still = evidence.picture
    cpu = evidence.state_files[-1].cpu if evidence.state_files else None
    if still is None or not still.metrics or cpu is None or cpu.policy != "static":
        return []
    if cpu.problem or not cpu.checksum_ok:
        return []  # Rule checkpoint says what is wrong with the file.
    if cpu_state.fresh(cpu):
        return []  # The gauges are those of before, or of nothing yet.
    try:
        owned = _union(cpu)
        wrong = _wrong(still.metrics, owned, _shared(evidence), evidence)
    except InputError:
        return []  # Rule checkpoint says what is wrong with the file.
    measures: dict[str, Measure] = {"exclusive_cpus": str(owned)}
    if not wrong:
        compared = _compared(still.metrics, _shared(evidence), evidence)
        outcome, reason = _agree(compared) if compared else _silent([still.metrics])
        if refused := round(_errors(still.metrics)):
            measures["allocation_errors"] = refused
            reason += f"; {refused} allocations of the resource managers have failed since the kubelet started"
        return [Verdict(rule=rule, subject=SUBJECT, outcome=outcome, reason=reason, measures=measures)]
    api = still.api_cpus
    text = f"metrics and {Layer.CHECKPOINT} differ: {'; '.join(wrong.values())}"
    # They are of the same moment: what both say was so when they were read, and the state file was read before.
    if api is not None and (not api <= owned or (api != owned and not _wrong(still.metrics, api, None, evidence))):
        text += "; the state changed between the readings"
        return [Verdict(rule=rule, subject=SUBJECT, outcome=Outcome.UNDECIDED, reason=text, measures=measures)]
    return [Verdict(rule=rule, subject=SUBJECT, outcome=Outcome.FAILED, reason=text, measures=measures)]


def _union(cpu: CpuStateFile) -> CpuSet:
    return CpuSet.union(CpuSet.parse(entry.cpus) for entry in (*cpu.entries, *cpu.pods))


def check_live(rule: str, evidence: Evidence) -> list[Verdict]:
    """Judge the gauges that were read again and again, where the state file could be read beside them.

    One reading may fall between the kubelet's write of the file and of the gauge: only what lasts is a finding.
    """
    if not evidence.gauges:
        return []
    failed, open_, measures = "", "", dict[str, Measure]()
    since = dict[str, int]()
    compared, read = set[str](), list[dict[str, float]]()
    late = assigned.undercounted(evidence.gauges)
    for one, uncounted in zip(evidence.gauges, late, strict=True):
        last = one is evidence.gauges[-1]
        if one.problem:
            open_ = open_ or f"the kubelet's metrics could not be read: {one.problem}"
        if one.problem or one.assigned is None:
            continue
        measures["exclusive_cpus"] = str(one.assigned)
        read.append(one.values)
        compared |= _compared(one.values, one.shared, evidence)
        wrong = _wrong(one.values, one.assigned, one.shared, evidence) | uncounted
        # The same difference lasts although a counter beside it goes on.
        since = {name: since.get(name, one.since_ns) for name in wrong}
        since_ns = min(since.values(), default=0)
        text = f"metrics and {Layer.CHECKPOINT} differ since {moment(since_ns)}: {'; '.join(wrong.values())}"
        if wrong and one.until_ns - since_ns >= LASTS_NS:
            failed = failed or text
        elif wrong and last:
            open_ = open_ or f"{text}; the state may have changed between the two readings"
    if failed or open_:
        outcome = Outcome.FAILED if failed else Outcome.UNDECIDED
        return [Verdict(rule=rule, subject=SUBJECT, outcome=outcome, reason=failed or open_, measures=measures)]
    if not compared:
        outcome, reason = _silent(read)
        return [Verdict(rule=rule, subject=SUBJECT, outcome=outcome, reason=reason, measures=measures)]
    if assigned.counts(evidence.gauges):
        compared.add(ASSIGNMENTS)
    outcome, reason = _agree(compared)
    refused = _allocation_errors(evidence)
    if refused:
        measures["allocation_errors"] = refused
        reason += f"; {refused} allocations of the resource managers failed in the window"
    return [Verdict(rule=rule, subject=SUBJECT, outcome=outcome, reason=reason, measures=measures)]


def _agree(compared: set[str]) -> tuple[Outcome, str]:
    names = [name.removeprefix(PREFIX) for name in (*GAUGES, ASSIGNMENTS) if name in compared]
    return Outcome.PASSED, f"{listed(names)} {'agrees' if len(names) == 1 else 'agree'} with {Layer.CHECKPOINT}"


def _silent(read: list[dict[str, float]]) -> tuple[Outcome, str]:
    """Return why nothing was compared. :param read: each reading beside which the state file said something."""
    if read and not any(name.startswith(GAUGES) for values in read for name in values):
        return Outcome.SKIPPED, "this kubelet has no such gauge"
    return Outcome.SKIPPED, "there is nothing that they could be compared with"


def _compared(metrics: dict[str, float], shared: CpuSet | None, evidence: Evidence) -> set[str]:
    """Return the names of the gauges that :func:`_wrong` compares."""
    per_node = any(_of_node(metrics, node) is not None for node in groups.nodes(evidence) or ())
    return {
        name
        for name, known in (
            (COUNT, COUNT in metrics),
            (POOL, POOL in metrics and shared is not None),
            (PER_NODE, per_node),
        )
        if known
    }


def _of_node(metrics: dict[str, float], node: int) -> float | None:
    return metrics.get(f'{PER_NODE}{{numa_node="{node}"}}')


def _allocation_errors(evidence: Evidence) -> int:
    """Count the allocations that failed between the window's readings; a kubelet that restarts counts from zero again.

    Source: KEP-5526, "Monitoring Requirements": a spike of it is the first reason to roll back.
    """
    counts = [_errors(one.values) for one in evidence.gauges if not one.problem]
    return round(sum(max(later - earlier, 0) for earlier, later in pairwise(counts)))


def _errors(values: dict[str, float]) -> float:
    return sum(value for name, value in values.items() if name.startswith(ALLOCATION_ERRORS))


def _wrong(metrics: dict[str, float], owned: CpuSet, shared: CpuSet | None, evidence: Evidence) -> dict[str, str]:
    """Return what is wrong, by gauge and by how much: numbers that go on with a node's pods keep their difference, and
    two readings of a busy node differ by chance, each by another number.
    """
    found = dict[str, str]()
    count = metrics.get(COUNT)
    if count is not None and count != len(owned):
        found[f"{COUNT} {count - len(owned)}"] = (
            f"exclusive_cpu_allocation_count is {count:g}, assigned are {len(owned)} CPUs"
        )
    pool = metrics.get(POOL)
    if pool is not None and shared is not None and pool != 1000 * len(shared):
        found[f"{POOL} {pool - 1000 * len(shared)}"] = (
            f"shared_pool_size_millicores is {pool:g}, the shared pool has {1000 * len(shared)}"
        )
    machine = groups.nodes(evidence) or {}
    # A CPU that went offline is in no node any more, and where it was is not known.
    nowhere = owned - CpuSet.union(machine.values())
    for node, cpus in sorted(machine.items()):
        value = _of_node(metrics, node)
        # The gauge leaves pods with pod-level resources out: only more than there is is wrong.
        if value is not None and value > len(cpus & owned) + len(nowhere):
            text = f"allocation_per_numa of node {node} is {value:g}, assigned are {len(cpus & owned)} CPUs"
            found[f"{PER_NODE} {node} {value - len(cpus & owned)}"] = text
    return found


def _shared(evidence: Evidence) -> CpuSet | None:
    cpu = evidence.state_files[-1].cpu
    reserved = evidence.picture.reserved if evidence.picture else None
    if cpu is None or reserved is None:
        return None
    return CpuSet.parse(cpu.default) - reserved
