"""Which configuration a captured kubelet runs with: file, drop-ins, command line; and when it is not known."""

from __future__ import annotations

import json

import pytest

from tests.unit.toolkit.sources.edited import CONFIG, Files, capture, document, failed
from toolkit.sources.kubelet.configuration import configuration_in, settings, unread
from toolkit.sources.kubelet.reading import reading_of

DROP_IN = "kubelet/config.d/10-more.conf"
HEAD = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
FLAGS = ("--config=/var/lib/kubelet/config.yaml", "--config-dir=/etc/kubelet.d")


def node(*flags: str, drop_in: bytes = b"cpuCFSQuota: true\n") -> Files:
    """A node of a strict kubelet of which the file was not read, with a drop-in."""
    files = capture("B1-3")
    del files[CONFIG]
    files[DROP_IN] = HEAD + drop_in
    if flags:
        files["kubelet/cmdline"] = "\0".join(("kubelet", *flags)).encode()
    return files


@pytest.mark.parametrize("flags", [(), FLAGS])
def test_a_drop_in_without_its_file_is_no_configuration(flags: tuple[str, ...]) -> None:
    """The policy is in the file: nothing is promised, or judged, by the defaults."""
    files = node(*flags)
    found = settings(reading_of(files))
    assert "was not read" in found.problem
    assert not found.reserved_known
    assert "config" in {row["part"] for row in document(files)["missing"]}
    assert failed(files).keys() <= failed(capture("B1-3")).keys()


def test_a_drop_in_that_could_not_be_read_may_decide() -> None:
    """The node's reader says so: what the file alone would promise is not known to hold. It is said one time."""
    files = capture("B1-3")
    files["capture.json"] = json.dumps(
        {"missing": [{"part": "config", "reason": "/etc/kubelet.d/9.conf: denied"}]}
    ).encode()
    assert settings(reading_of(files)).problem == "/etc/kubelet.d/9.conf: denied"
    assert [row["part"] for row in document(files)["missing"] if "denied" in row["reason"]] == ["config"]


def test_a_kubelet_without_a_file_has_its_drop_ins_and_flags() -> None:
    """Drop-ins go over the defaults, and replace no other thresholds than they name; flags go over both."""
    files = node(
        "--config-dir=/etc/kubelet.d",
        "--cpu-manager-policy=static",
        drop_in=b"evictionHard: {nodefs.available: 5%}\ncpuManagerPolicy: none\n",
    )
    reading = reading_of(files)
    assert unread(reading) == ""
    node_config = configuration_in(reading).node
    assert node_config.cpu_manager_policy == "static"
    assert node_config.eviction_hard["memory.available"] == "100Mi"
