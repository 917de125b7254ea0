"""Rule ``weight-share``: siblings that compete for the same CPUs get time by their weights, and the weights are those
that this runtime's formula makes of the promised shares.
"""

from __future__ import annotations

import re

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpu_units import weights_of_shares
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence, Runtime
from toolkit.model.measures import Better, Kind, gated, words
from toolkit.model.runtimes import RUNTIMES
from toolkit.model.verdict import Measure, Outcome, Verdict
from toolkit.text.wording import listed
from validators.queries import delay, file_history, view
from validators.queries.competition import Child, families
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "weight-share"
LAG_NS = 24_000_000
"""How far an entity may be ahead of or behind its share on one CPU: the longest default scheduling period of any kernel
(CFS: 6 ms * (1 + log2(8 CPUs)); EEVDF bounds the lag by one slice, 3 ms)."""
SHARES_S = 2.0
"""The lag at both ends is a fortieth of it."""
IMBALANCE = 1.25
"""Loads of two CPUs may differ by this ratio before the balancer acts (``imbalance_pct``, at most 125)."""
FOREIGN_RATIO = 0.05
"""Of the CPUs' time: more of it spent by others, and a deviation is not the scheduler's doing for certain."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised a weight."""
    asked = [claim for claim in claims.claims if claim.weight is not None or claim.shares is not None]
    if not asked:
        reason = "no claim promises a weight"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    tree = families(claims, evidence) if any(claim.contended for claim in asked) else {}
    return tuple(_judge(claim, claims, tree, evidence) for claim in asked)


def _judge(claim: Claim, claims: ClaimSet, tree: dict[str, tuple[Child, ...]], evidence: Evidence) -> Verdict:
    measures: dict[str, Measure] = {}
    waited = delay.waited(claim, claims, evidence) if claim.contended else None
    measures |= {} if waited is None else waited.measures()
    verdict = Judgement(ID, claim.name, measures, ending="" if waited is None else waited.ending(evidence))
    formula = _formula_problem(claim, evidence, measures)
    if formula:
        return verdict(Outcome.FAILED, formula)
    if not claim.contended:
        return verdict(Outcome.SKIPPED, "its weight was promised, but no other cgroup is known to compete with it")
    idle = next((files for _, files in file_history.readings(evidence, claim.cgroup) if files.idle), None)
    if idle is not None:
        return verdict(Outcome.FAILED, f"cpu.idle of {idle.cgroup} was 1: it has no part, but what others leave")
    findings: list[tuple[Outcome, str]] = []
    problems: list[str] = []
    for parent, children in tree.items():
        own = next((child for child in children if claim.name in child.claims), None)
        if own is None:
            continue
        rivals = [child for child in children if child is not own and not child.problem and child.cpus == own.cpus]
        if own.problem:
            problems.append(own.problem)
        elif rivals:
            findings.append(_share(parent, own, rivals, evidence, measures))
        else:
            others = [child.problem for child in children if child is not own and child.problem]
            problems += others or [f"no sibling of {own.cgroup} had the same CPUs"]
    for outcome in (Outcome.FAILED, Outcome.UNDECIDED):
        reasons = [reason for found, reason in findings if found is outcome]
        if reasons:
            return verdict(outcome, reasons[0])
    if findings:
        return verdict(Outcome.PASSED, "; ".join(reason for _, reason in findings))
    if not problems:
        return verdict(Outcome.SKIPPED, "no other claim is a sibling of it at any level: nothing was divided")
    queued_ns = evidence.run_delay_ns.get(claim.name)
    if queued_ns is not None and claim.demand_cpus is None and queued_ns <= LAG_NS:
        measures["run_delay_ns"] = queued_ns
        text = f"its tasks waited {queued_ns / 1e6:.1f} ms for a CPU"
        by_kernel = None if waited is None else waited.pressed
        if by_kernel is not None and by_kernel.some_ns > LAG_NS:
            # It counts a wait while it goes on, and never more than was waited.
            text += f" by waits that have ended, {by_kernel.some_ns / 1e6:.1f} ms by the kernel's PSI"
            return verdict(Outcome.UNDECIDED, f"{text}: its share cannot be judged: {problems[0]}")
        return verdict(Outcome.SKIPPED, f"{text}: nothing was divided")
    return verdict(Outcome.UNDECIDED, f"its share cannot be judged: {problems[0]}")


def _share(
    parent: str, own: Child, rivals: list[Child], evidence: Evidence, measures: dict[str, Measure]
) -> tuple[Outcome, str]:
    """Compare the child's part of what the competitors used with its part of their weights."""
    total = own.usage_ns + sum(child.usage_ns for child in rivals)
    weights = own.weight + sum(child.weight for child in rivals)
    cpus = len(own.cpus)
    odds = own.weight / (weights - own.weight)
    spread = IMBALANCE if cpus > 1 else 1.0
    standstill = evidence.standstill_by_cpu_ns or {}
    stopped = max(view.steal_ns(evidence), sum(standstill.get(cpu, 0) for cpu in own.cpus))
    lag = 2 * cpus * (LAG_NS + view.tick_ns(evidence)) + stopped
    low = max(0.0, total * _part(odds / spread) - lag)
    high = total * _part(odds * spread) + lag
    due = total * _part(odds)
    capacity = cpus * own.window_ns
    name = own.cgroup.rsplit("/", 1)[-1]
    measures |= {
        f"{name}_weight": own.weight,
        f"{name}_usage_ns": own.usage_ns,
        f"{name}_due_ns": due,
        f"{name}_low_ns": low,
        f"{name}_high_ns": high,
        f"{name}_rivals_count": len(rivals),
        f"{name}_foreign_ratio": max(0.0, 1 - total / capacity),
    }
    text = (
        f"{own.cgroup} used {own.usage_ns / 1e9:.3f} s, by its weight {own.weight} of {weights} due {due / 1e9:.3f} s"
    )
    band = f"(allowed {low / 1e9:.3f} to {high / 1e9:.3f})"
    state = evidence.environment.sched_ext
    if state != "disabled":
        return Outcome.UNDECIDED, f"sched_ext is {state}: its tasks know other weights"
    if total <= 0:
        return Outcome.UNDECIDED, f"no task below {parent} used CPU time"
    if low <= own.usage_ns <= high:
        if high > 2 * due or low < due / 2:
            return Outcome.UNDECIDED, f"{text}: too little time to distinguish half or twice of it {band}"
        return Outcome.PASSED, f"{text} {band}"
    if total < (1 - FOREIGN_RATIO) * capacity:
        return Outcome.UNDECIDED, f"{text} {band}, but others used {1 - total / capacity:.0%} of the CPUs {own.cpus}"
    if cpus > 1 and not _both_halves(own, rivals, odds):
        return Outcome.UNDECIDED, f"{text} {band}, but not in both halves of the window: tasks were still being spread"
    if cpus > 1:
        places = _on_each_cpu(own, rivals, odds, evidence)
        if places is None:
            return Outcome.UNDECIDED, f"{text} {band}, but how much of it on which CPU is not known"
        above = [cpu for cpu, side in places.items() if side > 0]
        below = [cpu for cpu, side in places.items() if side < 0]
        if cpus not in (len(above), len(below)):
            return Outcome.UNDECIDED, f"{text} {band}, but not on each CPU: {_placed(above, below)}"
        return Outcome.FAILED, f"{text} {band}, and {'more' if above else 'less'} than its part on each CPU"
    return Outcome.FAILED, f"{text} {band}"


def _on_each_cpu(own: Child, rivals: list[Child], odds: float, evidence: Evidence) -> dict[int, int] | None:
    """Return of each CPU whether the child had more (1) or less (-1) there than its weight's part, or neither (0).

    Its entity on a CPU weighs a part of its weight, by its load there, and over all CPUs no more than its weight: where
    it had less than its part on one CPU because its tasks are nice or elsewhere, it had more on another.
    """
    if own.by_cpu_ns is None or any(child.by_cpu_ns is None for child in rivals):
        return None
    standstill = evidence.standstill_by_cpu_ns or {}
    found = {}
    for cpu in own.cpus:
        used = own.by_cpu_ns.get(cpu, 0)
        total = used + sum((child.by_cpu_ns or {}).get(cpu, 0) for child in rivals)
        lag = 2 * (LAG_NS + view.tick_ns(evidence)) + max(view.steal_ns(evidence), standstill.get(cpu, 0))
        more = used > total * _part(odds * IMBALANCE) + lag
        found[cpu] = int(more) - int(used < total * _part(odds / IMBALANCE) - lag)
    return found


def _placed(above: list[int], below: list[int]) -> str:
    sides = (("more", CpuSet.of(above)), ("less", CpuSet.of(below)))
    parts = [f"{what} than its part on {cpus_text(cpus)}" for what, cpus in sides if cpus]
    where = listed(parts) if parts else "about its part on each"
    return f"{where}; the kernel divides a cgroup's weight between its CPUs by the load of its own tasks (nice, pinned)"


def _part(odds: float) -> float:
    return odds / (1 + odds)


def _both_halves(own: Child, rivals: list[Child], odds: float) -> bool:
    """Return whether each half of the window shows the same deviation."""
    if own.halves_ns is None or any(child.halves_ns is None for child in rivals):
        return False
    signs = set()
    for half in (0, 1):
        used = own.halves_ns[half]
        total = used + sum(child.halves_ns[half] for child in rivals if child.halves_ns is not None)
        if _part(odds / IMBALANCE) * total <= used <= _part(odds * IMBALANCE) * total:
            return False
        signs.add(used > _part(odds) * total)
    return len(signs) == 1


def _formula_problem(claim: Claim, evidence: Evidence, measures: dict[str, Measure]) -> str:
    """Return what is wrong with the formula that turned shares into a weight; ``applied`` judges the value itself."""
    files = view.files_of(evidence.files_after, claim.cgroup)
    if claim.shares is None or claim.weight is not None or files is None or files.weight is None:
        return ""
    formulas = weights_of_shares(claim.shares)
    used = [name for name, weight in formulas.items() if weight == files.weight]
    measures["weight_formula"] = " or ".join(used) or "none"
    # The kubelet writes the cgroups of pods and QoS classes by itself, whatever makes the containers.
    runtime = evidence.runtime if claim.kind.carries_tasks else Runtime(name="cgroupfs")
    wanted = None if runtime is None else runtime_formula(runtime)
    if runtime is None or wanted is None:
        measures["runtime"] = "unknown: the formula is not judged"
        return ""
    measures["runtime"] = f"{runtime.name} {runtime.version}".strip()
    if not used or wanted in used:
        return ""
    return (
        f"{claim.shares} shares became weight {files.weight} by the {used[0]} formula; "
        f"{measures['runtime']} uses the {wanted} one ({formulas[wanted]})"
    )


def runtime_formula(runtime: Runtime) -> str | None:
    """Return which formula a runtime uses: ``linear`` (old runtimes, and cgroupfs itself) or ``logarithmic``."""
    kind = RUNTIMES.get(runtime.name)
    since = None if kind is None else kind.logarithmic_since
    if kind is not None and since is None:
        return "linear"
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", runtime.version, re.ASCII)
    if since is None or found is None:
        return None
    version = tuple(int(part or 0) for part in found.groups())
    return "logarithmic" if version >= since else "linear"


def spared(claims: ClaimSet) -> frozenset[Witness]:
    """Where nothing competes, no verdict rests on how long tasks waited."""
    asked = (claim for claim in claims.claims if claim.weight is not None or claim.shares is not None)
    return frozenset() if any(claim.contended for claim in asked) else frozenset({Witness.WAITS})


def _needs(claims: ClaimSet) -> float:
    asked = (claim for claim in claims.claims if claim.weight is not None or claim.shares is not None)
    return SHARES_S if any(claim.contended for claim in asked) else 0.0


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Siblings that compete for the same CPUs get CPU time by the weights that their cgroups really have.",
        how=prose("""
            At every level the children of one cgroup are compared that had the same CPUs and enough work for each of
            them. A child's part of the CPU time that they used together (cpu.stat) must be its part of their weights.
            The weights are read from cpu.weight or cpu.shares at both ends of the window, never computed from requests.
            Throttled and idle (cpu.idle) children and those with too little work are left out. An idle claim that
            competes has no part at all: failed.

            On several CPUs the kernel promises a weight to the cgroup, not to its tasks. On each CPU the cgroup weighs
            that part of its weight which its load there is of its load on all CPUs (calc_group_shares): nice and pinned
            threads of its own count, and the parts sum up to its weight. So it can have less than its part on one CPU,
            more on another and less in all, while the kernel does what it documents. A deviation is failed only where
            it is in the same direction on every CPU: no load of its own does that.

            A deviation is undecided if it is not on every CPU, if other tasks used more than 5 % of these CPUs, or if
            only one half of the window shows it. A claim that is not known to have competed with a sibling is
            undecided.

            What its tasks waited for a CPU, and behind which claims, pods and tasks, is said with the verdict, by the
            ledger; it decides nothing. Beside it stands the kernel's pressure stall information of the cgroup
            (psi_some_us): that a claim without a stated demand had nothing divided needs both, and where they differ by
            more than their definitions explain, the verdict is undecided.

            Where the runtime is known, the weight must come from its formula: runc >= 1.3.2 and crun >= 1.23 convert
            shares to weights by the new formula, older ones and cgroupfs by the old.
        """),
        tolerance=prose("""
            Lag: each child may be ahead or behind by one scheduling period (24 ms, the longest default) and one tick on
            each CPU, at both ends of the window; and by the time for which CPUs stood still (steal, or no timer
            interrupt there, whichever is more), which is charged to the running task.

            On several CPUs the balancer lets their loads differ by 25 % (imbalance_pct), so the odds may differ by that
            ratio, in all and on each; on one CPU they may not.
            A window so short that half or twice the share would be allowed is
            undecided.
        """),
        source=prose("""
            Documentation/scheduler/sched-design-CFS.rst, sched-eevdf.rst; admin-guide/cgroup-v2.rst (cpu.weight);
            kernel/sched/fair.c (calc_group_shares: shares * grq->load / tg->load_avg, at most shares);
            docs/failures.md F63, F64, docs/facts.md K-weight, K24
        """),
        negative_control=prose("""
            Let the tasks of one of two busy siblings leave the fair class, `chrt -f -p 1 PID`: they take more than
            their weight; or give a container the other formula's weight, `echo 100 > cpu.weight` for 1024 shares.
        """),
        witnesses=(Witness.BANDWIDTH, Witness.FILES, Witness.WAITS),
        measures=(
            *gated("run_delay_ns", Kind.AMOUNT, Better.LESS, relative=0.5, absolute=5_000_000),
            *delay.MEASURES,
            *words(
                "weight_formula",
                "runtime",
                "*_weight",
                "*_rivals_count",
                "*_foreign_ratio",
                "*_usage_ns",
                "*_due_ns",
                "*_low_ns",
                "*_high_ns",
            ),
        ),
    ),
    check,
    spared=spared,
    needs=_needs,
)
