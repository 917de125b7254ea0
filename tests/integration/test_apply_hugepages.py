"""Limits on huge pages in a sandbox: written, judged, broken on purpose, and the controller is put back."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.apply_support import container, masks, need_runtime, pool, request, traces, wait_until
from toolkit.apply import cgroups
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.host.hugetlb import read_hugetlb
from toolkit.model.claims import HugepageLimit
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind

pytestmark = pytest.mark.integration

PAGE = 2 << 20
FIRST = CpuSet.of([CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text()).first()])


def offered() -> bool:
    """Whether the v2 hierarchy of this host has the controller, for pages of 2 MiB."""
    pages = Path("/sys/kernel/mm/hugepages/hugepages-2048kB").is_dir()
    return pages and cgroups.offered(cgroupfs.detect(Path("/")), cgroups.HUGETLB)


@pytest.mark.skipif(not offered(), reason="no hugetlb controller in the v2 hierarchy, or no pages of 2 MiB")
@pytest.mark.parametrize(("asked", "stands"), [(2 * PAGE, 2 * PAGE), (2 * PAGE + 1, 2 * PAGE), (0, 0)])
def test_a_limit_stands_until_it_is_taken_away(asked: int, stands: int) -> None:
    """The kernel keeps whole pages; without the limit it reads as none; afterwards nothing of the run is left."""
    name = f"huge-{os.getpid()}-{asked}"
    limit = HugepageLimit(page_bytes=PAGE, limit_bytes=asked)
    request = SandboxRequest(
        parents=(CgroupRequest(path="pod"),),
        containers=(
            ContainerRequest(claim="db", cgroup=CgroupRequest(path="pod/db", cpus=FIRST, hugepages=(limit,))),
            ContainerRequest(claim="web", cgroup=CgroupRequest(path="pod/web", cpus=FIRST)),
        ),
    )
    with sandbox(request, run_id=name) as live:
        places = {one.claim: one.cgroup for one in live.value.containers}

        def limit_of(claim: str) -> int | None:
            return read_hugetlb(live.hierarchy, claim, places[claim], PAGE).limit_bytes

        assert (limit_of("db"), limit_of("web")) == (stands, cgroupfs.NO_LIMIT)
        cgroups.set_hugepages(live.hierarchy, places["db"], PAGE, cgroupfs.NO_LIMIT)
        assert limit_of("db") == cgroupfs.NO_LIMIT
    assert traces(name) == []


@pytest.mark.skipif(not offered(), reason="no hugetlb controller in the v2 hierarchy, or no pages of 2 MiB")
@pytest.mark.parametrize("page", [2 << 20, 1 << 30])
def test_a_load_has_all_the_huge_pages_that_it_asks_for(page: int) -> None:
    """They are touched when the load says that it is ready: the controller counts them, and they are given back."""
    name = f"huge-load-{os.getpid()}-{page}"
    load = Workload(kind=WorkloadKind.HUGE_PAGES, page_bytes=page, memory_bytes=page)
    limit = HugepageLimit(page_bytes=page, limit_bytes=page)
    container = ContainerRequest(
        claim="db", cgroup=CgroupRequest(path="db", cpus=FIRST, hugepages=(limit,)), workloads=(load,)
    )
    with pool(page, 1):
        with sandbox(SandboxRequest(containers=(container,)), run_id=name) as live:
            use = read_hugetlb(live.hierarchy, "db", live.value.containers[0].cgroup, page)
            assert (use.limit_bytes, use.usage_bytes) == (page, page)
        assert traces(name) == []


@pytest.mark.parametrize("runtime", ["cgroupfs", "runc", "crun"])
def test_a_load_runs_inside_and_dies(runtime: str) -> None:
    """As every other kind of load (``test_apply_sandbox.py``, ``test_apply_runtimes.py``)."""
    need_runtime(runtime)
    run_id, load = f"t-huge-{runtime}", Workload(kind=WorkloadKind.HUGE_PAGES)
    wanted = request(container("c", load.kind, threads=2, cpus=FIRST))
    with (
        pool(load.page_bytes, 2 * load.memory_bytes // load.page_bytes),
        sandbox(wanted, run_id=run_id, runtime=runtime) as live,
    ):
        (one,) = live.value.containers
        assert one.pids[0] in cgroupfs.pids(live.hierarchy, one.cgroup)
        assert masks(cgroupfs.pids(live.hierarchy, one.cgroup)) == {FIRST}
    assert wait_until(lambda: traces(run_id) == [])


def test_a_request_without_them_turns_nothing_on() -> None:
    """The controller is turned on for the sandboxes that need it only."""
    name = f"huge-none-{os.getpid()}"
    container = ContainerRequest(claim="db", cgroup=replace(CgroupRequest(path="db"), cpus=FIRST))
    with sandbox(SandboxRequest(containers=(container,)), run_id=name) as live:
        assert live.hierarchy.unified is not None
        here = live.hierarchy.unified / cgroupfs.relative(live.value.root)
        assert cgroups.HUGETLB not in (here / "cgroup.subtree_control").read_text().split()
    assert traces(name) == []
