"""Rule ``checkpoint``: the kubelet's state files are sound, by themselves and against their node."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.measures import amounts, levels, words
from toolkit.model.state_files import CPU_FILE as CPU
from toolkit.model.state_files import DEVICE_FILE as DEVICES
from toolkit.model.state_files import MEMORY_FILE as MEMORY
from toolkit.model.state_files import CpuStateFile, DeviceStateFile, MemoryStateFile, StateReading
from toolkit.model.verdict import Measure, Outcome, Verdict
from toolkit.text.wording import count, first_of
from validators.credibility.trust import summary
from validators.queries import view, writers
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.state_files import cpu_state, memory_state, standing
from validators.witness import Witness

ID = "checkpoint"
MODELLED = "as pinproof's model writes it, no kubelet is here"
RECONCILE_S = 10.0
"""The kubelet's default reconcile period (``cpuManagerReconcilePeriod``)."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge the state files that were read, by their last reading."""
    readings = sorted(evidence.state_files, key=lambda reading: reading.at_ns)
    if not readings:
        return (_without("node", Outcome.SKIPPED, "no state file was given"),)
    last = readings[-1]
    verdicts = []
    if last.cpu is not None:
        verdicts.append(_cpu(last.cpu, readings, claims, evidence))
    else:
        lasted = standing.lasted(readings, cpu_state.by_each(readings, claims))
        verdicts += _gone(CPU, last.cpu_policy, "static", lasted, evidence)
    if last.memory is not None:
        verdicts.append(_memory(last.memory, readings, evidence))
    else:
        lasted = standing.lasted(readings, memory_state.by_each(readings))
        verdicts += _gone(MEMORY, last.memory_policy, "Static", lasted, evidence)
    if last.devices is not None:
        verdicts.append(_devices(last.devices))
    if last.cpu is None and last.cpu_policy is None and not any(one.subject == CPU for one in verdicts):
        reason = "the file was not read, and its manager's policy is not known"
        verdicts.append(_without(CPU, Outcome.UNDECIDED, reason))
    if verdicts:
        return tuple(_by_model(verdict) for verdict in verdicts) if last.modelled else tuple(verdicts)
    return (_without("node", Outcome.SKIPPED, f"no state file was given, and policy {last.cpu_policy} needs none"),)


def wrong_now(readings: list[StateReading], claims: ClaimSet) -> dict[str, tuple[list[str], list[str]]]:
    """Return what is wrong with each state file in the last reading of a node that is followed, by the file's name:
    what is certain, and what may be a moment between two saves.
    """
    last, found = readings[-1], dict[str, tuple[list[str], list[str]]]()
    for subject, file, ask in ((CPU, last.cpu, _cpu_asked(last, claims)), (MEMORY, last.memory, _memory_asked(last))):
        if file is not None:
            found[subject] = standing.still_wrong(readings, ask, later=True)
    return found


def _cpu_asked(last: StateReading, claims: ClaimSet) -> standing.Ask:
    """Return how to ask what is wrong with the CPU manager's file by the configuration of the last reading."""
    setup = cpu_state.configured(last, claims)
    return lambda one: list(cpu_state.problems(one, setup))


def _memory_asked(last: StateReading) -> standing.Ask:
    return lambda one: list(memory_state.problems(one, last.memory_policy))


def _gone(
    subject: str, policy: str | None, needs: str, lasted: list[standing.Lasted], evidence: Evidence
) -> list[Verdict]:
    """Judge a file that the last reading did not find. :param lasted: what was wrong with it for long before."""
    measures: dict[str, Measure] = {}
    author = writers.of_state(evidence, subject, measures, seen_ns=evidence.duration_ns)
    verdict = Judgement(ID, subject, measures)
    if lasted:
        return [verdict(Outcome.FAILED, summary(list(map(str, lasted))) + author)]
    if policy == needs:
        return [verdict(Outcome.UNDECIDED, f"the policy is {policy}, and the file was not read{author}")]
    return []


def _by_model(verdict: Verdict) -> Verdict:
    """No kubelet is here: what is sound or broken is what pinproof's own model writes, not a node's file."""
    return replace(verdict, reason=f"{MODELLED}: {verdict.reason}")


def _without(subject: str, outcome: Outcome, reason: str) -> Verdict:
    return Verdict(rule=ID, subject=subject, outcome=outcome, reason=reason, measures={})


def _cpu(file: CpuStateFile, readings: list[StateReading], claims: ClaimSet, evidence: Evidence) -> Verdict:
    last, followed = readings[-1], evidence.following is not None
    asked = _cpu_asked(last, claims)
    faults, moments = standing.still_wrong(readings, asked, later=followed and not last.modelled)
    by_each = cpu_state.by_each(readings, claims)
    measures: dict[str, Measure] = {
        "version": file.version,
        "policy": file.policy,
        "default_cpus": file.default,
        "entries_count": len(file.entries) + len(file.pods),
        "readings_count": len(readings),
        "passing_problems_count": standing.passing_count(
            readings, lambda one: list(cpu_state.problems(one, cpu_state.configured(one, claims)))
        ),
    }
    verdict = Judgement(ID, CPU, measures)
    leaked_ns = int(2 * view.NANOSECONDS * _period_s(claims)) + standing.LASTS_NS
    since_ns = standing.wrong_since(readings, asked if faults else by_each)
    faults = faults or [*map(str, standing.lasted(readings, by_each))]
    if not faults:
        since_ns = standing.wrong_since(readings, cpu_state.leaks)
        faults = [*map(str, standing.lasted(readings, cpu_state.leaks, leaked_ns))]
    if faults:
        author = writers.of_state(evidence, CPU, measures, seen_ns=since_ns, written_at=last.cpu_written_at)
        return verdict(Outcome.FAILED, summary(faults) + author)
    if file.unknown:
        return verdict(Outcome.UNDECIDED, file.problem)
    if moments:
        return verdict(Outcome.UNDECIDED, summary(moments))
    if cpu_state.fresh(file):
        return verdict(Outcome.UNDECIDED, "the manager has not started yet: the shared pool is empty, nothing assigned")
    gone = cpu_state.unowned(last)
    if gone is None and (file.entries or file.pods):
        return verdict(Outcome.UNDECIDED, "which containers exist is not known: leaked CPUs cannot be found")
    if file.policy == "static" and not last.cpus_online:
        return verdict(Outcome.UNDECIDED, "which CPUs were online is not known")
    if file.policy == "static" and not last.union_known:
        return verdict(Outcome.UNDECIDED, "which CPUs are reserved is not known: whether any is leaked is not known")
    if gone:
        names = f"{', '.join(sorted(gone)[:3])} has CPUs but no container"
        if followed:
            bound = f"two reconciles may take {leaked_ns / view.NANOSECONDS:g} s"
            return verdict(Outcome.PASSED, f"{names} yet or any more; {bound}")
        return verdict(Outcome.UNDECIDED, f"{names}: leaked, or not reconciled yet")
    assigned = f"{measures['entries_count']} assignments"
    shared = f", shared pool {file.default}" if file.default else ""
    unread = "; the configured policy is not known" if last.cpu_policy is None else ""
    ended = sum(one.ended for one in last.containers or ())
    measures |= {"ended_entries_count": ended} if ended else {}
    of_ended = f", {ended} of a pod that has ended and is still listed" if ended else ""
    waiting = sum(one.waiting for one in last.containers or ())
    measures |= {"waiting_entries_count": waiting} if waiting else {}
    of_waiting = f", {waiting} of a pod that waits for its sandbox" if waiting else ""
    text = f"version {file.version}, policy {file.policy}: {assigned}{of_ended}{of_waiting}{shared}{unread}"
    return verdict(Outcome.PASSED, text)


def _period_s(claims: ClaimSet) -> float:
    """A pod's CPUs are taken back at the next reconcile after it has ended; its containers end some seconds before."""
    return RECONCILE_S if claims.reconcile_period_s is None else claims.reconcile_period_s


def _memory(file: MemoryStateFile, readings: list[StateReading], evidence: Evidence) -> Verdict:
    reading, followed = readings[-1], evidence.following is not None
    by_each, asked = memory_state.by_each(readings), _memory_asked(reading)
    faults, moments = standing.still_wrong(readings, asked, later=followed and not reading.modelled)
    since_ns = standing.wrong_since(readings, asked if faults else by_each)
    faults = faults or [*map(str, standing.lasted(readings, by_each))]
    measures: dict[str, Measure] = {
        "version": file.version,
        "policy": file.policy,
        "blocks_count": len(file.entries) + len(file.pods),
        "stale_pods_count": memory_state.stale(file, reading),
    }
    verdict = Judgement(ID, MEMORY, measures)
    if faults:
        author = writers.of_state(evidence, MEMORY, measures, seen_ns=since_ns, written_at=reading.memory_written_at)
        return verdict(Outcome.FAILED, summary(faults) + author)
    if file.unknown:
        return verdict(Outcome.UNDECIDED, file.problem)
    if moments:
        return verdict(Outcome.UNDECIDED, summary(moments))
    if memory_state.fresh(file):
        return verdict(Outcome.UNDECIDED, "the manager has not started yet: the file knows no memory, nothing assigned")
    text = f"version {file.version}, policy {file.policy}: {measures['blocks_count']} blocks"
    text += ", sums agree" if file.rows else ""
    if reading.memory_policy is None:
        text += "; the configured policy is not known"
    if file.policy == "Static" and not memory_state.totals_known(file, reading):
        text += "; the totals of this boot were not read"
    return verdict(Outcome.PASSED, text)


def _devices(file: DeviceStateFile) -> Verdict:
    verdict = Judgement(ID, DEVICES, {"devices_count": file.devices_count})
    if file.problem or file.checksum_ok is False:
        what = file.problem or "the checksum is not that of the content"
        return verdict(Outcome.FAILED, f"{what}: a kubelet that is restarted takes every device for free")
    if file.twice:
        return verdict(Outcome.FAILED, f"several pods have the same device: {first_of(file.twice, 3)}")
    if file.checksum_ok is None:
        return verdict(Outcome.UNDECIDED, "the capture does not say whether the checksum is that of the content")
    taken = count(file.devices_count, "device")
    return verdict(Outcome.PASSED, f"the checksum fits; {taken} taken, each of one pod")


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The kubelet's state files are sound: it could start from them, and no CPU or byte is lost or shared.",
        how=prose("""
            cpu_manager_state: checksum (as of v1.37 that of the content as text), version and policy are checked
            (against the configured one, where it is known), then the sets. The shared pool is not empty while CPUs are
            assigned, and shares no CPU with an assignment. No CPU has two owners (two containers of one pod: only if
            both run and do not share the pod's pool). Pool and assignments together are the online CPUs, without the
            reserved ones under strict reservation; reserved CPUs are never assigned. An entry without a container is
            leaked once it outlives two reconciles and 5 s; until then it is no doubt where the node is followed,
            because a later window has the whole time. Counted and named on a followed node are a container whose pod
            has ended and which the runtime still lists (in a capture it does not count as a container), and one of a
            pod that the kubelet knows and that has no sandbox: it waits for its volumes, or a static pod for the
            version before it to end, for as long as these take.

            memory_manager_state: checksum, version and policy are checked in the same way, then the sums of every
            table, the blocks against what is allocated (in total and per NUMA node; nodes that share a block are
            summed), the number of blocks of each node, and node totals against those of this boot, if they were read.
            The reason names what was not known.

            kubelet_internal_checkpoint, the Device Manager's: its checksum (of a V1 file, too, as kubelets before v1.20
            write it), and that no device is of several pods. From a file that does not fit a kubelet starts all the
            same, without what it says.

            The kubelet saves in two steps, and a reading between them finds half of a change. What is wrong with the
            sets or the sums is a failure where it stood for 5 s, whether it was repaired then or not, and whatever else
            changed meanwhile; what is wrong for less makes the last reading undecided (where nothing looks again, as in
            a capture, it is a failure), and is counted if it disappeared. What depends on the configuration counts only
            if it is wrong by each that was found in the window. No save makes another checksum, version or policy:
            the last reading decides.

            The verdict is undecided if the file has fields that no known version has (V1 to V4, of memory V1 to V3):
            it is not read as an older one. It is undecided, too, if CPUs are assigned and it is not known which
            containers exist; if a file was not read although its manager's policy is static; and if the manager has not
            started. On a followed node a file that is absent or empty is taken for a restart of the kubelet for one
            reconcile period and 5 s: for that time the file's last content is used.

            The reason of a failure ends with what changed the file before it was wrong, and when (fanotify, on a
            followed node; a write through a mapping, or by another machine on a network file system, is not seen).
            Where that is not known it is the file's own time, and why. What a kubelet wrote is named as such, with the
            last change before it by anything else: a kubelet that starts takes what the file says for its own.

            A scenario runs without a kubelet: the files are those that pinproof's model writes for the plan. They are
            compared with the scenario's settings and this machine's memory, and the reason names the model.
        """),
        tolerance=prose("""
            Files: 5 s for what the kubelet repairs itself (its two saves take milliseconds). Leaks: two reconcile
            periods (10 s each unless the claims state another), since an entry may wait one for its turn, and the list
            of containers was read at another moment; and 5 s, since a reconcile goes through all containers, and a pod
            has ended only some seconds after its last container is gone.
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
        measures=(
            *amounts("readings_count"),
            *levels(
                "entries_count", "blocks_count", "ended_entries_count", "waiting_entries_count", "stale_pods_count"
            ),
            *levels("passing_problems_count", "devices_count"),
            *words("version", "policy", "default_cpus"),
            *writers.MEASURES,
        ),
    ),
    check,
    of_node=True,
)
