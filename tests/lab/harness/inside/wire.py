"""Messages between a test and the agent in its guest, over one virtio serial port, both directions alike.

A message is two big-endian 32-bit lengths, a JSON object, and a block of bytes that JSON need not escape.
Used on both sides; standard library only.
"""

from __future__ import annotations

import json
import struct
from typing import Any

_LENGTHS = struct.Struct(">II")
PORT_NAME = "pinproof.lab"


def encode(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Return one message."""
    text = json.dumps(head).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Decoder:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """Take what arrived; return the messages that are now complete."""
        self._pending += data
        messages = []
        while len(self._pending) >= _LENGTHS.size:
            text, body = _LENGTHS.unpack_from(self._pending)
            end = _LENGTHS.size + text + body
            if len(self._pending) < end:
                break
            head = json.loads(self._pending[_LENGTHS.size : _LENGTHS.size + text])
            messages.append((head, bytes(self._pending[_LENGTHS.size + text : end])))
            del self._pending[:end]
        return messages
