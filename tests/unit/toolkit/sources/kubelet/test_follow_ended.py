"""A kubelet's node that is followed: pods that end, and CPUs that are given away before their container has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import BOX, DB, EXITED, Node, back, cpus, doubly, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, allocations_text, write
from tests.unit.toolkit.sources.socket_server import field, sandbox
from tests.unit.validators.evidence_builder import evidence
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.model.verdict import Outcome
from toolkit.sources.live_source import SourceReading
from validators.rules import checkpoint
from validators.state_files.cpu_state import unowned

PROCS = f"{KUBEPODS}/podu-db/{DB}/cgroup.procs"
NEW = "dd" * 32


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served; ``db/main`` was seen to own CPUs 2-3."""
    with made_node() as made:
        made.read()
        yield made


def given_away(node: Node) -> SourceReading:
    """Let the state file give ``db``'s CPUs to ``new`` while ``db`` runs."""
    node.state("0-1", new="2-3")
    node.runs(NEW, "new", "main", "2-3")
    return node.read()


def test_cpus_of_two_owners_have_no_time(node: Node) -> None:
    """No reconcile repairs it: what the container still has is another pod's, from the moment on where it is read."""
    node.state("0-3")
    freed = node.read()
    both = given_away(node)

    assert (back(freed), doubly(freed)) == ({}, set())
    assert (back(both), doubly(both)) == ({"db/main": "2-3"}, {"db/main"})
    assert cpus(both) == {"db/main": "0-3", "new/main": "2-3", "web/app": "0-1"}


def test_a_container_that_has_lost_all_to_another_has_what_it_runs_on(node: Node) -> None:
    """The pool is empty: nothing else is promised to it."""
    node.state("", new="2-3", other="0-1")
    node.runs(NEW, "new", "main", "2-3")
    both = node.read()

    assert (back(both), doubly(both)) == ({"db/main": "2-3"}, {"db/main"})
    assert cpus(both) == {"db/main": "2-3", "new/main": "2-3", "web/app": "None"}


def test_a_pod_that_went_before_a_container_of_it_was_seen_gives_its_cpus_back() -> None:
    """Its sandbox was seen, and ended: a kubelet widens the pool in one go, its file may say so late."""
    with made_node() as node:
        node.ends(DB)
        waits = node.read()
        node.pod_ends()
        gone = node.read()

    assert (cpus(waits)["web/app"], cpus(gone)["web/app"]) == ("0-1", "0-3")


def test_cpus_that_wait_for_their_next_owner_have_one(node: Node) -> None:
    """A static pod's next version is promised them while the container of the one before ends: none shares them."""
    node.state("0-1", new="2-3")
    waits = node.read()
    node.runs(NEW, "new", "main", "2-3")

    assert (back(waits), doubly(waits)) == ({"db/main": "2-3"}, set())
    assert doubly(node.read()) == {"db/main"}


def test_a_container_without_tasks_has_ended_although_its_runtime_lists_it(node: Node) -> None:
    """The shim's report waits for a CPU: none has the CPUs beside their new owner."""
    write(node.root, PROCS, "")
    reading = given_away(node)

    assert (back(reading), doubly(reading)) == ({"db/main": "2-3"}, set())


def test_tasks_below_a_container_are_its_own(node: Node) -> None:
    """An init system in it has made cgroups."""
    write(node.root, PROCS, "")
    write(node.root, f"{KUBEPODS}/podu-db/{DB}/init.scope/cgroup.procs", "77\n")

    assert doubly(given_away(node)) == {"db/main"}


def test_two_owners_stay_two_until_one_has_ended(node: Node) -> None:
    """One that was found to run there has no more time when its last task is just ending."""
    given_away(node)
    write(node.root, PROCS, "")
    ending = node.read()
    node.ends(DB)
    ended = node.read()

    assert doubly(ending) == {"db/main"}
    assert (back(ended), doubly(ended)) == ({}, set())


def test_a_pool_that_has_lost_cpus_has_its_time(node: Node) -> None:
    """They were never a container's own: the next reconcile takes them."""
    node.state("0", db="2-3", new="1")
    reading = node.read()

    assert (back(reading), doubly(reading)) == ({"web/app": "1"}, set())


def ended(reading: SourceReading) -> list[bool]:
    """Say of each entry without a running container whether its pod has ended; none is a leak."""
    (state,) = reading.state_files
    assert state.cpu is not None
    assert unowned(state) == set()
    return [one.ended for one in state.containers or () if not one.running]


def test_what_a_pod_has_that_ended_is_said_as_long_as_it_is_listed(node: Node) -> None:
    """A kubelet of v1.20 was seen to keep it until the next admission; one that waits for its next start owns it."""
    node.runs(DB, "db", "main", "2-3", state=EXITED)
    waits = node.read()
    node.pod_ends()
    over = node.read()
    (verdict,) = checkpoint.RULE.check(over.claims, evidence(state_files=over.state_files))

    assert (ended(waits), ended(over)) == ([False], [True])
    assert verdict.outcome is Outcome.PASSED
    assert "1 assignments, 1 of a pod that has ended and is still listed" in verdict.reason
    assert verdict.measures["ended_entries_count"] == 1


@pytest.mark.parametrize("before_s", [10, -10], ids=["before", "since"])
def test_a_sandbox_of_before_the_machines_start_waits_for_its_next_one(node: Node, before_s: int) -> None:
    """The kubelet keeps what the pod has; the network may take longer than two reconciles to begin."""
    started_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    made_ns = started_ns - before_s * 10**9
    node.runs(DB, "db", "main", "2-3", state=EXITED)
    node.boxes = field(1, sandbox(BOX, "u-db", "db") + field(3, 1) + field(4, made_ns))

    assert ended(node.read()) == [before_s < 0]


def test_a_pod_without_sandbox_waits_while_it_has_a_folder(node: Node) -> None:
    """Its volumes are mounted before its sandbox is made: its CPUs are no leak, however long that takes."""
    node.state("0", db="2-3", new="1")
    without = node.read()
    (node.root / "var/lib/kubelet/pods/u-new").mkdir(parents=True)
    waits = node.read()
    (verdict,) = checkpoint.RULE.check(waits.claims, evidence(state_files=waits.state_files))

    assert unowned(without.state_files[0]) == {"u-new/main"}
    assert unowned(waits.state_files[0]) == set()
    assert verdict.outcome is Outcome.PASSED
    assert "2 assignments, 1 of a pod that waits for its sandbox" in verdict.reason
    assert verdict.measures["waiting_entries_count"] == 1


HASH = "0123456789abcdef" * 2
MANIFEST = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: main}]}\n"


@pytest.mark.parametrize(
    ("uid", "manifest", "allocated", "owned"),
    [
        (HASH, MANIFEST, None, True),
        (HASH, MANIFEST.replace("main", "other"), None, False),
        ("u-new", MANIFEST, None, False),
        (HASH, MANIFEST, "u-db", False),
        ("u-new", "", "u-new", True),
    ],
    ids=["by its manifest", "another manifest", "no static pod", "not allocated", "allocated"],
)
def test_a_pod_without_folder_may_wait_for_the_version_before_it(
    node: Node, uid: str, manifest: str, allocated: str | None, owned: bool
) -> None:
    """What the kubelet has allocated says it; older ones, which write none of that, leave the UID and the manifest."""
    state = CpuState(policy_name="static", default=CpuSet.parse("0-2"), entries={uid: {"main": CpuSet.parse("3")}})
    write(node.root, "var/lib/kubelet/cpu_manager_state", write_cpu_checkpoint(state, pod_level=False))
    node.configure("staticPodPath: /etc/pods\n")
    write(node.root, "etc/pods/p.yaml", manifest)
    if allocated is not None:
        entries = {allocated: {"ContainerResources": {"main": {"limits": {"cpu": "1"}}}}}
        write(node.root, "var/lib/kubelet/allocated_pods_state", allocations_text(entries))

    assert unowned(node.read().state_files[0]) == (set() if owned else {f"{uid}/main"})


def test_a_pod_that_waits_owns_what_its_containers_share(node: Node) -> None:
    """Of a pod with CPUs for all its containers the file may name none of these."""
    shared = CpuState(policy_name="static", default=CpuSet.parse("0-1"), pods={"u-new": CpuSet.parse("2-3")})
    write(node.root, "var/lib/kubelet/cpu_manager_state", write_cpu_checkpoint(shared, pod_level=True))
    without = node.read()
    (node.root / "var/lib/kubelet/pods/u-new").mkdir(parents=True)
    waits = node.read()

    assert (unowned(without.state_files[0]), unowned(waits.state_files[0])) == ({"u-new"}, set())


def test_where_folders_cannot_be_listed_nothing_is_called_leaked(node: Node) -> None:
    """Which pods wait is not known then: the verdict is a doubt, and the part is named."""
    node.state("0", db="2-3", new="1")
    write(node.root, "var/lib/kubelet/pods", "")
    reading = node.read()
    (verdict,) = checkpoint.RULE.check(reading.claims, evidence(state_files=reading.state_files))

    (reason,) = [one.reason for one in reading.missing if one.part == "pod_folders"]
    assert reason.startswith("/var/lib/kubelet/pods: Not a directory: which pods wait")
    assert verdict.outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("shares", "pool", "taken"),
    [(2048, "0-1", {"db/main"}), (1024, "0-1", set()), (2048, "0-2", set())],
    ids=["the shares of two CPUs", "a sharer's", "a part of them is the pool's"],
)
def test_a_watch_that_begins_after_cpus_were_given_away(shares: int, pool: str, taken: set[str]) -> None:
    """No reading has seen ``db`` own them: the runtime was asked to give it as many whole CPUs as it has shares of."""
    with made_node() as late:
        late.runs(NEW, "new", "main", "2-3" if pool == "0-1" else "3")
        late.state(pool, new="2-3" if pool == "0-1" else "3")
        late.asks(DB, "db", quota_us=-1, shares=shares)
        first, second = late.read(), late.read()

    assert doubly(first) == doubly(second) == taken
    assert "db/main" in back(first)
