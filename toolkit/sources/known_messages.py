"""Messages that were read before: what is made of one is kept as long as it comes again.

Protobuf's JSON of some hundred containers takes ten times as long as their transport, and most say the same each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


def identity(message: Any) -> bytes:
    """Return what a message says, as bytes: two that say the same have the same ones, others never.

    Every field that a table names is in them, and all that is made of a message is made of these. Fields that no table
    names are dropped first: nothing reads them. Entries of maps are sorted: Go's servers send labels, which are a map,
    in another order each time. A digest (SHA-256), since a container's verbose status has tens of kilobytes.
    """
    message.DiscardUnknownFields()
    return hashlib.sha256(message.SerializeToString(deterministic=True)).digest()


class Known(Generic[Value]):
    """:param make: what is made of a message; of nothing else, and nothing changes it afterwards."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._values: dict[bytes, Value] = {}
        self._order: list[bytes] = []
        self._listed: list[Value] = []

    def of(self, messages: Iterable[Any]) -> list[Value]:
        """Return what each of them makes; those that are not among them are forgotten.

        In an order of their own, which is always the same: Go's servers list what they hold in a map, too. The same
        messages make the same list, the very object.
        """
        found: dict[bytes, Value] = {}
        order = []
        for message in messages:
            key = identity(message)
            order.append(key)
            if key not in found:
                found[key] = self._values[key] if key in self._values else self._make(message)
        order.sort()
        self._values = found
        if order != self._order:
            self._order, self._listed = order, [found[key] for key in order]
        return self._listed


class KnownByName(Generic[Value]):
    """The same for messages that are asked for one by one, by name. :param make: as above."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._values: dict[str, tuple[bytes, Value]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Value:
        return self._values[name][1]

    def get(self, name: str) -> Value | None:
        """Return what the last answer made, if there was one."""
        known = self._values.get(name)
        return None if known is None else known[1]

    def of(self, name: str, message: Any) -> Value:
        """Return what an answer makes: what it was before, if it says the same."""
        key = identity(message)
        known = self._values.get(name)
        if known is None or known[0] != key:
            known = self._values[name] = key, self._make(message)
        return known[1]

    def keep(self, names: Iterable[str]) -> None:
        """Forget all others."""
        self._values = {name: self._values[name] for name in names if name in self._values}
