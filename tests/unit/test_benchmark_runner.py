"""The runner behind `make bench`: what it runs, and what its exit code says."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

runner = importlib.import_module("tests.benchmarks.__main__")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one good benchmark and one that raises."""
    (tmp_path / "bench_good.py").write_text("def main():\n    print('12.5 ns')\n")
    (tmp_path / "bench_bad.py").write_text("def main():\n    raise RuntimeError('no counter here')\n")
    monkeypatch.setattr(runner, "HERE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "code", "text"),
    [
        (["good"], 0, "12.5 ns"),
        (["bad"], 1, "no counter here"),
        ([], 1, "12.5 ns"),
        (["none"], 2, "there are: bad, good"),
    ],
    ids=["good", "bad", "all", "unknown"],
)
def test_exit_code(folder: Path, capfd: pytest.CaptureFixture[str], names: list[str], code: int, text: str) -> None:
    """A benchmark that raises makes 1 and stops no other; an unknown name makes 2 and lists the known ones."""
    assert runner.main(names) == code
    out = capfd.readouterr()
    assert text in out.out + out.err


def test_every_benchmark_has_a_main() -> None:
    """Each bench_*.py of the project can be run by the runner."""
    found = runner.available()
    assert "scale" in found
    for path in found.values():
        assert "\ndef main(" in path.read_text(), path.name
