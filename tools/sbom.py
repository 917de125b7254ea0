"""What is in an image: a CycloneDX document of the packages of Debian and of Python that a root directory holds.

    python -m tools.sbom ROOT --name NAME --version VERSION

The order is that of names, and no time or random number is in it: the same root gives the same document.

Source: CycloneDX 1.5 (JSON); package-url specification, types ``deb`` and ``pypi``; deb-control(5).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

STATUS = "var/lib/dpkg/status"
PYTHON = "usr/local/lib/python3*/dist-packages/*.dist-info/METADATA"


def debian(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the installed packages of Debian."""
    for paragraph in (root / STATUS).read_text(encoding="utf-8").split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if not str(fields["Status"] or "").endswith(" installed"):
            continue
        name, version, machine = (str(fields[key]) for key in ("Package", "Version", "Architecture"))
        yield _component(name, version, f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={machine}")


def python(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the distributions of Python that pip has installed beside those of Debian."""
    for path in sorted(root.glob(PYTHON)):
        fields = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
        name, version = str(fields["Name"]), str(fields["Version"])
        found = _component(name, version, f"pkg:pypi/{quote(name.lower().replace('_', '-'))}@{quote(version)}")
        said = fields["License-Expression"] or fields["License"]
        if said and "\n" not in said and len(said) < 100:
            found["licenses"] = [{"license": {"name": str(said)}}]
        yield found


def document(root: Path, name: str, version: str) -> dict[str, Any]:
    """Return the whole document of a root directory."""
    components = sorted((*debian(root), *python(root)), key=lambda one: str(one["purl"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": version}},
        "components": components,
    }


def _component(name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def main() -> None:
    """Print the document of a root directory."""
    parser = argparse.ArgumentParser(description="Print what a root directory holds as CycloneDX.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    given = parser.parse_args()
    print(json.dumps(document(given.root, given.name, given.version), indent=1))


if __name__ == "__main__":
    main()
