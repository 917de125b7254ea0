"""A gRPC server for tests, which sends bytes as they are; and bytes put together by hand.

They are made from the field numbers of the public API and the wire format, not with the tables that are tested.
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import pytest

grpc = pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pinproof[kubelet]')")

Answer = bytes | Callable[[bytes], bytes]
CRI, POD_RESOURCES = "runtime.v1.RuntimeService", "v1.PodResourcesLister"


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: a number as a varint (negative ones in 64 bits), all else with its length before it."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


@contextmanager
def served(path: Path, service: str, **answers: Answer) -> Iterator[str]:
    """A server at this socket whose methods answer with these bytes, or by these functions; a KeyError is NOT_FOUND."""
    server = grpc.server(futures.ThreadPoolExecutor(2))

    def handler(answer: Answer) -> object:
        def reply(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return answer(request) if callable(answer) else answer
            except KeyError as error:
                context.abort(grpc.StatusCode.NOT_FOUND, str(error))
                raise

        return grpc.unary_unary_rpc_method_handler(reply)

    handlers = {name: handler(answer) for name, answer in answers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    path.parent.mkdir(parents=True, exist_ok=True)
    assert server.add_insecure_port(f"unix:{path}".replace(" ", "%20"))
    server.start()
    try:
        yield f"unix://{path}"
    finally:
        server.stop(None).wait()


def labels(uid: str, pod: str, container: str = "", **more: str) -> dict[str, str]:
    """The kubelet's labels of a container, or of a sandbox."""
    found = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": uid}
    return found | ({"io.kubernetes.container.name": container} if container else {}) | more


def pairs(number: int, mapping: Mapping[str, str]) -> bytes:
    return b"".join(field(number, field(1, key) + field(2, value)) for key, value in mapping.items())


def container(
    id_: str, sandbox: str, name: str, own: Mapping[str, str], secret: str = "secret", *, state: int = 1
) -> bytes:
    """One entry of ListContainers, with an annotation and a field of a later version. :param state: 1 is running."""
    return (
        field(1, id_)
        + field(2, sandbox)
        + field(3, field(1, name) + field(2, 3))
        + field(6, state)
        + field(7, 1795395610003100290)
        + pairs(8, own)
        + pairs(9, {"annotation": secret})
        + field(4000, b"from the future")
    )


def sandbox(id_: str, uid: str, pod: str) -> bytes:
    """One entry of ListPodSandbox."""
    return field(1, id_) + field(2, field(1, pod) + field(2, uid) + field(3, "default")) + pairs(5, labels(uid, pod))


def status(
    id_: str,
    path: str,
    cpus: str,
    *,
    quota: int = -1,
    shares: int = 1024,
    memory: int = 1 << 26,
    huge: Mapping[str, int] | None = None,
    secret: str = "secret",
    pid: int = 4711,
) -> bytes:
    """The answer of ContainerStatus, verbose; its specification holds a secret in environment and arguments.

    :param huge: the specification's limits of huge pages, by size.
    """
    asked = field(1, 100000) + field(2, quota) + field(3, shares) + field(4, memory) + field(6, cpus) + field(7, "0")
    spec = {
        "process": {"env": [f"PASSWORD={secret}"], "args": ["sh", secret]},
        "annotations": {"a": secret},
        "mounts": [{"source": f"/{secret}"}],
        "linux": {
            "cgroupsPath": path,
            "resources": {
                "cpu": {"cpus": cpus, "quota": quota, "period": 100000},
                "hugepageLimits": [{"pageSize": size, "limit": limit} for size, limit in (huge or {}).items()],
            },
        },
    }
    info = json.dumps({"pid": pid, "runtimeSpec": spec, "config": {"envs": [{"key": "P", "value": secret}]}})
    own = field(1, id_) + field(3, 1) + pairs(13, {"annotation": secret}) + field(16, field(1, asked))
    return field(1, own) + field(2, field(1, "info") + field(2, info))
