"""``debian/copyright`` of the package: ours, and each library of Python that is bundled, by its own metadata.

    python -m tools.debian_copyright FOLDER

``FOLDER`` holds what becomes ``/usr/lib/pinproof``: packages and their ``.dist-info``, with the text of each licence.

Source: Debian Policy 12.5; "Machine-readable debian/copyright file" 1.0; core metadata 2.4 of Python packages
(``License-Expression``, ``License-File``); SPDX names.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

PLACE = "usr/lib/pinproof"
OWN = "pinproof"
APACHE = "On Debian systems the text of Apache-2.0 is in /usr/share/common-licenses/Apache-2.0."
"""What stands for that text: a package must not repeat what every system has."""
_HOLDER = re.compile(r"^\s*Copyright (?:\(c\) |© )?(?=\S*\d{4}|[A-Z])(.+)$", re.MULTILINE)
HEADER = f"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: {OWN}
Comment: Libraries of Python that Debian 12 has too old, or not at all, are
 part of this package, below /{PLACE}.

Files: *
Copyright: 2026 the {OWN} maintainers
License: Apache-2.0
"""


@dataclass(frozen=True, slots=True)
class Bundled:
    """A distribution of Python, from its ``.dist-info``. :param files: its top-level names below ``PLACE``."""

    name: str
    version: str
    expression: str
    holders: tuple[str, ...]
    text: str
    files: tuple[str, ...]
    inside: tuple[str, ...]
    """What its compiled part was made of: crates of Rust with their licences."""


def bundled(info: Path) -> Bundled:
    """Read one.

    :raises ValueError: it does not say what it is licensed under: it may not be shipped.
    """
    fields = HeaderParser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
    expression = str(fields["License-Expression"] or fields["License"] or "")
    files = sorted(path for path in (info / "licenses").rglob("*") if path.is_file())
    texts = [_text(path.read_text(encoding="utf-8")) for path in files]
    if not expression or "\n" in expression or not texts:
        raise ValueError(f"{info.name}: no licence is named, or its text is missing")
    recorded = (line.split(",")[0] for line in (info / "RECORD").read_text(encoding="utf-8").splitlines())
    tops = {name.split("/")[0] for name in recorded if name and not name.startswith("..")}
    holders = dict.fromkeys(found.strip().rstrip(".") for text in texts for found in _HOLDER.findall(text))
    return Bundled(
        name=str(fields["Name"]),
        version=str(fields["Version"]),
        expression=expression,
        holders=tuple(holders) or (_author(fields),),
        text="\n\n".join(text.strip() for text in texts),
        files=tuple(sorted(tops - {"bin"})),
        inside=tuple(_crates(info / "sboms")),
    )


def _text(text: str) -> str:
    return APACHE if "Apache License" in text and "TERMS AND CONDITIONS" in text else text


def _author(fields: Message) -> str:
    return str(fields["Author"] or fields["Author-email"] or f"the authors of {fields['Name']}")


def _crates(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.json")):
        for one in json.loads(path.read_text(encoding="utf-8"))["components"]:
            names = [str(each.get("expression") or each["license"].get("id")) for each in one.get("licenses", ())]
            yield f"{one['name']} {one['version']} ({' AND '.join(names)})"


def _folded(text: str) -> str:
    """Return lines as the value of a field goes on: an empty one is a dot."""
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.splitlines())


def stanza(one: Bundled) -> str:
    """Return the paragraph of a distribution."""
    lines = [f"Files: {' '.join(f'{PLACE}/{name}' + ('' if '.py' in name else '/*') for name in one.files)}"]
    lines += [f"Copyright: {one.holders[0]}", *(f"           {holder}" for holder in one.holders[1:])]
    words = f"{one.name} {one.version}"
    if one.inside:
        words += f", compiled from crates of Rust: {', '.join(one.inside)}"
    licence = re.sub(r" AND ", " and ", re.sub(r" OR ", " or ", one.expression))
    return "\n".join([*lines, f"License: {licence}", _folded(one.text), f"Comment: {words}"]) + "\n"


def document(infos: Iterable[Path]) -> str:
    """Return the whole file. :param infos: the ``.dist-info`` directories that are shipped."""
    return "\n".join(
        [
            f"{HEADER}{_folded(APACHE)}\n",
            *(stanza(bundled(info)) for info in sorted(infos) if not info.name.startswith(f"{OWN}-")),
        ]
    )


def main() -> None:
    """Print it."""
    print(document(Path(sys.argv[1]).glob("*.dist-info")), end="")


if __name__ == "__main__":
    main()
