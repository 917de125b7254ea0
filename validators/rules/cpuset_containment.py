"""Rule ``cpuset-containment``: no task of the claim ran outside its CPU set."""

from __future__ import annotations

from toolkit.model.actions import CgroupMove
from toolkit.model.claims import Claim, ClaimSet, SubjectKind
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence, Joinings, Transition
from toolkit.model.measures import Better, Kind, amounts, gated, levels, sets, words
from toolkit.model.nesting import nested
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from toolkit.text.wording import NOT_NAMED
from toolkit.timeline.ran import Ran
from validators.credibility.agreement import ROWLESS_RUN_NS
from validators.intruders import possession
from validators.intruders.given_early import with_early
from validators.queries import file_history, hotplug, leaves, timeline, view, writers
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.witness import Witness
from validators.wording import UNBOUND, milliseconds, plural

ID = "cpuset-containment"
BINDING_NS = 75_000_000
"""So long a process may run in its cgroup before its mask is set: as long as a process was met that joined its cgroups
one after the other."""
JOINING_NS = 75_000_000
"""What a thread may run outside in its joinings of a claim; more is time outside (``probes/switches/trails.py``)."""
JOININGS_PER_S = 2
"""A container's liveness and its readiness probe, each once a second: the kubelet's shortest period."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised a CPU set."""
    seen = timeline.asked(evidence)
    use = view.by_claim(seen.rows)
    offenders = view.by_claim(seen.offenders)
    changes = view.by_claim(evidence.transitions)
    joinings = {row.claim: row for row in evidence.joinings}
    inside = nested((claim.name, claim.cgroup) for claim in claims.claims)
    # A claim below another's cgroup must keep to its CPUs, too: all workload but ephemeral containers.
    keeping = {claim.name: claim for claim in claims.claims if claim.kind is SubjectKind.CONTAINER}
    found = [
        _judge(
            claim,
            evidence,
            use.get(claim.name, []),
            offenders.get(claim.name, []),
            changes.get(claim.name, []),
            joinings.get(claim.name),
            [
                (keeping[name], row)
                for name in inside.get(claim.name, ())
                if name in keeping
                for row in use.get(name, [])
            ],
            leaves.of(claim, claims, evidence),
            leaves.elsewhere_ns(claim, claims, evidence),
        )
        for claim in claims.claims
    ]
    where = {name: CpuSet.of(row.cpu for row in rows if row.outside) for name, rows in use.items()}
    return tuple(with_early(one, where.get(one.subject, CpuSet()), claims, evidence) for one in found)


def _judge(
    claim: Claim,
    evidence: Evidence,
    rows: list[Ran],
    named: list[Offender],
    transitions: list[Transition],
    joinings: Joinings | None,
    below: list[tuple[Claim, Ran]],
    left: tuple[CgroupMove, ...],
    elsewhere_ns: int,
) -> Verdict:
    if claim.cpus is None:
        return Judgement(ID, claim.name)(Outcome.SKIPPED, "no CPU set was promised")
    allowed = view.ever_allowed(claim, view.mask_changes(claim.name, transitions))
    outside = [row for row in rows if row.outside]
    measures = _measures(claim, allowed, rows, transitions) | _joined(joinings)
    shown = _named(claim, outside, named)
    verdict = Judgement(ID, claim.name, measures, shown, file_history.lives(transitions))
    away = _away(left, evidence, elsewhere_ns)
    if left:
        measures |= {"left_count": len(left), "left_ns": elsewhere_ns}
    if outside or named:
        outcome, text = _unbound(claim, evidence, outside, named) or _escaped(claim.cpus, evidence, outside, named)
        text += _author(claim, evidence, named, measures) if outcome is Outcome.FAILED else ""
        text += view.older_word(claim, evidence) + (f"; {away}" if away else "")
        return verdict(Outcome.FAILED if away else outcome, text)
    if away:
        return verdict(Outcome.FAILED, away)
    if joinings and joinings.outside_ns > most_joining_ns(evidence):
        always = Judgement(ID, claim.name, measures, joinings.worst, file_history.lives(transitions))
        return always(Outcome.FAILED, _always_joining(claim.cpus, joinings, evidence))
    nested = [row for _, row in below]
    strays = [row for row in nested if row.cpu not in allowed and any(row.steady)]
    if strays:
        names = ", ".join(sorted({row.claim for row in strays}))
        where = CpuSet.of(row.cpu for row in strays)
        spent = sum(row.steady[1] for row in strays) / 1e6
        return verdict(
            Outcome.FAILED, f"{names} below its cgroup ran {spent:.3f} ms on {cpus_text(where)} outside {claim.cpus}"
        )
    if not any(row.row.switches or row.row.samples for row in (*rows, *nested)):
        return verdict(*_unseen(claim, evidence))
    strange = CpuSet.of(row.cpu for row in rows if any(row.steady)) - allowed
    if strange:
        return verdict(
            Outcome.UNDECIDED,
            f"it ran on {cpus_text(strange)} outside {claim.cpus}, which the probe did not count: "
            "another set was watched",
        )
    undated = _undated(claim, evidence, below)
    if undated is not None:
        text = f"{undated.claim} below its cgroup ran on CPU {undated.cpu}, not its own all the time: when is not known"
        return verdict(Outcome.UNDECIDED, text)
    excused = ", ".join(_excused(claim, allowed, rows))
    if excused:
        measures["excused"] = excused
    counted = f"none of {measures['switches_judged']} switches and {measures['samples']} samples outside"
    return verdict(Outcome.PASSED, f"{counted} {cpus_text(claim.cpus)}{f' ({excused})' if excused else ''}")


def _unseen(claim: Claim, evidence: Evidence) -> tuple[Outcome, str]:
    """Judge a claim of which no task was seen."""
    own = view.level(view.levels_of(claim, evidence), 0)
    used_ns = 0 if own is None else own.usage_ns or 0
    if used_ns >= ROWLESS_RUN_NS:
        return Outcome.UNDECIDED, f"no task of it was seen to run, its cgroup used {used_ns / 1e6:.1f} ms"
    if evidence.following is not None:
        return Outcome.SKIPPED, "no task of it ran in this window"
    return Outcome.UNDECIDED, "no task of it was seen to run: there is no evidence"


def _away(left: tuple[CgroupMove, ...], evidence: Evidence, elsewhere_ns: int) -> str:
    """Name the tasks that left, and what they ran then; empty: none did."""
    if not left:
        return ""
    ran = f", and ran {milliseconds(elsewhere_ns)} on CPUs that are watched" if elsewhere_ns else ""
    return f"{leaves.told(left, evidence)}{ran}: its CPUs did not hold it there"


def _measures(claim: Claim, allowed: CpuSet, rows: list[Ran], transitions: list[Transition]) -> dict[str, Measure]:
    return {
        "cpus": str(claim.cpus),
        "switches_judged": sum(row.row.switches for row in rows),
        "run_ns": sum(row.row.run_ns for row in rows),
        "used_cpus": str(CpuSet.of(row.cpu for row in rows if row.row.run_ns)),
        "busiest_cpu_ratio": _busiest(rows),
        "out_of_set_switches": sum(row.out_switches for row in rows),
        "out_of_set_ns": sum(row.out_ns for row in rows),
        "out_of_set_longest_ns": max((row.out_longest_ns for row in rows), default=0),
        "samples": sum(row.row.samples for row in rows),
        "out_of_set_samples": sum(row.out_samples for row in rows),
        "transitions_count": len(transitions),
        "transition_switches": sum(row.transition_switches for row in rows),
        "transition_ns": sum(row.transition_ns for row in rows),
        "allowed_cpus": str(allowed),
    }


def _unbound(claim: Claim, evidence: Evidence, outside: list[Ran], named: list[Offender]) -> tuple[Outcome, str] | None:
    """Leave undecided what a process may have run before it was bound, where its mask alone binds it.

    One whose mask was too wide in two readings was not about to be bound.
    """
    cpus = claim.cpus or CpuSet()
    if claim.by_mask and any(
        mask.times_seen > 1 and not mask.cpus_allowed <= cpus
        for mask in view.by_claim(evidence.thread_masks).get(claim.name, ())
    ):
        return None
    most_ns = BINDING_NS * max(1, len({one.tid for one in named}))
    spent_ns = sum(row.out_ns for row in outside)
    if not claim.by_mask or spent_ns > most_ns or any(one.total_ns > BINDING_NS for one in named):
        return None
    return Outcome.UNDECIDED, f"ran {spent_ns / 1e6:.3f} ms outside {claim.cpus}: {UNBOUND}"


def _joined(joinings: Joinings | None) -> dict[str, Measure]:
    return {
        "joinings": joinings.count if joinings else 0,
        "joining_outside_ns": joinings.outside_ns if joinings else 0,
        "joining_slowest_ns": joinings.slowest_ns if joinings else 0,
    }


def most_joining_ns(evidence: Evidence) -> int:
    """Return what a claim's tasks may run outside in a window because they are only just joining it."""
    return round(JOINING_NS * JOININGS_PER_S * max(1.0, evidence.duration_ns / view.NANOSECONDS))


def _always_joining(cpus: CpuSet, joinings: Joinings, evidence: Evidence) -> str:
    spent, most = milliseconds(joinings.outside_ns), milliseconds(most_joining_ns(evidence))
    how = f"in {plural(joinings.count, 'joining')}, as a member without its v1 cpuset"
    return f"ran {spent} outside {cpus} {how}: more than the {most} that exec probes explain"


def _author(claim: Claim, evidence: Evidence, named: list[Offender], measures: dict[str, Measure]) -> str:
    """Return what let the first thread that was outside run there."""
    first = min((one for one in named if one.tid), key=lambda one: (one.first_at_ns, one.tid), default=None)
    if first is None:
        return ""
    return writers.placed(
        claim, evidence, first.tid, CpuSet.of([first.cpu]), measures, seen_ns=first.first_at_ns, comm=first.comm
    )


def _escaped(cpus: CpuSet, evidence: Evidence, outside: list[Ran], named: list[Offender]) -> tuple[Outcome, str]:
    """Judge what was outside: a violation, unless the kernel may have lent the CPUs by then."""
    if hotplug.is_lent(cpus, named, evidence):
        return (
            Outcome.UNDECIDED,
            f"all that it has, {cpus_text(cpus)}, went offline: the kernel then lends the parent cgroup's CPUs",
        )
    where = CpuSet.of([row.cpu for row in outside] or [one.cpu for one in named])
    longest_ns = max([row.out_longest_ns for row in outside] + [one.longest_ns for one in named])
    # CPUs that it has now were outside the set that it had then.
    what = f"the set of the time (by now {cpus})" if where & cpus else f"{cpus}"
    text = (
        f"ran on {cpus_text(where)} outside {what}: {sum(row.out_switches for row in outside)} switches, "
        f"{sum(row.out_ns for row in outside) / 1e6:.3f} ms, longest {longest_ns / 1e6:.3f} ms"
    )
    return Outcome.FAILED, text


def _undated(claim: Claim, evidence: Evidence, below: list[tuple[Claim, Ran]]) -> Ran | None:
    """Return time of a claim below on a CPU that was its own while it was not this one's: rows have no dates."""
    if not view.mask_changes(claim.name, evidence.transitions):
        return None
    for inner, row in below:
        if any(row.steady):
            theirs = possession.spans(inner, row.cpu, evidence.transitions)
            mine = possession.spans(claim, row.cpu, evidence.transitions)
            if not theirs or mine is None or not all(any(a <= c and d <= b for a, b in mine) for c, d in theirs):
                return row
    return None


def _excused(claim: Claim, allowed: CpuSet, rows: list[Ran]) -> list[str]:
    """Return what was outside and breaks nothing, so that the sentence claims no more than what was seen."""
    parts = [f"{allowed} before a change"] if allowed != claim.cpus else []
    switches, ns = sum(row.transition_switches for row in rows), sum(row.transition_ns for row in rows)
    if switches or ns:
        parts.append(f"{plural(switches, 'switch', 'switches')} and {milliseconds(ns)} outside in transition")
    return parts


def _busiest(rows: list[Ran]) -> float:
    """Return the part of its CPU time that a claim spent on the CPU where it ran most; 0 if it did not run."""
    spent = [row.row.run_ns for row in rows]
    return max(spent) / sum(spent) if sum(spent) else 0.0


def _named(claim: Claim, outside: list[Ran], named: list[Offender]) -> tuple[Offender, ...]:
    """Offenders by name; a CPU whose offenders' details did not arrive is still listed, with thread id 0."""
    known = {one.cpu for one in named}
    unnamed = [
        Offender(
            claim=claim.name,
            tid=0,
            comm=NOT_NAMED,
            cpu=row.cpu,
            first_at_ns=0,
            total_ns=row.out_ns,
            longest_ns=row.out_longest_ns,
            switches=row.out_switches,
        )
        for row in outside
        if row.cpu not in known
    ]
    return view.sorted_offenders([*named, *unnamed])


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="No task of the claim's cgroup or its descendants ran outside the claim's CPUs.",
        how=prose("""
            The kernel judges every context switch: which task ran in the interval that just ended, in which cgroup, on
            which CPU. A CPU-clock sampler cuts the interval of a task that never switches, so that it is seen as well.
            One interval outside the set is a failure. A claim is undecided if no task of it was seen to run.

            An interval that began before its task joined the cgroup, or before a change of the set was complete, is no
            violation; transition measures report it. Where cpusets are in a v1 hierarchy a task joins twice. What it
            runs outside between the two is a joining's, if the second follows within 75 ms, or within 5 s where
            another (or the task itself, for the first time) was moving it in. A thread has 75 ms of CPU time for
            all its joinings; what it runs beyond is outside. `joining_outside_ns` is their sum in the window.

            A claim about a descendant cgroup is counted by itself, and its
            tasks must keep to both sets (ephemeral containers to their own); where it had a CPU longer than this claim,
            and ran there, the verdict is undecided. Tasks that all stay on one CPU of a wider
            set break no promise; `used_cpus` and `busiest_cpu_ratio` report it.

            While all CPUs of a claim are offline the kernel lends it its parent's CPUs: an interval outside that began
            after that moment is undecided; one that began before it stays a failure.

            A task that leaves the claim's cgroup without ending is a failure, whenever and wherever it runs then: which
            task, for where, by what and when is said, and its time on watched CPUs is in `left_ns`. It is none if a
            runtime or a service manager of the host moved it (by its name, and in no pod), or if the task had come
            from outside and left with the program that it came with, and ran at most 1.6 s on such CPUs then.

            The reason ends with what let the first task outside run there (its mask, its CPU set, a move), where the
            kernel reports it; nothing rests on it.

            The ledger's CPU time must agree with the cgroup's own, and its placement with the sampler and /proc.
        """),
        tolerance=prose("""
            Intervals outside the set: none. Where masks alone bind the threads of a claim (`byMask`, as systemd's
            CPUAffinity= does), what one ran outside for at most 75 ms is undecided: a process is bound a moment after
            it is in the cgroup, unless a mask was too wide in two readings. A CPU that goes offline is dated up to
            0.5 s late.

            Joinings: 150 ms outside for each second of the window (for one second at least), counting of each joining
            the thread that was outside longest. A container's liveness and readiness probes join once a second each
            (the kubelet's shortest period), and a thread has 75 ms. More is a member that lives outside, and fails.

            CPU time of the two witnesses may differ by 2 ticks per CPU used (each read of the cgroup may miss one), 1
            us per switch (the two clocks are read at different points of the same switch), 2 %, and the measured steal
            (the task clock leaves it out).
        """),
        source="docs/principles.md; cpuset(7); docs/facts.md K1, K3, K6, K11, K12, K14",
        negative_control=prose("""
            Widen the cgroup's cpuset behind the claim's back and let a task of it visit another CPU:
            `echo 0-1 > cpuset.cpus; taskset -pc 1 PID`.
        """),
        witnesses=(Witness.SWITCHES,),
        measures=(
            *sets("cpus", "allowed_cpus"),
            *amounts(
                "switches_judged", "run_ns", "samples", "transitions_count", "transition_switches", "out_of_set_samples"
            ),
            *gated("out_of_set_ns", Kind.AMOUNT, Better.LESS, relative=0.5, absolute=100_000),
            *levels("out_of_set_longest_ns", better=Better.LESS),
            *gated("transition_ns", Kind.AMOUNT, Better.LESS, relative=1.0, absolute=20_000_000),
            *amounts("out_of_set_switches", "left_count", "left_ns", better=Better.LESS),
            *amounts("joinings", "joining_outside_ns", better=Better.LESS),
            *levels("joining_slowest_ns", better=Better.LESS),
            *levels("busiest_cpu_ratio"),
            *words("used_cpus", "excused"),
            *writers.PLACED,
        ),
    ),
    check,
    needs=needs_switches,
)
