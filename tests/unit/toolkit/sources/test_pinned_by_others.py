"""Nodes whose containers are pinned by NRI policies or the DRA CPU driver: judged by these programs' word."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from tests.unit.toolkit.sources.edited import (
    Files,
    capture,
    document,
    failed,
    judged,
    part,
    place,
    rows,
    unmanaged,
)
from tests.unit.toolkit.sources.pinners import CDI_NAME, CLAIM, SECRET, cache, cached, grant, specification
from toolkit.errors import InputError
from toolkit.sources import cluster_objects, nri
from toolkit.sources.dra_cpu import FOLDER

BE, BU, G2 = "be-node1/main", "bu-node1/main", "g2-node1/main"
LAYERS = "layers-agree"


def pinned(files: Files, sets: dict[str, str], grants: dict[str, tuple[str, int, int]] | None = None) -> None:
    """Let an NRI policy have pinned containers to sets, by name, and their cgroups have them."""
    found = {name: row["id"] for name, row in rows(files).items() if name in sets}
    given = (
        None
        if grants is None
        else {found[name]: grant(found[name], own, part=part, kind=kind) for name, (own, part, kind) in grants.items()}
    )
    for name, cpus in sets.items():
        place(files, rows(files)[name], cpus)
    files[nri.FILE] = nri.kept(cache({found[name]: cached(cpus) for name, cpus in sets.items()}, given), "cache")


def claimed(files: Files, name: str, cpus: str, prepared: str | None) -> None:
    """Let a container have a claim of the DRA CPU driver. :param prepared: by its CDI specification; ``None``: none."""
    with part(files, "node.json") as node:
        node["status"][rows(files)[name]["id"]]["draCpus"] = {CLAIM: cpus}
    if prepared is not None:
        files[f"{FOLDER}{CDI_NAME}"] = specification(prepared)


def missing(files: Files) -> str:
    """What is said of these programs' words."""
    return "; ".join(row["reason"] for row in document(files)["missing"] if row["part"] == "pinned")


def test_balloons_are_the_word_where_the_kubelet_has_none() -> None:
    files = unmanaged()
    quotas = failed(files)  # A kubelet with this policy would have given owners of whole CPUs their quota.
    pinned(files, {BE: "4-7", BU: "4-7", G2: "2-3"})
    row = rows(files)[BE]
    assert (row["cpus"], row["isolation"], row["pinned_by"]) == ("4-7", "host", "NRI balloons")
    found = judged(files)
    assert (found["applied", BE].outcome, found[LAYERS, BE].outcome, failed(files)) == ("passed", "passed", quotas)
    assert found[LAYERS, BE].measures["plugin_cpus"] == "4-7"

    place(files, row, "0-7")
    assert failed(files)[LAYERS, BE] == "NRI balloons and cgroup differ: CPUs 4-7 against 0-7"
    assert failed(files)["applied", BE].startswith("cpuset.cpus was 0-7, promised 4-7 (by NRI balloons)")
    assert failed(files).keys() - quotas.keys() == {(LAYERS, BE), ("applied", BE), ("affinity-mask", BE)}


def test_without_its_word_the_same_node_says_nothing() -> None:
    files = unmanaged()
    assert judged(files)[LAYERS, BE].outcome == "skipped"


def test_a_policy_may_narrow_what_the_state_file_gives() -> None:
    files = capture("B1-4")
    place(files, rows(files)[BE], "7")
    assert (LAYERS, BE) in failed(files)
    pinned(files, {BE: "7"})
    assert failed(files) == failed(capture("B1-4"))
    assert rows(files)[BE]["cpus"] == "7"
    place(files, rows(files)[BE], "6")
    assert "NRI balloons and cgroup differ" in failed(files)[LAYERS, BE]


def test_what_is_wider_than_the_state_file_is_judged_by_that() -> None:
    files = capture("B1-4")
    pinned(files, {BE: "2-7"})
    assert rows(files)[BE]["pinned_by"] == ""
    assert (LAYERS, BE) in failed(files)


def test_exclusive_grants_belong_to_one_container() -> None:
    """Topology-aware says so itself; with a part of the shared pool the set is not the container's alone."""
    files = unmanaged()
    quotas = failed(files)
    pinned(files, {BE: "4-7", BU: "4-7", G2: "2-3"}, {G2: ("2-3", 0, 0), BE: ("", 300, 0)})
    assert (rows(files)[G2]["isolation"], rows(files)[G2]["pinned_by"]) == ("container", "NRI topology-aware")
    assert failed(files) == quotas
    pinned(files, {BE: "3-7", BU: "4-7", G2: "2-3"}, {G2: ("2-3", 0, 0), BE: ("", 300, 0)})
    said = failed(files)[LAYERS, BE]
    assert said == "it may run on CPU 3, exclusive to g2-node1/main (NRI topology-aware)"
    pinned(files, {G2: "2-5"}, {G2: ("2-3", 300, 0)})
    assert rows(files)[G2]["isolation"] == "host"


def test_what_a_policy_leaves_alone_is_not_promised() -> None:
    files = unmanaged()
    pinned(files, {BE: "4-7"}, {BE: ("", 0, 2)})
    assert (rows(files)[BE]["cpus"], rows(files)[BE]["pinned_by"]) == (None, "")


def test_a_word_that_changed_while_the_node_was_read_is_no_promise() -> None:
    files = unmanaged()
    pinned(files, {BE: "4-7", BU: "4-7"})
    before = files[nri.FILE]
    pinned(files, {BE: "4-5", BU: "4-7"})
    files[nri.FILE], files[nri.FILE_AFTER] = before, files[nri.FILE]
    assert (rows(files)[BE]["cpus"], rows(files)[BU]["cpus"]) == (None, "4-7")
    assert "its word changed while the node was read" in missing(files)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda _: b"{", id="no-json"),
        pytest.param(lambda _: b"[]", id="no-mapping"),
        pytest.param(lambda _: cache({}, Containers=[1]), id="no-containers"),
        pytest.param(lambda one: cache({one: cached("4-7")}, Version="2"), id="another-version"),
        pytest.param(lambda one: cache({one: cached("4-7")}, PolicyJSON={"allocations": "{"}), id="broken-grants"),
        pytest.param(lambda one: cache({one: cached("4-7")}, PolicyJSON={"allocations": {}}), id="grants-of-no-text"),
    ],
)
def test_a_cache_that_cannot_be_used_is_a_doubt(wrong: Callable[[str], bytes]) -> None:
    """One line says so, and nothing passes that it may speak of."""
    files = unmanaged()
    files[nri.FILE] = wrong(rows(files)[BE]["id"])
    assert missing(files).startswith(nri.FILE)
    assert "\n" not in missing(files)
    assert judged(files)[LAYERS, BE].outcome == "undecided"


@pytest.mark.parametrize("cpus", ["4-", "0-99999999999", "\x1b[2J", "-1"])
def test_a_set_that_is_none_is_named(cpus: str) -> None:
    """Of the other containers the cache is believed."""
    files = unmanaged()
    found = rows(files)
    files[nri.FILE] = cache({found[BE]["id"]: cached(cpus), found[BU]["id"]: cached("6-7")})
    assert (rows(files)[BE]["cpus"], rows(files)[BU]["cpus"]) == (None, "6-7")
    assert "expected a list of numbers" in missing(files)
    assert "\x1b" not in missing(files)


def test_a_claim_of_the_dra_driver_is_exclusive() -> None:
    files = unmanaged("D-4")
    name, other, cpus, before = "g1-node1/main", "be-node1/main", "1", failed(files)
    claimed(files, name, cpus, cpus)
    row = rows(files)[name]
    assert (row["cpus"], row["isolation"], row["pinned_by"]) == (cpus, "container", "the DRA CPU driver")
    assert failed(files) == before
    place(files, rows(files)[other], "0-7")
    assert f"exclusive to {name} (the DRA CPU driver)" in failed(files)[LAYERS, other]


@pytest.mark.parametrize(
    ("cpus", "prepared", "said"),
    [
        pytest.param("1", None, "no CDI specification of the driver has this claim", id="written-by-the-pod"),
        pytest.param("1", "2", "CPUs 1; expected those of its CDI specification, 2", id="another-one"),
        pytest.param("x", "1", "x; expected a list of CPUs", id="no-list"),
        pytest.param("", "1", "no CPU; expected a list of CPUs", id="empty"),
    ],
)
def test_a_variable_that_the_driver_did_not_prepare_is_no_promise(cpus: str, prepared: str | None, said: str) -> None:
    files = unmanaged("D-4")
    name = next(name for name in rows(files) if name.endswith("main"))
    claimed(files, name, cpus, prepared)
    assert (rows(files)[name]["cpus"], rows(files)[name]["pinned_by"]) == (None, "")
    assert said in missing(files)


def test_a_specification_of_another_driver_is_named() -> None:
    files = unmanaged("D-4")
    files[f"{FOLDER}{CDI_NAME}"] = json.dumps({"kind": "nvidia.com/gpu"}).encode()
    assert "of another kind" in missing(files)


def test_two_programs_that_say_two_things_promise_nothing() -> None:
    files = unmanaged("D-4")
    name = next(name for name in rows(files) if name.endswith("main"))
    claimed(files, name, "1", "1")
    files[nri.FILE] = cache({rows(files)[name]["id"]: cached("2-3")})
    assert rows(files)[name]["cpus"] is None
    assert "NRI balloons says CPUs 2-3, the DRA CPU driver 1" in missing(files)


def objects(*rows: dict[str, object]) -> bytes:
    """Objects of the cluster, as kubectl prints them, with what is not read."""
    listed = [{"apiVersion": "x/v1", "status": {"s": SECRET}, **row} for row in rows]
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": listed}).encode()


def given(files: Files, *rows: dict[str, object]) -> None:
    """Let these objects of the cluster be given with a node."""
    files[cluster_objects.FILE] = cluster_objects.kept(objects(*rows), "objects.yaml")
    assert SECRET.encode() not in files[cluster_objects.FILE]


@pytest.mark.parametrize(("pin", "cpus"), [(False, None), (True, "4-7")])
def test_a_policy_that_is_told_to_pin_nothing_promises_nothing(pin: bool, cpus: str | None) -> None:
    files = unmanaged()
    pinned(files, {BE: "4-7"})
    given(files, {"kind": "BalloonsPolicy", "metadata": {"name": "default"}, "spec": {"pinCPU": pin}})
    assert rows(files)[BE]["cpus"] == cpus


def test_what_a_policy_has_published_is_its_word_without_a_cache() -> None:
    """With one the cache's word holds, and a difference is said."""
    files = unmanaged()
    zone = {"name": "default/be-node1/main", "type": "allocation for container"}
    zone |= {"attributes": [{"name": "cpuset", "value": "4-7"}, {"name": "memory set", "value": "0"}]}
    given(files, {"kind": "NodeResourceTopology", "metadata": {"name": "n"}, "zones": [zone]})
    row = rows(files)[BE]
    assert (row["cpus"], row["pinned_by"]) == ("4-7", "NRI (NodeResourceTopology)")
    pinned(files, {BE: "4-5"})
    assert rows(files)[BE]["cpus"] == "4-5"
    assert "NRI balloons says CPUs 4-5, its NodeResourceTopology 4-7" in missing(files)


@pytest.mark.parametrize(("published", "cpus"), [(1, "1"), (2, None)])
def test_a_claim_has_cpus_of_the_drivers_slices(published: int, cpus: str | None) -> None:
    files = unmanaged("D-4")
    claimed(files, "g1-node1/main", "1", "1")
    device = {"name": "cpudev", "attributes": {"dra.cpu/cpuID": {"int": published}, "dra.cpu/socketID": {"int": 0}}}
    given(files, {"kind": "ResourceSlice", "spec": {"driver": "dra.cpu", "nodeName": "n", "devices": [device]}})
    assert rows(files)["g1-node1/main"]["cpus"] == cpus
    assert (cpus is None) == ("no ResourceSlice of the DRA CPU driver has CPU 1" in missing(files))


@pytest.mark.parametrize("wrong", [b"{", b"a: [", b"kind: Pod", b"items: 3", b"[]", b"\xff\x00"])
def test_objects_that_are_none_are_one_line(wrong: bytes) -> None:
    with pytest.raises(InputError, match=r"^objects\.yaml: ") as error:
        cluster_objects.kept(wrong, "objects.yaml")
    assert "\n" not in str(error.value)
