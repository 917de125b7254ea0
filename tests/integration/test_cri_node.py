"""``claims --kubelet``, ``capture`` and ``judge --capture`` on a node of a real runtime with real cgroups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.integration.containerd_node import SHIM_SOCKETS
from tests.integration.cri_node import ONE_PID_NAMESPACE, SECRET, Node, Runtime, alone, cgroups_of, processes_of
from tests.integration.cri_runtimes import RUNTIMES, need
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.cli.main import cli
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.files.capture import read_bundle_files

pytestmark = [pytest.mark.integration, pytest.mark.beside]

G1, BE, ST = (f"0a1b2c3d-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))


@dataclass(frozen=True)
class Made:
    """The node with its two pods: g1 owns CPU 1, be has the rest."""

    node: Node
    kubelet: Path
    logs: Path
    main: str
    shared: str

    def run(self, *arguments: str) -> Result:
        roots = [f"--kubelet-root={self.kubelet}", f"--logs={self.logs}"]
        return CliRunner().invoke(cli, [*arguments, *roots])

    def claims(self) -> dict[str, Any]:
        result = self.run("claims", "--kubelet", "--json")
        assert result.exit_code == 0, result.output
        return self.mine(json.loads(result.stdout))

    def mine(self, document: dict[str, Any]) -> dict[str, Any]:
        """Subjects of this node by name; another node's ``kubepods`` on this machine is not ours."""
        rows = {row["name"]: row for row in document["claims"] if row["cgroup"].startswith(f"{self.node.top}/")}
        return document | {"claims": rows}


@pytest.fixture(scope="module")
def no_other_node() -> Iterator[None]:
    """For as long as the node stands, and what it leaves is looked at."""
    with alone():
        yield


@pytest.fixture(scope="module", params=RUNTIMES, ids=str)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, no_other_node: None
) -> Iterator[Made]:
    runtime: Runtime = request.param
    online = need(runtime)
    folder = tmp_path_factory.mktemp("c")
    before = set(SHIM_SOCKETS.glob("*"))
    kubelet, logs = folder / "kubelet", folder / "names"
    kubelet.mkdir()
    logs.mkdir()
    default = online - CpuSet.of((1,))
    state = CpuState(policy_name="static", default=default, entries={G1: {"main": CpuSet.of((1,))}})
    (kubelet / "cpu_manager_state").write_text(write_cpu_checkpoint(state, pod_level=False))
    with runtime.start(folder / "n") as node:
        (kubelet / "config.yaml").write_text(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
            f"reservedSystemCPUs: '0'\ncontainerRuntimeEndpoint: unix://{node.socket}\n"
        )
        main = node.container(
            node.pod(G1, "g1"), "main", cpu_period=100000, cpu_quota=-1, cpu_shares=1024, cpuset_cpus="1"
        )
        # Made before g1 took CPU 1, and not reconciled yet.
        shared = node.container(
            node.pod(BE, "be", "/besteffort"), "main", cpu_period=100000, cpu_shares=2, cpuset_cpus="0-1"
        )
        for pod, container in (("g1", main), ("be", shared)):
            (logs / f"{pod}_default_main-{container}.log").symlink_to("/nowhere")
        yield Made(node, kubelet, logs, main, shared)
    assert cgroups_of(node.top) == []
    assert processes_of(folder) == []
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert set(SHIM_SOCKETS.glob("*")) <= before


def test_claims_come_from_state_file_cri_and_cgroups(made: Made) -> None:
    """Promises of the state file, quota and weight that were asked for, the set in force, masks of real threads."""
    document = made.claims()
    rows = document["claims"]
    assert {name: row["kind"] for name, row in rows.items()} == {
        "g1/main": "container",
        "g1/(sandbox)": "sandbox",
        "be/main": "container",
        "be/(sandbox)": "sandbox",
    }
    main, shared = rows["g1/main"], rows["be/main"]
    assert (main["id"], main["pod_uid"], main["cpus"], main["isolation"]) == (made.main, G1, "1", "container")
    assert (main["state_cpus"], main["in_state"], main["quota_us"], main["shares"]) == ("1", True, -1, 1024)
    assert (main["observed"]["cpuset.cpus"], main["thread_masks"], main["live_threads"]) == ("1", ["1"], 1)
    assert (shared["in_state"], shared["isolation"], shared["shares"]) == (False, "host", 2)
    assert (shared["observed"]["cpuset.cpus"], shared["thread_masks"]) == ("0-1", ["0-1"])
    missing = {row["part"]: row["reason"] for row in document["missing"]}
    assert set(missing) == {"version", "memory_state", "pods", "parents", "limits", "pod_resources"}, (
        "RuntimeConfig, unimplemented, is no error"
    )


def test_lag_reconcile_and_drift_are_told_apart(made: Made, tmp_path: Path) -> None:
    """What was asked for last comes from the runtime: lag while it is wide, drift where the cgroup is another."""
    assert _judged(made, tmp_path / "lag.tar.gz") == {("be/main", "undecided", "checkpoint and cri")}
    default = made.claims()["claims"]["be/main"]["state_cpus"]
    made.node.update(made.shared, cpuset_cpus=default, cpu_shares=2, cpu_period=100000)
    assert _judged(made, tmp_path / "well.tar.gz") == set()
    file = made.node.cpuset(made.main)
    file.write_text("0-1")
    try:
        drift = _judged(made, tmp_path / "drift.tar.gz")
    finally:
        file.write_text("1")
    assert drift == {("g1/main", "failed", "cri and cgroup")}


def test_a_container_that_has_ended_is_promised_nothing(made: Made, tmp_path: Path) -> None:
    """Its cgroup is gone, or left as it was, and no kubelet updates it; its next life has the plain name.

    The pod's containers share a pid namespace, so each runtime has a pause container for it, which is the pod sandbox.
    """
    default = made.claims()["claims"]["be/main"]["state_cpus"]
    sandbox = made.node.pod(ST, "st", "/besteffort", ONE_PID_NAMESPACE)
    try:
        ended = made.node.container(sandbox, "main", cpu_period=100000, cpu_shares=2, cpuset_cpus="0-1")
        made.node.stop_container(ended)
        lives = made.node.container(sandbox, "main", attempt=1, cpu_period=100000, cpu_shares=2, cpuset_cpus=default)
        rows = made.claims()["claims"]
        wrong = {subject for subject, *_ in _judged(made, tmp_path / "ended.tar.gz")}
    finally:
        made.node.remove_pod(sandbox[0])
    own = {row["id"]: row for row in rows.values() if row["pod_uid"] == ST}
    assert {key: (row["container"], row["kind"], row["gone"]) for key, row in own.items()} == {
        sandbox[0]: ("(sandbox)", "sandbox", False),
        ended: ("main", "container", True),
        lives: ("main", "container", False),
    }
    assert own[lives]["name"] == "st/main"
    assert own[sandbox[0]]["live_threads"] == 1
    assert {subject for subject in wrong if subject.startswith("st/")} == set()


def _judged(made: Made, out: Path) -> set[tuple[str, str, str]]:
    """Capture and judge: what did not pass in rule layers-agree, with the pair that it names."""
    assert made.run("capture", str(out)).exit_code == 0
    result = CliRunner().invoke(cli, ["judge", "--capture", str(out), "--json"])
    found = set()
    for verdict in json.loads(result.stdout)["verdicts"]:
        if verdict["rule"] == "layers-agree" and verdict["outcome"] in ("failed", "undecided"):
            pair = next((p for p in ("checkpoint and cri", "cri and cgroup") if p in verdict["reason"]), "")
            found.add((verdict["subject"], verdict["outcome"], pair))
    return found


def test_a_capture_says_what_the_node_says_and_no_secret(made: Made, tmp_path: Path) -> None:
    """The same claims, letter by letter; what the pods carry is in the runtime's answers and not in the file."""
    out = tmp_path / "n.tar.gz"
    assert made.run("capture", str(out)).exit_code == 0
    read = CliRunner().invoke(cli, ["claims", "--capture", str(out), "--json"])
    assert made.mine(json.loads(read.stdout)) == made.claims()
    files = read_bundle_files(out)
    assert made.main.encode() in files["node.json"]
    assert not [name for name, data in files.items() if SECRET.encode() in data]
    status = json.loads(files["node.json"])["status"][made.main]
    assert status["status"]["resources"]["linux"]["cpusetCpus"] == "1"
    (plain, _) = made.node.cgroup_names(made.main)
    assert status["cgroupsPath"] == f"{made.node.top}/kubepods/pod{G1}/{plain}"


@pytest.mark.parametrize("hangs", [False, True])
def test_a_runtime_that_does_not_answer_costs_one_line(made: Made, *, hangs: bool) -> None:
    """Gone, or stopped by a signal. Containers live on without it, and their names come from the log symlinks."""
    before = made.claims()["claims"]
    made.node.halt() if hangs else made.node.stop()
    try:
        result = made.run("claims", "--kubelet", "--json")
    finally:
        made.node.restart()
    assert result.exit_code == 0, result.output
    rows = made.mine(json.loads(result.stdout))["claims"]
    lines = [line for line in result.stderr.splitlines() if "not read: containers" in line]
    assert len(lines) == 1
    # The sandboxes have no log: what has no name is said, and promised no CPUs.
    unnamed = [line for line in result.stderr.splitlines() if "not read: names" in line]
    assert len(unnamed) == 1, result.stderr
    assert "nothing is promised about their CPUs" in unnamed[0]
    assert "drift cannot be distinguished from lag" in lines[0]
    assert ("no answer within" if hangs else "c.sock: ") in lines[0]
    for name in ("g1/main", "be/main"):
        same = ("cpus", "isolation", "state_cpus", "observed", "thread_masks")
        assert {key: rows[name][key] for key in same} == {key: before[name][key] for key in same}
    assert made.claims()["claims"] == before, "after it is back everything is as it was"
