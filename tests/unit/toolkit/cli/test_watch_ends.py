"""How a watch ends that an error ends: what its windows said is printed, saved and in the exit code."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.json_lines import documents
from tests.unit.toolkit.session.played import Clock, Opened
from tests.unit.validators.evidence_builder import claim_set, evidence, use
from toolkit.cli import ending, watch, windows
from toolkit.cli.ending import DEFECT, NO_READER, Output, worse
from toolkit.cli.live_lines import events_on, show_line
from toolkit.cli.windows import Shown
from toolkit.host.priority import Priority
from toolkit.model.verdict import Outcome, exit_code
from toolkit.session.engine.composing import Observed
from toolkit.session.engine.consecutive import Consecutive
from toolkit.session.engine.long_stage import Cut
from toolkit.session.engine.record import Record
from toolkit.session.engine.window import Window
from toolkit.store import load_result, window_paths


class Fails(Opened):
    """An observation that fails when its third window ends. :param escaped: in the first, ``db`` ran outside."""

    escaped = False

    def turn(self) -> Observed:
        seen = super().turn()
        if len(self.lengths_s) == 3:
            raise RuntimeError("dictionary keys changed during iteration")
        row = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
        outside = self.escaped and len(self.lengths_s) == 1
        return replace(seen, evidence=evidence(cpu_use=(*evidence().cpu_use, row))) if outside else seen


Watch = Callable[..., tuple[Outcome, list[int]]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    played = Clock()
    monkeypatch.setattr(time, "monotonic", played.monotonic)
    return played


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watch:
    """Watch a played observation in windows of 30 s; saved as ``run``."""

    def watched(opened: Opened, duration_s: float | None = None, *, as_json: bool = False) -> tuple[Outcome, list[int]]:
        def consecutive(path: Path, **how: Any) -> Consecutive:
            return Consecutive(opened, claim_set(), path, stopped=opened.stopped, **how)  # type: ignore[arg-type]

        @contextmanager
        def session(*_: object) -> Iterator[Any]:
            yield SimpleNamespace(opened=opened, consecutive=consecutive)

        monkeypatch.setattr(watch, "session", session)
        output = Output()
        say = events_on(output) if as_json else show_line
        return watch._watch(
            claim_set(),
            None,
            Window(run_id="x", duration_s=duration_s),
            Shown(verbose=False, as_json=as_json, output=output, as_lines=as_json),
            tmp_path / "run",
            watch.Manner(Cut(window_s=30.0), 10.0, watch.Metrics(), Priority(), say),
        )

    return watched


@pytest.mark.parametrize("escaped", [False, True])
def test_an_error_keeps_the_sums(
    clock: Clock, watched: Watch, tmp_path: Path, capfd: pytest.CaptureFixture[str], escaped: bool
) -> None:
    """Of the two windows that were judged; the exit code is the worse one of theirs and the defect's."""
    opened = Fails(clock, [])
    opened.escaped = escaped
    outcome, codes = watched(opened)

    assert worse(exit_code(outcome), *codes) == (1 if escaped else DEFECT)
    sums = load_result(tmp_path / "run").windows
    assert sums is not None
    assert (sums.count, sums.failed) == (2, int(escaped))
    printed = capfd.readouterr()
    assert "2 windows" in printed.out
    assert "RuntimeError: dictionary keys changed during iteration" in printed.err


def test_an_error_before_the_first_window_goes_on(clock: Clock, watched: Watch) -> None:
    """There is nothing to sum up."""

    class Never(Opened):
        def turn(self) -> Observed:
            raise RuntimeError("nothing")

    with pytest.raises(RuntimeError, match="nothing"):
        watched(Never(clock, []))


@pytest.mark.parametrize(("gone", "code"), [("full", 2), ("reader", NO_READER)])
def test_an_output_that_cannot_be_written_ends_nothing(
    clock: Clock, watched: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str, code: int
) -> None:
    """All windows are judged and saved, and so are the sums; it is said once, and in the exit code."""
    written, said = [0], list[str]()

    def fails(_text: str, *, err: bool = False) -> None:
        if not err:
            written[0] += 1
            raise BrokenPipeError(32, "Broken pipe") if gone == "reader" else OSError(28, "No space left on device")

    monkeypatch.setattr(windows, "say", fails)
    monkeypatch.setattr(ending, "complain", lambda text: said.append(text))
    outcome, codes = watched(Opened(clock, []), 90.0)

    assert worse(exit_code(outcome), *codes) == code
    assert len(said) == written[0] == 1
    assert list(window_paths(tmp_path / "run")) == [1, 2, 3]
    sums = load_result(tmp_path / "run").windows
    assert sums is not None
    assert sums.count == 3


class Counting(Opened):
    """An observation that counts, when one of its windows ends, the records of those before that are in memory."""

    def turn(self) -> Observed:
        self.kept: list[int] = [
            *getattr(self, "kept", []),
            sum(isinstance(one, Record) for one in gc.get_objects()),
        ]
        return super().turn()


def test_a_window_that_was_printed_is_let_go(clock: Clock, watched: Watch) -> None:
    """One of a full node weighs tens of megabytes: two of them in memory at a time are more than a watch may use."""
    opened = Counting(clock, [])
    before = sum(isinstance(one, Record) for one in gc.get_objects())
    watched(opened, duration_s=120.0)
    assert opened.kept == [before] * 3


def test_json_lines(clock: Clock, watched: Watch, capfd: pytest.CaptureFixture[str]) -> None:
    """A document for each window as it ends, for each event, the last one for all windows; text on standard error."""
    watched(Fails(clock, []), as_json=True)
    out, err = capfd.readouterr()
    found = documents(out)

    assert [one["schema"] for one in found] == ["pinproof.event/1", *["pinproof.result/1"] * 3]
    assert "armed: " in found[0]["text"]
    assert [one["windows"] is None for one in found[1:]] == [True, True, False]
    assert re.findall(r"^Window (\d+), ", err, re.MULTILINE) == ["1", "2"]
    assert "armed: " in err
