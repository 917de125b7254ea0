"""Fixtures for the tests on the real kernel: programs that are compiled once for a module, and a foreign program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.ledger import Ledger
from probes.loaded import loaded
from tests.integration.lost_support import CLAIMS
from tests.integration.membership_lab import compile_mover
from tests.integration.probe_lab import cgroup, compile_planter


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    """Loaded programs with the default options, for one observer after the other.

    Compiling takes most of a second, in a guest of the lab half a minute. Not for longer than a module: loaded programs
    cost every switch of the machine something, whether anybody uses them or not.
    """
    with loaded() as one:
        yield one


@pytest.fixture(scope="session")
def planter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled foreign program."""
    return compile_planter(tmp_path_factory.mktemp("planter"))


@pytest.fixture(scope="session")
def mover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program that moves between cgroups."""
    return compile_mover(tmp_path_factory.mktemp("mover"))


@pytest.fixture
def empty_claims(tmp_path: Path) -> Iterator[Path]:
    """A claims file about an empty cgroup."""
    with cgroup(f"pinproof-lost-{os.getpid()}") as place:
        path = tmp_path / "claims.yaml"
        path.write_text(CLAIMS.replace("PLACE", place))
        yield path
