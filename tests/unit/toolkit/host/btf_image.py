"""A kernel's type information in its binary format, as a test lets it be."""

from __future__ import annotations

import struct

INT, STRUCT, UNION, CONST, FLAG = 1, 4, 5, 10, 1 << 31


class Image:
    """Collects types and strings into a BTF image."""

    def __init__(self, order: str = "<") -> None:
        self.order, self.types, self.strings = order, b"", b"\0"

    def name(self, text: str) -> int:
        """Add a name; sharing its end with a longer one if there is one."""
        data = text.encode() + b"\0"
        if data not in self.strings:
            self.strings += data
        return self.strings.index(data)

    def add(
        self,
        kind: int,
        name: str,
        size_or_type: int,
        members: tuple[tuple[str, int, int], ...] = (),
        extra: bytes = b"",
        flag: int = 0,
    ) -> None:
        """Add a type; members are (name, type, offset word)."""
        words = [self.name(name), flag | kind << 24 | len(members), size_or_type]
        for member, member_type, offset in members:
            words += [self.name(member), member_type, offset]
        self.types += struct.pack(f"{self.order}{len(words)}I", *words) + extra

    def data(self) -> bytes:
        """The image."""
        header = struct.pack(
            self.order + "HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self.types), len(self.types), len(self.strings)
        )
        return header + self.types + self.strings
