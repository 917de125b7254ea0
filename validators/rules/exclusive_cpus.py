"""Rule ``exclusive-cpus``: exclusive CPUs hosted no task of another pod; the policy decides on the rest."""

from __future__ import annotations

from toolkit.model.claim_changes import versions
from toolkit.model.claims import Claim, ClaimSet, ExclusivePolicy, Isolation
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.held import FOREVER_NS
from toolkit.model.measures import sets, words
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from toolkit.text.wording import first_of
from toolkit.timeline.saved import lives
from validators.intruders import foreign, ownership, possession
from validators.intruders.given_early import early_of
from validators.queries import view
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.witness import Witness

ID = "exclusive-cpus"
NOT_KNOWN = "which CPUs are its own is not known"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim whose CPUs belong, or belonged at some time, to its container or its pod."""
    return tuple(
        _judge(claim, own, claims, evidence)
        for claim in claims.claims
        for own in [[one.claim for one in versions(claims, claim) if one.claim.isolation is not Isolation.HOST]]
        if own
    )


def _judge(now: Claim, own: list[Claim], claims: ClaimSet, evidence: Evidence) -> Verdict:
    """Judge a claim. :param own: what it was while it had CPUs of its own, in order."""
    claim = own[-1]
    mine = ownership.owned(claims, now, evidence.transitions)
    unknown_set = any(one.cpus is None for one in own)
    if claim.cpus is None and not mine.cpus:
        return Judgement(ID, claim.name)(Outcome.UNDECIDED, NOT_KNOWN)
    cpus = mine.cpus or claim.cpus or CpuSet()
    text, named = (mine.text, mine.named) if mine.cpus else (str(cpus), cpus_text(cpus))
    gained = possession.changed_hands(claim, evidence.transitions) | mine.partly(evidence.duration_ns)
    seen = foreign.foreign_use(
        claims,
        evidence,
        cpus,
        lambda other, cpu: _shares(claim, other, cpu),
        foreign.Held(owner=claim, spans=mine.spans, gained=gained),
    )
    strict = claims.policy is ExclusivePolicy.STRICT_ISOLATION
    violations = [*seen.workload, *seen.of(OwnerClass.FOREIGN_POD)]
    if strict:
        violations += [*seen.infra, *seen.of(OwnerClass.SYSTEM, OwnerClass.KTHREAD)]
    measures: dict[str, Measure] = {"cpus": text, "policy": str(claims.policy), **seen.measures()}
    verdict = Judgement(ID, claim.name, measures, violations)
    if violations:
        ran = f"{_names(violations)} ran {foreign.total_ns(violations) / 1e6:.3f} ms on its exclusive {named}"
        early = early_of(frozenset(one.claim for one in violations), cpus, claims, evidence)
        return verdict(Outcome.FAILED, f"{ran}; {early}" if early else ran)
    if unknown_set:
        return verdict(Outcome.UNDECIDED, NOT_KNOWN)
    if evidence.coverage.switches_judged <= 0:
        return verdict(Outcome.UNDECIDED, "no switch was judged: there is no evidence")
    if seen.blurred:
        return verdict(Outcome.UNDECIDED, seen.blurred[0])
    blind = "" if claims.pods_root else foreign.NO_PODS_ROOT
    unknown = seen.of(OwnerClass.UNKNOWN)
    if unknown:
        why = f"the owner of task {_names(unknown)} on CPU {unknown[0].cpu} is not known{blind}"
        return verdict(Outcome.UNDECIDED, why)
    until = f" until `{claim.name}` {'ended' if _gone(claim, evidence) else 'gave them up'}" if mine.ended else ""
    measures["hosted"] = seen.hosted(pods_known=claims.pods_root is not None or strict) + until
    return verdict(Outcome.PASSED, f"{named} {measures['hosted']}{'' if strict else blind}")


def _shares(owner: Claim, other: Claim, cpu: int) -> bool:
    """Containers of one pod may share by claim (an init container's CPUs are reused, a pod's pool is the pod's)."""
    if other.name == owner.name or view.inside(other, owner):
        return True  # A claim about a part of its cgroup is a closer look at tasks that are its own.
    if not view.same_pod(owner, other):
        return False
    if not view.is_workload(other):
        return True  # The pod's own pause container: exclusivity extends to other pods only.
    if owner.isolation is Isolation.POD and other.isolation is Isolation.POD:
        return other.cpus is None or cpu in other.cpus
    return other.isolation is Isolation.CONTAINER and other.cpus is not None and cpu in other.cpus


def _gone(claim: Claim, evidence: Evidence) -> bool:
    return all(end != FOREVER_NS for _, end in lives(view.changes_of(claim.name, evidence.transitions)))


def _names(stays: list[Offender]) -> str:
    totals: dict[str, int] = {}
    for stay in stays:
        name = stay.claim if stay.claim != foreign.UNCLAIMED else f"{stay.comm} ({stay.tid})"
        totals[name] = totals.get(name, 0) + stay.total_ns
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    return first_of(ranked, 3)


def spared(claims: ClaimSet) -> frozenset[Witness]:
    """With policy `k8s` system tasks are noise: one that was not seen breaks no promise."""
    strict = claims.policy is ExclusivePolicy.STRICT_ISOLATION
    return frozenset() if strict else frozenset({Witness.SYSTEM_TASKS})


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Exclusive CPUs hosted no task of another pod; the policy decides on system tasks.",
        how=prose("""
            Every switch on the claim's CPUs is attributed to its owner.

            Policy `k8s`: a task of another pod, of a pod without a claim (a cgroup below the pods' root), or of another
            container of the same pod that does not own the CPU is a violation. System tasks, kernel threads, pause
            sandboxes and runtime helpers (CRI-O's conmon in the pod of a container that the runtime lists) are measured
            as noise, because the kubelet's exclusivity covers pods only. Policy `strict-isolation`: every task is a
            violation, except per-CPU kernel threads and pinproof's own tasks.

            A task that left its claim's cgroup, or all pods, without ending is still of it, with those that it bears,
            unless a runtime of the host moved it, or it had come from outside and went with the program that it came
            with (`explain cpuset-containment`). On a hybrid host a task that is not in the v2 hierarchy belongs to the
            pod or claim whose v1 cpuset it is in: from its birth if it was born there, from the kernel's word if it was
            moved there, and 75 ms after we began to watch if it was there before. What it runs before the kernel's word
            is the doing of what moves it: the kernel moves all threads of a process first, and takes one after the
            other off the CPUs that the cpuset does not allow then.

            A task whose owner is unknown makes the verdict undecided. Ephemeral containers may not use exclusive CPUs
            of others. A claim about a descendant cgroup is an owner too. A verdict that passed names the owners that
            ran on the CPUs, and sums everything else that ran there by class.
        """),
        tolerance=prose("""
            Violations: none. Every CPU that the claim owned at any time of the window is judged for the time in which
            the claim owned it. That includes a CPU that the claim gave up, a CPU of a container that restarted on other
            CPUs, and a CPU of a container that stopped owning CPUs. Tasks that ran there before or after break nothing.
            Time that cannot be dated makes the verdict undecided, unless it is longer than the time in which the CPU
            had another owner.

            A container's runtime enters the new cgroup before it pins it. On a followed node that breaks nothing if the
            container is watched within 27 s (12 s, the longest that `runc init` was measured to stay there, plus 15 s,
            the longest that the node may go unread) and if the cgroup used no more than 1.6 s of one CPU until then
            (the longest measured without load). More than that is a violation, whatever the task's name. Less than
            that, by a task with a runtime's name or in a monitor's cgroup, where no container has begun yet, is excused
            if the runtime listed that container as created, and undecided if not. A task that came after the last
            reading of the node is undecided too. So is any task of a container that came and went between two readings
            (a pause sandbox, which no runtime pins, or a start), with no more CPU time than that, if its cgroup is gone
            and its tasks were not seen for longer than the node went unread. The node is read again when the window
            has ended; a container that only this reading shows began in the window.

            If the owner restarts on the same CPUs, its new container is the owner from its first moment on, whether a
            reading of this window shows it or the reading after the window; so is any container to which these give the
            CPU, if the owner's cgroup was gone before its first moment. A container of the owner's pod that no
            reading can show yet (the latest reading began no more than 12 s after the container appeared) is undecided
            if the owner's cgroup is gone: it may be the restarted owner.
        """),
        source=prose("""
            Kubernetes documentation, Control CPU Management Policies; KEP-5526;
            docs/facts.md K9, K13, K-kubelet-6, K-kubelet-8
        """),
        negative_control=prose("""
            Pin a task of another cgroup below the pods' root to one of the CPUs: `taskset -c 2 sh -c 'while :; do :;
            done'`.
        """),
        witnesses=(Witness.SWITCHES, Witness.SYSTEM_TASKS),
        measures=(
            *sets("cpus"),
            *foreign.SEEN,
            *words("policy", "hosted"),
        ),
    ),
    check,
    spared=spared,
    needs=needs_switches,
    of_others=True,
)
