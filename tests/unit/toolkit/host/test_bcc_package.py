"""Where bcc is not: which Python runs, which one the distribution's package is for, and what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.host.bcc_package import SYSTEM_PYTHON

PROJECT = Path(__file__).resolve().parents[4]
ASK = (
    f"import sys, json; sys.path.insert(0, {str(PROJECT)!r}); from pathlib import Path; "
    "from toolkit.host.bcc_package import find_bcc; "
    "print(json.dumps(find_bcc(*map(Path, sys.argv[1:]))[1:]))"
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of this machine's Python that does not see the system's packages."""
    folder = tmp_path_factory.mktemp("venv")
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def told(bare: Path, *system_python: Path) -> tuple[str, str]:
    """Return cause and remedy, as the Python of that environment says them."""
    done = subprocess.run(
        [bare / "bin" / "python", "-I", "-c", ASK, *system_python], capture_output=True, text=True, check=True
    )
    cause, remedy = json.loads(done.stdout)
    return cause, remedy


def other_python(folder: Path, answer: str) -> Path:
    """Another system's Python, which answers so."""
    file = folder / "python3"
    file.write_text(f"#!/bin/sh\n{answer}\n")
    file.chmod(0o755)
    return file


def test_the_package_is_for_another_python(bare: Path, tmp_path: Path) -> None:
    """Both are named, and the environment to make."""
    other = other_python(tmp_path, """echo '["3.9.2", "/usr/lib/python3/dist-packages/bcc/__init__.py"]'""")
    cause, remedy = told(bare, other)

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"{bare}/bin/python (Python {version}" in cause
    assert "python3-bpfcc" in remedy
    assert f"is installed for {other} (Python 3.9.2; /usr/lib/python3/dist-packages/bcc/__init__.py)" in remedy
    assert f"{other} -m venv --system-site-packages" in remedy


@pytest.mark.parametrize("answer", ["exit 1", "echo nonsense"])
def test_the_package_is_not_installed(bare: Path, tmp_path: Path, answer: str) -> None:
    """For no Python, or one that cannot be asked: it has to be installed, and for whom it will be is said."""
    other = other_python(tmp_path, answer)
    _, remedy = told(bare, other)

    assert remedy.startswith("install python3-bpfcc")
    assert f"it is for {other}" in remedy
    assert told(bare, tmp_path / "none")[1].startswith("install python3-bpfcc")


def test_an_environment_of_the_right_python_that_is_closed(bare: Path) -> None:
    """The line to change, and the file that it is in."""
    if Path(sys.base_prefix) != SYSTEM_PYTHON.parent.parent:
        pytest.skip(f"these tests are run by a Python below {sys.base_prefix}, not by the system's")
    _, remedy = told(bare)

    assert f"set include-system-site-packages = true in {bare}/pyvenv.cfg" in remedy
