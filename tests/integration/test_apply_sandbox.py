"""Sandboxes of plain processes on the real kernel: what was asked for is there, and afterwards nothing is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.apply_support import LOADS, container, masks, online, processes, request, traces, wait_until
from toolkit.apply import runs
from toolkit.apply.sandbox import sandbox
from toolkit.errors import ApplyError, InputError
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind

pytestmark = [pytest.mark.integration, pytest.mark.beside]
LAST = CpuSet.of([max(online())])


def test_limits_stand_and_nothing_is_left() -> None:
    """Every limit of the request is what the kernel reads back, tasks are in all hierarchies, and all goes again."""
    wanted = container(
        "db", WorkloadKind.QUIET, cpus=LAST, mems=CpuSet.of([0]), quota_us=50_000, burst_us=10_000, shares=512
    )
    with sandbox(request(wanted), run_id="t-limits") as live:
        (one,) = live.value.containers
        assert one.cgroup == "/pinproof-t-limits/pod/db"
        files = cgroupfs.read_files(live.hierarchy, one.cgroup, 0)
        assert (files.cpus, files.cpus_effective, files.mems) == (LAST, LAST, CpuSet.of([0]))
        assert (files.quota_us, files.period_us, files.burst_us) == (50_000, 100_000, 10_000)
        assert (files.shares or 512) == 512
        assert cgroupfs.pids(live.hierarchy, one.cgroup) == one.pids
        groups = [line.split(":", 2)[1:] for line in Path(f"/proc/{one.pids[0]}/cgroup").read_text().splitlines()]
        joined = {name for name, path in groups if path == one.cgroup}
        assert joined >= ({""} if live.hierarchy.is_v2("cpu") else {"", "cpu", "cpuset", "cpuacct"})
        assert masks(one.pids) == {LAST}
        parent = cgroupfs.read_files(live.hierarchy, "/pinproof-t-limits/pod", 0)
        assert parent.quota_us == -1
    assert traces("t-limits") == []


@pytest.mark.parametrize("kind", LOADS)
def test_every_workload_runs_inside_and_dies(kind: WorkloadKind) -> None:
    """Each kind starts, no thread of it may run outside its CPU, and none survives."""
    run_id = f"t-{kind}"
    wanted = request(container("c", kind, threads=2, cpus=LAST))
    with sandbox(wanted, run_id=run_id) as live:
        (one,) = live.value.containers
        assert one.pids[0] in cgroupfs.pids(live.hierarchy, one.cgroup)
        for _ in range(20):
            assert masks(cgroupfs.pids(live.hierarchy, one.cgroup)) <= {LAST}
        busy = kind is not WorkloadKind.QUIET
        usage = cgroupfs.read_cpu_stat(live.hierarchy, one.cgroup).usage_ns or 0

        def works() -> bool:
            return (cgroupfs.read_cpu_stat(live.hierarchy, one.cgroup).usage_ns or 0) > usage + 5_000_000

        assert not busy or wait_until(works)
    assert wait_until(lambda: traces(run_id) == [])


def test_spin_is_user_mode_and_parallel() -> None:
    """Two spinning tasks are two processes on the CPU, and nearly all of their time is user mode."""
    with sandbox(request(container("c", WorkloadKind.SPIN, threads=2)), run_id="t-user") as live:
        (one,) = live.value.containers
        pids = [pid for pid in cgroupfs.pids(live.hierarchy, one.cgroup) if pid != one.pids[0]]
        assert len(pids) == 2

        def ticks(pid: int) -> tuple[int, int]:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]), int(fields[12])

        # What it took to start (fork, exec) is not the load: only what comes after counts.
        base = {pid: ticks(pid) for pid in pids}

        def more(pid: int) -> tuple[int, int]:
            user, system = ticks(pid)
            return user - base[pid][0], system - base[pid][1]

        assert wait_until(lambda: all(more(pid)[0] >= 50 for pid in pids), 60)
        assert all(user >= 10 * system for user, system in map(more, pids)), {pid: more(pid) for pid in pids}


def test_new_cpus_hold_for_every_task_when_the_call_returns() -> None:
    """Shrink, move, grow: when set_cpus returns, no thread has a mask outside the new set (K12)."""
    if len(online()) < 2:
        pytest.skip("needs 2 CPUs")
    first, last = CpuSet.of([min(online())]), LAST
    loads = (WorkloadKind.SPIN, WorkloadKind.THREAD_STORM, WorkloadKind.AFFINITY_ESCAPER)
    with sandbox(request(container("c", *loads, threads=2)), run_id="t-move") as live:
        (one,) = live.value.containers
        for cpus in (first, last, first | last, first) * 5:
            change = live.set_cpus("c", cpus)
            assert change.began_ns <= change.ended_ns
            assert all(mask <= cpus for mask in masks(cgroupfs.pids(live.hierarchy, one.cgroup)))
    assert traces("t-move") == []


def test_bandwidth_in_any_order() -> None:
    """Quota and period change together in any direction, burst goes up and down, without a refusal in between."""
    with sandbox(request(container("c", quota_us=50_000)), run_id="t-bw") as live:
        (one,) = live.value.containers
        steps = [(100_000, 200_000, 0), (5_000, 10_000, 5_000), (20_000, 1_000_000, 20_000), (-1, 100_000, None)]
        for quota_us, period_us, burst_us in [*steps, (1_000, 100_000, 0), *reversed(steps)]:
            live.set_bandwidth("c", quota_us, period_us, burst_us)
            files = cgroupfs.read_files(live.hierarchy, one.cgroup, 0)
            assert (files.quota_us, files.period_us, files.burst_us or 0) == (quota_us, period_us, burst_us or 0)


def test_stop_restart_spawn_create_remove() -> None:
    """Containers come and go in a sandbox that stands; a stopped one keeps its cgroup and its limits."""
    with sandbox(request(container("a", cpus=LAST)), run_id="t-churn", start=False) as live:
        assert live.value.containers[0].pids == ()
        live.start("a")
        (first,) = live.value.containers[0].pids
        identity = cgroupfs.cgroup_id(live.hierarchy, "/pinproof-t-churn/pod/a")
        live.stop("a")
        assert processes("t-churn") == []
        live.restart("a")
        assert live.value.containers[0].pids != (first,)
        assert cgroupfs.cgroup_id(live.hierarchy, "/pinproof-t-churn/pod/a") == identity
        pid = live.spawn("a", Workload(kind=WorkloadKind.SPIN))
        assert pid in live.value.containers[0].pids
        live.create(container("b", WorkloadKind.FORK_STORM, cpus=LAST))
        live.remove("b")
        assert [one.claim for one in live.value.containers] == ["a"]
        assert not cgroupfs.exists(live.hierarchy, "/pinproof-t-churn/pod/b")
    assert traces("t-churn") == []


@pytest.mark.parametrize("end", ["normally", "by an error", "by SIGTERM"])
def test_a_fork_storm_is_torn_down(end: str) -> None:
    """However the sandbox ends, a storm of forks does not outrun the clean-up."""
    if end == "by SIGTERM":
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with sandbox(request(container("c", WorkloadKind.FORK_STORM, threads=4)), run_id="t-storm"):
                    os.kill(os.getpid(), signal.SIGTERM)
                    code = 2
            except SystemExit as leaving:
                code = int(str(leaving.code))
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGTERM
    else:
        try:
            with sandbox(request(container("c", WorkloadKind.FORK_STORM, threads=4)), run_id="t-storm") as live:
                assert wait_until(lambda: len(cgroupfs.pids(live.hierarchy, "/pinproof-t-storm/pod/c")) > 5)
                if end == "by an error":
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    assert wait_until(lambda: traces("t-storm") == [])


def test_a_wrong_quota_is_one_line_and_leaves_nothing() -> None:
    """The kernel refuses a quota below 1 ms: the error says what and why on one line, and all is undone."""
    with (
        pytest.raises(ApplyError, match=r"refused '500.*1000 us") as caught,
        sandbox(request(container("c", quota_us=500)), run_id="t-quota"),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert traces("t-quota") == []


def test_a_cpu_that_is_not_there_is_refused() -> None:
    """CPUs that are not online are named."""
    with (
        pytest.raises(ApplyError, match="4000 are not online"),
        sandbox(request(container("c", cpus=CpuSet.of([4000]))), run_id="t-cpu"),
    ):
        pass
    assert traces("t-cpu") == []


def test_a_workload_that_dies_at_once_is_told_with_its_last_words() -> None:
    """The error of a load that cannot run is the load's own, and nothing is left."""
    greedy = ContainerRequest(
        claim="c",
        cgroup=CgroupRequest(path="c"),
        workloads=(Workload(kind=WorkloadKind.MEMORY, memory_bytes=1 << 62),),
    )
    with (
        pytest.raises(ApplyError, match=r"claim c, workload memory: .*died at once.*vm-bytes") as caught,
        sandbox(SandboxRequest(containers=(greedy,)), run_id="t-dies"),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert traces("t-dies") == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (SandboxRequest(containers=(container("a"),)), "no parent"),
        (request(container("a"), container("a")), "exists already"),
        (SandboxRequest(parents=(CgroupRequest(path="../up"),)), "path below"),
    ],
)
def test_requests_that_contradict_themselves(wrong: SandboxRequest, message: str) -> None:
    """Missing parents, doubles and paths that lead outside are refused, and nothing is left."""
    with pytest.raises(InputError, match=message), sandbox(wrong, run_id="t-wrong"):
        pass
    assert traces("t-wrong") == []


def test_two_runs_do_not_touch_each_other() -> None:
    """A run that lives survives the clean-up and the end of another; its name cannot be taken."""
    with sandbox(request(container("a")), run_id="t-one") as live:
        with sandbox(request(container("a")), run_id="t-two"):
            assert "t-one" in runs.cleanup().alive
        with pytest.raises(InputError, match="t-one"), sandbox(request(), run_id="t-one"):
            pass
        assert cgroupfs.pids(live.hierarchy, "/pinproof-t-one/pod/a") == live.value.containers[0].pids
    assert traces("t-one") == traces("t-two") == []


def test_cgroups_that_no_journal_names_are_not_taken_over() -> None:
    """A cgroup with the sandbox's name that another program made is refused, and still there afterwards."""
    hierarchy = cgroupfs.detect()
    theirs = hierarchy.controller_dir("cpu") / "pinproof-t-theirs"
    theirs.mkdir()
    try:
        with pytest.raises(InputError, match="exists already"), sandbox(request(), run_id="t-theirs"):
            pass
        runs.cleanup()
        assert theirs.is_dir()
    finally:
        theirs.rmdir()
