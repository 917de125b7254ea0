"""Failures of the field, made for real without a kubelet: each is reported by the rule that FAILURES.md names.

A case says what the cgroups were given and what was promised; the sandbox is real, the observation is real.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.apply_support import traces
from toolkit.apply.sandbox import sandbox
from toolkit.errors import ApplyError
from toolkit.faults.pile_up import narrow
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet, ExclusivePolicy, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.engine import watched
from toolkit.session.observe import Window
from toolkit.session.prepared import Prepared
from validators.registry import judge

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.cpu_count() == 1, reason="an exclusive CPU and a shared one are needed"),
]

ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
OWN = CpuSet.of([max(ONLINE)])
REST = ONLINE - OWN
SPIN, PULSE, ESCAPE, EXEC = (
    WorkloadKind.SPIN,
    WorkloadKind.PULSE,
    WorkloadKind.AFFINITY_ESCAPER,
    WorkloadKind.EXEC_STORM,
)


@dataclass(frozen=True)
class One:
    """A container: what it was given, what it was promised."""

    given: CpuSet
    promised: CpuSet | None
    isolation: Isolation = Isolation.HOST
    loads: tuple[WorkloadKind, ...] = (SPIN, ESCAPE)
    kind: SubjectKind = SubjectKind.CONTAINER
    pod: str = ""
    limits: dict[str, int] = field(default_factory=dict)
    promises: dict[str, int] = field(default_factory=dict)


def run(
    name: str, node: dict[str, object], containers: dict[str, One], kept: Prepared, seconds: float = 1.0
) -> tuple[dict[tuple[str, str], Verdict], Evidence]:
    """Make the containers, watch them, judge what was promised."""
    wanted = tuple(
        ContainerRequest(
            claim=claim,
            cgroup=CgroupRequest(path=f"pod/{claim}", cpus=one.given, **one.limits),  # type: ignore[arg-type]
            workloads=tuple(Workload(kind=kind) for kind in one.loads),
        )
        for claim, one in containers.items()
    )
    request = SandboxRequest(parents=(CgroupRequest(path="pod", quota_us=NO_QUOTA),), containers=wanted)
    with sandbox(request, run_id=name) as live:
        places = {one.claim: one.cgroup for one in live.value.containers}
        claims = ClaimSet(
            claims=tuple(
                Claim(
                    name=claim,
                    pod=one.pod or claim,
                    cgroup=places[claim],
                    cpus=one.promised,
                    isolation=one.isolation,
                    kind=one.kind,
                    **one.promises,  # type: ignore[arg-type]
                )
                for claim, one in containers.items()
            ),
            pods_root=live.value.root,
            **node,  # type: ignore[arg-type]
        )
        window = Window(run_id=name, duration_s=seconds, prepared=kept)
        evidence = watched(claims, window, Path(name)).evidence
    assert traces(name) == []
    return {(verdict.rule, verdict.subject): verdict for verdict in judge(claims, evidence)}, evidence


DB = One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=(PULSE,))
CASES: dict[str, tuple[dict[str, object], dict[str, One], tuple[tuple[str, str], ...]]] = {
    # F1: it starts with the pod's wider set, and the reconciler believes it done.
    "starts-with-another-set": (
        {},
        {"db": One(given=ONLINE, promised=OWN, isolation=Isolation.CONTAINER)},
        (("applied", "db"), ("cpuset-containment", "db"), ("affinity-mask", "db")),
    ),
    # F4: the claim says one CPU, the cgroup is still the shared pool.
    "claimed-cpus-not-applied": (
        {},
        {"db": One(given=REST, promised=OWN, isolation=Isolation.CONTAINER)},
        (("applied", "db"), ("cpuset-containment", "db")),
    ),
    # F5, F7, F8: the pool was not shrunk when CPUs became exclusive.
    "pool-not-shrunk": (
        {},
        {"db": DB, "web": One(given=ONLINE, promised=REST)},
        (("applied", "web"), ("cpuset-containment", "web"), ("exclusive-cpus", "db")),
    ),
    # F5: the pool was not grown again. F11: a set that lost CPUs on its way.
    "pool-not-grown": ({}, {"web": One(given=REST, promised=ONLINE)}, (("applied", "web"),)),
    # F10: an update that had no effect on the quota.
    "quota-update-without-effect": (
        {},
        {"web": One(given=REST, promised=REST, limits={"quota_us": 80_000}, promises={"quota_us": 40_000})},
        (("applied", "web"),),
    ),
    # F31: a container that was restarted has lost its exclusive CPUs to the pool.
    "exclusive-set-moved": (
        {},
        {"db": One(given=REST, promised=OWN, isolation=Isolation.CONTAINER, loads=(EXEC,))},
        (("applied", "db"), ("cpuset-containment", "db")),
    ),
    # F42, F43: an app container and another pod's container own one CPU.
    "two-owners": (
        {},
        {"db": DB, "smf": One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=(SPIN,))},
        (("exclusive-cpus", "db"), ("exclusive-cpus", "smf")),
    ),
    # F43: a sidecar of the pool runs on the CPU of its own pod's app container.
    "sidecar-shares-the-apps-cpu": (
        {},
        {
            "app": One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=(PULSE,), pod="p"),
            "sidecar": One(given=ONLINE, promised=REST, pod="p"),
        },
        (("exclusive-cpus", "app"), ("cpuset-containment", "sidecar")),
    ),
    # F44: a program that is executed again and again in a container whose set is too wide.
    "exec-lands-on-a-foreign-cpu": (
        {},
        {"db": DB, "shell": One(given=ONLINE, promised=REST, loads=(EXEC, EXEC))},
        (("cpuset-containment", "shell"), ("exclusive-cpus", "db")),
    ),
    # F45: an ephemeral container may use the pool, not exclusive CPUs.
    "ephemeral-on-exclusive": (
        {},
        {"db": DB, "debug": One(given=ONLINE, promised=REST, kind=SubjectKind.EPHEMERAL)},
        (("exclusive-cpus", "db"),),
    ),
    # F47: a pause container that may run anywhere is a fault where nothing but the owner may run.
    "pause-anywhere": (
        {"policy": ExclusivePolicy.STRICT_ISOLATION},
        {"db": DB, "pause": One(given=ONLINE, promised=None, kind=SubjectKind.SANDBOX)},
        (("exclusive-cpus", "db"),),
    ),
    # F48: so is a runtime's helper.
    "conmon-anywhere": (
        {"policy": ExclusivePolicy.STRICT_ISOLATION},
        {"db": DB, "conmon": One(given=ONLINE, promised=None, kind=SubjectKind.HELPER)},
        (("exclusive-cpus", "db"),),
    ),
    # F51: a shared container on reserved CPUs, under strict reservation.
    "shared-on-reserved": (
        {"reserved_cpus": REST, "strict_reservation": True},
        {"web": One(given=REST, promised=REST)},
        (("reserved-cpus", "node"),),
    ),
    # F57, F62: no quota was turned into 1 %.
    "no-quota-became-one-percent": (
        {},
        {
            "db": One(
                given=OWN,
                promised=OWN,
                isolation=Isolation.CONTAINER,
                loads=(SPIN,),
                limits={"quota_us": 1000},
                promises={"quota_us": NO_QUOTA},
            )
        },
        (("applied", "db"), ("quota-free", "db")),
    ),
    # F60: the period became 10 ms, the quota stayed that of 100 ms.
    "quota-not-rescaled": (
        {},
        {
            "web": One(
                given=REST,
                promised=REST,
                loads=(SPIN,),
                limits={"quota_us": 50_000, "period_us": 10_000},
                promises={"quota_us": 5_000, "period_us": 10_000},
            )
        },
        (("applied", "web"),),
    ),
    # F58: throttled at less than what was promised.
    "throttled-below-its-quota": (
        {},
        {
            "web": One(
                given=REST, promised=REST, loads=(SPIN,), limits={"quota_us": 20_000}, promises={"quota_us": 50_000}
            )
        },
        (("quota-throttling", "web"), ("applied", "web")),
    ),
    # F61: more than systemd's rounding to 1 % of a CPU; and just so much where systemd wrote nothing.
    "quota-rounded-too-far": (
        {},
        {
            name: One(
                given=REST, promised=REST, loads=(SPIN,), limits={"quota_us": found}, promises={"quota_us": 1_100}
            )
            for name, found in (("web", 3_000), ("job", 2_000))
        },
        (("applied", "web"), ("applied", "job")),
    ),
    # F63, F64: shares that were converted there and back.
    "shares-lost-in-conversion": (
        {},
        {"web": One(given=REST, promised=REST, loads=(PULSE,), limits={"shares": 998}, promises={"shares": 512})},
        (("applied", "web"),),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_failure_of_the_field_is_reported(case: str, kept: Prepared) -> None:
    """Each rule that the case names says failed about the subject that the case names."""
    node, containers, expected = CASES[case]
    # A control file is wrong from the first moment; for what tasks do the window must have seen them do it.
    seconds = 0.1 if {rule for rule, _ in expected} == {"applied"} else 0.5
    verdicts, _ = run(f"field-{case}", node, containers, kept, seconds)

    for key in expected:
        assert verdicts[key].outcome is Outcome.FAILED, (key, verdicts[key].outcome.value, verdicts[key].reason)


def test_escapes_are_clipped_and_system_tasks_are_noise(kept: Prepared) -> None:
    """F46, F50: asking for every CPU changes nothing; pause containers and system tasks are measured, not failed."""
    loads = (ESCAPE, SPIN)
    db = One(given=OWN, promised=OWN, isolation=Isolation.CONTAINER, loads=loads)
    pause = One(given=ONLINE, promised=None, kind=SubjectKind.SANDBOX, loads=(PULSE,))
    verdicts, _ = run("field-clean", {}, {"db": db, "pause": pause}, kept)

    assert [key for key, verdict in verdicts.items() if verdict.outcome is Outcome.FAILED] == []
    assert "sandbox_ns" in verdicts["exclusive-cpus", "db"].measures
    assert verdicts["affinity-mask", "db"].measures["wide_threads_count"] == 0


@pytest.mark.parametrize("fault", ["pile-up", "runtimes-own-affinity"])
def test_threads_narrower_than_a_right_set_are_seen(fault: str, kept: Prepared) -> None:
    """F36, F49: the set is right, yet all threads keep to part of it: no promise is broken, and the measures tell.

    F36 (no balancing on isolated CPUs) has this effect; F49 (threads inherit the runtime's CPUAffinity) is this.
    """
    part = CpuSet.of([ONLINE.first()]) if fault == "pile-up" else REST
    request = SandboxRequest(
        containers=(
            ContainerRequest(
                claim="web",
                cgroup=CgroupRequest(path="web", cpus=ONLINE),
                workloads=(Workload(kind=SPIN, threads=2),),
            ),
        )
    )
    with sandbox(request, run_id=f"field-{fault}") as live:
        place = live.value.containers[0].cgroup
        narrow(live.hierarchy, place, part)
        claims = ClaimSet(claims=(Claim(name="web", cgroup=place, cpus=ONLINE),))
        window = Window(run_id=f"field-{fault}", duration_s=1.0, prepared=kept)
        evidence = watched(claims, window, Path("field")).evidence
        verdicts = {verdict.rule: verdict for verdict in judge(claims, evidence)}

    where, masks = verdicts["cpuset-containment"], verdicts["affinity-mask"]
    assert verdicts["applied"].outcome is Outcome.PASSED
    assert Outcome.FAILED not in (where.outcome, masks.outcome)
    assert where.measures["used_cpus"] == str(CpuSet.of([part.first()]))
    assert where.measures["busiest_cpu_ratio"] == 1.0
    assert int(masks.measures["narrowed_threads_count"]) >= 2
    assert masks.measures["wide_threads_count"] == 0


def test_an_update_that_the_kernel_refuses_is_told() -> None:
    """F18, F19: a CPU that is not there, or an empty set, ends in one line and leaves nothing."""
    missing = CpuSet.of([max(ONLINE) + 1])
    request = SandboxRequest(containers=(ContainerRequest(claim="db", cgroup=CgroupRequest(path="db", cpus=missing)),))
    with pytest.raises(ApplyError, match="not online"), sandbox(request, run_id="field-enospc"):
        pytest.fail("made")
    assert traces("field-enospc") == []
