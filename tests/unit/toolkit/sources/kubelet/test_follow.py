"""A kubelet's node that is followed: what holds between state file and reconcile, what is asked for, what is freed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.made_node import KUBEPODS, process, write
from tests.unit.toolkit.sources.socket_server import CRI, container, field, labels, sandbox, served, status
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.errors import InputError
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import Layer
from toolkit.sources.kubelet import follow
from toolkit.sources.kubelet.follow import TURNS, KubeletSource
from toolkit.sources.kubelet.places import Places
from toolkit.sources.live_source import SourceReading

EXITED = 2
DB, WEB, BOX = "aa" * 32, "bb" * 32, "cc" * 32
CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
"""


class Node:
    """A node of four CPUs whose files and runtime say what a test lets them say.

    At first ``db/main`` owns CPUs 2-3, and ``web/app`` shares 0-1; all layers agree.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        """Ids whose status was asked for, in order."""
        self._listed: dict[str, bytes] = {}
        self._said: dict[str, bytes] = {}
        process(root, 42, "kubelet", "/kubelet.service", [])
        write(root, "sys/devices/system/cpu/online", "0-3\n")
        self.configure("")
        self.state("0-1", db="2-3")
        self.runs(DB, "db", "main", "2-3")
        self.runs(WEB, "web", "app", "0-1")
        self.source = KubeletSource(Places(root=root, cri=f"unix://{root}/c.sock"))

    def configure(self, more: str) -> None:
        """Write the kubelet's configuration with more lines."""
        write(self.root, "var/lib/kubelet/config.yaml", CONFIG + more)

    def state(self, default: str, **entries: str) -> None:
        """Write the state file: the shared pool, and the CPUs of ``main`` of each pod."""
        owners = {f"u-{pod}": {"main": CpuSet.parse(cpus)} for pod, cpus in entries.items()}
        state = CpuState(policy_name="static", default=CpuSet.parse(default), entries=owners)
        write(self.root, "var/lib/kubelet/cpu_manager_state", write_cpu_checkpoint(state, pod_level=False))

    def runs(self, one: str, pod: str, name: str, cpus: str, *, cgroup: str | None = None, state: int = 1) -> None:
        """Let a container exist, asked for these CPUs. :param cgroup: what its cgroup has, if it is something else."""
        self._listed[one] = container(one, BOX, name, labels(f"u-{pod}", pod, name), state=state)
        self._said[one] = status(one, f"/kubepods/podu-{pod}/{one}", cpus)
        write(self.root, f"{KUBEPODS}/podu-{pod}/{one}/cpuset.cpus", f"{cpus if cgroup is None else cgroup}\n")
        write(self.root, f"{KUBEPODS}/podu-{pod}/{one}/cgroup.procs", "77\n")

    def ends(self, one: str) -> None:
        """Let a container be gone for the runtime."""
        del self._listed[one], self._said[one]

    def listing(self, _: bytes) -> bytes:
        """Answer ListContainers."""
        return b"".join(field(1, entry) for entry in self._listed.values())

    def status_of(self, request: bytes) -> bytes:
        """Answer ContainerStatus."""
        self.asked.append(request[2:66].decode())
        return self._said[self.asked[-1]]

    def read(self) -> SourceReading:
        """Read it once."""
        self.asked.clear()
        return self.source.read()


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served; its root is short enough for a socket's path."""
    with tempfile.TemporaryDirectory() as folder:
        made = Node(Path(folder))
        boxes = field(1, sandbox(BOX, "u-db", "db"))
        answers = {"ListContainers": made.listing, "ContainerStatus": made.status_of}
        with served(made.root / "c.sock", CRI, Version=field(2, "containerd"), ListPodSandbox=boxes, **answers):
            yield made


def claim(reading: SourceReading, name: str) -> Claim:
    """Return the one claim of this name."""
    (found,) = (one for one in reading.claims.claims if one.name == name)
    return found


def cpus(reading: SourceReading) -> dict[str, str]:
    """What containers hold."""
    return {one.name: str(one.cpus) for one in reading.claims.claims if one.kind.carries_tasks}


def back(reading: SourceReading) -> dict[str, str]:
    """What they must give back."""
    return {name: str(found) for name, found in reading.giving_back.items()}


def test_layers_that_agree_hold_what_they_say(node: Node) -> None:
    """By pod and container alone; nobody is known to compete; the bound is a reconcile and the slack."""
    reading = node.read()

    assert cpus(reading) == {"db/main": "2-3", "web/app": "0-1"}
    assert back(reading) == {}
    assert not claim(reading, "web/app").contended
    assert reading.complete
    assert reading.give_back_s == 15.0
    said = {(view.claim, view.layer): str(view.cpus) for view in reading.layers}
    assert said["web/app", Layer.RUNTIME] == said["web/app", Layer.CHECKPOINT] == "0-1"


def test_a_pool_that_shrinks_gives_back_within_a_reconcile(node: Node) -> None:
    """The state file is ahead: until the kubelet asks for the new set the old one holds, and the rest is owed."""
    node.read()
    node.state("0", db="2-3", new="1")
    late = node.read()
    assert (cpus(late)["web/app"], back(late)) == ("0-1", {"web/app": "1"})
    node.runs(WEB, "web", "app", "0")
    done = node.read()

    assert (cpus(done)["web/app"], back(done)) == ("0", {})


def test_who_gives_nothing_back_holds_no_longer_what_it_owes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the period and the slack the new set is the promise, and what runs beside it a violation."""
    monkeypatch.setattr(follow, "SLACK_S", 0.05)
    node.configure("cpuManagerReconcilePeriod: 50ms\n")
    node.read()
    node.state("0", db="2-3", new="1")
    first = node.read()
    seen = {cpus(first)["web/app"]}
    until_s = time.monotonic() + 20.0
    while "0" not in seen and time.monotonic() < until_s:
        seen.add(cpus(node.read())["web/app"])

    assert back(first) == {"web/app": "1"}
    assert seen == {"0-1", "0"}
    assert back(node.read()) == {}


def test_a_pool_that_shrinks_again_has_no_more_time(node: Node) -> None:
    """Who owes since the first change owes since then; another set does not begin its time anew."""
    node.read()
    node.state("0", db="2-3", new="1")
    node.read()
    (first,) = node.source._late.values()
    node.state("1", db="2-3", new="0")
    reading = node.read()
    (second,) = node.source._late.values()

    assert back(reading) == {"web/app": "0"}
    assert second.since_ns == first.since_ns
    assert second != first


def test_a_pool_that_grows_owes_nothing(node: Node) -> None:
    """What it has won may be used from now on, whenever the kubelet asks for it."""
    node.read()
    node.state("0-1,3", db="2")
    node.runs(DB, "db", "main", "2")
    reading = node.read()

    assert (cpus(reading)["web/app"], back(reading)) == ("0-1,3", {})


def test_cpus_of_a_container_that_has_ended_are_the_pools_at_any_moment(node: Node) -> None:
    """The state file still names the owner; once it does no longer, the pool has them by the file."""
    node.state("0", db="2-3", other="1")
    node.runs(WEB, "web", "app", "0")
    node.read()
    node.ends(DB)
    freed = node.read()
    node.state("0,2-3", other="1")
    done = node.read()

    assert cpus(freed) == {"web/app": "0,2-3"}
    assert back(freed) == {}
    assert cpus(done) == {"web/app": "0,2-3"}
    assert node.source._owners == {}


@pytest.mark.parametrize("state", [EXITED, 1], ids=["ended", "runs again"])
def test_the_next_life_of_a_container_owns_what_the_last_did(node: Node, state: int) -> None:
    """An exited life is none; one with another id is the same subject, and frees nothing."""
    node.read()
    node.ends(DB)
    node.runs("dd" * 32, "db", "main", "2-3", state=state)
    reading = node.read()

    assert cpus(reading) == ({"web/app": "0-3"} if state == EXITED else {"db/main": "2-3", "web/app": "0-1"})


def test_cpus_that_were_given_out_again_are_not_freed(node: Node) -> None:
    """Another container runs on them by the state file: whose entry lies behind is no pool."""
    node.read()
    node.ends(DB)
    node.state("0-1", db="2-3", new="2-3")
    node.runs("dd" * 32, "new", "main", "2-3")

    assert cpus(node.read()) == {"new/main": "2-3", "web/app": "0-1"}


def test_statuses_are_asked_for_while_layers_differ(node: Node) -> None:
    """All at first; of those that agree some in turn; of one whose cgroup drifts always."""
    node.read()
    assert sorted(node.asked) == [DB, WEB]
    turns = []
    for _ in range(TURNS):
        node.read()
        turns.append(tuple(node.asked))
    assert all(len(turn) < 2 for turn in turns)
    assert sorted(one for turn in turns for one in turn) == [DB, WEB]

    node.runs(DB, "db", "main", "2-3", cgroup="0-3")
    node.read()
    for _ in range(TURNS):
        node.read()
        assert DB in node.asked


def test_a_status_that_is_not_asked_for_is_that_of_before(node: Node) -> None:
    """What a container was asked is known between two of its turns, too."""
    node.read()
    for _ in range(TURNS):
        reading = node.read()
        assert cpus(reading) == {"db/main": "2-3", "web/app": "0-1"}
        assert {view.claim for view in reading.layers if view.layer is Layer.RUNTIME} == {"db/main", "web/app"}


def test_what_was_said_holds_while_the_state_file_is_silent(node: Node) -> None:
    """The kubelet restarts: same claims, no word of the checkpoint to compare with."""
    before = node.read()
    (node.root / "var/lib/kubelet/cpu_manager_state").unlink()
    silent = node.read()

    assert cpus(silent) == cpus(before)
    assert silent.state_files == ()
    assert not any(view.layer is Layer.CHECKPOINT for view in silent.layers)
    node.state("0-1", db="2-3")
    assert any(view.layer is Layer.CHECKPOINT for view in node.read().layers)


def test_a_container_that_is_being_made_is_not_watched(node: Node) -> None:
    """Its cgroup exists, the runtime does not list it yet: it has no set."""
    write(node.root, f"{KUBEPODS}/podu-web/{'ee' * 32}/cpuset.cpus", "\n")

    assert set(cpus(node.read())) == {"db/main", "web/app"}


def test_namesakes_are_told_apart(node: Node) -> None:
    """Two pods of one name: one of them has its full name, the others keep the plain one."""
    one = "ee" * 32
    node._listed[one] = container(one, BOX, "app", labels("u-other", "web", "app"))
    node._said[one] = status(one, f"/kubepods/podu-other/{one}", "0-1")
    write(node.root, f"{KUBEPODS}/podu-other/{one}/cpuset.cpus", "0-1\n")
    names = set(cpus(node.read()))

    assert len(names) == 3
    assert {"db/main", "web/app"} < names


def test_signs_are_what_changes_with_claims(node: Node) -> None:
    """The kubelet's folder, the pods' folders, the control files of CPUs."""
    node.read()
    signs = set(node.source.signs())

    assert node.root / "var/lib/kubelet" in signs
    assert node.root / KUBEPODS / "podu-db" / DB / "cpuset.cpus" in signs


def test_a_machine_without_a_kubelet_is_refused_once(tmp_path: Path) -> None:
    """In one line at the first reading; later a node that says nothing is one that restarts."""
    write(tmp_path, "sys/devices/system/cpu/online", "0-3\n")
    source = KubeletSource(Places(root=tmp_path, cri=f"unix://{tmp_path}/none"))

    with pytest.raises(InputError, match="a kubelet's node"):
        source.read()
