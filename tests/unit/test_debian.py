"""The Debian package says what it is: its version, what it needs, and the licence of each thing that it carries."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import write
from tools.debian_copyright import bundled, document

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONTROL = (ROOT / "debian/control").read_text()
METADATA = """Metadata-Version: 2.4
Name: {name}
Version: 1.2
License-Expression: {licence}

Copyright 1999 of the description
"""
RECORD = "{name}/__init__.py,,\n{name}/inner/a.py,,\n{name}-1.2.dist-info/METADATA,,\n../../bin/{name},,\n"


def add(folder: Path, name: str, licence: str, text: str) -> None:
    """A distribution as pip unpacks it."""
    info = f"{name}-1.2.dist-info"
    write(
        folder,
        {
            f"{info}/METADATA": METADATA.format(name=name, licence=licence),
            f"{info}/RECORD": RECORD.format(name=name),
            f"{info}/licenses/LICENSE": text,
        },
    )


def test_the_version_is_that_of_the_project() -> None:
    """The newest entry of the changelog."""
    newest = re.match(r"pinproof \((\S+)\) ", (ROOT / "debian/changelog").read_text())

    assert newest is not None
    assert newest[1] == PROJECT["version"]


def test_each_dependency_is_debians_or_bundled() -> None:
    """With the same lower bound, or a newer one."""
    bundle = dict(re.findall(r"'([\w-]+)>=([\d.]+)'", (ROOT / ".ci/deb").read_text()))
    debians = dict(re.findall(r"python3-([\w-]+) \(>= ([\d.]+)\)", CONTROL))
    for requirement in PROJECT["dependencies"]:
        name, least = requirement.lower().split(">=")
        known = bundle | debians
        assert known.get(name, known.get(name.removeprefix("py"))) == least, name
    assert "python3-bpfcc" in CONTROL


def test_what_is_bundled_is_named_with_its_licence(tmp_path: Path) -> None:
    """Its files, who holds the copyright, the text; of the Apache licence only where every Debian has it."""
    add(tmp_path, "small", "MIT", "Copyright (c) 2020 Ada L.\n\nPermission is granted\nto all.\n")
    add(tmp_path, "large", "Apache-2.0", "Apache License\nVersion 2.0\nTERMS AND CONDITIONS\n1. Long.\n")
    add(tmp_path, "pinproof", "Apache-2.0", "ours")
    text = document(tmp_path.glob("*.dist-info"))

    assert re.findall(r"^Files: (.*)", text, re.MULTILINE) == [
        "*",
        "usr/lib/pinproof/large/* usr/lib/pinproof/large-1.2.dist-info/*",
        "usr/lib/pinproof/small/* usr/lib/pinproof/small-1.2.dist-info/*",
    ]
    assert (
        "Copyright: 2020 Ada L\nLicense: MIT\n Copyright (c) 2020 Ada L.\n .\n Permission is granted\n to all.\n"
        in text
    )
    assert "Copyright: the authors of large\n" in text
    assert "1. Long" not in text
    assert text.count("/usr/share/common-licenses/Apache-2.0") == 2


@pytest.mark.parametrize(("licence", "text"), [("", "a text"), ("MIT", "")])
def test_what_names_no_licence_is_not_shipped(tmp_path: Path, licence: str, text: str) -> None:
    """Neither what says none, nor what has no text of it."""
    add(tmp_path, "odd", licence, text)
    if not text:
        (tmp_path / "odd-1.2.dist-info/licenses/LICENSE").unlink()

    with pytest.raises(ValueError, match=r"odd-1\.2\.dist-info"):
        bundled(tmp_path / "odd-1.2.dist-info")
