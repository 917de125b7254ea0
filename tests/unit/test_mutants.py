"""The table of lines that are broken on purpose is of this tree; a line that no test holds is reported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, PROJECT, Mutant, main, survivors


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.new[:40])
def test_every_edit_can_be_made(mutant: Mutant) -> None:
    """Its line is in its file once, what it becomes is Python and something else, and its test exists."""
    before = (PROJECT / mutant.file).read_text(encoding="utf-8")
    after = mutant.made(before)

    assert after is not None
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))
    assert (PROJECT / mutant.test).is_file()


def test_what_survives_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One is caught, one is not, one is of yesterday; the tree is as it was afterwards."""
    source = "def f(a, b):\n    c = a + b\n    d = 7\n    return c\n"
    (tmp_path / "made_up.py").write_text(source)
    (tmp_path / "test_made_up.py").write_text("from made_up import f\n\n\ndef test_f():\n    assert f(1, 2) == 3\n")
    mutants = [
        Mutant("made_up.py", old, new, "test_made_up.py")
        for old, new in (("c = a + b", "c = a - b"), ("d = 7", "d = 8"), ("d = 9", "d = 8"))
    ]
    found = survivors(tmp_path, mutants)

    assert ["d = 7 -> d = 8" in found[0], "not there once: d = 9" in found[1], len(found)] == [True, True, 2]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["caught", "SURVIVES"]
    assert (tmp_path / "made_up.py").read_text() == source


def test_a_file_without_a_mutant_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing tried is nothing caught."""
    assert main(["probes/gone.py"]) == 2
    assert "probes/switches/tally.py" in capsys.readouterr().err
