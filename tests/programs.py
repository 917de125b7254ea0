"""Programs of Debian packages: installed, or unpacked below ``.cache`` by the project's setup."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


def unpacked(package: str) -> Path:
    """Return where the programs of a package are, if the setup unpacked it."""
    return PROJECT / ".cache" / package / "usr/bin"


def program(name: str, package: str) -> Path | None:
    """Return a program of the Debian package, installed or unpacked by the project's setup."""
    found = shutil.which(name) or shutil.which(name, path=str(unpacked(package)))
    return None if found is None else Path(found)


def given(name: str, variable: str, own: Collection[str]) -> Path | None:
    """Return a program of the directory that a variable of the environment names; ``None``: it names none.

    :param own: the programs that the directory must have; others are not looked for there.
    """
    folder = os.environ.get(variable)
    if not folder or name not in own:
        return None
    found = shutil.which(name, path=folder)
    if found is None:
        pytest.fail(f"{variable}={folder}: no program {name}; expected a directory with {', '.join(own)}")
    return Path(found).absolute()


def built(variable: str, made: str, what: str, how: str) -> Path:
    """Return a file that a variable of the environment names, or that a target has made; skip where there is none.

    :param made: its path in the project. :param what: it is. :param how: which target makes it.
    """
    named = os.environ.get(variable)
    path = Path(named) if named else PROJECT / made
    if not path.exists():
        if named:
            pytest.fail(f"{variable}={named}: no such file; expected a {what}")
        pytest.skip(f"no {what}: {how}, or {variable}=PATH names one")
    return path


def needed(name: str, package: str) -> str:
    """Return a program's path; skip where it is neither."""
    found = program(name, package)
    if found is None:
        pytest.skip(f"{name} is neither installed nor unpacked (ansible/setup.sh test)")
    return str(found)
