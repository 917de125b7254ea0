"""The bytes of the kubelet's checkpoints: compact JSON with sorted keys, and a checksum over a dump of Go structs.

The checksum is the 32-bit FNV-1a of the text that Go's deep printer makes of the struct with its checksum set to 0; the
type names in it are part of the format. As of v1.37 the content is in the file a second time, as a text with a checksum
of its own (``data``, ``dataChecksum``), and that is what counts: a *wrapped* file here.
Source: ``docs/simulate-format.md`` "checkpoint-checksums.json"; ``docs/facts.md`` K-kubelet-5; kubernetes pull requests
139102 and 139626; Fowler/Noll/Vo hash, FNV-1a, 32 bit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from toolkit.errors import InputError
from toolkit.kubernetes.go_text import quote_byte
from toolkit.text.json_text import load_as_go
from toolkit.text.names import printable

T = TypeVar("T")


class Checksummed(Protocol):
    """A checkpoint that was read."""

    @property
    def checksum_ok(self) -> bool:
        """Whether its checksum is that of its content."""
        ...


C = TypeVar("C", bound=Checksummed)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
CORRUPT = "checkpoint is corrupted"
ROOT = "<kubelet-root-dir>"
"""How texts name the kubelet's root directory where it is not known."""


class CheckpointError(Exception):
    """The kubelet cannot restore this checkpoint; the message is the inner part of the kubelet's."""


class UnknownVersionError(InputError):
    """The file is of a version that came after those that are known here: what it says is not known."""


def fnv32a(text: str) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def go_json(value: object) -> str:
    """Write JSON as Go does: no blanks, keys as given, ``<``, ``>`` and ``&`` escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def text_checksum(data: str) -> int:
    """Return the checksum of a content that is written as text: the hash of its dump, in which a text has its type."""
    return fnv32a(f"(string){data}")


def wrapped_json(shown: Mapping[str, object], checksum: int, content: Mapping[str, object]) -> str:
    """Write a wrapped file. :param shown, checksum: what a kubelet before v1.37 reads of it."""
    data = go_json(content)
    return go_json({**shown, "checksum": checksum, "data": data, "dataChecksum": text_checksum(data)})


def is_wrapped(data: Mapping[str, Any]) -> bool:
    """Return whether a file has a content as text, sound or not: then nothing else in it counts."""
    text, checksum = data.get("data"), data.get("dataChecksum")
    return (isinstance(text, str) and text != "") or (type(checksum) is int and checksum != 0)


def first_sound(parse: Callable[[str, int], C], text: str, versions: Sequence[int]) -> C:
    """Read a file as a starting kubelet does, as the first of these versions that it is.

    :param versions: newest first; the error of the oldest is the one that is reported.
    :raises CheckpointError: it is none of them.
    """
    *newer, oldest = versions
    for version in newer:
        try:
            found = parse(text, version)
        except CheckpointError:
            continue
        if found.checksum_ok:
            return found
    found = parse(text, oldest)
    if not found.checksum_ok:
        raise CheckpointError(CORRUPT)
    return found


def wrapped_or_older(parse: Callable[[str, int], C], text: str, struct: str, versions: Sequence[int]) -> C:
    """Read it as a kubelet does that writes wrapped files: it refuses a spoilt one, whatever else could be made of it.

    :param struct: as which errors name the file. :param versions: the wrapped one first.
    """
    wrapped, *older = versions
    try:
        found = parse(text, wrapped)
        problem = "" if found.checksum_ok else CORRUPT
    except CheckpointError as error:
        problem = str(error)
    if not problem:
        return found
    if is_wrapped(load_object(text, struct)):
        raise CheckpointError(f"could not load v{wrapped} checkpoint: {problem}")
    return first_sound(parse, text, older)


def refuse_unknown(data: Mapping[str, Any], known: Collection[str], where: str, versions: str) -> None:
    """Refuse fields that no known version has: what they do to the meaning of the others is not known.

    :param versions: those that are known. :raises UnknownVersionError: there are such fields.
    """
    if strange := sorted(data.keys() - set(known)):
        names = ", ".join(printable(name[:40]) for name in strange[:3]) + (", …" if len(strange) > 3 else "")
        raise UnknownVersionError(where, f"of a version that is not known here: it has {names}", versions)


def go_map(items: Mapping[str, T] | None, write: Callable[[T], str]) -> str:
    """Write a map as the dump does, keys sorted; ``None`` is a nil map."""
    if items is None:
        return "<nil>"
    return f"map[{' '.join(f'{key}:{write(items[key])}' for key in sorted(items))}]"


def load_object(text: str, struct: str) -> dict[str, Any]:
    """Read a JSON object. Of a lone surrogate (``"\\ud800"``) U+FFFD is kept, as by Go.

    :raises CheckpointError: anything else, with Go's words as far as they can be had.
    """
    try:
        data = load_as_go(text)
    except RecursionError:
        raise CheckpointError("json: nested too deeply") from None
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        if not rest:
            raise CheckpointError("unexpected end of JSON input") from None
        raise CheckpointError(f"invalid character {quote_byte(rest)} looking for beginning of value") from None
    except ValueError:
        raise CheckpointError("json: a number is too long") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"json: cannot unmarshal {kind_of(data)} into Go value of type state.{struct}")
    return dict(_whole(data)) if _SURROGATE.search(text) else data


def _whole(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(data, dict):
        return {_whole(key): _whole(value) for key, value in data.items()}
    return [_whole(value) for value in data] if isinstance(data, list) else data


def kind_of(value: object) -> str:
    """Name a JSON value's type as Go's messages do."""
    names = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")


def below(place: str, *keys: str | int) -> str:
    """Name a place inside a checkpoint as Go does: the outermost struct, then fields, keys of maps and indices.

    Source: Go's encoding/json, ``UnmarshalTypeError``; a JSON pointer (RFC 6901) with dots for slashes.
    """
    return ".".join([place, *(str(key).replace("~", "~0").replace("/", "~1") for key in keys)])


def field_error(value: object, struct: str, field: str | int, wanted: str) -> CheckpointError:
    """Build Go's complaint about a value of the wrong type. :param struct: a place, see :func:`below`."""
    return CheckpointError(
        f"json: cannot unmarshal {kind_of(value)} into Go struct field {below(struct, field)} of type {wanted}"
    )


def text_field(data: Mapping[str, Any], field: str, struct: str) -> str:
    """Return a string field, empty if absent or null."""
    value = data.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise field_error(value, struct, field, "string")
    return value


def number_field(data: Mapping[str, Any], field: str, struct: str, wanted: str = "uint64") -> int:
    """Return an unsigned number field, 0 if absent or null."""
    value = data.get(field)
    if value is None:
        return 0
    if type(value) is not int:
        raise field_error(value, struct, field, wanted)
    if not 0 <= value < 1 << 64:
        place = below(struct, field)
        raise CheckpointError(
            f"json: cannot unmarshal number {str(value)[:40]} into Go struct field {place} of type {wanted}"
        )
    return value


def map_field(data: Mapping[str, Any], field: str, struct: str, wanted: str) -> dict[str, Any]:
    """Return a map field, empty if absent or null."""
    value = data.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise field_error(value, struct, field, wanted)
    return value
