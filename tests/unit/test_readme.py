"""The tables of READMEs say what the code says."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from toolkit.cli import ending
from toolkit.errors import EXIT_CODES, ApplyError, HostUnsupportedError, InputError
from toolkit.model.verdict import Outcome, exit_code
from tools.readme import BEGIN, END, filled, generated, options, rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path", list(generated(ROOT)), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_tables_are_those_of_the_code(path: Path) -> None:
    """``python -m tools.readme`` would change nothing."""
    assert path.read_text(encoding="utf-8") == generated(ROOT)[path]


def test_a_changed_table_is_noticed(tmp_path: Path) -> None:
    """A row of yesterday, by hand or because the code went on, is replaced; what stands around it stays."""
    for path, text in generated(ROOT).items():
        place = tmp_path / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("`quota-free`", "`quota-gone`").replace("| 4 |", "| 5 |"), encoding="utf-8")
    changed = [path for path, text in generated(tmp_path).items() if path.read_text(encoding="utf-8") != text]

    assert {str(path.relative_to(tmp_path)) for path in changed} >= {"validators/README.md", "docs/verbs.md"}


def test_a_block_is_there_once() -> None:
    """None, or two, is an error of the file."""
    block = f"{BEGIN.format(name='x')}\nold\n{END.format(name='x')}"

    assert filled(f"a\n{block}\nb", "x", "new") == f"a\n{block.replace('old', 'new')}\nb"
    for text in ("a", f"{block}{block}"):
        with pytest.raises(ValueError, match="expected one"):
            filled(text, "x", "new")


def test_exit_codes_are_those_that_programs_end_with() -> None:
    """Every code that an outcome, an error or the command line has is explained."""
    used = {exit_code(outcome) for outcome in Outcome}
    used |= {error.exit_code for error in (InputError, HostUnsupportedError, ApplyError)}
    used |= {ending.DEFECT, 128 + signal.SIGINT, ending.NO_READER}

    assert used <= set(EXIT_CODES)
    assert list(EXIT_CODES) == sorted(EXIT_CODES)


def test_cells_hold_what_they_are_named_for() -> None:
    """Conflicts are named at both options; no cell is cut by a bar of its text."""
    rows = {row.split(" | ")[0].strip("| "): row for row in options().splitlines()}

    assert "`full-pcpus-only`" in rows["`distribute-cpus-across-cores`"]
    assert "`distribute-cpus-across-cores`" in rows["`full-pcpus-only`"]
    assert {row.replace("\\|", "").count("|") for row in rules().splitlines()} == {5}
