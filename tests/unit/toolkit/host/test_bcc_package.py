"""Where bcc is: the distribution's copy serves any Python, and where there is none its users are told its package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import write
from toolkit.host.bcc_package import distribution_copy, how_to_install

PROJECT = Path(__file__).resolve().parents[4]
ASK = (
    f"import sys, json; sys.path.insert(0, {str(PROJECT)!r}); from pathlib import Path; "
    "from toolkit.host.bcc_package import find_bcc, origin; root = Path(sys.argv[1]); found = find_bcc(root); "
    "print(json.dumps([found[0] and found[0].__file__, *found[1:], str(origin(root)), 'netaddr' in sys.modules]))"
)
PURE = "usr/lib/python3/dist-packages/bcc"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of this machine's Python that does not see the system's packages."""
    folder = tmp_path_factory.mktemp("venv")
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def told(bare: Path, root: Path) -> list[str]:
    """Return what is found, cause and remedy, as the Python of that environment says them."""
    done = subprocess.run([bare / "bin/python", "-I", "-c", ASK, root], capture_output=True, text=True, check=True)
    answer: list[str] = json.loads(done.stdout)
    return answer


def test_the_distributions_copy_serves_another_python(bare: Path, tmp_path: Path) -> None:
    """It is imported from where it is, with its own parts, and nothing else of that place can be."""
    copy = {f"{PURE}/__init__.py": "from .libbcc import BPF, PerfType\n", f"{PURE}/libbcc.py": "BPF = PerfType = 1\n"}
    root = write(tmp_path, copy)
    found, cause, _, place, _ = told(bare, root)
    assert (found, cause) == (str(root / PURE / "__init__.py"), "")
    assert place == found


def test_a_copy_that_is_broken_is_said_with_its_place(bare: Path, tmp_path: Path) -> None:
    """A libbcc that cannot be opened is no missing package."""
    root = write(
        tmp_path, {f"{PURE}/__init__.py": "raise OSError('libbcc.so.0: cannot open')", f"{PURE}/libbcc.py": ""}
    )
    found, cause, _, _, _ = told(bare, root)
    assert found is None
    assert f"{root / PURE} cannot be imported by {bare}/bin/python" in cause
    assert cause.endswith("libbcc.so.0: cannot open")


def test_where_there_is_none_the_python_and_the_package_are_named(bare: Path, tmp_path: Path) -> None:
    """Of this distribution, not of Debian in any case."""
    root = write(tmp_path, {"etc/os-release": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'})
    found, cause, remedy, _, _ = told(bare, root)
    assert found is None
    assert f"cannot be imported by {bare}/bin/python (Python {sys.version_info.major}." in cause
    assert remedy == "dnf install python3-bcc, or use the container image, which has it (make image)"


@pytest.mark.parametrize(
    ("release", "says"),
    [
        ("ID=debian\n", "apt install python3-bpfcc"),
        ("ID=ubuntu\nID_LIKE=debian\n", "apt install python3-bpfcc"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper install python3-bcc"),
        ("ID=alpine\n", "apk add py3-bcc"),
        ("ID=arch\n", "pacman -S python-bcc"),
        ("ID=flatcar\nID_LIKE=coreos\n", "install bcc with its Python part"),
        ("nonsense\n", "install bcc with its Python part"),
    ],
)
def test_the_package_of_each_distribution(tmp_path: Path, release: str, says: str) -> None:
    """By the words of its os-release; one that is not known, or has no packages, is told of the image."""
    remedy = how_to_install(write(tmp_path, {"etc/os-release": release}))
    assert remedy.startswith(says)
    assert remedy.endswith("(make image)")


def test_the_newest_pythons_copy_is_taken(tmp_path: Path) -> None:
    """3.11 is newer than 3.9, and a folder without the package is none."""
    places = [f"usr/lib/python3.{minor}/site-packages/bcc" for minor in (9, 11)]
    root = write(tmp_path, {f"{place}/{name}": "" for place in places for name in ("__init__.py", "libbcc.py")})
    write(root, {"usr/lib/python3.12/site-packages/other.py": ""})
    assert distribution_copy(root) == root / places[1] / "__init__.py"
