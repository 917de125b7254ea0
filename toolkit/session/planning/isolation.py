"""Facts of a machine and what its CPUs are for -> findings: configuration that breaks isolation before any pod does.

Pure.

Source: docs/failures.md F20, F34, F35; docs/facts.md K13, K17; docs/isolation.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.isolation import CpuRoles, Finding, IsolationFacts
from toolkit.model.kernel_defects import kernel_findings
from toolkit.model.verdict import Outcome
from toolkit.sources.kubelet.pod_paths import root_of
from toolkit.text.names import printable
from toolkit.text.wording import first_of

_NAMED = 4


def findings(facts: IsolationFacts, roles: CpuRoles) -> tuple[Finding, ...]:
    """Return what was found, in the order of the checks."""
    checks = (
        *(_discovery, _isolated, _tickless, _interrupts, _irqbalance, _workqueues, _partitions, _kubepods),
        *(_unread, _kernel),
    )
    return tuple(finding for check in checks for finding in check(facts, roles))


def _finding(name: str, outcome: Outcome, what: tuple[str, object], breaks: str, remedy: str) -> Finding:
    path, value = what
    return Finding(id=name, outcome=outcome, path=path, value=printable(str(value)), breaks=breaks, remedy=remedy)


def _discovery(facts: IsolationFacts, _roles: CpuRoles) -> Iterator[Finding]:
    if facts.discovery_error is not None:
        yield _finding(
            "cpu-without-topology",
            Outcome.FAILED,
            ("/sys/devices/system/cpu", facts.discovery_error),
            "The kubelet's hardware discovery fails: no manager starts (F34).",
            "Give every online CPU its topology folder: firmware, hypervisor or kernel does not fill it in.",
        )


def _isolated(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    what = ("/sys/devices/system/cpu/isolated", facts.isolated)
    shared = facts.isolated & roles.pool
    if shared:
        yield _finding(
            "isolcpus-in-shared-pool",
            Outcome.FAILED,
            what,
            f"CPUs {shared} are in the shared pool, and the kernel balances no load there: all threads of a container "
            "may stay on one CPU (F35).",
            "Take isolcpus= off the kernel's command line; exclusive CPUs of containers do not need it.",
        )
    reserved = facts.isolated & roles.reserved
    if reserved:
        yield _finding(
            "isolcpus-reserved",
            Outcome.FAILED,
            what,
            f"The reserved CPUs {reserved} are isolated: system tasks are not balanced onto them, and stay elsewhere.",
            "Reserve CPUs that are not isolated (reservedSystemCPUs).",
        )


def _tickless(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    reserved = facts.nohz_full & roles.reserved
    if reserved:
        yield _finding(
            "nohz-full-reserved",
            Outcome.FAILED,
            ("/sys/devices/system/cpu/nohz_full", facts.nohz_full),
            f"The reserved CPUs {reserved} are tickless: the kernel's housekeeping goes to other CPUs, those of pods.",
            "Leave the reserved CPUs out of nohz_full=.",
        )
    uncovered = (facts.isolated & roles.exclusive) - (facts.rcu_nocbs or CpuSet()) - facts.nohz_full
    if facts.rcu_nocbs is not None and uncovered:
        yield _finding(
            "rcu-callbacks",
            Outcome.UNDECIDED,
            ("/proc/cmdline rcu_nocbs", facts.rcu_nocbs or "none"),
            f"RCU callbacks run on the isolated exclusive {cpus_text(uncovered)}.",
            f"Add rcu_nocbs={uncovered} to the kernel's command line (nohz_full= implies it).",
        )


def _interrupts(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    hit = [mask for mask in facts.interrupts or () if mask.cpus & roles.exclusive]
    if hit:
        named = first_of([f"{mask.irq} on {mask.cpus}" for mask in hit], _NAMED)
        yield _finding(
            "irq-affinity",
            Outcome.UNDECIDED,
            (hit[0].path, f"interrupts {named}"),
            f"Interrupts go to exclusive {cpus_text(CpuSet.union(mask.cpus for mask in hit) & roles.exclusive)}.",
            "Write the other CPUs to their smp_affinity_list; queues that the kernel manages follow their driver.",
        )
    default = (facts.default_interrupts or CpuSet()) & roles.exclusive
    if default:
        yield _finding(
            "irq-default-affinity",
            Outcome.UNDECIDED,
            ("/proc/irq/default_smp_affinity", facts.default_interrupts),
            f"Interrupts of devices to come may go to exclusive {cpus_text(default)}.",
            "Boot with irqaffinity= and the other CPUs, or write their mask there.",
        )


def _irqbalance(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    found = facts.irqbalance
    if found is None or not found.runs or not roles.exclusive:
        return
    remedy = f"Set IRQBALANCE_BANNED_CPULIST={roles.exclusive} in its environment file, or stop it."
    if found.value.startswith("IRQBALANCE_BANNED_CPUS="):
        remedy = f"{remedy[:-1]}; take IRQBALANCE_BANNED_CPUS away, which wins over it."
    if found.problem:
        breaks = f"irqbalance runs, and which CPUs it bans is not known: {found.problem}."
        yield _finding("irqbalance", Outcome.UNDECIDED, (found.where, found.value or found.problem), breaks, remedy)
        return
    # Without a list of its own irqbalance leaves out what the kernel isolates.
    banned = facts.isolated | facts.nohz_full if found.banned is None else found.banned
    open_to_it = roles.exclusive - banned
    if open_to_it:
        yield _finding(
            "irqbalance",
            Outcome.UNDECIDED,
            (found.where or "irqbalance", found.value or f"no CPUs are named: bans {banned or 'none'}"),
            f"irqbalance runs and may move interrupts to exclusive {cpus_text(open_to_it)} at any time.",
            remedy,
        )


def _unread(facts: IsolationFacts, _roles: CpuRoles) -> Iterator[Finding]:
    """What exists and cannot be read is no empty set: a check rests on it."""
    for one in facts.unread:
        yield _finding(
            "cannot-be-read",
            Outcome.UNDECIDED,
            (one.path, one.value),
            f"Not known: {one.what}.",
            "Correct it, or let somebody look who may read it; what depends on it was not checked.",
        )


def _workqueues(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    hit = (facts.workqueues or CpuSet()) & roles.exclusive
    if hit:
        yield _finding(
            "workqueue-mask",
            Outcome.UNDECIDED,
            ("/sys/devices/virtual/workqueue/cpumask", facts.workqueues),
            f"Unbound kernel workers may run on exclusive {cpus_text(hit)} (F20).",
            "Write the mask of the other CPUs there.",
        )


def _partitions(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    for part in facts.partitions:
        taken = part.cpus & (roles.exclusive | roles.pool)
        if "invalid" in part.kind:
            text = "The partition is invalid: the kernel gives it no CPUs of its own."
            outcome = Outcome.UNDECIDED
        elif taken and root_of(part.path) is None:
            text = f"The partition owns CPUs {taken}: the kernel takes them from the kubelet's pods."
            outcome = Outcome.FAILED
        else:
            continue
        remedy = "Write member to the file, or reserve its CPUs (reservedSystemCPUs) under strict reservation."
        yield _finding("cpuset-partition", outcome, (part.path, f"{part.kind}, CPUs {part.cpus}"), text, remedy)


def _kubepods(facts: IsolationFacts, roles: CpuRoles) -> Iterator[Finding]:
    for path, cpus in facts.kubepods.items():
        lacking = ((roles.exclusive | roles.pool) & facts.online) - cpus
        if lacking:
            yield _finding(
                "kubepods-cpuset",
                Outcome.FAILED,
                (path, cpus),
                f"The kubelet hands out CPUs {lacking}, which its own cgroup does not have.",
                "Give the cgroup above the pods all CPUs that the kubelet counts.",
            )


def _kernel(facts: IsolationFacts, _roles: CpuRoles) -> Iterator[Finding]:
    yield from kernel_findings(facts.kernel, facts.kernel_build)
