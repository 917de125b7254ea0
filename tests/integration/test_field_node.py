"""Failures of the field that are in what a node says of itself, on a node that runs: a real containerd, real cgroups,
state files in the kubelet's bytes. Each failure is made, captured (``pinproof capture``) and judged.

The files are what the kubelet model writes for this machine and these pods; the failure is what the kubelet of the
issue left: half of a change, another boot's totals, a container that is gone. The node without it has no such verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.integration.containerd_node import containerd, need_containerd
from tests.integration.cri_node import Node, alone
from tests.integration.live_node import Kubelet, watching
from tests.integration.node_cases import (
    API,
    BE,
    CASES,
    CPU,
    G1,
    PLAIN,
    POD_LEVEL,
    Entry,
)
from tests.unit.toolkit.sources.socket_server import POD_RESOURCES, field, served
from toolkit.allocation.planner import plan
from toolkit.cli.main import cli
from toolkit.host.topology import read_topology
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod_reader import read_submitted_pod
from toolkit.model.cpuset import CpuSet
from toolkit.session.planning.planned import machine_of
from toolkit.text.yaml_text import parse_document

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def pods(*, pod_level: bool) -> list[dict[str, Any]]:
    """Return the manifests: one owns a CPU, one shares."""
    whole = {"cpu": "1", "memory": "64Mi"}
    own: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": whole, "limits": whole}}]}
    if pod_level:
        own["resources"] = {"requests": whole, "limits": whole}
    head = {"apiVersion": "v1", "kind": "Pod"}
    return [
        {**head, "metadata": {"name": "g1", "uid": G1}, "spec": own},
        {**head, "metadata": {"name": "be", "uid": BE}, "spec": {"containers": [{"name": "main"}]}},
    ]


@dataclass
class Site:
    """The node: containers that run, and a kubelet's directory for each way it is set up."""

    node: Node
    folder: Path
    owner: tuple[str, dict[str, Any]]

    def kubelet(self, config: str) -> Path:
        """Write a kubelet's directory as it is while these pods run. :returns: it."""
        root = self.folder / f"kubelet-{config is POD_LEVEL:d}"
        root.mkdir(exist_ok=True)
        text = f"{config}containerRuntimeEndpoint: unix://{self.node.socket}\n"
        (root / "config.yaml").write_text(text)
        settings = read_settings(parse_document(text, "config"), "config")
        asked = [read_submitted_pod(one, "pod") for one in pods(pod_level=config is POD_LEVEL)]
        for name, content in plan(asked, settings, machine_of(read_topology())).states.items():
            (root / name).write_text(content)
        return root

    def judged(self, root: Path, out: Path) -> list[Entry]:
        """Capture the node as it is and judge it; what failed."""
        run = CliRunner()
        done = run.invoke(cli, ["capture", str(out), "--force", f"--kubelet-root={root}", f"--logs={self.folder}"])
        assert done.exit_code == 0, done.output
        verdicts = json.loads(run.invoke(cli, ["judge", "--capture", str(out), "--json"]).stdout)["verdicts"]
        return [(one["rule"], one["subject"], one["reason"]) for one in verdicts if one["outcome"] == "failed"]

    def start_owner(self) -> None:
        """Run the pod that owns CPU 1."""
        self.owner = self.node.pod(G1, "g1")
        self.node.container(
            self.owner, "main", cpu_period=100000, cpu_quota=-1, cpu_shares=1024, cpuset_cpus="1", cpuset_mems="0"
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need_containerd()
    online = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text().strip())
    if online != CpuSet.of((0, 1)):
        pytest.skip("written for a machine whose online CPUs are 0 and 1")
    folder = tmp_path_factory.mktemp("f")
    with alone(), containerd(folder / "n") as node:
        one = Site(node, folder, ("", {}))
        one.start_owner()
        node.container(node.pod(BE, "be", "/besteffort"), "main", cpu_period=100000, cpu_shares=2, cpuset_cpus="0")
        yield one


@pytest.mark.parametrize("case", CASES)
def test_a_node_that_failed_as_in_the_field_is_reported(site: Site, case: str, tmp_path: Path) -> None:
    """By its rule, about its file; the node before it has no such verdict."""
    config, file, edit, (rule, subject, part) = CASES[case]
    root = site.kubelet(config)
    before = site.judged(root, tmp_path / "before.tar.gz")
    text = (root / file).read_text()
    (root / file).write_text(edit(text))

    after = site.judged(root, tmp_path / "after.tar.gz")

    assert edit(text) != text
    assert [one for one in before if one[:2] == (rule, subject)] == []
    assert [reason for *about, reason in after if about == [rule, subject] and part in reason], after


def listed(**cpus: int | None) -> bytes:
    """What the pod-resources API says: of each pod the CPU of its container, or none."""
    return b"".join(
        field(
            1,
            field(1, pod)
            + field(2, "default")
            + field(3, field(1, "main") + (b"" if cpu is None else field(3, bytes([cpu])))),
        )
        for pod, cpu in cpus.items()
    )


def test_an_api_that_calls_the_shared_pool_exclusive(site: Site, tmp_path: Path) -> None:
    """F53: a container that shares is listed with CPUs of the pool, as kubelets before 1.23 answered.

    The answers are real ones of a socket, which stands for the kubelet's. A kubelet of which the version is not known
    may be such an old one; one that takes a gate of v1.35 is none.
    """
    root = site.kubelet(PLAIN)
    found = {}
    for name, cpu in (("before", None), ("unknown", 0), ("new", 0)):
        if name == "new":
            with (root / "config.yaml").open("a") as config:
                config.write("featureGates: {NodeDeclaredFeatures: true}\n")
        with ExitStack() as stack:
            stack.enter_context(served(root / API / "kubelet.sock", POD_RESOURCES, List=listed(g1=1, be=cpu)))
            found[name] = site.judged(root, tmp_path / f"{name}.tar.gz")

    for name in ("before", "unknown"):
        assert [one for one in found[name] if one[0] == "layers-agree"] == []
    assert [reason for rule, subject, reason in found["new"] if (rule, subject) == ("layers-agree", "be/main")]


def test_cpus_of_a_container_that_crashed_are_leaked(site: Site, tmp_path: Path) -> None:
    """F6: its pod is removed, its CPUs are never given back: a leak, once two reconciles have passed."""
    kubelet = Kubelet(site.node, site.kubelet(PLAIN), CpuSet.of((0, 1)), entries={G1: {"main": CpuSet.of((1,))}})
    with watching(kubelet, tmp_path / "w", 5.0) as watch:
        watch.pass_windows(1)
        assert watch.failed("checkpoint") == []
        site.node.remove_pod(site.owner[0])
        try:
            watch.wait_until(lambda: bool(watch.failed("checkpoint")), "the leak is reported")
        finally:
            site.start_owner()
    assert {subject for _, _, subject, _, _ in watch.failed("checkpoint")} == {CPU}
