"""A guest with the project's tests and their foreign program in it, and modules of its kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lab.harness import image, initramfs
from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_files import PROJECT

HERE = Path(__file__).resolve().parents[3]
PLANTER = "tests/data/probes/planter"


@pytest.fixture(scope="module")
def equipped(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """The guest with the project's tests and their foreign program, compiled here: guests have no compiler."""
    program = tmp_path_factory.mktemp("planter") / "planter"
    source = HERE / f"{PLANTER}.c"
    compiler = guest.architecture.compiler
    subprocess.run([compiler, "-O2", "-static", "-pthread", "-o", str(program), str(source)], check=True)
    guest.put_project("tests")
    guest.put({PLANTER: program.read_bytes()}, PROJECT)
    return guest


def load_module(guest: Guest, name: str) -> None:
    """Load a module of the guest's kernel, with what it needs: guests have none but those that their root needs."""
    files = initramfs.module_files(image.current().kernels, guest.release, [name])
    guest.put({path.name: initramfs.module_text(path) for path in files}, "/run/modules")
    loaded = guest.read("/proc/modules").splitlines()
    for path in files:
        if not any(line.startswith(f"{path.name.partition('.')[0]} ") for line in loaded):
            guest.run(["insmod", f"/run/modules/{path.name}"]).check()
