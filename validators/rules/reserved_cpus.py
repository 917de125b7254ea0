"""Rule ``reserved-cpus``: under strict reservation no workload ran on reserved CPUs."""

from __future__ import annotations

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import cpus_text
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.measures import sets, words
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.intruders import foreign
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.witness import Witness
from validators.wording import listed

ID = "reserved-cpus"
SUBJECT = "node"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge the node once."""
    return (_judge(claims, evidence),)


def _judge(claims: ClaimSet, evidence: Evidence) -> Verdict:
    if not claims.strict_reservation:
        return _skipped("the reservation is not strict: shared workloads may run on reserved CPUs")
    if not claims.reserved_cpus:
        text = "the reservation is strict, and which CPUs are reserved is not known"
        return Judgement(ID, SUBJECT)(Outcome.UNDECIDED, text)
    cpus = claims.reserved_cpus
    seen = foreign.foreign_use(claims, evidence, cpus, lambda claim, cpu: False)
    violations = [*seen.workload, *seen.of(OwnerClass.FOREIGN_POD)]
    measures: dict[str, Measure] = {"reserved_cpus": str(cpus), **seen.measures()}

    verdict = Judgement(ID, SUBJECT, measures, violations)
    if violations:
        names = sorted({stay.claim if stay.claim != foreign.UNCLAIMED else stay.comm for stay in violations})
        return verdict(
            Outcome.FAILED,
            f"{', '.join(names[:3])} ran {foreign.total_ns(violations) / 1e6:.3f} ms on reserved {cpus_text(cpus)}",
        )
    if evidence.coverage.switches_judged <= 0:
        return verdict(Outcome.UNDECIDED, "no switch was judged: there is no evidence")
    if seen.blurred:
        return verdict(Outcome.UNDECIDED, seen.blurred[0])
    blind = "" if claims.pods_root else foreign.NO_PODS_ROOT
    unknown = seen.of(OwnerClass.UNKNOWN)
    if unknown:
        why = f"the owner of task '{unknown[0].comm}' on CPU {unknown[0].cpu} is not known{blind}"
        return verdict(Outcome.UNDECIDED, why)
    parts = seen.excused()
    excused = listed(parts) if parts else ""
    if excused:
        measures["excused"] = excused
    but = f" but {excused}" if excused else ""
    return verdict(Outcome.PASSED, f"no workload ran on reserved {cpus_text(cpus)}{but}{blind}")


def _skipped(reason: str) -> Verdict:
    return Judgement(ID, SUBJECT)(Outcome.SKIPPED, reason)


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Under strict-cpu-reservation no workload ran on the reserved CPUs.",
        how=prose("""
            Every switch on a reserved CPU is attributed: to a claimed container, to a pod without a claim (a cgroup
            below the pods' root), to the system, or to a kernel thread. Containers (ephemeral ones as well) and pods
            without a claim are violations. Pause sandboxes and runtime helpers are measured only: they are not pinned
            on healthy nodes either.

            Without strict reservation shared workloads may run there by design, so the rule is skipped.
        """),
        tolerance=prose("""
            None. Intervals that belong to a container's start or to a change of its set (transition) do not count. On a
            followed node a runtime that makes a container is judged as in exclusive-cpus.
        """),
        source=prose("""
            KEP-4540 strict-cpu-reservation; Kubernetes documentation, CPU management policies; docs/failures.md
            F51, docs/facts.md K-kubelet-4
        """),
        negative_control="Give a shared container's cgroup the reserved CPUs as well: `echo 0-1 > cpuset.cpus`.",
        witnesses=(Witness.SWITCHES,),
        measures=(
            *sets("reserved_cpus"),
            *foreign.SEEN,
            *words("excused"),
        ),
    ),
    check,
    needs=needs_switches,
    of_node=True,
)
