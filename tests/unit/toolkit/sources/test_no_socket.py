"""A place where a socket was expected, and no answer comes."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.sources.socket_server import POD_RESOURCES, served
from toolkit.errors import InputError
from toolkit.sources.cri import Cri
from toolkit.sources.kubelet.files.sockets import pod_resources_files

grpc = pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pinproof[kubelet]')")


def test_no_server(tmp_path: Path) -> None:
    """Missing, a plain file, and a socket that nothing listens to are told apart."""
    plain, dead = tmp_path / "plain", tmp_path / "dead.sock"
    plain.write_text("")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(dead))
    for path, match in ((tmp_path / "none", "No such file"), (plain, "not a socket"), (dead, "refused")):
        with pytest.raises(InputError, match=match), Cri(str(path)) as cri:
            cri.version()
        assert pod_resources_files(path)[0] == {}
    with pytest.raises(InputError, match="a unix socket"):
        Cri("tcp://127.0.0.1:1")


def test_what_is_no_socket_is_not_connected_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without the kubelet's socket is read again and again; one that appears is asked at the next reading."""
    made = list[str]()
    channel = grpc.insecure_channel

    def counted(target: str, **options: Any) -> Any:
        made.append(target)
        return channel(target, **options)

    monkeypatch.setattr(grpc, "insecure_channel", counted)
    path = tmp_path / "p.sock"
    assert pod_resources_files(path)[0] == {}
    path.write_text("")
    assert pod_resources_files(path)[0] == {}
    assert made == []
    path.unlink()
    with served(path, POD_RESOURCES, List=b"", GetAllocatableResources=b""):
        assert pod_resources_files(path)[1] == ""
    assert len(made) == 1
