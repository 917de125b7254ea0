"""Messages from tables of field numbers, by each protobuf that a distribution has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.sources.messages import build

protobuf = pytest.importorskip("google.protobuf", reason="protobuf is not installed (pip install -e '.[kubelet]')")
TABLE = {
    "Pod": {"name": (1, "string"), "labels": (2, "map"), "parts": (3, "Part[]")},
    "Part": {"size": (1, "int64"), "state": (2, "State")},
}
ENUMS = {"State": {"STATE_UNKNOWN": 0, "STATE_READY": 1}}


class Factory:
    """What made the classes before protobuf 4.22."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def GetPrototype(self, descriptor: Any) -> Any:
        from google.protobuf.message_factory import GetMessageClass

        return GetMessageClass(descriptor)


@pytest.mark.parametrize("old", [False, True])
def test_what_is_written_is_read(old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested messages, maps and enums, also by the protobuf of Debian 12, which lacks the function of newer ones."""
    if old:
        monkeypatch.setattr(protobuf, "message_factory", SimpleNamespace(MessageFactory=Factory), raising=False)
    classes = build("tried.v1", TABLE, ENUMS)
    sent = classes["Pod"](name="web", labels={"app": "db"}, parts=[classes["Part"](size=1 << 40, state=1)])
    read = classes["Pod"].FromString(sent.SerializeToString())

    assert (read.name, dict(read.labels), read.parts[0].size, read.parts[0].state) == ("web", {"app": "db"}, 1 << 40, 1)
