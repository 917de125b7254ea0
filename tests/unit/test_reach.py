"""Which tests reach a file: through imports, names in strings, fixtures and the modules that read a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.reach import PROJECT, Tree, main

TEST = "def test_x():\n    assert True\n"
FILES = {
    "toolkit/__init__.py": "",
    "toolkit/a.py": "A = 1\n",
    "toolkit/b.py": "def f():\n    from toolkit import a\n",
    "toolkit/cli/verb.py": "import toolkit.b\n",
    "toolkit/main.py": 'import importlib\n\ndef f(verb):\n    importlib.import_module(f"toolkit.cli.{verb}")\n',
    "toolkit/alone.py": "",
    "probes/w/reader.py": 'SOURCE = "w.bpf.c"\n',
    "probes/w/w.bpf.c": '#include "w.h"\n',
    "probes/w/w.h": "",
    "tests/node.py": "from toolkit import b\n",
    "tests/unit/conftest.py": "import pytest\nfrom tests.node import b\n\n@pytest.fixture\ndef node():\n    return b\n",
    "tests/unit/toolkit/test_a.py": f"from toolkit.a import A\n{TEST}",
    "tests/unit/test_other.py": f"from toolkit import a\n{TEST}",
    "tests/unit/test_fixture.py": "def test_x(node):\n    pass\n",
    "tests/unit/test_verb.py": f"from toolkit import main\n{TEST}",
    "tests/unit/test_reader.py": f"from probes.w import reader\n{TEST}",
    "tests/integration/test_far.py": f"from toolkit import a\n{TEST}",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree of a few files."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_nearest_first(root: Path) -> None:
    """The test of that name, another importer, a fixture's, a verb's by its name; no integration test."""
    expected = ["toolkit/test_a.py", "test_other.py", "test_fixture.py", "test_verb.py"]
    assert [name.removeprefix("tests/unit/") for _, name in Tree(root).tests("toolkit/a.py")] == expected
    assert [distance for distance, _ in Tree(root).tests("toolkit/a.py")] == [1, 1, 4, 4]


@pytest.mark.parametrize("file", ["probes/w/w.bpf.c", "probes/w/w.h", "probes/w/reader.py"])
def test_a_file_that_is_no_python_is_reached_through_its_reader(root: Path, file: str) -> None:
    """A program by its name, a header by the program that includes it."""
    assert [name for _, name in Tree(root).tests(file)] == ["tests/unit/test_reader.py"]


def test_a_change_is_seen(root: Path) -> None:
    """What was read before is read again where it is another text."""
    assert len(Tree(root).tests("toolkit/alone.py")) == 0
    (root / "tests/unit/test_other.py").write_text(f"import toolkit.alone\n{TEST}")
    assert [name for _, name in Tree(root).tests("toolkit/alone.py")] == ["tests/unit/test_other.py"]


def test_tests_run_and_the_rest_is_counted(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nearest first, until a time, and pytest's code where one fails."""
    monkeypatch.setattr("tests.reach.BATCH", 1)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # pinproof's own is not of this tree
    assert main([str(root / "toolkit/a.py"), "--seconds", "0"], root) == 0
    assert "test-of: 1 of 4 test files ran, nearest first; --all runs the rest" in capfd.readouterr().out

    (root / "tests/unit/toolkit/test_a.py").write_text("from toolkit import a\n\n\ndef test_x():\n    assert False\n")
    assert main([str(root / "toolkit/a.py")], root) == 1


@pytest.mark.parametrize("file", ["toolkit/gone.py", "README.md", "/etc/hosts", "toolkit"])
def test_a_file_that_is_not_ours_is_bad_input(file: str) -> None:
    """One line and exit code 2, through make too, which hands the name on."""
    ended = subprocess.run(["make", "test-of", file], cwd=PROJECT, capture_output=True, text=True, check=False)
    said = [line for line in ended.stderr.splitlines() if line.startswith("test-of: ")]
    assert (ended.returncode, len(said), "Traceback" in ended.stderr) == (2, 1, False)
    assert said[0].startswith(f"test-of: {file}: no file of toolkit, ")


def test_what_no_test_reaches_is_reported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a finding, not a green result."""
    assert main([str(root / "toolkit/alone.py")], root) == 1
    assert "no unit test reaches toolkit/alone.py" in capsys.readouterr().err
