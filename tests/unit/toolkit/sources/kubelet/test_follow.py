"""A kubelet's node that is followed: what holds between state file and reconcile, what is asked for, what is freed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import (
    BOX,
    DB,
    EXITED,
    STATES,
    WEB,
    Node,
    back,
    claim,
    cpus,
)
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from tests.unit.toolkit.sources.socket_server import container, labels, status
from toolkit.allocation.checkpoint.devices import device_hashed_text
from toolkit.allocation.checkpoint.format import fnv32a
from toolkit.errors import InputError
from toolkit.model.layers import Layer
from toolkit.model.state_files import DEVICE_FILE
from toolkit.sources.kubelet import follow
from toolkit.sources.kubelet.follow import TURNS, KubeletSource
from toolkit.sources.places import Places


def test_layers_that_agree_hold_what_they_say(node: Node) -> None:
    """By pod and container alone; none is known to compete; the bound is a reconcile and the slack."""
    reading = node.read()

    assert cpus(reading) == {"db/main": "2-3", "web/app": "0-1"}
    assert back(reading) == {}
    assert not claim(reading, "web/app").contended
    assert reading.complete
    assert reading.give_back_s == 15.0
    said = {(view.claim, view.layer): str(view.cpus) for view in reading.layers}
    assert said["web/app", Layer.RUNTIME] == said["web/app", Layer.CHECKPOINT] == "0-1"


def test_the_device_managers_file_is_read_each_time(node: Node) -> None:
    """Its checksum fits, then it is torn; without plugins there is none."""
    file = f"{STATES}/device-plugins/{DEVICE_FILE}"
    found = [node.read().state_files[-1].devices]
    data = {"PodDeviceEntries": [], "RegisteredDevices": {"example.com/nic": ["n0"]}}
    text = json.dumps({"Data": data, "Checksum": fnv32a(device_hashed_text(data))})
    for said in (text, text[:-9]):
        write(node.root, file, said)
        found.append(node.read().state_files[-1].devices)

    assert [one and one.checksum_ok for one in found] == [None, True, False]


def test_a_pool_that_shrinks_gives_back_within_a_reconcile(node: Node) -> None:
    """The state file is ahead: until the kubelet asks for the new set the old one holds, and the rest is owed."""
    node.read()
    node.state("0", db="2-3", new="1")
    late = node.read()
    assert (cpus(late)["web/app"], back(late)) == ("0-1", {"web/app": "1"})
    node.runs(WEB, "web", "app", "0")
    done = node.read()

    assert (cpus(done)["web/app"], back(done)) == ("0", {})


def test_a_container_that_gives_nothing_back_holds_no_longer_what_it_owes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the period and the slack the new set is the promise, and what runs beside it a violation."""
    monkeypatch.setattr(follow, "SLACK_S", 0.05)
    node.configure("cpuManagerReconcilePeriod: 50ms\n")
    node.read()
    node.state("0", db="2-3", new="1")
    first = node.read()
    seen = {cpus(first)["web/app"]}
    until_s = time.monotonic() + 120.0
    while "0" not in seen and time.monotonic() < until_s:
        seen.add(cpus(node.read())["web/app"])

    assert back(first) == {"web/app": "1"}
    assert seen == {"0-1", "0"}
    assert back(node.read()) == {}


def test_a_pool_that_shrinks_again_has_no_more_time(node: Node) -> None:
    """A container that owes since the first change owes since then; another set does not begin its time anew."""
    node.read()
    node.state("0", db="2-3", new="1")
    node.read()
    (first,) = node.source._since._in_force._late.values()
    node.state("1", db="2-3", new="0")
    reading = node.read()
    (second,) = node.source._since._in_force._late.values()

    assert back(reading) == {"web/app": "0"}
    assert second.from_ns == first.from_ns
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
    node.pod_ends()
    freed = node.read()
    node.state("0,2-3", other="1")
    done = node.read()

    assert cpus(freed) == {"web/app": "0,2-3"}
    assert back(freed) == {}
    assert cpus(done) == {"web/app": "0,2-3"}
    assert node.source._since._owned._owners == {}


@pytest.mark.parametrize("state", [EXITED, 1], ids=["ended", "runs again"])
def test_the_next_life_of_a_container_owns_what_the_last_did(node: Node, state: int) -> None:
    """An exited life is none; one with another id is the same subject, and frees nothing."""
    node.read()
    node.ends(DB)
    node.runs("dd" * 32, "db", "main", "2-3", state=state)
    reading = node.read()

    assert cpus(reading) == ({"web/app": "0-1"} if state == EXITED else {"db/main": "2-3", "web/app": "0-1"})


def test_a_container_that_waits_for_its_next_start_keeps_its_cpus(node: Node) -> None:
    """The kubelet keeps them while the pod's sandbox is ready: they are the pool's once that has ended."""
    node.read()
    node.runs(DB, "db", "main", "2-3", state=EXITED)
    waits = node.read()
    node.pod_ends()
    over = node.read()

    assert cpus(waits) == {"web/app": "0-1"}
    assert cpus(over) == {"web/app": "0-3"}


def test_cpus_that_were_given_out_again_are_not_freed(node: Node) -> None:
    """Another container runs on them by the state file: whose entry lies behind is no pool."""
    node.read()
    node.ends(DB)
    node.pod_ends()
    node.state("0-1", db="2-3", new="2-3")
    node.runs("dd" * 32, "new", "main", "2-3")

    assert cpus(node.read()) == {"new/main": "2-3", "web/app": "0-1"}


def test_of_hundreds_few_statuses_are_asked_for_in_one_reading(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many readings it takes until every container's was."""
    monkeypatch.setattr(follow, "TURNS", 1)
    monkeypatch.setattr(follow, "A_TURN", 1)
    node.read()
    rounds = []
    for _ in range(2):
        node.read()
        rounds += node.asked
    assert sorted(rounds) == [DB, WEB]


def test_statuses_are_asked_for_while_layers_differ(node: Node) -> None:
    """All at first; of those that agree some in turn; of one whose cgroup drifts always."""
    node.read()
    assert sorted(node.asked) == [DB, WEB]
    rounds = []
    for _ in range(TURNS):
        node.read()
        rounds.append(tuple(node.asked))
    assert all(len(turn) < 2 for turn in rounds)
    assert sorted(one for turn in rounds for one in turn) == [DB, WEB]

    for one, pod, name, right in ((DB, "db", "main", "2-3"), (WEB, "web", "app", "0-1")):
        # At once, whosever turn it is: it may be put back before the next reading.
        node.runs(one, pod, name, right, cgroup="0-3")
        node.read()
        assert one in node.asked
    node.runs(WEB, "web", "app", "0-1")
    for _ in range(TURNS):
        node.read()
        assert DB in node.asked

    node.runs(DB, "db", "main", "2-3")
    for _ in range(2):  # Put back; and once more: whether the runtime had asked for it shows what it says now.
        node.read()
        assert DB in node.asked
    node.read()
    node.read()
    assert DB not in node.asked


def test_a_status_that_is_not_asked_for_is_that_of_before(node: Node) -> None:
    """What a container was asked is known between two of its turns, too."""
    node.read()
    for _ in range(TURNS):
        reading = node.read()
        assert cpus(reading) == {"db/main": "2-3", "web/app": "0-1"}
        assert {view.claim for view in reading.layers if view.layer is Layer.RUNTIME} == {"db/main", "web/app"}


def test_a_layers_word_is_of_the_time_when_it_was_read(node: Node) -> None:
    """A status that is not asked for again is of before: beside a cgroup that changed since it shows no drift."""
    first, began_ns = node.read(), time.monotonic_ns()
    later = node.read()
    times = {
        (number, view.layer, view.claim): view.at_ns - began_ns
        for number, reading in enumerate((first, later))
        for view in reading.layers
    }
    spared = ({"db/main", "web/app"} - {{DB: "db/main", WEB: "web/app"}[one] for one in node.asked}).pop()

    assert times[1, Layer.RUNTIME, spared] == times[0, Layer.RUNTIME, spared] < 0
    assert times[1, Layer.CHECKPOINT, spared] > 0


def test_what_was_said_holds_while_the_state_file_is_silent(node: Node) -> None:
    """The kubelet restarts: same claims, no word of the checkpoint to compare with."""
    before = node.read()
    (node.root / "var/lib/kubelet/cpu_manager_state").unlink()
    silent = node.read()

    assert cpus(silent) == cpus(before)
    assert [one.cpu for one in silent.state_files] == [one.cpu for one in before.state_files]
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


def test_an_owner_has_no_quota_whatever_was_asked_for_it(node: Node) -> None:
    """Of what the kubelet asked the runtime for, a quota of an exclusive container is no promise (F56)."""
    node.asks(DB, "db", quota_us=200_000)
    node.asks(WEB, "web", quota_us=50_000, cpus="0-1")
    reading = node.read()

    assert claim(reading, "db/main").quota_us == -1
    assert claim(reading, "web/app").quota_us == 50_000
