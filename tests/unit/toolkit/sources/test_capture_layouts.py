"""The public captures laid out otherwise: another driver, another runtime, another root, older versions of a file.

A node says the same in all of them, so claims and verdicts are the same but for the paths.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.sources.edited import DATA, STATE, Files, capture, document, failed, judged, part, rows
from tests.unit.toolkit.sources.relaid import cgroup_root, crun, systemd
from toolkit.allocation.checkpoint.format import fnv32a
from toolkit.model.evidence.following import LIMITS
from toolkit.sources.kubelet.files.capture import read_bundle_files
from toolkit.text.names import from_text

CAPTURES = sorted(DATA.glob("*.tar.gz"))
CONTAINER = re.compile("[0-9a-f]{64}")


def without_paths(files: Files) -> dict[str, dict[str, Any]]:
    """The claims document's rows without their cgroups."""
    return {name: {key: value for key, value in row.items() if key != "cgroup"} for name, row in rows(files).items()}


def outcomes(files: Files) -> dict[tuple[str, str], str]:
    """Rule and subject to outcome."""
    return {key: str(one.outcome) for key, one in judged(files).items()}


@pytest.mark.parametrize("prefix", ["cri-containerd-", "crio-", "docker-"])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.split(".")[0])
def test_systemd_lays_the_same_node_out(path: Path, prefix: str) -> None:
    """Slices of classes and pods, scopes of containers, ``SLICE:PREFIX:ID`` of the runtime; v1, v2 and hybrid."""
    files = dict(read_bundle_files(path))
    relaid = systemd(files, prefix)
    assert document(relaid)["pods_root"] == "/kubepods.slice"
    assert without_paths(relaid) == without_paths(files)
    assert outcomes(relaid) == outcomes(files)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.split(".")[0])
def test_crun_limits_a_cgroup_below_the_scope(path: Path) -> None:
    """The scope has neither CPUs nor a quota. Each claim is about the cgroup that has them, and all tasks."""
    files = systemd(dict(read_bundle_files(path)), "crio-")
    relaid = crun(files)
    if relaid.keys() == files.keys():
        pytest.skip("not a capture of a v2 host")
    cgroups = {row["cgroup"] for row in rows(relaid).values() if row["cpus"]}
    assert cgroups
    assert all(cgroup.endswith(".scope/container") for cgroup in cgroups)
    assert document(relaid)["pods_root"] == "/kubepods.slice"
    assert without_paths(relaid) == without_paths(files)
    assert outcomes(relaid) == outcomes(files)


@pytest.mark.parametrize("root", ["kubelet", "my-kubepods", "kubepods.slice/kubepods-prod.slice", "n\u202e/b"])
@pytest.mark.parametrize("start", ["B1-4", "D-5", "A2-4"])
def test_pods_below_another_root(start: str, root: str) -> None:
    """A kubelet with a cgroup root, which may be named as that of all pods is, or in a container of its own."""
    files = capture(start)
    moved = cgroup_root(files, root)
    assert document(moved)["pods_root"] == f"/{from_text(root)}/kubepods"
    assert without_paths(moved) == without_paths(files)
    assert outcomes(moved) == outcomes(files)


def left_behind(files: Files) -> Files:
    """The cgroups of a capture's pods and of those above, as they stay when the kubelet starts with another driver."""
    return {name: data for name, data in files.items() if name.startswith("cgroup/") and not CONTAINER.search(name)}


def both_ways(start: str) -> list[tuple[Files, Files, str, str]]:
    """A capture of either driver, that of the other one, and the roots of their pods."""
    plain = capture(start)
    other = systemd(plain, "cri-containerd-")
    return [(plain, other, "/kubepods", "/kubepods.slice"), (other, plain, "/kubepods.slice", "/kubepods")]


@pytest.mark.parametrize("start", ["B1-4", "A2-4"])
def test_a_tree_that_another_driver_left_promises_nothing(start: str) -> None:
    """Its static pods have the same UIDs again, and no container: no claim is about it, and it is no pods' root."""
    for files, other, root, left in both_ways(start):
        found = document({**files, **left_behind(other)})
        assert left_behind(other)
        assert found["pods_root"] == root
        assert found["claims"] == document(files)["claims"]
        assert outcomes({**files, **left_behind(other)}) == outcomes(files)
        reason = f"no container is in this tree of pods beside {root}: nothing is promised about it"
        # The requests of a pod that was deleted and still ends are no container's.
        assert [row for row in found["missing"] if row["part"] != LIMITS] == [{"part": left, "reason": reason}]


def test_a_container_in_another_drivers_tree_keeps_its_pods_promise() -> None:
    """A pod that runs on where the driver before had put it: of two trees with containers neither is left behind."""
    uid = rows(capture("B1-4"))["g2-node1/main"]["pod_uid"]
    for files, other, _root, left in both_ways("B1-4"):
        here = {name: data for name, data in files.items() if not (name.startswith("cgroup/") and uid in name)}
        there = {name: data for name, data in other.items() if name.startswith("cgroup/") and uid in name}
        found = {row["name"]: row["cgroup"] for row in document({**here, **there})["claims"]}
        before = {name: row["cgroup"] for name, row in rows(files).items()}
        moved = {name for name in found if found[name] != before.get(name)}
        assert found.keys() == before.keys()
        assert moved == {"g2-node1/main", "g2-node1/(sandbox)", "g2-node1/(pod)"}
        assert all(found[name].startswith(f"{left}/") for name in moved)
        assert document({**here, **there})["missing"] == []


def test_without_containers_the_configured_driver_says_where_pods_will_be() -> None:
    """Of two trees with nothing but the cgroups of pods in them; nothing says that one was left."""
    for files, other, root, _left in both_ways("B1-4"):
        bare = {name: data for name, data in {**files, **left_behind(other)}.items() if not CONTAINER.search(name)}
        found = document({**bare, "containers.json": b"{}", "threads.json": b"[]", "pods.json": b'{"items": []}'})
        assert (found["pods_root"], found["claims"], found["missing"]) == (root, [], [])


def version_1(files: Files, *, forgotten: frozenset[str] = frozenset()) -> None:
    """Write the state file as a kubelet before 1.18 did. :param forgotten: containers of which the id is another."""
    data = json.loads(files[STATE])
    entries = {}
    for uid, containers in data.get("entries", {}).items():
        for name, cpus in containers.items():
            row = next(r for r in rows(files).values() if r["container"] == name and f"pod{uid}/" in r["cgroup"])
            entries["f" * 64 if name in forgotten else row["id"]] = cpus
    listed = " ".join(f"{key}:{entries[key]}" for key in sorted(entries))
    hashed = (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string)static DefaultCPUSet:(string){data['defaultCpuSet']} "
        f"Entries:(map[string]string)map[{listed}] Checksum:(checksum.Checksum)0}}"
    )
    data |= {"entries": entries, "checksum": fnv32a(hashed)}
    files[STATE] = json.dumps(data, separators=(",", ":")).encode()


@pytest.mark.parametrize("start", ["A-3", "B1-3", "B1-4", "D-4", "D-5"])
def test_a_state_file_of_version_1(start: str) -> None:
    """It knows ids alone; the runtime's list names them, and no CPU is said to be leaked or without a known owner."""
    files = capture(start)
    before, judged_before = rows(files), outcomes(files)
    version_1(files)
    assert rows(files) == before
    assert outcomes(files) == judged_before
    assert judged(files)["checkpoint", "cpu_manager_state"].reason.startswith("version 1, ")


def test_an_id_that_the_runtime_does_not_list() -> None:
    """Its owner is not known: whether its CPUs are leaked is left open, and no other loses its own."""
    files = capture("B1-4")
    version_1(files, forgotten=frozenset({"pinned"}))
    verdict = judged(files)["checkpoint", "cpu_manager_state"]
    assert (verdict.outcome, "not known" in verdict.reason) == ("undecided", True)
    assert rows(files)["g2-node1/main"]["state_cpus"] == "2-3"


def test_a_finished_init_container_of_version_1_is_no_second_owner() -> None:
    """Two ids of one pod with the same CPUs: the init container's are used again, and its cgroup is gone."""
    files = capture("B1-4")
    ident = "ab" * 32
    row = rows(files)["g2-node1/main"]
    with part(files, "containers.json") as listed:
        main = listed[row["id"]]
        labels = main["labels"] | {"io.kubernetes.container.name": "setup"}
        listed[ident] = main | {"labels": labels, "cgroupsPath": main["cgroupsPath"].replace(row["id"], ident)}
    uid = row["cgroup"].split("/pod")[1].split("/")[0]
    data = json.loads(files[STATE])
    data["entries"][uid]["setup"] = row["state_cpus"]
    files[STATE] = json.dumps(data).encode()
    version_1(files)
    assert not [key for key in failed(files) if key[0] == "checkpoint"]


def test_what_runs_is_not_made_up() -> None:
    """Neither pods nor cgroups were captured: threads say that the init container has ended; else nothing does."""
    files = {n: data for n, data in capture("B2-4").items() if n != "pods.json" and not n.startswith("cgroup/")}
    assert not [key for key in failed(files) if key[0] == "checkpoint"]
    del files["threads.json"]
    assert not [key for key in failed(files) if key[0] == "checkpoint"]
