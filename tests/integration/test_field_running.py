"""Failures of the field that happen to containers that run: others write their CPUs, a FIFO thread is in the way."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.probe_lab import accepted, controls_worked, wait_for
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.model.claims import Claim, ClaimSet, ExclusivePolicy, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.verdict import Outcome
from toolkit.session.engine import observe
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.session import watched
from toolkit.session.engine.window import Window
from validators.registry import judge

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.cpu_count() == 1, reason="an exclusive CPU and a shared one are needed"),
]

ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
OWN = CpuSet.of([max(ONLINE)])
REST = ONLINE - OWN
SPIN, PULSE = WorkloadKind.SPIN, WorkloadKind.PULSE


@pytest.mark.beside
def test_exclusive_cpus_that_move_while_the_container_lives(kept: Prepared) -> None:
    """F16: a restarted kubelet writes other CPUs for a container that runs on. What was promised before still counts:
    the file, the masks and the switches differ from it, and the switches do from then on only.
    """
    request = SandboxRequest(
        containers=(
            ContainerRequest(
                claim="db", cgroup=CgroupRequest(path="db", cpus=OWN), workloads=(Workload(kind=SPIN, threads=1),)
            ),
        )
    )
    with sandbox(request, run_id="field-restarted") as live:
        (container,) = live.value.containers
        pids = container.pids
        claims = ClaimSet(claims=(Claim(name="db", cgroup=container.cgroup, cpus=OWN, isolation=Isolation.CONTAINER),))
        window = Window(run_id="field-restarted", duration_s=None, prepared=kept)
        with observe.observation(claims, window) as opened:
            wait_for(lambda: _ran_ns(opened.snapshot(), OWN) > 50_000_000, "it runs on its own CPUs")
            wait_for(lambda: _masks(opened.snapshot()) == {OWN}, "a scan of its masks")
            before = opened.snapshot()
            live.set_cpus("db", REST)
            wait_for(lambda: _ran_ns(opened.snapshot(), REST) > 50_000_000, "it runs on others")
            wait_for(lambda: _masks(opened.snapshot()) >= {REST}, "a scan of its masks")
            evidence = opened.close().evidence
        assert live.value.containers[0].pids == pids
    assert _ran_ns(before, REST) == 0
    verdicts = {verdict.rule: verdict for verdict in judge(claims, evidence) if verdict.subject == "db"}

    for rule in ("applied", "cpuset-containment", "affinity-mask"):
        assert verdicts[rule].outcome is Outcome.FAILED, (rule, verdicts[rule].reason)


def _masks(evidence: Evidence) -> set[CpuSet]:
    return {row.cpus_allowed for row in evidence.thread_masks}


def _ran_ns(evidence: Evidence, cpus: CpuSet) -> int:
    return sum(row.run_ns for row in evidence.cpu_use if row.cpu in cpus)


def test_a_program_that_lands_behind_a_realtime_thread(kept: Prepared) -> None:
    """F44: a task begins on a CPU that a FIFO thread owns, and hangs there. Its mask tells at once; the time that it
    waited is measured; what it ran where the owner paused is outside of its set.
    """
    spin = Workload(kind=SPIN, threads=1)
    request = SandboxRequest(
        parents=(CgroupRequest(path="pod"),),
        containers=(
            ContainerRequest(claim="db", cgroup=CgroupRequest(path="pod/db", cpus=OWN), workloads=(spin,)),
            ContainerRequest(
                claim="shell", cgroup=CgroupRequest(path="pod/shell", cpus=ONLINE), workloads=(Workload(kind=PULSE),)
            ),
        ),
    )
    with sandbox(request, run_id="field-hangs") as live:
        places = {one.claim: one.cgroup for one in live.value.containers}
        allow_realtime(live.hierarchy, places["db"])
        for pid in cgroupfs.pids(live.hierarchy, places["db"]):
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
        for pid in cgroupfs.pids(live.hierarchy, places["shell"]):
            os.sched_setaffinity(pid, OWN)
        claims = ClaimSet(
            claims=(
                Claim(name="db", pod="db", cgroup=places["db"], cpus=OWN, isolation=Isolation.CONTAINER),
                Claim(name="shell", pod="shell", cgroup=places["shell"], cpus=REST),
            )
        )
        window = Window(run_id="field-hangs", duration_s=3.0, prepared=kept)
        evidence = watched(claims, window, Path("field-hangs")).evidence
    verdicts = {(verdict.rule, verdict.subject): verdict for verdict in judge(claims, evidence)}

    for key in (("affinity-mask", "shell"), ("cpuset-containment", "shell"), ("exclusive-cpus", "db")):
        assert verdicts[key].outcome is Outcome.FAILED, (key, verdicts[key].reason)
    waited, ran = evidence.run_delay_ns["shell"], _ran_ns(evidence, ONLINE) - _ran_db(evidence)
    assert waited > 10 * ran
    assert waited > 1_000_000_000


def _ran_db(evidence: Evidence) -> int:
    return sum(row.run_ns for row in evidence.cpu_use if row.claim == "db")


def allow_realtime(hierarchy: Hierarchy, cgroup: str) -> None:
    """Give a cgroup of our own, and those above it, a share of real-time (v1 with CONFIG_RT_GROUP_SCHED)."""
    place = Path()
    for part in cgroup.strip("/").split("/"):
        place /= part
        control = hierarchy.controller_dir("cpu") / place / "cpu.rt_runtime_us"
        if control.exists():
            # What a removed cgroup had is free again only when the kernel has buried it.
            wait_for(lambda control=control: accepted(control, "800000"), "a share of real-time")


def test_an_update_that_blocks_for_long(kept: Prepared) -> None:
    """F9: the runtime has been asked for another set and does not answer; the limit is over by then."""
    request = SandboxRequest(
        containers=(
            ContainerRequest(
                claim="web", cgroup=CgroupRequest(path="web", cpus=OWN), workloads=(Workload(kind=SPIN, threads=1),)
            ),
        )
    )
    with sandbox(request, run_id="field-blocks") as live:
        (container,) = live.value.containers
        limit_ms = 100.0
        claim = Claim(name="web", cgroup=container.cgroup, cpus=OWN)
        window = Window(run_id="field-blocks", duration_s=None, prepared=kept)
        outcomes = []
        for length_s, cpus in ((0.0, REST), (3 * limit_ms / 1e3, OWN)):
            claims = ClaimSet(claims=(claim,), transition_limit_ms=limit_ms)
            with observe.observation(claims, window) as opened:
                wait_for(lambda: bool(_masks(opened.snapshot())), "a scan of its masks")
                with opened.observer.changing("web", cpus):
                    opened.wait(length_s)
                    live.set_cpus("web", cpus)
                claim = replace(claim, cpus=cpus)
                opened.promise(claim)
                wait_for(lambda: _ran_ns(opened.snapshot(), cpus) > 50_000_000, "it runs there")  # noqa: B023
                evidence = opened.close().evidence
            verdicts = judge(replace(claims, claims=(claim,)), evidence)
            outcomes += [one.outcome for one in verdicts if (one.rule, one.subject) == ("transition-window", "web")]

    assert outcomes[1] is Outcome.FAILED
    assert outcomes[0] is not Outcome.FAILED


def test_unbound_kernel_workers_on_an_exclusive_cpu(kept: Prepared, tmp_path: Path) -> None:
    """F20: work that the kernel does for others (here: writing their pages to the disk) lands on an exclusive CPU.

    Under ``strict-isolation`` that is a failure of its own, without a task of another owner; beside pods it is noise.
    """
    spin = (Workload(kind=SPIN, threads=2),)
    request = SandboxRequest(
        parents=(CgroupRequest(path="pod"),),
        containers=(
            ContainerRequest(
                claim="db", cgroup=CgroupRequest(path="pod/db", cpus=OWN), workloads=(Workload(kind=PULSE),)
            ),
            ContainerRequest(claim="web", cgroup=CgroupRequest(path="pod/web", cpus=REST), workloads=spin),
        ),
    )
    with sandbox(request, run_id="field-workers") as live:
        (place,) = [one.cgroup for one in live.value.containers if one.claim == "db"]
        claims = ClaimSet(
            claims=(Claim(name="db", pod="db", cgroup=place, cpus=OWN, isolation=Isolation.CONTAINER),),
            policy=ExclusivePolicy.STRICT_ISOLATION,
        )
        window = Window(run_id="field-workers", duration_s=None, prepared=kept)
        with observe.observation(claims, window) as opened:
            wait_for(lambda: _written(tmp_path) and bool(_workers(opened.snapshot())), "a kernel worker on it")
            opened.wait(20.0, until=lambda: controls_worked(opened.snapshot()))
            evidence = opened.close().evidence
    workers = _workers(evidence)

    assert {row.owner for row in workers} == {OwnerClass.KTHREAD}
    for policy, intruders, outcome in (
        (ExclusivePolicy.STRICT_ISOLATION, workers, Outcome.FAILED),
        (ExclusivePolicy.STRICT_ISOLATION, (), Outcome.PASSED),
        (ExclusivePolicy.K8S, workers, Outcome.PASSED),
    ):
        seen = replace(evidence, intruders=intruders)
        verdicts = {(one.rule, one.subject): one for one in judge(replace(claims, policy=policy), seen)}
        found = verdicts["exclusive-cpus", "db"]
        # A thread that this kernel does not trace may have come by: nothing but that is a doubt.
        hidden = found.reason.startswith("this kernel hides threads from its tracepoints")
        doubted = outcome is Outcome.PASSED and hidden
        assert found.outcome is (Outcome.UNDECIDED if doubted else outcome), (policy, found.reason)


def _written(folder: Path) -> bool:
    """Give the kernel pages to write. :returns: whether it has."""
    (folder / "dirty").write_bytes(os.urandom(1 << 20))
    os.sync()
    return True


def _workers(evidence: Evidence) -> tuple[Intruder, ...]:
    """Unbound workers that ran on the exclusive CPU ("kworker/u4:1")."""
    return tuple(row for row in evidence.intruders if row.cpu in OWN and row.comm.startswith("kworker/u"))
