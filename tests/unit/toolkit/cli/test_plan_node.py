"""``pinproof plan`` of a node as a whole: room for pods, drop-in files, a machine that was not saved as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import Ended, pinproof
from tests.unit.toolkit.host.sysroots import CPU, NODE, cpu, node, write

CAPTURE = Path(__file__).resolve().parents[3] / "data" / "captures" / "B1-4-gmix-and-rejections.tar.gz"
"""Two nodes of four CPUs."""
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def plan(*arguments: object) -> Ended:
    """Run the verb."""
    return pinproof("plan", *arguments)


def answer(*arguments: object) -> dict[str, Any]:
    """Run the verb with ``--json``, and return its one document."""
    result = plan(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    """A pod that asks for nothing."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    (tmp_path / "pod.json").write_text(json.dumps(pod, indent="\t"))
    return tmp_path / "pod.json"


def test_more_than_the_node_has_is_refused_as_the_kubelet_refuses_it(tmp_path: Path) -> None:
    """Its last admit handler counts requests and pods; how many pods there may be is an option as others are."""
    crowd = [
        {
            "metadata": {"name": f"p{i}"},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": amount}}}]},
        }
        for i, amount in enumerate(("5000", "1", "1"))
    ]
    (tmp_path / "pods.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": crowd}))
    document = answer("--capture", CAPTURE, "--pods", tmp_path / "pods.yaml", "--drained", "--diff", "maxPods=1")

    reasons = [(pod["name"], pod["reason"]) for pod in document["plan"]["pods"]]
    assert reasons == [("p0", "OutOfcpu"), ("p1", ""), ("p2", "")]
    assert document["plan"]["pods"][0]["message"].startswith(
        "Node didn't have enough resource: cpu, requested: 5000000"
    )
    assert [(pod["name"], pod["reason"]) for pod in document["after"]["pods"]][1:] == [("p1", ""), ("p2", "OutOfpods")]


def test_the_number_of_pods_is_a_number() -> None:
    """Anything else is refused with the option."""
    result = plan("--capture", CAPTURE, "--diff", "maxPods=many")

    assert result.exit_code == 2
    assert "--diff maxPods=many: 'many'; expected a whole number" in result.stderr


def test_a_drop_in_directory_goes_over_the_file(pods: Path, tmp_path: Path) -> None:
    """As the kubelet's own flag does; a file in it that is wrong is named, and other files are not read."""
    drop_ins = tmp_path / "conf.d"
    drop_ins.mkdir()
    (tmp_path / "config.yaml").write_text(HEAD + "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n")
    (drop_ins / "10-a.conf").write_text(HEAD + "reservedSystemCPUs: 0-1\n")
    (drop_ins / "20-b.conf").write_text(HEAD + "reservedSystemCPUs: 4-5\n")
    (drop_ins / "30.yaml").write_text("no configuration")
    files = ("--kubelet-config", tmp_path / "config.yaml", "--config-dir", drop_ins)

    assert answer("--capture", CAPTURE, "--drained", "--pods", pods, *files)["plan"]["reserved_cpus"] == "4-5"
    (drop_ins / "20-b.conf").write_text(HEAD + "reservedSystemCPUs: [4]\n")
    wrong = plan("--capture", CAPTURE, "--pods", pods, *files)
    assert wrong.exit_code == 2
    assert f"{drop_ins}/20-b.conf.reservedSystemCPUs: a list" in wrong.stderr
    missing = plan("--capture", CAPTURE, "--pods", pods, *files[:3], tmp_path / "none")
    assert missing.exit_code == 2
    assert "expected a directory of drop-in files (*.conf)" in missing.stderr
    alone = plan("--capture", CAPTURE, "--pods", pods, "--config-dir", drop_ins)
    assert alone.exit_code == 2
    assert "--config-dir goes with --kubelet-config" in alone.stderr


def test_a_machine_that_was_saved_without_its_memory_is_named(pods: Path, tmp_path: Path) -> None:
    """A kubelet keeps memory back by default: that of a machine that has none in its dump cannot be counted."""
    bare = write(tmp_path / "bare", {f"{CPU}/online": "0-3", f"{NODE}/online": "0", **cpu(0, core=0), **cpu(1, core=1)})
    node(bare, 0, (0, 1), mem_kb=None)
    config = tmp_path / "config.yaml"
    config.write_text(HEAD)
    result = plan("--topology", bare, "--kubelet-config", config, "--pods", pods)

    assert result.exit_code == 2
    assert "the machine: no memory is known of it" in result.stderr
    assert "expected sys/devices/system/node/node*/meminfo in its dump" in result.stderr
    assert len(result.stderr.splitlines()) == 1
