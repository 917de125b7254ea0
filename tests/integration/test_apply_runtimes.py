"""Real OCI containers with runc (and crun where the host has cgroup v2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.apply_support import LOADS, container, masks, need_runtime, online, request, traces, wait_until
from toolkit.apply.sandbox import sandbox
from toolkit.errors import ApplyError, HostUnsupportedError
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind

pytestmark = [pytest.mark.integration, pytest.mark.beside]
LAST = CpuSet.of([max(online())])
V2 = cgroupfs.detect().mode is cgroupfs.Mode.V2


@pytest.fixture(params=["runc", "crun"])
def runtime(request: pytest.FixtureRequest) -> str:
    """A runtime that works on this host."""
    need_runtime(request.param)
    return str(request.param)


def test_a_container_is_what_was_asked_for(runtime: str) -> None:
    """Limits read back, own namespaces, a place in the v2 hierarchy also on hybrid hosts, and no trace afterwards."""
    run_id = f"t-{runtime}"
    wanted = container(
        "c", WorkloadKind.QUIET, WorkloadKind.AFFINITY_ESCAPER, cpus=LAST, quota_us=50_000, burst_us=5_000, shares=512
    )
    with sandbox(request(wanted), run_id=run_id, runtime=runtime) as live:
        (one,) = live.value.containers
        files = cgroupfs.read_files(live.hierarchy, one.cgroup, 0)
        assert (files.cpus, files.cpus_effective) == (LAST, LAST)
        assert (files.quota_us, files.period_us, files.burst_us) == (50_000, 100_000, 5_000)
        assert len(one.pids) == 2
        assert set(one.pids) <= set(cgroupfs.pids(live.hierarchy, one.cgroup))
        for pid in one.pids:
            groups = [line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
            assert {path for name, path in groups if name in ("", "cpu", "cpuset", "cpuacct")} == {one.cgroup}
            for kind in ("pid", "mnt", "net", "ipc", "uts", "cgroup"):
                assert Path(f"/proc/{pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
        assert masks(one.pids) <= {LAST}
        mounts = Path(f"/proc/{one.pids[0]}/mountinfo").read_text()
        assert all(",ro" in f",{line.split()[5]}" for line in mounts.splitlines() if line.split()[4] in ("/", "/usr"))
    assert wait_until(lambda: traces(run_id) == [])


@pytest.mark.parametrize("kind", LOADS)
def test_every_workload_runs_in_a_container(runtime: str, kind: WorkloadKind) -> None:
    """Each kind starts inside a container, stays on its CPU, and dies with it."""
    run_id = f"t-{runtime}-{kind}"
    wanted = request(container("c", kind, threads=2, cpus=LAST))
    with sandbox(wanted, run_id=run_id, runtime=runtime) as live:
        (one,) = live.value.containers
        assert masks(cgroupfs.pids(live.hierarchy, one.cgroup)) <= {LAST}
    assert wait_until(lambda: traces(run_id) == [])


def test_update_and_restart(runtime: str) -> None:
    """The runtime's own update moves all tasks; a restart gives a new container with the newest limits."""
    with sandbox(request(container("c", WorkloadKind.SPIN, threads=2)), run_id="t-update", runtime=runtime) as live:
        (one,) = live.value.containers
        for cpus in (LAST, online(), LAST):
            live.set_cpus("c", cpus)
            assert all(mask <= cpus for mask in masks(cgroupfs.pids(live.hierarchy, one.cgroup)))
        live.set_bandwidth("c", 30_000, 50_000)
        live.restart("c")
        (again,) = live.value.containers
        assert again.pids != one.pids
        files = cgroupfs.read_files(live.hierarchy, one.cgroup, 0)
        assert (files.cpus, files.quota_us, files.period_us) == (LAST, 30_000, 50_000)
        assert masks(again.pids) == {LAST}
    assert wait_until(lambda: traces("t-update") == [])


def _cycle(runtime: str, times: int) -> None:
    run_id = f"t-{runtime}-cycle"
    with sandbox(request(), run_id=run_id, runtime=runtime) as live:
        for number in range(times):
            live.create(container(f"c{number}", cpus=LAST, quota_us=50_000))
            assert cgroupfs.pids(live.hierarchy, f"/pinproof-{run_id}/pod/c{number}")
            live.remove(f"c{number}")
            assert not cgroupfs.exists(live.hierarchy, f"/pinproof-{run_id}/pod/c{number}")
    assert wait_until(lambda: traces(run_id) == [])


def test_containers_come_and_go(runtime: str) -> None:
    """Starts and stops in a row, each complete when the call returns."""
    _cycle(runtime, 20)


def test_a_hundred_plain_containers_come_and_go() -> None:
    """The same without a container runtime."""
    _cycle("cgroupfs", 100)


@pytest.mark.slow
def test_a_thousand_containers_come_and_go(runtime: str) -> None:
    """1,000 starts and stops in a row."""
    _cycle(runtime, 1000)


@pytest.mark.slow
def test_a_thousand_plain_containers_come_and_go() -> None:
    """The same without a container runtime."""
    _cycle("cgroupfs", 1000)


def test_a_refusal_of_the_runtime_is_one_line(runtime: str) -> None:
    """A quota that the kernel refuses, and a load that cannot run, are told on one line; nothing is left."""
    with (
        pytest.raises(ApplyError, match=r"1000 us") as caught,
        sandbox(request(container("c", quota_us=500)), run_id="t-refused", runtime=runtime),
    ):
        pass
    assert "\n" not in str(caught.value)
    dying = ContainerRequest(
        claim="c",
        cgroup=CgroupRequest(path="c"),
        workloads=(Workload(kind=WorkloadKind.MEMORY, memory_bytes=1 << 62),),
    )
    with (
        pytest.raises(ApplyError, match=r"vm-bytes") as caught,
        sandbox(SandboxRequest(containers=(dying,)), run_id="t-refused", runtime=runtime),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert wait_until(lambda: traces("t-refused") == [])


@pytest.mark.skipif(V2, reason="this host has cgroup v2: crun works")
def test_crun_says_what_it_needs() -> None:
    """On a hybrid host crun is refused with the reason before anything is made."""
    with (
        pytest.raises(HostUnsupportedError, match="crun needs a cgroup v2 host"),
        sandbox(SandboxRequest(), run_id="t-crun", runtime="crun"),
    ):
        pass
    assert traces("t-crun") == []
