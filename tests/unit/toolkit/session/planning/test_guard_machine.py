"""What works on a whole machine: a kubelet's process and state file, pods, Slurm jobs, on a made root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ansible_plugins import plugin
from tests.unit.toolkit.host.sysroots import CPU, cpu, node, write
from tests.unit.toolkit.sources.made_node import process
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.errors import HostUnsupportedError
from toolkit.model.cpuset import CpuSet
from toolkit.session.planning.guard import free_machine, occupants, still_free

CGROUP = "sys/fs/cgroup"
POD = f"{CGROUP}/kubepods/burstable/pod0b1c"
EXCLUSIVE = f"{CGROUP}/kubepods/pod77aa"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An idle machine of eight CPUs, cgroup v2."""
    for number in range(8):
        write(tmp_path, cpu(number, core=number, thread_siblings=f"{1 << number:x}"))
    node(tmp_path, 0, tuple(range(8)), 8 << 20, "10")
    group(tmp_path, CGROUP, "0-7", 1)
    return write(
        tmp_path,
        {
            f"{CPU}/online": "0-7",
            "proc/meminfo": "MemTotal: 8388608 kB",
            "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 none rw",
            f"{CGROUP}/cgroup.controllers": "cpuset cpu memory",
        },
    )


def group(root: Path, path: str, cpus: str, *pids: int) -> None:
    """One cgroup, with the processes in it; those above it that do not exist yet are as wide as the machine."""
    write(root, {f"{path}/cgroup.procs": "\n".join(map(str, pids)), f"{path}/cpuset.cpus.effective": cpus})
    for above in Path(path).relative_to(CGROUP).parents:
        file = root / CGROUP / above / "cpuset.cpus.effective"
        if not file.exists():
            file.write_text("0-7\n")


def kubelet(root: Path, *arguments: str, comm: str = "kubelet", cgroup: str = "/kubelet.service") -> None:
    """A process that is called so."""
    process(root, 42, comm, cgroup, list(arguments))


def state(root: Path, folder: str, cpus: str) -> None:
    """A state file in which one container owns CPUs."""
    entries = {"77aa": {"main": CpuSet.parse(cpus)}}
    text = write_cpu_checkpoint(
        CpuState(policy_name="static", default=CpuSet.parse("0-7") - CpuSet.parse(cpus), entries=entries),
        pod_level=False,
    )
    write(root, {f"{folder}/cpu_manager_state": text})


def of_the_collection(refused: HostUnsupportedError) -> str:
    """The word that a play of the Ansible collection has for it: it knows a refusal by its text."""
    word: str = plugin("module_utils/endings").of_process(refused.exit_code, "", f"pinproof: {refused}")[0]
    return word


def found(root: Path) -> list[tuple[str, str]]:
    """What works there, and which CPUs are its own."""
    return [(one.what, str(one.cpus)) for one in occupants(root)]


def test_an_idle_machine_is_free(root: Path) -> None:
    """Nothing is found, and all CPUs may be loaded without insisting; so with a kubelet's folder that is not used."""
    assert found(root) == []
    (root / "var/lib/kubelet").mkdir(parents=True)
    assert found(root) == []
    assert str(free_machine(insisted=False, root=root).online) == "0-7"


def test_a_kubelet_without_pods_is_work(root: Path) -> None:
    """Pods may come at any moment; it owns nothing, so a user who insists gets every CPU."""
    kubelet(root)

    assert found(root) == [("a kubelet runs", "")]
    with pytest.raises(HostUnsupportedError, match="at work: a kubelet runs; nothing was started") as refused:
        free_machine(insisted=False, root=root)
    assert of_the_collection(refused.value) == "at-work"
    assert str(free_machine(insisted=True, root=root).online) == "0-7"


@pytest.mark.parametrize("name", ["k3s-server", "k3s-agent", "microshift", "kubelite"])
def test_a_program_that_is_a_kubelet_among_other_things_is_work(root: Path, name: str) -> None:
    """Its arguments are not a kubelet's; the state file is at the usual place."""
    kubelet(root, "server", "--root-dir", "/nowhere", comm=name)
    state(root, "var/lib/kubelet", "2-3")

    assert found(root) == [(f"a kubelet runs ({name})", "2-3")]


@pytest.mark.parametrize("form", [("--root-dir=/var/lib/own",), ("--root-dir", "/var/lib/own"), ()])
def test_what_the_kubelet_promised_is_owned(root: Path, form: tuple[str, ...]) -> None:
    """By its state file, wherever its command line says that it is: also before the container is made."""
    kubelet(root, *form)
    state(root, "var/lib/own" if form else "var/lib/kubelet", "2-3")

    assert found(root) == [("a kubelet runs", "2-3")]
    assert str(free_machine(insisted=True, root=root).online) == "0-1,4-7"


def test_pods_of_a_kubelet_that_is_down_keep_their_cpus(root: Path) -> None:
    """The state file says which are exclusive; the shared pool of its pods has no owner."""
    state(root, "var/lib/kubelet", "6-7")
    group(root, f"{POD}/main", "0-5", 100)
    group(root, f"{EXCLUSIVE}/main", "6-7", 101)

    assert found(root) == [("2 pods run", "6-7")]


NO_POLICY = write_cpu_checkpoint(CpuState(policy_name="none"), pod_level=False)


@pytest.mark.parametrize(
    "text",
    ["{", '{"policyName":"static","defaultCpuSet":"0-7","checksum":1}', NO_POLICY],
    ids=["torn", "wrong sum", "policy none"],
)
def test_a_state_file_that_cannot_be_trusted_says_nothing(root: Path, text: str) -> None:
    """What the pods' cgroups are narrowed to is taken for theirs."""
    write(root, {"var/lib/kubelet/cpu_manager_state": text})
    group(root, f"{EXCLUSIVE}/main", "4", 101)

    assert found(root) == [("1 pod runs", "4")]


def test_a_pods_process_called_kubelet_is_none(root: Path) -> None:
    """A container may call itself what it likes; a process of another name is no kubelet either."""
    kubelet(root, cgroup="/kubepods/pod0b1c/main")
    assert found(root) == []
    kubelet(root, comm="kubelet-proxy")
    assert found(root) == []


@pytest.mark.parametrize(
    "scope", ["system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "slurm/uid_1000/job_7/step_0"]
)
def test_slurm_jobs_are_work(root: Path, scope: str) -> None:
    """By the cgroups that slurmd makes, of either plugin: one occupant however deep its tasks are."""
    group(root, f"{CGROUP}/{scope}", "1-2", 200, 201)

    assert found(root) == [("Slurm job 7 runs", "1-2")]
    with pytest.raises(HostUnsupportedError, match="Slurm job 7 runs"):
        free_machine(insisted=False, root=root)
    assert str(free_machine(insisted=True, root=root).online) == "0,3-7"


def test_a_node_that_is_full_is_not_loaded_at_all(root: Path) -> None:
    """A user who insists gets what has no owner, and here that is nothing; all that was found is counted."""
    kubelet(root)
    state(root, "var/lib/kubelet", "0-3")
    group(root, f"{EXCLUSIVE}/main", "0-3", 101)
    for job in (1, 2, 3):
        group(root, f"{CGROUP}/slurm/uid_0/job_{job}", str(job + 3), 300 + job)
    group(root, f"{CGROUP}/vm", "7", 400)

    with pytest.raises(HostUnsupportedError) as refused:
        free_machine(insisted=True, root=root)
    assert str(refused.value).startswith("every CPU of this node has an owner: a kubelet runs; 1 pod runs; Slurm job 1")
    assert str(refused.value).endswith("and 3 more")
    assert of_the_collection(refused.value) == "at-work"


def test_what_comes_later_is_found_when_one_looks_again(root: Path) -> None:
    """A machine that was free is looked at again; with its own CPUs in mind where a user insisted."""
    still_free(root=root)
    still_free(CpuSet.parse("4-7"), root)
    kubelet(root)
    state(root, "var/lib/kubelet", "2-3")
    with pytest.raises(
        HostUnsupportedError, match="at work by now: a kubelet runs; nothing more was started"
    ) as refused:
        still_free(root=root)
    assert of_the_collection(refused.value) == "at-work"
    still_free(CpuSet.parse("4-7"), root)
    with pytest.raises(
        HostUnsupportedError, match="CPUs 3 have an owner by now: a kubelet runs; nothing more"
    ) as refused:
        still_free(CpuSet.parse("3-7"), root)
    assert of_the_collection(refused.value) == "at-work"
