"""Which windows of a long watch stay on disk, and what is kept of those that go."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.validators.evidence_builder import claim_set, evidence, use
from toolkit import store
from toolkit.cli.main import cli
from toolkit.errors import InputError
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.session.engine import rotation
from toolkit.session.engine.consecutive import Judged
from toolkit.session.engine.record import recorded
from toolkit.session.engine.rotation import Rotation, surplus
from toolkit.session.windows.sums import Sums
from toolkit.store import WINDOW, load_result, window_paths

P, S, U, F = Outcome.PASSED, Outcome.SKIPPED, Outcome.UNDECIDED, Outcome.FAILED


@pytest.mark.parametrize(
    ("outcomes", "keep", "gone"),
    [
        ([P, P, P], 3, []),
        ([P, P, P], 2, [1]),
        ([F, P, P], 2, [2]),
        ([S, P], 1, [1]),
        ([P, S], 1, [1]),
        ([F, U, P], 1, [3, 2]),
        ([F, F, U], 1, [3, 1]),
        ([U, U, F, P], 2, [4, 1]),
    ],
)
def test_which_window_goes(outcomes: list[Outcome], keep: int, gone: list[int]) -> None:
    """What passed goes before what is undecided, and that before what failed; of the same the oldest."""
    assert surplus(enumerate(outcomes, start=1), keep) == tuple(gone)


class Run:
    """A watch of which each window is given."""

    def __init__(self, path: Path, keep: int | None) -> None:
        self.path, self.count = path, 0
        self._sums = Sums()
        self.rotation = Rotation(path, keep, self._sums.result)

    def window(self, found: Evidence, *, last: bool = False) -> None:
        """End a window."""
        self.count += 1
        path = self.path if last and self.count == 1 else self.path / WINDOW.format(self.count)
        record = recorded(path, claims=claim_set(), evidence=found)
        self._sums.add(self.count, record.result, record.ran.rows)
        self.rotation.save(Judged(number=self.count, record=record, last=last))

    def result(self) -> Result:
        """Return the sums so far."""
        return self._sums.result()


def escaped() -> Evidence:
    """A window in which ``db`` ran outside."""
    row = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
    return evidence(cpu_use=(*evidence().cpu_use, row))


def test_the_failed_window_stays_and_the_sums_are_of_all(tmp_path: Path) -> None:
    """Two of ten windows stay, one of them the failed one; the run's result counts ten and names it."""
    run = Run(tmp_path / "run", 2)
    for number in range(1, 11):
        run.window(escaped() if number == 3 else evidence())
        assert len(window_paths(run.path)) <= 2

    assert list(window_paths(run.path)) == [3, 10]
    assert sorted(path.name for path in run.path.iterdir()) == ["result.json", "window-000003", "window-000010"]
    saved = load_result(run.path)
    assert saved.windows is not None
    assert (saved.windows.count, saved.windows.failed) == (10, 1)
    assert [found.number for found in saved.windows.worst] == [3]


def test_judged_again_it_is_not_green(tmp_path: Path) -> None:
    """What was removed is missing where the evidence is judged again, and that is said."""
    run = Run(tmp_path / "run", 2)
    for _ in range(5):
        run.window(evidence())
    done = CliRunner().invoke(cli, ["judge", str(run.path), "--json"])
    assert done.exit_code == 3
    (lacking,) = [one for one in json.loads(done.stdout)["verdicts"] if one["subject"] == "windows"]
    assert "3 of the watched windows are missing" in lacking["reason"]


def test_without_a_number_all_stay(tmp_path: Path) -> None:
    """The default removes nothing and writes no sums of its own."""
    run = Run(tmp_path / "run", None)
    for _ in range(3):
        run.window(evidence())
    assert sorted(path.name for path in run.path.iterdir()) == [WINDOW.format(number) for number in (1, 2, 3)]


def test_a_run_of_one_window_stays(tmp_path: Path) -> None:
    """Its directory is the run's own."""
    run = Run(tmp_path / "run", 1)
    run.window(evidence(), last=True)
    assert (run.path / "evidence.json").exists()


def test_a_link_in_the_place_of_a_window_is_refused(tmp_path: Path) -> None:
    """Nothing that the link leads to is touched; one that was removed is no error."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    run = Run(tmp_path / "run", 1)
    run.window(evidence())
    first = run.path / WINDOW.format(1)
    first.rename(tmp_path / "elsewhere")
    first.symlink_to(other)
    with pytest.raises(InputError, match="window-000001"):
        run.window(evidence())
    assert (other / "precious").read_text() == "x"

    (tmp_path / "elsewhere").rename(run.path / "elsewhere")
    second = run.path / WINDOW.format(2)
    second.rename(tmp_path / "moved")
    run.window(evidence())
    assert list(window_paths(run.path)) == [1, 3]


def full(monkeypatch: pytest.MonkeyPatch, path: Path, room: int) -> None:
    """Let the disk have room for so many windows below a path."""
    write = store.write_run

    def limited(run: Path, texts: Any) -> Path:
        if len(window_paths(path)) >= room:
            raise InputError(str(run), os.strerror(errno.ENOSPC), "a place")
        return write(run, texts)

    monkeypatch.setattr(store, "write_run", limited)


def test_on_a_full_disk_what_says_least_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that failed is saved in the place of one that passed; one that says no more is not, and nothing goes."""
    run = Run(tmp_path / "run", 5)
    for _ in range(3):
        run.window(evidence())
    full(monkeypatch, run.path, 3)

    run.window(escaped())
    assert list(window_paths(run.path)) == [2, 3, 4]
    sums = load_result(run.path).windows
    assert sums is not None
    assert (sums.count, sums.failed) == (4, 1)
    run.window(escaped())
    run.window(escaped())
    assert list(window_paths(run.path)) == [4, 5, 6]
    with pytest.raises(InputError, match="No space left on device"):
        run.window(evidence())
    assert list(window_paths(run.path)) == [4, 5, 6]


def test_room_that_does_not_help_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another program fills the disk, what is saved stays but for one window; afterwards it is tried again."""
    run = Run(tmp_path / "run", 9)
    for _ in range(4):
        run.window(evidence())
    with monkeypatch.context() as disk:
        full(disk, run.path, 0)
        for _ in range(3):
            with pytest.raises(InputError, match="No space left on device"):
                run.window(escaped())
    assert list(window_paths(run.path)) == [2, 3, 4]
    run.window(escaped())
    full(monkeypatch, run.path, 4)
    run.window(escaped())
    assert list(window_paths(run.path)) == [3, 4, 8, 9]


def test_no_other_error_removes_a_window(tmp_path: Path) -> None:
    """One whose place is taken is not saved, whatever else goes."""
    run = Run(tmp_path / "run", 5)
    run.window(evidence())
    (run.path / WINDOW.format(2) / "x").mkdir(parents=True)
    with pytest.raises(InputError):
        run.window(escaped())
    assert list(window_paths(run.path)) == [1, 2]


def test_what_could_not_be_removed_is_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once, other windows go all the same, and the disk holds no more than was asked for in the end."""
    run = Run(tmp_path / "run", 2)
    for _ in range(2):
        run.window(evidence())
    remove = rotation.remove_directory

    def busy(path: Path) -> None:
        if path.name == WINDOW.format(1):
            raise InputError(str(path), "Device or resource busy")
        remove(path)

    monkeypatch.setattr(rotation, "remove_directory", busy)
    with pytest.raises(InputError, match="busy"):
        run.window(evidence())
    run.window(evidence())
    run.window(evidence())
    assert list(window_paths(run.path)) == [1, 4, 5]
    monkeypatch.setattr(rotation, "remove_directory", remove)
    run.window(evidence())
    assert list(window_paths(run.path)) == [5, 6]


@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_a_number_that_keeps_nothing(value: str, tmp_path: Path) -> None:
    """One line, exit code 2."""
    done = CliRunner().invoke(cli, ["watch", "--claims", str(tmp_path / "c.yaml"), "--keep", value])
    assert done.exit_code == 2
    assert "--keep" in done.stderr
