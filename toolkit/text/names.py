r"""Names that the kernel gives as bytes (cgroups, tasks, paths, devices, command lines) as text that can be shown.

The kernel takes any byte but NUL (in a path also ``/``) for a name: bytes that are no UTF-8, line ends, escape
sequences, characters that turn the direction of writing. A reader spells such a name once, by :func:`shown`, and from
there on the program knows this spelling only: it is printable text of one line, so it can be written into every file
and onto every terminal, two names never become one, and a claims file names a cgroup as a report does.
:func:`raw` gives the bytes back where a file is opened by its name.

The spelling: printable characters are themselves. A control character is ``\n``, ``\r``, ``\t`` or ``\x1b``, a byte
that is no UTF-8 ``\xff``, another character that cannot be printed ``\u202e`` or ``\U000e0001``. A backslash stays as
it is (systemd's ``a\x2db.service`` reads as everywhere else), except where it would be taken for the begin of one of
these: there it is doubled.

Source: Documentation/admin-guide/cgroup-v2.rst; prctl(2), PR_SET_NAME; proc(5); Unicode Standard Annex 44 (categories
"Other" and "Separator"), as ``str.isprintable`` knows them.
"""

from __future__ import annotations

import os
import re

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONG = {short: char for char, short in _SHORT.items()}
_ESCAPE = re.compile(
    r"\\(?:\\|[nrt]|x(?:[01][0-9a-fA-F]|7[fF]|[89a-fA-F][0-9a-fA-F])"
    r"|u(?!00[0-7]|[dD][89a-fA-F])[0-9a-fA-F]{4}|U(?!0000)00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
)
"""What :func:`raw` reads: exactly what :func:`shown` can write, so that ``\\x2d`` stands for its four characters."""
_BYTE_SURROGATES = 0xDC80, 0xDCFF
"""How Python holds a byte that is no UTF-8 in a text (PEP 383)."""


def shown(name: bytes) -> str:
    """Spell a name of the kernel; :func:`raw` gives it back."""
    text = name.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_spelt(text, at) for at in range(len(text)))


def raw(spelling: str) -> bytes:
    """Give back the bytes of a name that :func:`shown` spelt; a person may have written it."""
    if "\\" not in spelling:
        return _bytes(spelling)
    pieces, at = [], 0
    for match in _ESCAPE.finditer(spelling):
        pieces += [_bytes(spelling[at : match.start()]), _byte_or_char(match[0])]
        at = match.end()
    return b"".join([*pieces, _bytes(spelling[at:])])


def canonical(spelling: str) -> str:
    """Spell a name that a person wrote as :func:`shown` does: equal names are equal texts."""
    return shown(raw(spelling))


def from_path(path: str | os.PathLike[str]) -> str:
    """Spell a path (or a name in a folder) as Python's file functions hold it."""
    return shown(os.fsencode(path))


def to_path(spelling: str) -> str:
    """Return a path as Python's file functions want it."""
    return os.fsdecode(raw(spelling))


def from_text(text: str) -> str:
    """Spell a name cut out of a text that was decoded with ``surrogateescape``, as the readers of /proc do."""
    return shown(_bytes(text))


def printable(text: str) -> str:
    """Make any text one printable line: what cannot be printed is spelt as in a name, all else stays as it is."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a character, which no name has: a file of a stranger can hold it (YAML: "\ud800"). Some bytes, not none.
        return b"".join(
            char.encode("utf-8", "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")
            for char in text
        )


def _spelt(text: str, at: int) -> str:
    if text[at] != "\\":
        return _visible(text[at])
    following = text[at + 1 : at + 2]
    taken = following == "\\" or not following.isprintable() or _ESCAPE.match(text, at)
    return "\\\\" if taken else "\\"


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    if char in _SHORT:
        return _SHORT[char]
    number = ord(char)
    if _BYTE_SURROGATES[0] <= number <= _BYTE_SURROGATES[1]:
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _byte_or_char(escape: str) -> bytes:
    kind, digits = escape[1], escape[2:]
    if kind == "\\":
        return b"\\"
    if kind in "nrt":
        return _LONG[escape].encode()
    number = int(digits, 16)
    return bytes([number]) if kind == "x" else chr(number).encode()
