"""A guest with the project's tests and their foreign program in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_files import PROJECT

HERE = Path(__file__).resolve().parents[3]
PLANTER = "tests/data/probes/planter"


@pytest.fixture(scope="module")
def equipped(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """The guest with the project's tests and their foreign program, compiled here: guests have no compiler."""
    program = tmp_path_factory.mktemp("planter") / "planter"
    source = HERE / f"{PLANTER}.c"
    subprocess.run(["cc", "-O2", "-static", "-pthread", "-o", str(program), str(source)], check=True)
    guest.put_project("tests")
    guest.put({PLANTER: program.read_bytes()}, PROJECT)
    return guest
