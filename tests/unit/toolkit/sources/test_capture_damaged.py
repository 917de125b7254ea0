"""Parts of a capture that are absent, of the wrong form, or empty where the node shows that they cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.toolkit.sources.edited import Files, capture, document, failed, judged, part, place, rows

BU, BE, G1, GF = "bu-node1/main", "be-node1/main", "g1-node1/main", "gf-node1/main"


def reasons(files: Files) -> dict[str, str]:
    """Why each part is missing."""
    return {row["part"]: row["reason"] for row in document(files)["missing"]}


def outcome(files: Files, rule: str, subject: str) -> str:
    return str(judged(files)[rule, subject].outcome)


@pytest.mark.parametrize("text", ["[]", "{}", '"x"', "3", "null", '{"x": {}}', '{"x": 3}', "[{}]", '{"x": []}'])
@pytest.mark.parametrize("pods", [True, False])
def test_a_runtimes_list_that_is_none_passes_nothing(text: str, *, pods: bool) -> None:
    """As helpers all containers were promised nothing: a drift was missed, with exit code 0 and without a line."""
    files = capture("B1-4")
    drifts = rows(files)[BU]
    place(files, drifts, "0")
    files["containers.json"] = text.encode()
    if not pods:
        del files["pods.json"]
    assert "containers" in reasons(files)
    kinds = {row["kind"] for row in document(files)["claims"] if row.get("id") == drifts["id"]}
    assert kinds == {"container"}
    (name,) = [row["name"] for row in document(files)["claims"] if row.get("id") == drifts["id"]]
    assert outcome(files, "layers-agree", name) == "undecided"


def test_a_runtime_of_an_empty_node_lists_nothing() -> None:
    """Where there is no cgroup of a container nothing shows that it does."""
    files = {name: data for name, data in capture("B1-4").items() if "/pod" not in name}
    files |= {"containers.json": b"{}", "threads.json": b"[]", "pods.json": b'{"items": []}'}
    assert "containers" not in reasons(files)


def test_a_sandbox_alone_is_enough_to_believe_a_list() -> None:
    """A container that crashes again and again has no cgroup meanwhile."""
    files = capture("D-4")
    with part(files, "node.json") as node:
        boxes = {one["id"] for one in node["sandboxes"]["items"]}
    with part(files, "cgroup.json") as tree:
        for groups in tree.values():
            for path in [one for one in groups if "/pod" in one and one.count("/") > 2]:
                if path.rpartition("/")[2] not in boxes and len(path.rpartition("/")[2]) == 64:
                    del groups[path]
    assert "containers" not in reasons(files)


WRONG = [3, "x", [], [3], [{}]]
ANSWERS = [
    *[("D-4", "node.json", ("containers",), value, "containers") for value in WRONG],
    *[("D-4", "node.json", ("containers", "containers"), value, "containers") for value in (3, [], [3], [{}])],
    *[("D-4", "node.json", ("sandboxes",), value, "containers") for value in (3, "x", [])],
    *[("D-4", "node.json", ("podresources",), value, "pod_resources") for value in (3, "x", [])],
    *[("A-3", "podresources.json", ("List",), value, "pod_resources") for value in WRONG],
    *[("A-3", "podresources.json", ("List", "podResources"), value, "pod_resources") for value in (3, {}, [3], [])],
    *[("A-3", "podresources.json", ("GetAllocatableResources",), value, "pod_resources") for value in (3, "x")],
    *[("A-3", "podresources.json", ("GetAllocatableResources", "cpuIds"), v, "pod_resources") for v in (3, ["x"])],
    *[("A-3", "pods.json", ("items",), value, "pods") for value in (3, {}, None, [], [3])],
    *[("D-4", "cgroup.json", ("cpuset",), value, "cgroups") for value in (3, {}, None)],
    *[("D-4", "times.json", ("cgroup_read",), value, "times") for value in ("x", None, [])],
]


@pytest.mark.parametrize(("start", "name", "keys", "value", "missing"), ANSWERS)
def test_an_answer_of_another_form_is_missing(
    start: str, name: str, keys: tuple[str, ...], value: object, missing: str
) -> None:
    """What it would say is not known: that is a line, and no alarm."""
    files = capture(start)
    with part(files, name) as data:
        place_of_it = data
        for key in keys[:-1]:
            place_of_it = place_of_it[key]
        place_of_it[keys[-1]] = value
    assert missing in reasons(files)
    assert failed(files) == {}


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null", "{"])
@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("node.json", "containers"),
        ("pods.json", "pods"),
        ("threads.json", "threads"),
        ("cgroup.json", "cgroups"),
        ("times.json", "times"),
    ],
)
def test_a_part_of_another_form_is_missing(name: str, missing: str, text: str) -> None:
    files = capture("D-5")
    before = set(failed(files))
    files[name] = text.encode()
    assert missing in reasons(files)
    assert set(failed(files)) <= before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "no sample in it"),
        (b"\n", "no sample in it"),
        (b"curl: (7) Failed to connect\n", "no sample in it"),
        (b"kubelet_cpu_manager_exclusive_cpu_allocation_count 0\nkubelet_cpu_manager_shared_pool_si", "no sample ("),
    ],
)
def test_metrics_that_are_none_are_named(text: bytes, reason: str) -> None:
    """The kubelet's wrong gauge is not reported then: that must not look as if its metrics had been compared."""
    files = capture("A-5")
    assert "metrics" not in reasons(files)
    assert ("layers-agree", "kubelet metrics") in failed(files)
    files["metrics_managers.txt"] = text
    assert reason in reasons(files)["metrics"]
    assert failed(files) == {}


def test_metrics_of_a_kubelet_without_these_gauges_are_not_missing() -> None:
    files = capture("A-5")
    files["metrics_managers.txt"] = b'# HELP x y\nkubelet_running_pods{a="b {c}"} 2\n'
    assert "metrics" not in reasons(files)


@pytest.mark.parametrize(
    ("start", "name", "missing"),
    [
        ("A-3", "metrics_managers.txt", "metrics"),
        ("A-3", "sysfs.txt", "sysfs"),
        ("D-4", "times.json", "times"),
        ("D-4", "kubelet/allocated_pods_state", "allocated_pods"),
        ("D-4", "kubelet/actuated_pods_state", "actuated_pods"),
    ],
)
def test_a_part_of_its_layout_that_is_absent_is_named(start: str, name: str, missing: str) -> None:
    """With what it costs."""
    files = capture(start)
    assert missing not in reasons(files)
    del files[name]
    assert reasons(files)[missing].startswith("not in the capture: ")
    assert failed(files) == {}


def test_an_older_kubelet_has_no_file_of_allocations() -> None:
    files = capture("D-4")
    del files["kubelet/allocated_pods_state"]
    files["metrics_managers.txt"] = b'kubernetes_build_info{git_version="v1.32.1"} 1\n'
    assert "allocated_pods" not in reasons(files)


@pytest.mark.parametrize("text", [None, b"", b"\xff\x00\xfe", b"nonsense\n"])
def test_without_the_machine_no_node_of_memory_is_right(text: bytes | None) -> None:
    """CPUs and memory of this container are on different nodes, and that cannot be seen."""
    files = capture("B1-4")
    assert outcome(files, "layers-agree", GF) == "failed"
    files.pop("sysfs.txt")
    if text is not None:
        files["sysfs.txt"] = text
    assert "sysfs" in reasons(files)
    assert outcome(files, "layers-agree", GF) == "undecided"


def test_a_cgroup_that_was_not_read_passes_nothing() -> None:
    """Its drift is what the other layers cannot see."""
    files = capture("D-5")
    assert outcome(files, "layers-agree", BE) == "failed"
    del files["cgroup.json"]
    assert outcome(files, "layers-agree", BE) == "undecided"


def garble(files: Files, row: dict[str, Any], source: str) -> None:
    """Let one source say something that is no list of CPUs."""
    if source == "containers":
        with part(files, "node.json") as node:
            node["status"][row["id"]]["status"]["resources"]["linux"]["cpusetCpus"] = "2-"
    elif source == "cgroups":
        with part(files, "cgroup.json") as tree:
            (path,) = [path for path in tree["cpuset"] if path.endswith(row["id"])]
            tree["cpuset"][path] |= {"cpuset.cpus": "2-", "cpuset.effective_cpus": "2-"}
    else:
        place(files, row, "2-")


@pytest.mark.parametrize("source", ["containers", "cgroups", "threads"])
def test_a_text_that_is_no_list_of_cpus_is_named(source: str) -> None:
    """It was read, and it says nothing."""
    files = capture("D-4")
    assert source not in reasons(files)
    garble(files, rows(files)[BU], source)
    assert "'2-'; expected a list" in reasons(files)[source]
    assert BU in reasons(files)[source]
    assert failed(files) == {}


def test_a_cgroup_that_the_runtime_does_not_list_is_named() -> None:
    """Whatever it is was promised something, and nothing says what."""
    files = capture("B1-4")
    assert "names" not in reasons(files)
    ident = rows(files)[BU]["id"]
    with part(files, "containers.json") as listed:
        del listed[ident]
    files["pods.json"] = json.dumps({"items": []}).encode()
    assert "in no list of the runtime" in reasons(files)["names"]


@pytest.mark.parametrize("said", ["Proposed", "InProgress", "Deferred", "Infeasible"])
@pytest.mark.parametrize("done", [True, False])
def test_a_resize_of_an_older_kubelet_is_seen(said: str, *, done: bool) -> None:
    """1.27 to 1.32 say it in `status.resize`; what is under way may be in force or not, what waits is not."""
    files = capture("D-4")
    for name in ("kubelet/allocated_pods_state", "kubelet/actuated_pods_state"):
        del files[name]
    with part(files, "pods.json") as pods:
        pod = next(one for one in pods["items"] if one["metadata"]["name"] == "bu-node1")
        main = pod["spec"]["containers"][0]
        pod["status"]["containerStatuses"][0]["resources"] = json.loads(json.dumps(main["resources"]))
        main["resources"]["limits"]["cpu"] = "600m"
        pod["status"]["resize"] = said
    row = rows(files)[BU]
    waits = said in ("Deferred", "Infeasible")
    assert row["quota_us"] == (30_000 if waits else None)
    if done:
        with part(files, "cgroup.json") as tree:
            for path, controls in tree["cpu"].items():
                if path.endswith((row["id"], f"pod{row['pod_uid']}")):
                    controls["cpu.cfs_quota_us"] = "60000"
    wrong = {subject for rule, subject in failed(files) if rule == "applied"}
    assert wrong == ({BU, "bu-node1/(pod)"} if done and waits else set())


def test_a_quota_of_an_owner_is_a_doubt_where_no_version_is_said() -> None:
    """v1.32 leaves owners of CPUs their quota, later ones do not; a sample that v1.33 brought proves the version."""
    files = capture("A-3")
    row = rows(files)[G1]
    with part(files, "containers.json") as listed:
        listed[row["id"]]["resources"]["cpu"] |= {"quota": 100_000, "period": 100_000}
    for name in files:
        if name.endswith("cpu.cfs_quota_us") and row["id"] in name:
            files[name] = b"100000\n"
    assert outcome(files, "applied", G1) == "failed"
    assert "version" not in reasons(files)
    lines = files["metrics_managers.txt"].decode().splitlines(keepends=True)
    files["metrics_managers.txt"] = "".join(one for one in lines if "allocation_per_numa" not in one).encode()
    assert outcome(files, "applied", G1) == "undecided"
    assert "version" in reasons(files)
