"""What counts as the node's own work, by its cgroups, and what is left where a user insists."""

from __future__ import annotations

import pytest

from toolkit.host.cgroup_use import CgroupUse
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet
from toolkit.session.planning.guard import occupied

ALL = "0-7"


def use(path: str, cpus: str | None = ALL, *pids: int) -> CgroupUse:
    return CgroupUse(path=path, cpus=None if cpus is None else CpuSet.parse(cpus), pids=frozenset(pids))


def found(*uses: CgroupUse, own: frozenset[int] = frozenset(), pods_own: str | None = None) -> list[tuple[str, str]]:
    promised = None if pods_own is None else CpuSet.parse(pods_own)
    return [(one.what, str(one.cpus)) for one in occupied([use("/", ALL, 1, 2), *uses], own, promised)]


POD = "/kubepods/burstable/podaa"
STEPS = "/system.slice/slurmstepd.scope"
SLICE = "/kubepods.slice/kubepods-podbb.slice"


@pytest.mark.parametrize(
    "uses",
    [
        (),
        (use("/system.slice", "0-1"), use("/system.slice/ssh.service", "0-1", 9)),
        (use("/user.slice", ALL), use("/user.slice/a.scope", ALL, 9)),
        (use(POD), use(f"{POD}/c", "2")),
        (use("/pinproof-x", "1"), use("/pinproof-x/kubepods/podaa", "1"), use("/pinproof-x/kubepods/podaa/c", "1", 9)),
        (use("/empty", "3"),),
        (use("/docker/a", None, 9),),
    ],
    ids=["nothing", "housekeeping", "login", "dead pod", "ours", "empty set", "not narrowed"],
)
def test_an_idle_machine_has_no_occupant(uses: tuple[CgroupUse, ...]) -> None:
    """Narrowed services of the node, cgroups without processes and pinproof's own runs are no work of the node's."""
    assert found(*uses) == []


@pytest.mark.parametrize(
    ("uses", "what", "cpus"),
    [
        ((use(POD), use(f"{POD}/c", "2-3", 9)), "1 pod runs", "2-3"),
        ((use(f"{POD}/c", ALL, 9), use(f"{SLICE}/cri-containerd-0.scope", ALL, 8)), "2 pods run", ""),
        ((use("/slurm/uid_0/job_7"), use("/slurm/uid_0/job_7/step_0", "4", 9)), "Slurm job 7 runs", "4"),
        (
            (
                use("/system.slice/slurmstepd.scope/job_12", "4-5"),
                use("/system.slice/slurmstepd.scope/job_12/a", "4-5", 9),
            ),
            "Slurm job 12 runs",
            "4-5",
        ),
        (
            (use("/machine.slice/vm.scope", "6"), use("/machine.slice/vm.scope/vcpu0", "6", 9)),
            "processes in /machine.slice/vm.scope are pinned to CPUs 6",
            "6",
        ),
        (
            (use("/system.slice", "0-3"), use("/system.slice/docker-a.scope", "2", 9)),
            "processes in /system.slice/docker-a.scope are pinned to CPUs 2",
            "2",
        ),
    ],
    ids=["pod", "pods with no set", "job", "job of v2", "machine", "container of a narrowed slice"],
)
def test_work_is_named_with_its_cpus(uses: tuple[CgroupUse, ...], what: str, cpus: str) -> None:
    """Each kind, once, however many cgroups it has."""
    assert found(*uses) == [(what, cpus)]


def test_the_state_file_says_what_pods_own() -> None:
    """The shared pool of a node with the static policy is narrowed, too, and has no owner."""
    shared, exclusive = use("/kubepods/podaa/c", "0-5", 8), use("/kubepods/podbb/c", "6-7", 9)

    assert found(shared, exclusive, pods_own="6-7") == [("2 pods run", "6-7")]


def test_where_we_were_put_ourselves_is_no_work_of_the_nodes() -> None:
    """``systemd-run -p AllowedCPUs=1 pinproof run ...``."""
    assert found(use("/a", "1", 9), own=frozenset({9})) == []
    assert found(use("/a", "1", 9, 10), own=frozenset({9})) == [("processes in /a are pinned to CPUs 1", "1")]


def test_owned_cpus_are_left_out_of_the_machine() -> None:
    """For reader and kubelet's view alike, as if they were offline; groups are those of the CPUs that are left."""
    whole = read_topology()
    if len(whole.online) < 2:
        pytest.skip("one CPU")
    owned = CpuSet.of([whole.online.first()])
    left = read_topology(but_not=owned)

    assert left.online == whole.online - owned
    assert all(not cpus & owned for cpus in (*left.cores.values(), *left.numa_cpus.values()))
    assert left.kubelet != whole.kubelet
