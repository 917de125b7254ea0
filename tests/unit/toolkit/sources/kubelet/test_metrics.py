"""The kubelet's own metrics, read from a real server on loopback or a file, beside its state file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.sources.kubelet.followed_node import Node
from tests.unit.toolkit.sources.kubelet.metrics_server import TLS, TOKEN, metrics, metrics_server
from toolkit.errors import InputError
from toolkit.model.evidence.following import Gauges
from toolkit.sources.kubelet import follow
from toolkit.sources.kubelet.files.endpoint import gauges, read_metrics
from toolkit.sources.kubelet.follow import KubeletSource

COUNT = "kubelet_cpu_manager_exclusive_cpu_allocation_count"
RIGHT = metrics(2, 1000, n0=2)
"""Of the node of four CPUs: 2-3 are assigned, 0-1 shared, 0 reserved."""


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path / "token"


@pytest.mark.parametrize("tls", [False, True])
def test_what_a_kubelet_answers_is_cut_to_its_managers(token: Path, *, tls: bool) -> None:
    """Over HTTP and over TLS with a certificate that it signed itself, with a token."""
    with metrics_server(RIGHT, token=TOKEN, tls=tls) as server:
        text = read_metrics(server.address, token)
    assert gauges(text)[COUNT] == 2
    assert gauges(text)['kubelet_cpu_manager_allocation_per_numa{numa_node="0"}'] == 2
    assert ("kubernetes_build_info" in text, "running_pods" in text, "# HELP" in text) == (True, False, False)


def test_a_certificate_is_checked_where_one_is_named(tmp_path: Path) -> None:
    """By this very one, and by none that another has signed."""
    with metrics_server(RIGHT, tls=True) as server:
        assert read_metrics(server.address, None, TLS / "certificate.pem")
        with pytest.raises(InputError, match="No such file"):
            read_metrics(server.address, None, tmp_path / "none")
        with pytest.raises(InputError, match=r"(?i)certificate.verify.failed|self.signed"):
            read_metrics(server.address, None, TLS / "another.pem")


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("", "", "no metric of a kubelet"),
        ("kubelet_running_pods 7\n", "", "no metric of a kubelet"),
        ("process_start_time_seconds 7\n", "", "no metric of a kubelet"),
        (f"{COUNT} two\n", "", "no sample"),
        (f'{COUNT}{{a="b" 2\n', "", "no sample"),
        (RIGHT, "/moved", "status 302"),
    ],
    ids=["nothing", "others", "another program", "a word", "torn", "elsewhere"],
)
def test_what_is_no_answer_is_one_line(text: str, path: str, words: str) -> None:
    """With the address; it is not followed to another."""
    with metrics_server(text) as server, pytest.raises(InputError, match=words) as raised:
        read_metrics(server.address.replace("/metrics", path or "/metrics"))
    assert "\n" not in str(raised.value)


def test_a_token_that_is_a_link_is_read(token: Path, tmp_path: Path) -> None:
    """As the one of a pod's service account is: ``token -> ..data/token``."""
    (tmp_path / "link").symlink_to(token.name)
    with metrics_server(RIGHT, token=TOKEN) as server:
        assert "cpu_manager" in read_metrics(server.address, tmp_path / "link")


def test_without_the_token_it_is_refused() -> None:
    """By its status; where nothing listens, by that; a file that is not there, too."""
    with metrics_server(RIGHT, token=TOKEN) as server, pytest.raises(InputError, match="status 401"):
        read_metrics(server.address)
    for where in (server.address, "/nowhere/at/all"):
        with pytest.raises(InputError, match=r"(?i)refused|no such file"):
            read_metrics(where)


def test_a_node_that_is_followed_has_its_gauges(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the state file that was read with them; as often as they are due, and without an address never."""
    assert node.read().gauges is None
    with metrics_server(RIGHT) as server:
        node.source = KubeletSource(replace(node.source._places, metrics=server.address))
        found = node.read().gauges
        assert found is not None
        assert (found.values[COUNT], str(found.assigned), str(found.shared)) == (2, "2-3", "1")
        assert (node.read().gauges, server.asked) == (None, 1)
        monkeypatch.setattr(follow, "GAUGES_EVERY_NS", 0)
        node.source = KubeletSource(node.source._places)
        server.text = metrics(4, 0)
        assert node.read().gauges == replace(found, values={COUNT: 4.0, COUNT.replace(*POOL): 0.0})
    reading = node.read()
    assert reading.gauges is not None
    assert "refused" in reading.gauges.problem
    assert any(part.part == "metrics" for part in reading.missing)


POOL = ("exclusive_cpu_allocation_count", "shared_pool_size_millicores")


def test_a_state_file_that_says_nothing_is_not_compared(node: Node) -> None:
    """It is absent, or of another policy."""
    with metrics_server(RIGHT) as server:
        node.source = KubeletSource(replace(node.source._places, metrics=server.address))
        (node.root / "var/lib/kubelet/cpu_manager_state").unlink()
        found = node.read().gauges
    assert isinstance(found, Gauges)
    assert (found.assigned, found.shared, found.problem) == (None, None, "")


def test_containers_that_come_are_counted_beside_the_kubelets_counters(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gate PodLevelResourceManagers: by each reading of the state file, and with the process that counts."""
    monkeypatch.setattr(follow, "GAUGES_EVERY_NS", 0)
    assigned = 'resource_manager_container_assignments{assignment_type="node_exclusive",resource_name="cpu"}'
    with metrics_server(f"{RIGHT}{assigned} 1\nprocess_start_time_seconds 17.5\n") as server:
        node.source = KubeletSource(replace(node.source._places, metrics=server.address))
        first = node.read().gauges
        node.state("0-1", db="2-3")
        same = node.read().gauges
        node.state("0", db="2-3", new="1")
        later = node.read().gauges
    assert first is not None
    assert (first.values[assigned], first.values["process_start_time_seconds"]) == (1, 17.5)
    assert [one.entered["node"] for one in (first, same, later) if one is not None] == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "outcome"), [(RIGHT, "passed"), (metrics(3, 1000), "failed"), (metrics(2, 2000), "failed")]
)
def test_a_capture_has_them_and_is_judged_by_them(node: Node, tmp_path: Path, text: str, outcome: str) -> None:
    """`capture --kubelet-metrics`, then `judge --capture`: rule layers-agree, subject kubelet metrics."""
    places = ("--root", node.root, "--cri", f"unix://{node.root}/c.sock")
    with metrics_server(text) as server:
        ended = pinproof("capture", tmp_path / "c.tar.gz", *places, "--kubelet-metrics", server.address)
    assert ended.exit_code == 0, ended.stderr
    judged = pinproof("judge", "--capture", tmp_path / "c.tar.gz", "--json")
    verdicts = {(row["rule"], row["subject"]): row["outcome"] for row in json.loads(judged.stdout)["verdicts"]}
    assert verdicts["layers-agree", "kubelet metrics"] == outcome
