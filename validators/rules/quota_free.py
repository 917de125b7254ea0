"""Rule ``quota-free``: exclusive containers have no quota and were never throttled, at their own level and above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.evidence import BandwidthUse, CgroupFiles, Evidence, ThrottledBelow
from toolkit.model.measures import Better, amounts, levels, words
from toolkit.model.runtimes import whole_of
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.queries import file_history, view
from validators.queries.life import Life, whole
from validators.quota import bandwidth
from validators.quota.case import UNCOUNTED, renewed
from validators.quota.ended import LifeUse, ended_lives, with_ended_lives
from validators.quota.kept_quota import UNKNOWN, may_keep
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness
from validators.wording import plural

ID = "quota-free"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every exclusive container, and every claim that was promised no quota."""
    return tuple(
        with_ended_lives(
            _present(claim, claims, evidence),
            ended_lives(claim, claims, evidence),
            lambda used: _ended(used, claims),
        )
        for claim in claims.claims
    )


def _present(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Verdict:
    """Judge the life that a claim has, or had last; of a followed pod that came or went what was read of its cgroup."""
    found = _judge(whole(claim, evidence), claims, view.levels_of(claim, evidence))
    if found.outcome is Outcome.UNDECIDED and view.uncounted_pod(claim, claims, evidence):
        return replace(found, outcome=Outcome.SKIPPED, reason=UNCOUNTED)
    return found


def _ended(used: LifeUse, claims: ClaimSet) -> tuple[Outcome, str]:
    """Judge a life that is over by what was read of it."""
    found = _judge(used.life, claims, used.use.levels)
    if found.outcome is Outcome.FAILED:
        return found.outcome, found.reason
    if found.outcome is Outcome.SKIPPED:
        return Outcome.PASSED, ""  # it was promised a quota, or nothing: `quota-throttling` judges it
    return (Outcome.PASSED if found.outcome is Outcome.PASSED and used.settled else Outcome.SKIPPED), ""


def _judge(life: Life, claims: ClaimSet, levels: Sequence[BandwidthUse]) -> Verdict:
    claim, evidence = life.claim, life.evidence
    measures: dict[str, Measure] = {}
    verdict = Judgement(ID, claim.name, measures)
    anew = renewed(claim, claims, evidence)
    if anew is not None:
        return verdict(anew.outcome, anew.reason)
    if claim.quota_us is not None and claim.quota_us >= 0:
        return verdict(Outcome.SKIPPED, "it was promised a quota")
    if claim.quota_us is None and not claim.exclusive:
        return verdict(Outcome.SKIPPED, "nothing was promised about its quota")
    # Only exclusive containers are free of their ancestors' quotas: others may share what their pod has.
    wanted = range(view.depth(claim) if claim.exclusive else 1)
    rows = sorted((row for row in levels if row.level in wanted), key=lambda row: row.level)
    measures["levels_count"] = len(rows)
    measures["nr_throttled"] = sum(row.nr_throttled or 0 for row in rows)
    measures["throttled_ns"] = sum(row.throttled_ns or 0 for row in rows)
    kept = [row for row in rows if _keeps(claim, claims, evidence, row.cgroup, row.level, row)]
    stopped = [row for row in rows if _throttled_by_a_stop(claim, claims, evidence, row)]
    judged = [row for row in rows if row not in kept and row not in stopped]
    broken = next((text for row in judged if (text := _broken(claim, claims, row))), "") or next(
        (text for row in rows if (text := _had_quota(life, claims, row))), ""
    )
    if broken:
        return verdict(Outcome.FAILED, broken)
    if stopped:
        stood = f"the machine stood still for {view.stopped_ns(evidence) / 1e6:.1f} ms, and what ran is charged it"
        return verdict(Outcome.UNDECIDED, f"{_throttled(stopped[0])}, by the quota that its pod may have: {stood}")
    if kept:
        return verdict(Outcome.UNDECIDED, UNKNOWN)
    pod = next((row for row in rows if row.quota_us is not None and row.quota_us >= 0), None)
    if pod is not None:
        measures["pod_quota_us"] = pod.quota_us or 0
    unread = [row.cgroup for row in rows if row.quota_us is None or row.nr_throttled is None]
    missing = set(wanted) - {row.level for row in rows}
    if missing or not rows:
        return verdict(Outcome.UNDECIDED, f"{len(missing)} levels of {claim.cgroup} were not read")
    if unread:
        return verdict(Outcome.UNDECIDED, f"{unread[0]} has no bandwidth files (no cpu controller)")
    where = plural(len(rows), "level", "levels")
    below = _below(claim, claims, evidence)
    if below:
        worst = max(below, key=lambda row: (row.throttled_ns, row.nr_throttled, row.cgroup))
        measures["nr_throttled_below"] = sum(row.nr_throttled for row in below)
        measures["throttled_below_ns"] = sum(row.throttled_ns for row in below)
        periods = f"{worst.nr_throttled} of {worst.nr_periods} periods, {worst.throttled_ns / 1e6:.1f} ms in all"
        text = f"not throttled on {where}, but {worst.cgroup} below it was, in {periods}"
        return verdict(Outcome.UNDECIDED, f"{text}: whether by its own doing is not known")
    if pod is not None:
        has = f"its pod has {bandwidth.shown(pod.quota_us, pod.period_us)}, as it may"
        return verdict(Outcome.PASSED, f"no quota of its own, {has}; not throttled on {where}")
    return verdict(Outcome.PASSED, f"no quota, and not throttled, on {where}")


def _below(claim: Claim, claims: ClaimSet, evidence: Evidence) -> list[ThrottledBelow]:
    """Return what was throttled below its cgroup, other claims apart: these have promises of their own."""
    rows = view.by_claim(evidence.throttled_below).get(claim.name, ())
    # Most have none: of hundreds of claims each would ask all others.
    inner = [one.cgroup for one in claims.claims if view.inside(one, claim)] if rows else []
    return [row for row in rows if not any(view.at_or_below(row.cgroup, cgroup) for cgroup in inner)]


def _broken(claim: Claim, claims: ClaimSet, row: BandwidthUse) -> str:
    """Return what the counters of a level prove, and its bandwidth when the window opened."""
    # A quota that is taken back within its first period leaves the time only.
    if row.nr_throttled or (row.throttled_ns and not _has_quota(row.quota_us)):
        return _throttled(row)
    if _has_quota(row.quota_us) and not _may_have(claim, claims, row.level, row.quota_us):
        return f"{row.cgroup} has a quota of {bandwidth.shown(row.quota_us, row.period_us)}"
    return ""


def _throttled(row: BandwidthUse) -> str:
    total = f"{(row.throttled_ns or 0) / 1e6:.1f} ms in all"
    return f"throttled at {row.cgroup} in {row.nr_throttled or 0} periods, {total}"


def _throttled_by_a_stop(claim: Claim, claims: ClaimSet, evidence: Evidence, row: BandwidthUse) -> bool:
    """Return whether stops of the machine explain all throttling by the quota that a pod has of its own.

    A task that runs when its CPU is stopped is charged the stop as if it had worked: one task on each CPU at most. The
    pod waits until its quota has made up for it, in whole periods.
    """
    if not (row.nr_throttled and row.quota_us and row.quota_us > 0 and row.period_us):
        return False
    stopped_ns = view.stopped_ns(evidence)
    if not stopped_ns or not _may_have(claim, claims, row.level, row.quota_us):
        return False
    charged_ns = stopped_ns * len(view.online(evidence))
    return (row.throttled_ns or 0) <= charged_ns * row.period_us / row.quota_us + row.period_us * bandwidth.NS_PER_US


def _had_quota(life: Life, claims: ClaimSet, row: BandwidthUse) -> str:
    """Return which quota a level had for a time that it must not have, and when."""
    claim, evidence = life.claim, life.evidence

    def problem(files: CgroupFiles, _: object) -> str:
        if not _has_quota(files.quota_us) or _may_have(claim, claims, row.level, files.quota_us):
            return ""
        if _keeps(claim, claims, evidence, row.cgroup, row.level, files):
            return ""
        return f"a quota of {bandwidth.shown(files.quota_us, files.period_us)}"

    drifts = file_history.deviations(life, problem, row.cgroup, ends=True)
    return f"{row.cgroup} had {drifts[0].text} {drifts[0].when}" if drifts else ""


def _has_quota(quota_us: int | None) -> bool:
    return quota_us is not None and quota_us >= 0


def _keeps(
    claim: Claim, claims: ClaimSet, evidence: Evidence, cgroup: str, level: int, read: BandwidthUse | CgroupFiles
) -> bool:
    """Return whether a level's quota is what a kubelet of another version leaves to owners of CPUs, and to their pods.

    The pod's is at least its owner's; where the pod's own claim says which, it is that one.
    """
    quota_us, period_us = read.quota_us, read.period_us
    if claim.kept_quota_us is None or quota_us is None or quota_us < 0:
        return False
    by_systemd = view.by_systemd(evidence, cgroup)
    if level == 0:
        return may_keep(claim, quota_us, period_us, by_systemd=by_systemd)
    pod = next((one for one in claims.claims if one.cgroup == cgroup), None)
    if pod is not None:
        return may_keep(pod, quota_us, period_us, by_systemd=by_systemd)
    return level == _pods_level(claim) and quota_us * claim.period_us >= claim.kept_quota_us * (period_us or 1)


def _pods_level(claim: Claim) -> int:
    """Return at which level above the claim its pod is: just above the container as a whole."""
    return 1 if whole_of(claim.cgroup) == claim.cgroup else 2


def _may_have(claim: Claim, claims: ClaimSet, level: int, quota_us: int | None) -> bool:
    """Return whether a quota is the pod's own, and breaks no promise there."""
    return level == _pods_level(claim) and (quota_us == claim.pod_quota_us or _pod_shares(claim, claims))


def _pod_shares(claim: Claim, claims: ClaimSet) -> bool:
    """Pod-level resources: the pod keeps its quota for the containers that share the rest of the pod's CPUs."""
    return any(
        other.isolation is Isolation.POD and other.name != claim.name and view.same_pod(claim, other)
        for other in claims.claims
    )


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="An exclusive container has no CPU quota and was never throttled, at its own level and every ancestor.",
        how=prose("""
            The bandwidth file and nr_throttled are read for the claim's cgroup and, for an exclusive container, for
            every cgroup above it: at both ends of the window, the file also in between, as described in `explain
            applied`. A quota, even one that was removed again, or a throttled period is a failure at each of these
            levels. A level that was not read makes the verdict undecided, and so does another quota that was promised
            within the window.

            A cgroup below the claim's (a quota that the container, or its runtime, set inside) is read at both ends of
            the window: where one was throttled the verdict is undecided, and the measures say how much. One that was
            removed before the end of the window is not seen. A task that is moved to another cgroup of the hierarchy
            that has the cpu controller, by anything but a runtime, makes the verdict undecided, too: what holds it
            there is not read.

            A life that ended in the window is judged as in `explain quota-throttling`, by its counters' last reading.
            Skipped: the own cgroup of a followed pod that came or went in the window, and whose counters were not read
            twice, or whose promise changed with it.

            A container that shares CPUs of its node or pod and was promised no quota is judged at its own level only:
            its pod may have a quota. A pod with pod-level resources keeps its quota while some of its containers share
            the pod's pool (in container scope: the node's pool, if the plan puts them there); then only throttling
            fails. That holds for the cgroup just above the container, not for its QoS class.
        """),
        tolerance=prose("""
            None, with two exceptions. If the version of the running kubelet is not known, the quota that follows from
            an exclusive container's CPU limit is undecided, for the container and for its pod. Kubelets before v1.33
            write that quota. Throttling by the quota that a pod may have is undecided where stops of the machine
            explain it: a task that runs when the host stops its CPU is charged that time as if it had worked. It is at
            most the stopped time on each CPU, made up for at the rate of the quota, and one period.
        """),
        source=prose("""
            Kubernetes documentation, CPU management policies (DisableCPUQuotaWithExclusiveCPUs); KEP-5526;
            docs/failures.md F56, F57, docs/facts.md K19, K-pod, "Normal on a healthy node"
        """),
        negative_control="Write a quota to the container's cgroup or its pod's: `echo '50000 100000' > cpu.max`.",
        witnesses=(Witness.BANDWIDTH, Witness.FILES),
        measures=(
            *amounts("nr_throttled", "nr_throttled_below", "throttled_below_ns", better=Better.LESS),
            *amounts("throttled_ns", better=Better.LESS),
            *levels("skipped_lives_count", better=Better.LESS),
            *words("levels_count", "pod_quota_us"),
        ),
    ),
    check,
)
