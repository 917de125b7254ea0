"""The rules ``exclusive-cpus`` and ``reserved-cpus``: what may be where, by policy and kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    claim_db,
    claim_set,
    claim_web,
    coverage,
    cpus,
    evidence,
    intruder,
    use,
)
from toolkit.model.claims import Claim, ExclusivePolicy, Isolation, SubjectKind
from toolkit.model.evidence import CpuUse, Evidence, OwnerClass, Transition
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import exclusive_cpus, reserved_cpus


def with_rows(*rows: CpuUse, **changes: Any) -> Evidence:
    return evidence(cpu_use=(*evidence().cpu_use, *rows), **changes)


def exclusive(found: Evidence, *claims: Claim, **changes: Any) -> Verdict:
    return exclusive_cpus.RULE(claim_set(*claims, **changes), found)[0]


@pytest.mark.parametrize(
    ("owner", "k8s", "strict"),
    [
        (OwnerClass.FOREIGN_POD, "failed", "failed"),
        (OwnerClass.SYSTEM, "passed", "failed"),
        (OwnerClass.KTHREAD, "passed", "failed"),
        (OwnerClass.PERCPU_KTHREAD, "passed", "passed"),
        (OwnerClass.TOOLKIT, "passed", "passed"),
        (OwnerClass.UNKNOWN, "undecided", "undecided"),
    ],
)
def test_intruders_by_policy(owner: OwnerClass, k8s: str, strict: str) -> None:
    """Foreign pods always fail; system tasks fail only under strict isolation; per-CPU kernel threads never."""
    found = evidence(intruders=(intruder(owner),))

    assert exclusive(found, policy=ExclusivePolicy.K8S).outcome.value == k8s
    assert exclusive(found, policy=ExclusivePolicy.STRICT_ISOLATION).outcome.value == strict


def test_the_intruder_is_named() -> None:
    """The offender carries thread, CPU and time."""
    row = exclusive(evidence(intruders=(intruder(OwnerClass.FOREIGN_POD),))).offenders[0]

    assert (row.tid, row.comm, row.cpu, row.total_ns) == (77, "guest", 2, 5_000)


def test_an_intruder_elsewhere_does_not_matter() -> None:
    """Only the claim's own CPUs count."""
    assert exclusive(evidence(intruders=(intruder(OwnerClass.FOREIGN_POD, cpu=0),))).outcome is Outcome.PASSED


def test_another_container_on_it_fails() -> None:
    """The negative control: a shared container that ran on the exclusive CPU, whatever its own claim says."""
    stray = use("web", 2, switches=1, run_ns=900, samples=0, out_of_set_switches=1, out_of_set_ns=900)
    verdict = exclusive(with_rows(stray))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.offenders[0].claim == "web"
    overlapping = claim_web(cpus=cpus("0-2"))
    assert exclusive(with_rows(use("web", 2)), claim_db(), overlapping).outcome is Outcome.FAILED


def test_ephemeral_containers_may_not_touch_it() -> None:
    """An ephemeral container of the same pod runs on the shared pool, not on exclusive CPUs."""
    debug = claim_web(name="debug", pod="a", kind=SubjectKind.EPHEMERAL, cpus=None)

    assert exclusive(with_rows(use("debug", 2)), claim_db(), debug).outcome is Outcome.FAILED


@pytest.mark.parametrize(("pod", "k8s", "strict"), [("a", "passed", "passed"), ("z", "passed", "failed")])
def test_pause_sandboxes_are_noise(pod: str, k8s: str, strict: str) -> None:
    """Pause containers are never pinned on healthy nodes: measured; a foreign one fails only under strict isolation."""
    pause = claim_web(name="pause", pod=pod, kind=SubjectKind.SANDBOX, cpus=None)
    found = with_rows(use("pause", 2, switches=2, run_ns=3_000, samples=0))
    verdict = exclusive(found, claim_db(), pause)

    assert verdict.outcome.value == k8s
    assert verdict.measures["sandbox_ns"] == (0 if pod == "a" else 3_000)
    assert exclusive(found, claim_db(), pause, policy=ExclusivePolicy.STRICT_ISOLATION).outcome.value == strict


def test_an_init_container_reuses_its_pods_cpus() -> None:
    """A container of the same pod that owns the same CPUs is an owner; one of another pod is doubly owning."""
    setup = claim_db(name="setup", cgroup="/kubepods/poda/setup")
    stranger = claim_db(name="other", cgroup="/kubepods/podz/other", pod="z")

    assert exclusive(with_rows(use("setup", 2)), claim_db(), setup).outcome is Outcome.PASSED
    assert exclusive(with_rows(use("other", 2)), claim_db(), stranger).outcome is Outcome.FAILED


@pytest.mark.parametrize(("uid", "outcome"), [("u-2", "failed"), ("u-1", "passed"), ("", "passed")])
def test_a_pod_that_is_made_again_under_its_name_is_another(uid: str, outcome: str) -> None:
    """The old one still ends while the new one runs on its CPUs: only where the UIDs are known can that be said."""
    again = claim_db(name="db#2", cgroup="/kubepods/poda2/db", pod_uid=uid, cpus=cpus("2"))
    found = evidence(cpu_use=(use("db", 2), use("db#2", 2)))
    verdict = exclusive_cpus.RULE.check(claim_set(claim_db(pod_uid="u-1"), again), found)[0]
    assert verdict.outcome.value == outcome


def test_a_pods_pool_is_shared_within_the_pod() -> None:
    """Containers of one pod share its pool; another pod does not."""
    one = claim_db(isolation=Isolation.POD)
    other = claim_db(name="side", cgroup="/kubepods/poda/side", isolation=Isolation.POD)

    assert exclusive(with_rows(use("side", 2)), one, other).outcome is Outcome.PASSED
    stray = use("web", 2, out_of_set_switches=1)
    assert exclusive(with_rows(stray), one, claim_web()).outcome is Outcome.FAILED


def test_transition_time_is_not_foreign() -> None:
    """Time that belongs to a container's start or a change does not count."""
    moving = use("web", 2, switches=1, run_ns=900, samples=0, transition_switches=1, transition_ns=900)

    assert exclusive(with_rows(moving)).outcome is Outcome.PASSED


def test_a_cpu_that_changed_hands() -> None:
    """Time before the change is legal; time that was judged outside after it is not; undatable time is undecided."""
    grown = Transition(
        claim="db", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("3"), cpus_after=cpus("2-3")
    )
    shrunk = Transition(
        claim="web", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("0-2"), cpus_after=cpus("0-1")
    )
    changes = (grown, shrunk)
    late = use("web", 2, out_of_set_switches=1, out_of_set_ns=50)

    assert exclusive(with_rows(use("web", 2), transitions=changes)).outcome is Outcome.PASSED
    assert exclusive(with_rows(late, transitions=changes)).outcome is Outcome.FAILED
    unpinned = claim_web(cpus=None)
    assert exclusive(with_rows(use("web", 2), transitions=changes), claim_db(), unpinned).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(("policy", "outcome"), [("k8s", "passed"), ("strict-isolation", "undecided")])
def test_a_pause_sandbox_on_a_cpu_that_changed_hands_is_noise_at_any_time(policy: str, outcome: str) -> None:
    """Only where it would be a violation does it matter when it ran."""
    made = Transition(
        claim="db", what="claim-added", start_at_ns=1, end_at_ns=2, cpus_before=None, cpus_after=cpus("2-3")
    )
    pause = claim_web(name="pause", pod="z", kind=SubjectKind.SANDBOX, cpus=None)
    found = with_rows(use("pause", 2, switches=2, run_ns=3_000, samples=0), transitions=(made,))

    assert exclusive(found, claim_db(), pause, policy=ExclusivePolicy(policy)).outcome.value == outcome


def test_an_exclusive_container_made_while_we_watched() -> None:
    """What the shared pool did on the CPU before the exclusive container was made is legal; later time is not."""
    made = Transition(claim="db", what="claim-added", start_at_ns=1, end_at_ns=2, cpus_after=cpus("2-3"))
    shrunk = Transition(
        claim="web", what="mask-change", start_at_ns=0, end_at_ns=1, cpus_before=cpus("0-3"), cpus_after=cpus("0-1")
    )
    late = use("web", 2, out_of_set_switches=1, out_of_set_ns=50)

    assert exclusive(with_rows(use("web", 2), transitions=(made, shrunk))).outcome is Outcome.PASSED
    assert exclusive(with_rows(late, transitions=(made, shrunk))).outcome is Outcome.FAILED


def test_an_exclusive_container_that_ended_while_we_watched() -> None:
    """Once it is gone its CPUs are others': their time cannot be told from earlier time, intruders can."""
    ended = Transition(claim="db", what="claim-removed", start_at_ns=10, end_at_ns=12, cpus_before=cpus("2-3"))
    heir = Claim(name="heir", pod="heir", cgroup="/kubepods/heir/c", cpus=cpus("2-3"), isolation=Isolation.CONTAINER)
    later = with_rows(use("heir", 2), transitions=(ended,))
    assert exclusive(later, claim_db(), heir).outcome is Outcome.UNDECIDED
    for first_at_ns, outcome in ((9, Outcome.FAILED), (10, Outcome.PASSED)):
        guest = intruder(OwnerClass.FOREIGN_POD, first_at_ns=first_at_ns)
        assert exclusive(evidence(intruders=(guest,), transitions=(ended,))).outcome is outcome


def test_a_row_of_an_unknown_claim_is_undecided() -> None:
    """Time of a claim that is not among the claims cannot be attributed."""
    assert exclusive(with_rows(use("ghost", 2))).outcome is Outcome.UNDECIDED


def test_no_switches_judged_is_undecided() -> None:
    """An empty ledger is no evidence."""
    assert exclusive(evidence(cpu_use=(), coverage=coverage(switches_judged=0))).outcome is Outcome.UNDECIDED


def test_without_a_pods_root_it_says_what_it_cannot_see() -> None:
    """Without a pods root foreign pods cannot be told from system tasks; the reason says so."""
    assert "no pods root" in exclusive(evidence(), pods_root=None).reason


@pytest.mark.parametrize(
    "pods", ["/kubepods/podevil/x", "/kubepods.slice/kubepods-podevil.slice/x", "/kubelet/kubepods/x"]
)
def test_a_pod_is_no_system_task_where_the_place_of_pods_is_not_given(pods: str) -> None:
    """A kubelet's cgroups have names of their own: a task there without a claim has an owner that is not known."""
    found = evidence(intruders=(intruder(OwnerClass.SYSTEM, cgroup=pods),))
    on_reserved = clean(intruders=(intruder(OwnerClass.SYSTEM, cpu=0, cgroup=pods),))
    for verdict in (exclusive(found, pods_root=None), reserved(on_reserved, pods_root=None)):
        assert verdict.outcome is Outcome.UNDECIDED
        assert verdict.reason.endswith("is not known (no pods root given: a task without a claim may be a pod's)")
    daemon = evidence(intruders=(intruder(OwnerClass.SYSTEM, cgroup="/system.slice/sshd.service"),))
    assert exclusive(daemon, pods_root=None).outcome is Outcome.PASSED
    # Where it was said, the ledger itself knows whose they are.
    assert exclusive(found, pods_root="/other").outcome is Outcome.PASSED


def reserved(found: Evidence, **changes: Any) -> Verdict:
    values: dict[str, Any] = {"reserved_cpus": cpus("0"), "strict_reservation": True, **changes}
    return reserved_cpus.RULE(claim_set(claim_db(), claim_web(cpus=cpus("1")), **values), found)[0]


def clean(*rows: CpuUse, **changes: Any) -> Evidence:
    return evidence(cpu_use=(use("db", 2), use("web", 1), *rows), **changes)


def test_reserved_cpus_are_skipped_unless_strict() -> None:
    """Without strict reservation there is nothing to judge, and the reason says why; with it CPUs must be known."""
    assert "not strict" in reserved(clean(), strict_reservation=False).reason
    assert reserved(clean(), reserved_cpus=cpus("")).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (None, "passed"),
        (use("web", 0, switches=1, run_ns=1, samples=0), "failed"),
        (use("db", 0, switches=1, run_ns=1, samples=0, out_of_set_switches=1), "failed"),
        (use("web", 0, switches=1, run_ns=9, samples=0, transition_switches=1, transition_ns=9), "passed"),
    ],
)
def test_workloads_on_reserved_cpus(row: CpuUse | None, outcome: str) -> None:
    """The negative control: one interval of a workload on a reserved CPU fails; a transition does not."""
    assert reserved(clean(*([row] if row else []))).outcome.value == outcome


@pytest.mark.parametrize(
    ("owner", "outcome"),
    [
        (OwnerClass.FOREIGN_POD, "failed"),
        (OwnerClass.SYSTEM, "passed"),
        (OwnerClass.KTHREAD, "passed"),
        (OwnerClass.TOOLKIT, "passed"),
        (OwnerClass.UNKNOWN, "undecided"),
    ],
)
def test_strangers_on_reserved_cpus(owner: OwnerClass, outcome: str) -> None:
    """The system belongs on reserved CPUs; a pod without a claim does not."""
    assert reserved(clean(intruders=(intruder(owner, cpu=0),))).outcome.value == outcome


def test_claimed_intruders_are_resolved_by_cgroup() -> None:
    """An intruder that the probe found in a claim's cgroup is judged as that claim's task."""
    row = intruder(OwnerClass.CLAIM, cpu=0, cgroup="/kubepods/podb/web/child")

    assert reserved(clean(intruders=(row,))).outcome is Outcome.FAILED
