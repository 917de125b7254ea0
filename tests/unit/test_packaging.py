"""The wheel carries what pinproof needs on a machine without a checkout. Built here from the working tree.

Installing it in an empty environment is `make package`: that needs the package index.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import toolkit
from toolkit.verbs import VERBS

PROJECT = Path(__file__).resolve().parents[2]
SHARE = f"pinproof-{toolkit.__version__}.data/data/share/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this checkout."""
    for module in ("hatchling", "shtab"):
        pytest.importorskip(module, reason=f"{module} is needed to build the wheel (pip install -e '.[dev]')")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(PROJECT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> frozenset[str]:
    """Every file name in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, away from the checkout."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_unpacked(unpacked: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the unpacked wheel, from a folder where the checkout is not importable by accident."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=unpacked.parent,
        env={**os.environ, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("folder", "patterns"),
    [
        ("probes", ("*/*.bpf.c", "*/*.h")),
        ("probes/kernel_tree", ("**/*.h",)),
        ("validators/scenarios", ("*.yaml", "node/*.yaml")),
        (".", ("toolkit/**/*.json", "probes/**/*.json", "validators/**/*.json", "*/py.typed")),
    ],
)
def test_data_files_are_in_the_wheel(names: frozenset[str], folder: str, patterns: tuple[str, ...]) -> None:
    """Every BPF source, scenario, schema and typing marker of the tree is in the wheel too."""
    wanted = {str(path.relative_to(PROJECT)) for pattern in patterns for path in (PROJECT / folder).glob(pattern)}

    assert wanted
    assert wanted - names == set()


def test_every_module_is_in_the_wheel(names: frozenset[str]) -> None:
    """Every Python file of the three packages is in the wheel, nothing of the tests, and what pip puts elsewhere."""
    wanted = {
        str(path.relative_to(PROJECT))
        for package in ("toolkit", "probes", "validators")
        for path in (PROJECT / package).rglob("*.py")
    }

    assert wanted - names == set()
    assert {name for name in names if name.split("/")[0] not in {"toolkit", "probes", "validators"}} == {
        name for name in names if ".dist-info/" in name or name.startswith(SHARE)
    }


def test_manual_pages_and_completion_are_in_the_wheel(names: frozenset[str]) -> None:
    """Each verb's page and each shell's file, where pip puts them below `share` of the environment."""
    from tools import completion  # imports shtab

    pages = {f"man/man1/pinproof{verb}.1" for verb in ("", *(f"-{verb}" for verb in VERBS))}
    files = {f"{SHARE}{place}" for place in (*pages, *completion.PLACES.values())}

    assert files == {name for name in names if name.startswith(SHARE)}


def test_metadata(wheel: Path) -> None:
    """The wheel names the command, refuses an upload to PyPI, and does not ask pip for `bcc`."""
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        metadata = archive.read(f"{info}/METADATA").decode()
    parser = configparser.ConfigParser()
    parser.read_string(entry_points)

    assert parser["console_scripts"]["pinproof"] == "toolkit.__main__:main"
    assert "Classifier: Private :: Do Not Upload" in metadata
    assert "Requires-Dist: bcc" not in metadata


def test_the_unpacked_wheel_runs(unpacked: Path) -> None:
    """The command line starts from the wheel's own files."""
    where = run_unpacked(unpacked, "-c", "import toolkit, probes, validators; print(toolkit.__file__)")
    done = run_unpacked(unpacked, "-m", "toolkit", "--help")

    assert where.stdout.strip() == str(unpacked / "toolkit" / "__init__.py")
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


def test_version_is_one(unpacked: Path) -> None:
    """The version that `pinproof --version` prints is that of pyproject.toml."""
    expected = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    done = run_unpacked(unpacked, "-m", "toolkit", "--version")

    first, about = done.stdout.splitlines()
    assert first == f"pinproof, version {expected}"
    assert about.startswith(("bcc ", "no bcc"))
    assert f"Linux {os.uname().release}" in about


def test_dependencies_of_the_readme_are_declared() -> None:
    """The packages that the project is built on are dependencies, except bcc, which the distribution brings."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = {requirement.split(">")[0].split("[")[0].lower() for requirement in project["dependencies"]}

    assert {"psutil", "pyudev", "prometheus-client", "tabulate"} <= declared
    assert "bcc" not in declared
    assert any(requirement.startswith("pytest") for requirement in project["optional-dependencies"]["test"])
