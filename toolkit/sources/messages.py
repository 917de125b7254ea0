"""Protobuf messages from tables of field numbers: no generated files, and only the fields that something needs.

A message that arrives may hold more: protobuf skips what a table does not name. The numbers are a public contract.

Source: https://protobuf.dev/programming-guides/proto3/ (numbers are never used again, unknown fields are skipped).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.errors import HostUnsupportedError

Table = Mapping[str, Mapping[str, tuple[int, str]]]
"""Message -> field -> (number, type). A type is ``string``, ``bool``, ``int64`` ..., another message or enum of the
tables, or ``map`` (text to text); ``[]`` behind it: repeated."""
Enums = Mapping[str, Mapping[str, int]]
"""Enum -> name of a value -> its number; a name that leads with the enum's own is how Kubernetes spells them."""


def build(package: str, messages: Table, enums: Enums) -> dict[str, Any]:
    """Make the classes of the tables.

    :raises HostUnsupportedError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise missing("protobuf") from None
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, values in enums.items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind, package, enums)
    # A pool of its own: another library in this process may define messages of the same name.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = getattr(message_factory, "GetMessageClass", None)
    if made is None:  # protobuf before 4.22; Debian 12 has 3.21
        made = message_factory.MessageFactory(pool).GetPrototype
    return {name: made(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add_field(message: Any, field: str, number: int, kind: str, package: str, enums: Enums) -> None:
    added = message.field.add(name=field, number=number)
    repeated = kind.endswith("[]") or kind == "map"
    added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
    kind = kind.removesuffix("[]")
    if kind == "map":
        # A map is, on the wire and in a descriptor, a repeated message of key and value.
        entry = message.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
        entry.options.map_entry = True
        for name, at in (("key", 1), ("value", 2)):
            entry.field.add(name=name, number=at, type=added.TYPE_STRING, label=added.LABEL_OPTIONAL)
        added.type, added.type_name = added.TYPE_MESSAGE, f".{package}.{message.name}.{entry.name}"
    elif kind[0].isupper():
        added.type = added.TYPE_ENUM if kind in enums else added.TYPE_MESSAGE
        added.type_name = f".{package}.{kind}"
    else:
        added.type = getattr(added, f"TYPE_{kind.upper()}")


def missing(package: str) -> HostUnsupportedError:
    """Say that an optional package is not installed, and how to get it."""
    return HostUnsupportedError(
        f"the sockets of a node need the Python package {package}, which is not installed: "
        "pip install 'pinproof[kubelet]', or grpcio and protobuf"
    )
