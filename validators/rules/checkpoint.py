"""Rule ``checkpoint``: the kubelet's state files are sound, by themselves and against their node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.state_files import CpuStateFile, MemoryStateFile, StateReading
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.credibility.trust import summary
from validators.queries import view
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.state_files import cpu_state, memory_state
from validators.witness import Witness
from validators.wording import seconds

ID = "checkpoint"
CPU, MEMORY = "cpu_manager_state", "memory_manager_state"
MODELLED = "as pinproof's model writes it, no kubelet is here"
RECONCILE_S = 10.0
"""The kubelet's default reconcile period (``cpuManagerReconcilePeriod``)."""
LASTS_NS = 5 * view.NANOSECONDS
"""What is wrong for so long, in each reading of that time, is no moment between two saves. A save writes and syncs one
small file: milliseconds, on a disk that others keep busy a second or two. A node is read each 2 s, a large one each 6.
Source: Kubernetes pkg/kubelet/util/store/filestore.go, ``writeFile``.
"""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge the state files that were read, by their last reading."""
    readings = sorted(evidence.state_files, key=lambda reading: reading.at_ns)
    if not readings:
        return (_without("node", Outcome.SKIPPED, "no state file was given"),)
    last = readings[-1]
    verdicts = []
    if last.cpu is not None:
        verdicts.append(_cpu(last.cpu, readings, claims, followed=evidence.following is not None))
    if last.memory is not None:
        verdicts.append(_memory(last.memory, readings))
    for subject, file, policy, needs in (
        (CPU, last.cpu, last.cpu_policy, "static"),
        (MEMORY, last.memory, last.memory_policy, "Static"),
    ):
        if file is None and policy == needs:
            reason = f"the policy is {policy}, and the file was not read"
            verdicts.append(_without(subject, Outcome.UNDECIDED, reason))
    if last.cpu is None and last.cpu_policy is None:
        reason = "the file was not read, and its manager's policy is not known"
        verdicts.append(_without(CPU, Outcome.UNDECIDED, reason))
    if verdicts:
        return tuple(_by_model(verdict) for verdict in verdicts) if last.modelled else tuple(verdicts)
    return (_without("node", Outcome.SKIPPED, f"no state file was given, and policy {last.cpu_policy} needs none"),)


def _by_model(verdict: Verdict) -> Verdict:
    """No kubelet is here: what is sound or broken is what pinproof's own model writes, not a node's file."""
    return replace(verdict, reason=f"{MODELLED}: {verdict.reason}")


def _without(subject: str, outcome: Outcome, reason: str) -> Verdict:
    return Verdict(rule=ID, subject=subject, outcome=outcome, reason=reason, measures={})


def _cpu(file: CpuStateFile, readings: list[StateReading], claims: ClaimSet, *, followed: bool) -> Verdict:
    last = readings[-1]
    found = list(cpu_state.problems(file, last, claims))
    before = [
        text
        for reading in readings[:-1]
        if reading.cpu is not None
        for text in cpu_state.problems(reading.cpu, reading, claims)
    ]
    measures: dict[str, Measure] = {
        "version": file.version,
        "policy": file.policy,
        "default_cpus": file.default,
        "entries_count": len(file.entries) + len(file.pods),
        "readings_count": len(readings),
        "passing_problems_count": len(set(before) - set(found)),
    }
    verdict = Judgement(ID, CPU, measures)
    if found:
        return verdict(Outcome.FAILED, summary(found))
    lasted = _lasted((reading.at_ns, _by_itself(reading)) for reading in readings)
    if lasted:
        return verdict(Outcome.FAILED, summary(lasted))
    if cpu_state.fresh(file):
        return verdict(Outcome.UNDECIDED, "the manager has not started yet: the shared pool is empty, nothing assigned")
    gone = cpu_state.unowned(file, last)
    if gone is None and (file.entries or file.pods):
        return verdict(Outcome.UNDECIDED, "which containers exist is not known: leaked CPUs cannot be found")
    if gone:
        return _leaked(gone, readings, claims, followed=followed, verdict=verdict)
    if file.policy == "static" and not last.cpus_online:
        return verdict(Outcome.UNDECIDED, "which CPUs were online is not known")
    if file.policy == "static" and not last.union_known:
        return verdict(Outcome.UNDECIDED, "which CPUs are reserved is not known: whether any is leaked cannot be told")
    count = f"{measures['entries_count']} assignments"
    shared = f", shared pool {file.default}" if file.default else ""
    unread = "; the configured policy is not known" if last.cpu_policy is None else ""
    ended = sum(one.ended for one in last.containers or ())
    measures |= {"ended_entries_count": ended} if ended else {}
    of_ended = f", {ended} of a pod that has ended and is still listed" if ended else ""
    return verdict(Outcome.PASSED, f"version {file.version}, policy {file.policy}: {count}{of_ended}{shared}{unread}")


def _by_itself(reading: StateReading) -> list[str]:
    """Return what is wrong with an earlier file whatever the configuration: what is known of that is of now.

    Who stops a kubelet, reserves other CPUs, removes the file and starts it again leaves no wrong file behind.
    """
    if reading.cpu is None:
        return []
    unconfigured = ClaimSet(claims=(), reserved_cpus=CpuSet(), strict_reservation=False)
    return list(cpu_state.problems(reading.cpu, replace(reading, cpu_policy=None, union_known=False), unconfigured))


def _lasted(said: Iterable[tuple[int, list[str]]]) -> list[str]:
    """Return the problems that lasted for :data:`LASTS_NS`, with how long.

    :param said: times and problems of each reading. What was over before the window is of the one before.
    """
    since_ns, found = dict[str, int](), dict[str, int]()
    for at_ns, texts in said:
        since_ns = {text: since_ns.get(text, at_ns) for text in texts}
        found |= {
            text: at_ns - begun_ns for text, begun_ns in since_ns.items() if at_ns >= 0 and at_ns - begun_ns >= LASTS_NS
        }
    return [f"{text} (for {seconds(length_ns)}, then no more)" for text, length_ns in found.items()]


def _leaked(
    gone: set[str],
    readings: list[StateReading],
    claims: ClaimSet,
    *,
    followed: bool,
    verdict: Callable[[Outcome, str], Verdict],
) -> Verdict:
    """A pod's CPUs are taken back at the next reconcile: an entry without owner is a leak when it outlives that.

    :param followed: a later window says whether it does: its evidence begins when the file said so first.
    """
    period_s = RECONCILE_S if claims.reconcile_period_s is None else claims.reconcile_period_s
    last = readings[-1]
    for reading in readings[:-1]:
        if last.at_ns - reading.at_ns < 2 * period_s * view.NANOSECONDS or reading.cpu is None:
            continue
        lasting = gone & (cpu_state.unowned(reading.cpu, reading) or set())
        if lasting:
            return verdict(
                Outcome.FAILED, f"{', '.join(sorted(lasting)[:3])} has CPUs but no container, for over two reconciles"
            )
    names = f"{', '.join(sorted(gone)[:3])} has CPUs but no container"
    if followed:
        return verdict(Outcome.PASSED, f"{names} yet or any more; a reconcile may take {2 * period_s:g} s")
    return verdict(Outcome.UNDECIDED, f"{names}: leaked, or not reconciled yet")


def _memory(file: MemoryStateFile, readings: list[StateReading]) -> Verdict:
    reading = readings[-1]
    found = list(memory_state.problems(file, reading)) or _lasted(
        (one.at_ns, list(memory_state.problems(one.memory, replace(one, memory_policy=None))) if one.memory else [])
        for one in readings
    )
    measures: dict[str, Measure] = {
        "version": file.version,
        "policy": file.policy,
        "blocks_count": len(file.entries) + len(file.pods),
        "stale_pods_count": memory_state.stale(file, reading),
    }
    verdict = Judgement(ID, MEMORY, measures)
    if found:
        return verdict(Outcome.FAILED, summary(found))
    if memory_state.fresh(file):
        return verdict(Outcome.UNDECIDED, "the manager has not started yet: the file knows no memory, nothing assigned")
    text = f"version {file.version}, policy {file.policy}: {measures['blocks_count']} blocks"
    text += ", sums agree" if file.rows else ""
    if reading.memory_policy is None:
        text += "; the configured policy is not known"
    if file.policy == "Static" and not memory_state.totals_known(file, reading):
        text += "; the totals of this boot were not read"
    return verdict(Outcome.PASSED, text)


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The kubelet's state files are sound: it could start from them, and no CPU or byte is lost or shared.",
        how=prose("""
            cpu_manager_state: checksum, version and policy are checked (against the configured one, where it is known),
            then the sets. The shared pool is not empty while CPUs are assigned, and shares no CPU with an assignment.
            No CPU has two owners (two containers of one pod: only if both run and do not share the pod's pool). Pool
            and assignments together are the online CPUs, without the reserved ones under strict reservation; reserved
            CPUs are never assigned. An entry without a container is leaked once it outlives two reconciles; until then
            it is no doubt where the node is followed, because a later window has the whole time. One whose
            pod has ended, and which the runtime of a followed node lists still, is counted and named; of a capture it
            counts as none.

            memory_manager_state: checksum, version and policy are checked as there, then the sums of every table;
            blocks against what is allocated, in total, and per NUMA node; nodes that share a block are summed; the
            number of blocks of each node; node totals against those of this boot, where they were read. The reason says
            what was not known.

            The last reading decides, because the kubelet saves in two steps; problems that disappeared are counted.
            They are a failure where they lasted for 5 s, unless they depend on the configuration, which may have been
            another one then. If it is not known which containers exist, assigned CPUs make the verdict undecided. So do
            a file that was not read although its manager's policy is static, and one of a manager that has not started.
            Where the node is followed, a file that is absent or empty is a restart's for a reconcile and 5 s: what it
            said last stands that long, and no longer.

            Where a scenario is run no kubelet is there: the files are those that pinproof's model writes for the plan,
            held against the scenario's settings and this machine's memory, and the reason says so.
        """),
        tolerance=prose("""
            Files: 5 s for what the kubelet repairs itself (its two saves take milliseconds). Leaks: two reconcile
            periods (10 s each unless the claims state another), since an entry may wait one for its turn, and the list
            of containers was read at another moment.
        """),
        source=prose("""
            KEP-5526 "State File"; docs/facts.md K-kubelet-4, K-kubelet-5, docs/failures.md F2, F6, F21-F29, F41, F42;
            docs/facts.md, "Normal on a healthy node"
        """),
        negative_control=prose("""
            Take a CPU out of defaultCpuSet of a stopped node's file and correct the checksum; or kill the kubelet
            between its two saves.
        """),
        witnesses=(Witness.FILES,),
    ),
    check,
)
