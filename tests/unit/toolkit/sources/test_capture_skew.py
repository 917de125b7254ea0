"""Parts of a capture that were read one after the other, and CPUs that the kernel took away: no other program wrote."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.unit.toolkit.sources.edited import Files, asked, capture, failed, judged, part, place, rows, write_state
from tests.unit.toolkit.sources.relaid import cgroup_root

SHARED = ("be-node1/main", "bu-node1/main", "gf-node1/main")
METRICS = "metrics_managers.txt"


@pytest.mark.parametrize("root", ["memory", "cpu/nodes", "freezer"])
def test_a_root_that_is_called_as_a_controller(root: str) -> None:
    """`--cgroup-root=/memory` on v2 is a cgroup, and no hierarchy of v1."""
    files = capture("B1-4")
    moved = cgroup_root(files, root)
    want = {name: f"/{root}{row['cgroup']}" for name, row in rows(files).items()}
    assert {name: row["cgroup"] for name, row in rows(moved).items()} == want
    assert set(failed(moved)) == set(failed(files))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("cpus", [pytest.param("2-7", id="deleted"), pytest.param("6-7", id="admitted")])
def test_a_list_of_after_the_next_allocation_is_no_drift(cpus: str, count: int) -> None:
    """Lists are read up to a minute after state file and cgroups, which are of one moment and agree."""
    files = capture("B1-3")
    base, late = failed(files), SHARED[:count]
    assert rows(files)[late[0]]["state_cpus"] == "4-7"
    for name in late:
        asked(files, rows(files)[name], cpus)
    found = judged(files)
    assert set(failed(files)) == set(base)
    for name in set(late) - {subject for _, subject in base}:
        assert found["layers-agree", name].outcome == "undecided"
        assert "the cgroup is as the state file says" in found["layers-agree", name].reason


@pytest.mark.parametrize(
    ("words", "late"),
    [
        pytest.param({0: ("4-7", "2-7"), 1: ("2-7", "2-7"), 2: ("2-7", "2-7")}, (0,), id="the-first-was-asked-for"),
        pytest.param({0: ("4-7", "2-7"), 1: ("4-7", "2-7")}, (), id="not-all-have-the-old-set"),
        pytest.param({0: ("4-7", "2-7")}, (), id="one-alone-is-drift"),
    ],
)
def test_a_reconcile_goes_from_container_to_container(words: dict[int, tuple[str, str]], late: tuple[int, ...]) -> None:
    """The list may be of its middle; another program's write does not hit all. By number: asked for, has."""
    files = capture("B1-3")
    for number, (cri, cgroup) in words.items():
        asked(files, rows(files)[SHARED[number]], cri)
        place(files, rows(files)[SHARED[number]], cgroup)
    found = judged(files)
    open_ = {
        subject for rule, subject in found if found[rule, subject].outcome == "undecided" and rule == "layers-agree"
    }
    assert {SHARED[number] for number in late} <= open_
    wrong = {subject for rule, subject in failed(files) if rule in ("applied", "affinity-mask")}
    assert wrong == set() if late else SHARED[0] in wrong


def test_threads_of_after_a_reconcile_leave_files_open() -> None:
    """What was asked for cannot be compared with a cgroup that was read before its threads got it."""
    files = capture("D-4")
    row = rows(files)["be-node1/main"]
    threads = files["threads.json"]
    place(files, row, "0-1")
    files["threads.json"] = threads
    assert failed(files) == {}
    assert judged(files)["layers-agree", "be-node1/main"].outcome == "undecided"


def test_an_owner_that_is_not_made_yet_explains_a_lag() -> None:
    """Its CPUs are assigned in the state file before any container of it exists."""
    files = capture("D-3")
    owner = rows(files)["g1-node1/main"]
    with part(files, "cgroup.json") as tree:
        for groups in tree.values():
            for path in [path for path in groups if owner["pod_uid"] in path]:
                del groups[path]
    with part(files, "threads.json") as threads:
        threads[:] = [one for one in threads if owner["pod_uid"] not in str(one["cgroup"])]
    for name, row in rows(files).items():
        if row.get("state_cpus") == "0" and name != "g1-node1/main":
            asked(files, row, "0")
    with part(files, "times.json") as times:
        times["end"] += 30
    assert failed(files) == {}


def test_drift_is_reported_however_late_the_list_is() -> None:
    """What is in the cgroup is not what the state file says either."""
    files = capture("B1-3")
    asked(files, rows(files)["be-node1/main"], "6-7")
    place(files, rows(files)["be-node1/main"], "2-7")
    assert "cri and cgroup differ" in failed(files)["layers-agree", "be-node1/main"]


TIMES = [
    pytest.param({}, "failed", id="at-once"),
    pytest.param({"end": 60.0}, "undecided", id="later"),
    pytest.param({"end": -60.0}, "undecided", id="a-clock-that-went-back"),
    pytest.param({"sockets_read": -60.0}, "undecided", id="lists-first"),
]


def read_at(files: Files, times: dict[str, float]) -> None:
    """Let parts have been read so long after the cgroups."""
    with part(files, "times.json") as read:
        read |= {key: read["cgroup_read"] + seconds for key, seconds in times.items()}


@pytest.mark.parametrize(("times", "outcome"), TIMES)
def test_only_what_was_read_at_once_is_of_one_moment(times: dict[str, float], outcome: str) -> None:
    """An old set of all shared containers is another program's work if no time was left for a reconcile."""
    files = capture("D-4")
    found = rows(files).items()
    shared = [name for name, row in found if row.get("state_cpus") == "0" and not row["in_state"]]
    for name in shared:
        place(files, rows(files)[name], "0-1")
    read_at(files, times)
    assert {judged(files)["layers-agree", name].outcome for name in shared} == {outcome}


@pytest.mark.parametrize("times", [param.values[0] for param in TIMES], ids=[str(param.id) for param in TIMES])
@pytest.mark.parametrize("name", ["be-node1/logger", "g1-node1/main"])
def test_a_cgroup_that_is_as_the_state_file_says_is_no_drift(name: str, times: dict[str, float]) -> None:
    """A deletion changes state, requests and cgroups within milliseconds, while they are read one after the other."""
    files = capture("D-4")
    asked(files, rows(files)[name], "0-1")
    read_at(files, times)
    assert failed(files) == {}
    assert judged(files)["layers-agree", name].outcome == "undecided"


@pytest.mark.parametrize(
    ("written_s", "late"), [(-4.0, True), (-60.0, False), (None, False)], ids=["just-now", "long-ago", "not-known"]
)
def test_a_state_file_that_was_just_written_explains_cgroups_that_are_half_done(
    written_s: float | None, late: bool
) -> None:
    """One container has its new set, the other the old one, and the list, read a minute later, is of after it all."""
    files = capture("D-4")
    place(files, rows(files)["be-node1/main"], "0-1")
    read_at(files, {"end": 60.0} | ({} if written_s is None else {"state_written": written_s}))
    found = judged(files)["layers-agree", "be-node1/main"]
    assert found.outcome == ("undecided" if late else "failed")
    assert ("applied", "be-node1/main") not in failed(files) or not late


def state_written(files: Files, ago_s: float, **other_s: float) -> None:
    """Let the kubelet have written its state file so long before it was read; others likewise."""
    with part(files, "times.json") as read:
        read |= {name: read["state_read"] - value for name, value in {"state_written": ago_s, **other_s}.items()}


@pytest.mark.parametrize("name", ["be-node1/main", "be-node1/logger", "bu-node1/main"])
def test_a_lag_beyond_period_and_slack_is_a_fault(name: str) -> None:
    """State and request differ for a reconcile at the most; then it was not reconciled."""
    files = capture("D-3")
    state_written(files, 300)
    found = judged(files)["layers-agree", name]
    assert found.outcome == "failed"
    assert (found.measures["checkpoint_cpus"], found.measures["cri_cpus"]) == ("0", "0-1")
    assert found.measures["overlap_cpus"] == "1"


def since_start(files: Files, ago_s: float) -> None:
    """Let every container have started so long before the state file was read."""
    read_s = json.loads(files["times.json"])["state_read"]
    with part(files, "node.json") as node:
        for status in node["status"].values():
            status["status"]["startedAt"] = str(int((read_s - ago_s) * 1e9))


def without_pods(files: Files) -> None:
    """The kubelet's list was not read."""
    del files["pods.json"]


def resized(files: Files) -> None:
    """The cgroups are of after a change that came right after the state file was read: as it says they are."""
    for name, row in rows(files).items():
        if row.get("state_cpus") == "0" and not row["in_state"]:
            place(files, rows(files)[name], "0")


EXCUSED = [
    pytest.param(lambda files: state_written(files, 14), id="just-written"),
    pytest.param(lambda files: state_written(files, -30), id="a-clock-that-went-back"),
    pytest.param(lambda files: state_written(files, 300, kubelet_started=5), id="the-kubelet-has-just-started"),
    pytest.param(lambda files: state_written(files, 300, kubelet_started=0), id="no-kubelet-runs"),
    pytest.param(lambda files: state_written(files, 300, state_rewritten=-0.1), id="written-again-meanwhile"),
    pytest.param(lambda files: (state_written(files, 300), since_start(files, 9)), id="they-have-just-started"),
    pytest.param(lambda files: (state_written(files, 300), without_pods(files)), id="perhaps-just-started"),
    pytest.param(lambda files: (state_written(files, 300), resized(files)), id="the-cgroups-are-right"),
]


@pytest.mark.parametrize("change", EXCUSED)
def test_a_lag_that_may_be_none_or_short_is_open(change: Callable[[Files], object]) -> None:
    """What happens on a healthy node is no fault."""
    files = capture("D-3")
    change(files)
    assert failed(files) == {}
    assert judged(files)["layers-agree", "be-node1/main"].outcome == "undecided"


def test_a_lag_without_a_list_of_pods_is_a_fault_where_cpus_have_another_owner() -> None:
    """Whether its pod has ended or not: nothing repairs it."""
    files = capture("D-3")
    without_pods(files)
    state_written(files, 300, kubelet_started=600)
    assert "be-node1/main" in {subject for rule, subject in failed(files) if rule == "layers-agree"}


def test_a_pool_that_has_not_grown_back_may_be_of_an_ended_pod_where_pods_are_not_listed() -> None:
    """No reconcile comes for it, and it takes nothing from others."""
    files = capture("D-4")
    for name in ("be-node1/main", "be-node1/logger", "bu-node1/main"):
        assert rows(files)[name]["state_cpus"] == "0"
    write_state(files, "0-1")
    state_written(files, 300, kubelet_started=600)
    late = {("layers-agree", name) for name in ("be-node1/main", "be-node1/logger", "bu-node1/main")}
    assert late <= failed(files).keys()
    without_pods(files)
    assert not late & failed(files).keys()
    assert {judged(files)[key].outcome for key in late} == {"undecided"}


@pytest.mark.parametrize(("ago_s", "outcome"), [(300.0, "failed"), (4.0, "undecided")])
def test_no_late_reconcile_explains_old_sets_of_all(ago_s: float, outcome: str) -> None:
    """It would have come long before the cgroups were read: another program wrote to all of them."""
    files = capture("D-4")
    shared = [name for name, row in rows(files).items() if row.get("state_cpus") == "0" and not row["in_state"]]
    for name in shared:
        place(files, rows(files)[name], "0-1")
    read_at(files, {"end": 60.0})
    state_written(files, ago_s)
    assert {judged(files)["layers-agree", name].outcome for name in shared} == {outcome}


def test_a_set_that_was_never_promised_is_drift_in_the_middle_of_a_reconcile_too() -> None:
    """Half done are the old set and the new one."""
    files = capture("D-3")
    place(files, rows(files)["be-node1/main"], "1")
    read_at(files, {"end": 60.0, "state_written": -4.0})
    assert "cri and cgroup differ" in failed(files)["layers-agree", "be-node1/main"]


def test_gauges_of_after_a_deletion_are_not_wrong() -> None:
    """The gauges are read with the pod-resources API, which has no CPUs of the pod any more."""
    files = capture("B1-3")
    text = files[METRICS].decode()
    for old, new in (("_count 2", "_count 0"), ("_millicores 4000", "_millicores 6000"), ('"0"} 2', '"0"} 0')):
        assert old in text
        text = text.replace(old, new)
    files[METRICS] = text.encode()
    assert "exclusive_cpu_allocation_count is 0" in failed(files)["layers-agree", "kubelet metrics"]
    with part(files, "podresources.json") as answers:
        for pod in answers["List"]["podResources"]:
            for container in pod["containers"]:
                container.pop("cpuIds", None)
    assert judged(files)["layers-agree", "kubelet metrics"].outcome == "undecided"


OFFLINE = [
    pytest.param("B1-3", "g2-node1/main", "2", "0-2,4-7", "passed", id="one-of-two"),
    pytest.param("A-3", "g1-node1/main", "0", "0", "undecided", id="all-that-it-has"),
]


@pytest.mark.parametrize(("start", "name", "left", "online", "outcome"), OFFLINE)
def test_a_cpu_that_went_offline_is_no_drift(start: str, name: str, left: str, online: str, outcome: str) -> None:
    """The kernel takes it out of cpusets; rule checkpoint names what is assigned and offline."""
    files = capture(start)
    base, row = failed(files), rows(files)[name]
    place(files, row, left)
    assert "cri and cgroup differ" in failed(files)["layers-agree", name]  # Nothing says that it is offline.
    lines = files["sysfs.txt"].decode().splitlines()
    said = "/sys/devices/system/cpu/online: "
    files["sysfs.txt"] = "\n".join(f"{said}{online}" if line.startswith(said) else line for line in lines).encode()
    found = failed(files)
    assert "in a set but not online" in found["checkpoint", "cpu_manager_state"]
    assert found.keys() - base.keys() <= {("checkpoint", "cpu_manager_state"), ("affinity-mask", name)}
    assert judged(files)["layers-agree", name].outcome == outcome
    del files["containers.json"]
    assert ("layers-agree", name) not in failed(files)
