"""Messages in the wire format of Protocol Buffers: written, not read; no schema, no library.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

_VARINT, _BYTES = 0, 2
_NEGATIVE = 1 << 64


def varint(number: int) -> bytes:
    """Write an integer of up to 64 bits, negative ones as their two's complement."""
    rest, out = number % _NEGATIVE, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """Write one field of a message: an integer or an enumerator, a text, or a message that was written before."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    content = value.encode(errors="replace") if isinstance(value, str) else value
    return varint(number << 3 | _BYTES) + varint(len(content)) + content
