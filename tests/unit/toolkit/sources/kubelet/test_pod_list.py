"""The kubelet's own list of pods: from its read-only port, from an address with a token, or from a file."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.host.sysroots import CPU, NODE, cpu
from tests.unit.toolkit.host.sysroots import node as numa_node
from tests.unit.toolkit.host.sysroots import write as write_tree
from tests.unit.toolkit.sources.edited import DATA, capture
from tests.unit.toolkit.sources.kubelet.metrics_server import TOKEN, metrics_server
from tests.unit.toolkit.sources.made_node import SECRET, node, write
from toolkit.sources.kubelet.configuration import read_configuration, read_flags
from toolkit.sources.kubelet.document import claims_data
from toolkit.sources.kubelet.evidence import RULES, evidence_of
from toolkit.sources.kubelet.files import allow_list
from toolkit.sources.kubelet.files.capture import packed, read_bundle_files
from toolkit.sources.kubelet.files.live import address
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of
from validators.registry import judge, rule_named

CONF = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of a short name: the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pp-") as folder:
        yield Path(folder)


def listed(**status: object) -> str:
    """What a kubelet answers of the made node: secrets wherever a pod may have them."""
    container: dict[str, Any] = {"name": "main", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    hidden = {"env": [{"name": "P", "value": SECRET}], "args": [SECRET], "image": SECRET}
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": SECRET}}
    own = {"name": "main", "containerID": f"containerd://{'aa' * 32}", "state": {"running": {}}, "lastState": ended}
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u-1",
            "labels": {"b": SECRET},
            "annotations": {"a": SECRET, "kubernetes.io/config.source": "api", "kubernetes.io/config.x": f"{SECRET} x"},
            "managedFields": [{"manager": SECRET}],
        },
        "spec": {"containers": [container | hidden], "volumes": [{"name": SECRET}], "serviceAccountName": SECRET},
        "status": {"phase": "Running", "message": SECRET, "containerStatuses": [own | {"image": SECRET}], **status},
    }
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]})


def own_port(root: Path, port: int, *, reached: bool = True) -> None:
    """Give the made node's kubelet a read-only port, in our network namespace."""
    write(root, "etc/kubelet.d/30-port.conf", f"{CONF}readOnlyPort: {port}\n")
    space = root / "proc/42/ns"
    space.mkdir()
    (space / "net").symlink_to("/proc/self/ns/net" if reached else "/proc/self/ns/mnt")


def said(*arguments: object) -> dict[str, Any]:
    ended = pinproof("claims", *arguments, "--json")
    assert ended.exit_code == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("way", ["port", "address", "file"])
def test_a_capture_has_the_pods_that_its_node_lists(tmp_path: Path, way: str) -> None:
    """Live and captured claims are the same to the letter, with the pod's request; no secret is in the file."""
    root, out = tmp_path / "host", tmp_path / "n.tar.gz"
    with node(root, tmp_path) as endpoint, metrics_server(listed(), token=TOKEN if way == "address" else "") as server:
        (tmp_path / "token").write_text(TOKEN)
        (tmp_path / "pods").write_text(listed())
        url = server.address.replace("/metrics", "/pods")
        more: tuple[object, ...] = {
            "port": (),
            "address": ("--kubelet-pods", url, "--kubelet-token", tmp_path / "token"),
            "file": ("--kubelet-pods", tmp_path / "pods"),
        }[way]
        if way == "port":
            own_port(root, server.server_address[1])
        places = ("--root", root, "--cri", endpoint, *more)
        live = said("--kubelet", *places)
        ended = pinproof("capture", out, *places)
        assert server.asked == {"file": 0, "address": 2, "port": 4}[way]  # by its port for its version, too
    assert ended.exit_code == 0, ended.stderr
    assert said("--capture", out) == live
    assert "pods" not in {part["part"] for part in live["missing"]}
    assert SECRET.encode() not in gzip.decompress(out.read_bytes())
    files = read_bundle_files(out)
    (pod,) = json.loads(files["pods.json"])["items"]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "2"
    assert pod["metadata"]["annotations"] == {"kubernetes.io/config.source": "api"}
    assert "pods_read" in json.loads(files["times.json"])


def test_the_port_of_another_network_is_not_asked(tmp_path: Path) -> None:
    """A kubelet in a namespace of its own has its own loopback: ours may be another node's."""
    root = tmp_path / "host"
    with node(root, tmp_path) as endpoint, metrics_server(listed()) as server:
        own_port(root, server.server_address[1], reached=False)
        live = said("--kubelet", "--root", root, "--cri", endpoint)
        assert server.asked == 0
    assert "/pods was not read" in {part["part"]: part["reason"] for part in live["missing"]}["pods"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"<html>{SECRET}</html>", "no such list"),
        (f'{{"items": [3, "{SECRET}"]}}', "no such list"),
        (f'{{"kind": "Status", "message": "{SECRET}"}}', "no list of pods"),
    ],
)
def test_what_is_no_list_is_missing_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    """With what it costs; nothing of the answer is quoted."""
    (tmp_path / "pods").write_text(text)
    with node(tmp_path / "host", tmp_path) as endpoint:
        places = ("--root", tmp_path / "host", "--cri", endpoint, "--kubelet-pods", tmp_path / "pods")
        ended = pinproof("claims", "--kubelet", *places)
    (line,) = [line for line in ended.stderr.splitlines() if "not read: pods" in line]
    assert (ended.exit_code, words in line, "ended pods are not known" in line, SECRET in line) == (
        0,
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("file", "arguments", "found"),
    [
        (f"{CONF}readOnlyPort: 10255\n", (), "http://127.0.0.1:10255/pods"),
        (f"{CONF}readOnlyPort: 1\naddress: 10.0.0.7\n", (), "http://10.0.0.7:1/pods"),
        (f"{CONF}readOnlyPort: 1\naddress: '::'\n", (), "http://[::1]:1/pods"),
        (CONF, (), ""),
        (f"{CONF}readOnlyPort: 0\n", (), ""),
        (f"{CONF}readOnlyPort: 7\n", ("--read-only-port=0",), ""),
        (None, ("--address", "::1", "--read-only-port", "9"), "http://[::1]:9/pods"),
        (None, (), "http://127.0.0.1:10255/pods"),
        (None, ("--config=/gone",), ""),
        (f"{CONF}readOnlyPort: 1\naddress: nowhere\n", (), ""),
    ],
)
def test_where_a_kubelet_answers_without_credentials(file: str | None, arguments: tuple[str, ...], found: str) -> None:
    """As its configuration says: a file's default is no such port, one of a kubelet without a file is 10255."""
    base = None if file is None else ("config.yaml", file)
    assert address(read_configuration(base, (), read_flags(arguments)), Path("/proc"), 1) in (found, "")
    own = Path("/proc/self").resolve().name
    assert address(read_configuration(base, (), read_flags(arguments)), Path("/proc"), int(own)) == found
    assert address(read_configuration(base, (), read_flags(arguments)), Path("/proc"), None) == ""


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.tar.gz")))
def test_what_is_kept_of_a_pod_says_all_that_it_said(name: str) -> None:
    """Of every recorded node: the same claims and the same verdicts by the list that a capture keeps."""

    def judged(files: dict[str, bytes]) -> tuple[object, ...]:
        reading = reading_of(files)
        found = node_claims(reading)
        claims, evidence = evidence_of(reading, found)
        return claims_data(found), judge(claims, evidence, [rule_named(rule) for rule in RULES])

    files = capture(name.removesuffix(".tar.gz"))
    pods = json.loads(files["pods.json"])
    less = {"items": [allow_list.kept_pod(one) for one in pods["items"]]}
    assert len(json.dumps(less)) < len(json.dumps(pods))
    assert judged({**files, "pods.json": json.dumps(less).encode()}) == judged(files)


@pytest.mark.parametrize("start", ["B1-4", "B2-4"])
def test_what_is_kept_of_a_pod_is_planned_as_the_pod(tmp_path: Path, start: str) -> None:
    """`plan --capture`: refused pods, budgets, init containers and sidecars are asked about in the same order."""
    files = capture(start)
    less = json.dumps({"items": [allow_list.kept_pod(one) for one in json.loads(files["pods.json"])["items"]]})
    plans = []
    for name, pods in (("whole", files["pods.json"]), ("less", less.encode())):
        (tmp_path / name).write_bytes(packed({**files, "pods.json": pods}, 0))
        ended = pinproof("plan", "--capture", tmp_path / name, "--json")
        assert ended.exit_code == 0, ended.stderr
        plans.append(ended.stdout.replace(str(tmp_path / name), ""))
    assert plans[0] == plans[1]
    assert "admitted" in plans[0]


def test_a_watch_has_no_option_for_a_list_that_it_does_not_follow(tmp_path: Path) -> None:
    """It follows what the kubelet allocates; a list that is read once would be of the past."""
    ended = pinproof("watch", "--kubelet", "--kubelet-pods", tmp_path)
    assert ended.exit_code == 2
    assert "No such option '--kubelet-pods'" in ended.stderr
    assert "--kubelet-pods" not in pinproof("watch", "--help").stdout


NEW = """
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "1", memory: 64Mi}}}]}
"""


def test_a_live_node_is_asked_what_comes_next(tmp_path: Path) -> None:
    """``plan --kubelet`` begins with what pods hold, as ``plan --capture`` of the same node does; without its list of
    pods nothing is planned, and places of a node are for a live one.
    """
    root, out, new = tmp_path / "host", tmp_path / "n.tar.gz", tmp_path / "new.yaml"
    new.write_text(NEW)
    (tmp_path / "pods").write_text(listed())
    with node(root, tmp_path) as endpoint:
        for number in range(4):
            write_tree(root, cpu(number, core=number))
        numa_node(root, 0, (0, 1, 2, 3), mem_kb=8 << 20)
        write_tree(root, {f"{NODE}/online": "0", f"{NODE}/node0/cpulist": "0-3", f"{CPU}/present": "0-3"})
        places = ("--root", root, "--cri", endpoint, "--kubelet-pods", tmp_path / "pods")
        live = pinproof("plan", "--kubelet", *places, "--pods", new, "--json")
        drained = pinproof("plan", "--kubelet", "--drained", *places, "--pods", new, "--json")
        unlisted = pinproof("plan", "--kubelet", *places[:4])
        assert pinproof("capture", out, *places).exit_code == 0
        captured = pinproof("plan", "--capture", out, "--pods", new, "--json")
    assert live.exit_code == 0, live.stderr
    plan = json.loads(live.stdout)[0]["plan"]
    assert {pod["name"]: pod["containers"][0]["assigned"] for pod in plan["pods"]} == {"p": "2-3", "new": "1"}
    assert json.loads(captured.stdout)[0]["plan"] == plan
    (alone,) = json.loads(drained.stdout)[0]["plan"]["pods"]
    assert (alone["name"], alone["containers"][0]["assigned"]) == ("new", "1")
    assert (unlisted.exit_code, "its pods are not known" in unlisted.stderr) == (2, True)
    misplaced = pinproof("plan", "--capture", out, "--cri", "/x")
    assert (misplaced.exit_code, "--cri is for --kubelet" in misplaced.stderr) == (2, True)
