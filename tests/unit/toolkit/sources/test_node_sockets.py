"""The clients of the CRI and pod-resources sockets, through a server that sends bytes as they are."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.socket_server import (
    CRI,
    POD_RESOURCES,
    container,
    field,
    labels,
    sandbox,
    served,
    status,
    varint,
)
from toolkit.errors import InputError
from toolkit.sources.cri import ENDPOINTS, Cri
from toolkit.sources.kubelet import reading
from toolkit.sources.kubelet.document import claims_data
from toolkit.sources.kubelet.files.allow_list import MAX_TEXT
from toolkit.sources.kubelet.files.sockets import pod_resources_files, runtime_files
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of
from toolkit.sources.pod_resources import PodResources

ENTRY = container("c1", "s1", "db", labels("u-1", "p", "db"))


def test_containers_are_listed(tmp_path: Path) -> None:
    """Names come from the kubelet's labels; fields without a meaning for us are skipped."""
    with served(tmp_path / "a b.sock", CRI, ListContainers=field(1, ENTRY)) as endpoint, Cri(endpoint) as client:
        (one,) = reading.from_cri({"containers": client.containers()})
    assert (one.id, one.sandbox_id, one.name, one.pod_name, one.pod_namespace, one.pod_uid) == (
        *("c1", "s1", "db", "p", "default"),
        "u-1",
    )
    assert (one.state, one.created_at_ns, one.annotations) == ("running", 1795395610003100290, {})


def test_a_path_longer_than_a_socket_has_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a node below a root with a long name, say: gRPC's own library would write lines to standard error."""
    with (
        pytest.raises(InputError, match="a path of 203 bytes; expected at most 107"),
        Cri(f"unix:///{'a/' * 101}") as cri,
    ):
        cri.version()
    assert capfd.readouterr().err == ""


def test_a_status_says_what_was_asked_for_and_no_secret(tmp_path: Path) -> None:
    """CPU set, quota -1 and pid are read; environment, arguments, annotations and mounts go nowhere."""
    requests: list[bytes] = []

    def answer(request: bytes) -> bytes:
        requests.append(request)
        return status("c1", "/kubepods/podu-1/c1", "2-3", secret="hunter2")

    with served(tmp_path / "x.sock", CRI, ContainerStatus=answer) as endpoint, Cri(endpoint) as client:
        said = client.status("c1")
    assert requests == [field(1, "c1") + field(2, 1)]
    assert "hunter2" not in json.dumps(said)
    (found,) = reading.from_cri({"containers": {"containers": [{"id": "c1"}]}, "status": {"c1": said}})
    assert (found.pid, found.cgroups_path) == (4711, "/kubepods/podu-1/c1")
    assert found.asked is not None
    assert (found.asked.cpus, found.asked.mems, found.asked.quota_us) == ("2-3", "0", -1)
    assert (found.asked.period_us, found.asked.shares, found.asked.memory_bytes) == (100000, 1024, 1 << 26)


def test_pod_resources(tmp_path: Path) -> None:
    """CPU ids are packed as proto3 packs them."""
    memory = field(1, "memory") + field(2, 1 << 30) + field(3, field(1, b""))
    db = field(1, "db") + field(3, varint(2) + varint(300)) + field(4, memory)
    pod = field(1, "p") + field(2, "default") + field(3, db) + field(3, field(1, "helper"))
    free = field(2, varint(1) + varint(2))
    path = tmp_path / "x.sock"
    with (
        served(path, POD_RESOURCES, List=field(1, pod), GetAllocatableResources=free) as endpoint,
        PodResources(endpoint) as client,
    ):
        one, helper = reading.pod_resources_rows(client.pods())
        assert reading.cpu_ids(client.allocatable()) == (1, 2)
    assert (one.pod_name, one.container, one.cpus) == ("p", "db", (2, 300))
    assert (helper.container, helper.cpus) == ("helper", ())


def test_an_old_runtime_has_no_configuration(tmp_path: Path) -> None:
    """RuntimeConfig is unimplemented in containerd 1.6: no answer, no error. A newer one says the driver."""
    with served(tmp_path / "a.sock", CRI, Version=b"") as endpoint, Cri(endpoint) as client:
        assert client.config() is None
    for answer, driver in ((field(1, field(1, 1)), "CGROUPFS"), (field(1, b""), "SYSTEMD")):
        with served(tmp_path / f"{driver}.sock", CRI, RuntimeConfig=answer) as endpoint, Cri(endpoint) as client:
            assert client.config() == {"linux": {"cgroupDriver": driver}}


def test_a_runtime_of_the_older_service_is_asked_by_its_name(tmp_path: Path) -> None:
    """containerd 1.5 knows runtime.v1alpha2 alone; the fields are the same."""
    words = {"Version": field(2, "containerd"), "ListContainers": field(1, ENTRY), "ListPodSandbox": b""}
    answers = {**words, "ContainerStatus": status("c1", "/kubepods/podu-1/c1", "2-3")}
    with served(tmp_path / "x.sock", "runtime.v1alpha2.RuntimeService", **answers):
        files, problem = runtime_files([str(tmp_path / "x.sock")])
    (found,) = reading.from_cri(json.loads(files["node.json"]))
    assert problem == ""
    assert found.asked is not None
    assert (found.name, found.asked.cpus) == ("db", "2-3")


def test_the_socket_of_k3s_is_looked_for() -> None:
    """Its kubelet is no process of its own, whose arguments would say so; the kubelet's own defaults come first."""
    assert ENDPOINTS[0] == "/run/containerd/containerd.sock"
    assert {"/run/k3s/containerd/containerd.sock", "/run/crio/crio.sock"} < set(ENDPOINTS)


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (b"\xff\xff\xff", "no such message"),
        (field(1, field(1, b"\xff\xfe")), "no such message"),
        (b"\0" * (17 << 20), "too large"),
    ],
)
def test_a_hostile_answer_is_one_line(tmp_path: Path, answer: bytes, match: str) -> None:
    """Neither garbage, nor text that is none, nor a flood is a traceback."""
    with served(tmp_path / "x.sock", CRI, ListContainers=answer) as endpoint, Cri(endpoint) as client:
        with pytest.raises(InputError, match=match) as caught:
            client.containers()
        assert "\n" not in str(caught.value)


def test_a_hung_server_meets_the_deadline(tmp_path: Path) -> None:
    """A call ends after its deadline with the number of seconds."""

    def hang(_: bytes) -> bytes:
        time.sleep(2)
        return b""

    within = pytest.raises(InputError, match=r"Version: no answer within 0.2 s")
    with served(tmp_path / "x.sock", CRI, Version=hang) as endpoint, Cri(endpoint, deadline_s=0.2) as client, within:
        client.version()


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x1b[31m\xff\0" * 1000])
def test_what_speaks_something_else_costs_one_line(
    tmp_path: Path, words: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """A listener that says nothing for ever, or no gRPC: one line, in time, without control characters or noise."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "x.sock"))
        listener.listen(8)
        held = []

        def answer() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                    held[-1].sendall(words)
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        began = time.monotonic()
        files, problem = runtime_files([str(tmp_path / "x.sock")], 0.5)
        assert time.monotonic() - began < 60, "its own deadline, not the minutes of unit tests"
        listener.shutdown(socket.SHUT_RDWR)
        for one in held:
            one.close()
    assert files == {}
    assert problem.isprintable()
    assert str(tmp_path) in problem
    assert capfd.readouterr().err == ""


def test_a_server_is_connected_to_for_its_calls_alone(tmp_path: Path) -> None:
    """An older kubelet logs each client that goes without a word, and a node is read every two seconds."""
    held: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "x.sock"))
        listener.listen()
        listener.settimeout(0.2)
        end = time.monotonic() + 120
        while not held and time.monotonic() < end:  # the deadline of a starved call comes before it connects
            assert pod_resources_files(tmp_path / "x.sock", 0.3)[0] == {}
            with contextlib.suppress(TimeoutError):
                while True:
                    held.append(listener.accept()[0])
    words = [one.recv(24) for one in held]
    for one in held:
        one.close()
    assert words
    assert set(words) == {b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}


def test_a_container_that_is_gone_meanwhile_is_no_problem(tmp_path: Path) -> None:
    """NOT_FOUND between list and status is the truth."""
    answers = {"c2": status("c2", "/kubepods/podu-1/c2", "1")}
    path = tmp_path / "x.sock"
    two = b"".join(field(1, container(c, "s1", "db", labels("u-1", "p", "db"))) for c in ("c1", "c2"))

    def answer(request: bytes) -> bytes:
        return answers[request[2:4].decode()]

    with served(path, CRI, Version=b"", ListContainers=two, ListPodSandbox=b"", ContainerStatus=answer) as endpoint:
        files, problem = runtime_files([endpoint])
    assert problem == ""
    assert {one.id: one.pid for one in reading.from_cri(json.loads(files["node.json"]))} == {"c1": None, "c2": 4711}


def test_a_runtime_that_fails_each_time_is_not_asked_for_ever(tmp_path: Path) -> None:
    """Three failures end the asking; the first is said, on one line."""
    many = b"".join(field(1, container(f"c{n}", "s1", "db", labels("u-1", "p", "db"))) for n in range(40))
    asked: list[bytes] = []

    def fail(request: bytes) -> bytes:
        asked.append(request)
        raise RuntimeError("\x1b[31mbroken\n")

    path = tmp_path / "x.sock"
    boxes = field(1, sandbox("s1", "u-1", "p"))
    with served(path, CRI, Version=b"", ListContainers=many, ListPodSandbox=boxes, ContainerStatus=fail) as endpoint:
        files, problem = runtime_files([endpoint])
    assert len(asked) == 3
    assert problem.startswith("the status of 0 of 40 containers was read: ")
    assert problem.isprintable()
    assert len(reading.from_cri(json.loads(files["node.json"]))) == 41


def test_labels_of_users_and_endless_texts_are_left_out(tmp_path: Path) -> None:
    """Of the labels those of the kubelet stay; a name longer than any name is as good as none."""
    own = labels("u-1", "p" * (MAX_TEXT + 1), "db", password="hunter2")
    path = tmp_path / "x.sock"
    list_ = field(1, container("c1", "s1", "db", own))
    answer = status("c1", "/kubepods/podu-1/c1", "1")
    with served(path, CRI, Version=b"", ListContainers=list_, ListPodSandbox=b"", ContainerStatus=answer) as endpoint:
        files, problem = runtime_files([endpoint])
    assert problem == ""
    assert b"hunter2" not in b"".join(files.values())
    (one,) = reading.from_cri(json.loads(files["node.json"]))
    assert (one.pod_uid, one.pod_name) == ("u-1", "")


def test_damaged_answers_are_findings_or_one_line(tmp_path: Path) -> None:
    """Answers with bytes changed or cut: claims of what can be read, a line for the rest, nothing raised."""
    rng = random.Random(7)

    def damaged(data: bytes) -> bytes:
        changed = bytearray(data)
        if rng.random() < 0.4:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.1 else changed)

    whole = {
        "Version": field(2, "containerd"),
        "RuntimeConfig": field(1, field(1, 1)),
        "ListContainers": field(1, ENTRY) * 2,
        "ListPodSandbox": field(1, sandbox("s1", "u-1", "p")),
        "ContainerStatus": status("c1", "/kubepods/podu-1/c1", "2-3"),
    }
    answers = {name: (lambda _, data=data: damaged(data)) for name, data in whole.items()}
    read = 0
    with served(tmp_path / "x.sock", CRI, **answers) as endpoint:
        for _ in range(200):
            files, problem = runtime_files([endpoint])
            assert problem.isprintable()
            assert files or problem
            node = node_claims(reading_of(files))
            json.dumps(claims_data(node))
            read += bool(node.promises)
    assert read > 20, "some of them could be read"
