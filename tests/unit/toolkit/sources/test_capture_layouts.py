"""The public captures laid out otherwise: another driver, another runtime, another root, older versions of a file.

A node says the same in all of them, so claims and verdicts are the same but for the paths.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.sources.edited import DATA, STATE, Files, capture, document, failed, judged, part, rows
from tests.unit.toolkit.sources.relaid import cgroup_root, systemd
from toolkit.allocation.checkpoint.format import fnv32a
from toolkit.model.names import from_text
from toolkit.sources.kubelet.bundle_files import read_bundle_files

CAPTURES = sorted(DATA.glob("*.tar.gz"))
OUTCOMES = ("layers-agree", "applied", "checkpoint", "affinity-mask", "numa-alignment")


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


@pytest.mark.parametrize("root", ["kubelet", "my-kubepods", "kubepods.slice/kubepods-prod.slice", "n\u202e/b"])
@pytest.mark.parametrize("start", ["B1-4", "D-5", "A2-4"])
def test_pods_below_another_root(start: str, root: str) -> None:
    """A kubelet with a cgroup root, which may be named as that of all pods is, or in a container of its own."""
    files = capture(start)
    moved = cgroup_root(files, root)
    assert document(moved)["pods_root"] == f"/{from_text(root)}/kubepods"
    assert without_paths(moved) == without_paths(files)
    assert outcomes(moved) == outcomes(files)


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
    """Its owner is not known: whether its CPUs are leaked is left open, and nobody else loses its own."""
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
    """Neither pods nor cgroups were captured: threads say that the init container has ended; without them nobody."""
    files = {n: data for n, data in capture("B2-4").items() if n != "pods.json" and not n.startswith("cgroup/")}
    assert not [key for key in failed(files) if key[0] == "checkpoint"]
    del files["threads.json"]
    assert not [key for key in failed(files) if key[0] == "checkpoint"]
