"""Failures of the field, made for real without a kubelet: each is reported by the rule that FAILURES.md names.

A case says what the cgroups were given and what was promised; the sandbox is real, the observation is real.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.apply_support import traces
from tests.integration.load_cases import CASES, ESCAPE, ONLINE, OWN, PULSE, REST, SPIN, One
from toolkit.apply.sandbox import sandbox
from toolkit.errors import ApplyError
from toolkit.faults.pile_up import narrow
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.session import watched
from toolkit.session.engine.window import Window
from validators.registry import judge

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.cpu_count() == 1, reason="an exclusive CPU and a shared one are needed"),
]


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
