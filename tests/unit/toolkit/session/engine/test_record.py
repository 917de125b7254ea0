"""A run is judged by what is read back from its own text; no disk is needed, and what is saved says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.validators.evidence_builder import claim_set, coverage, evidence, in_a_row
from toolkit import store
from toolkit.errors import InputError
from toolkit.model.evidence import Evidence
from toolkit.model.scenario import Scenario
from toolkit.model.stage_text import StageText
from toolkit.model.verdict import Outcome
from toolkit.session.engine import record
from toolkit.session.engine.record import Kept, Run, recorded, whole
from toolkit.session.saved import judge_saved
from toolkit.session.windows.sums import Sums
from validators.registry import judge


def made(path: Path) -> record.Record:
    return recorded(path, claims=claim_set(), evidence=evidence())


def run(directory: Path, below: str = "") -> Run:
    path = directory / below
    return Run(scenario=Scenario(name="s", title="t"), directory=directory, path=path, record=made(path), stage=below)


def test_it_is_judged_without_a_disk(tmp_path: Path) -> None:
    """Claims, evidence and verdicts are there; the directory is not."""
    done = made(tmp_path / "runs" / "one")

    assert (done.claims, done.evidence) == (claim_set(), evidence())
    assert done.verdicts == judge(claim_set(), evidence())
    assert list(tmp_path.iterdir()) == []


def test_what_is_saved_is_what_was_judged(tmp_path: Path) -> None:
    """``judge`` and ``--json`` of the saved run say what was printed."""
    path = tmp_path / "runs" / "one"
    done = recorded(path, claims=claim_set(), evidence=evidence(), canaries=evidence(cpu_use=()))
    done.save()
    saved = store.load_run(path)

    assert (saved.canaries, done.saved.canaries) == (evidence(cpu_use=()), evidence(cpu_use=()))
    assert (saved.claims, saved.evidence, saved.result) == (done.claims, done.evidence, done.result)
    assert judge(saved.claims, saved.evidence) == done.verdicts


def test_evidence_that_cannot_be_judged_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in a rule does not cost the evidence of an hour."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(record, "judge_and_ask", broken)
    with pytest.raises(ZeroDivisionError):
        made(tmp_path / "one")
    assert store.load_run(tmp_path / "one").evidence == evidence()
    with pytest.raises(ZeroDivisionError):
        recorded(tmp_path / "two", claims=claim_set(), evidence=evidence(), rescue=False)
    assert not (tmp_path / "two").exists()


def test_stages_lie_below_their_run(tmp_path: Path) -> None:
    """One directory, whole; each stage is a run of its own."""
    directory = tmp_path / "one"
    whole([run(directory, "init-1"), run(directory)]).save()

    assert store.load_run(directory).evidence == store.load_run(directory / "init-1").evidence
    assert {path.name for path in tmp_path.iterdir()} == {"one"}


def test_what_cannot_be_saved_is_noted(tmp_path: Path) -> None:
    """A run of many that cannot be saved has verdicts, and no path."""
    (tmp_path / "file").write_text("")
    kept = Kept()
    good, bad = kept.keep(run(tmp_path / "good"), "a"), kept.keep(run(tmp_path / "file" / "bad"), "b")

    assert (kept.path(good), kept.path(bad)) == (str(tmp_path / "good"), "")
    assert len(kept.unsaved) == 1
    assert "file/bad" in kept.unsaved[0]
    assert bad.verdicts == good.verdicts


@pytest.mark.parametrize("stage", ["claims", "evidence"])
def test_texts_are_read_as_strangers(tmp_path: Path, stage: str) -> None:
    """What comes back from text is checked like a file: a stage missing or broken is one line with its path."""
    texts = dict(made(tmp_path / "one").texts)
    broken = {**texts, stage: StageText(schema=f"pinproof.{stage}/1", body=json.dumps({"extra": 1}).encode())}
    with pytest.raises(InputError, match=f"one/{stage}.json"):
        store.parse_run(tmp_path / "one", broken)
    del texts[stage]
    with pytest.raises(InputError, match="no claims or no evidence"):
        store.parse_run(tmp_path / "one", texts)


def test_what_is_printed_is_of_all_stages(tmp_path: Path) -> None:
    """A result that says ``passed`` beside an exit code of 3 would be read as passed; judged again it is the same."""
    lossy = recorded(tmp_path / "init-1", claims=claim_set(), evidence=evidence(coverage=coverage(lost_events=1)))
    finished = whole([replace(run(tmp_path, "init-1"), record=lossy), run(tmp_path)])
    finished.save()

    assert finished.result.outcome is finished.outcome is Outcome.UNDECIDED
    assert judge_saved(tmp_path).result == finished.result


def in_windows(directory: Path, *windows: Evidence) -> Run:
    """A run whose last stage had several windows; they have been saved."""
    sums, before = Sums(), ""
    for number, found in enumerate(in_a_row(*windows), start=1):
        last = recorded(directory / store.WINDOW.format(number), claims=claim_set(), evidence=found, before=before)
        last.save()
        before = store.digest_of(last.texts["result"])
        sums.add(number, last.result, last.ran.rows)
    return replace(run(directory), record=last, sums=store.reread(sums.result()))


def test_windows_have_sums_and_stages(tmp_path: Path) -> None:
    """The worst window decides, not the last; what lies beside them is a stage, and judged again it is the same."""
    lossy = evidence(coverage=coverage(lost_events=1))
    finished = whole([run(tmp_path, "init-1"), in_windows(tmp_path, evidence(), lossy, evidence())])
    finished.save()

    assert finished.outcome is finished.result.outcome is Outcome.UNDECIDED
    assert finished.record.result.outcome is Outcome.PASSED
    assert [path.name for path in store.stage_paths(tmp_path)] == ["init-1"]
    assert list(store.window_paths(tmp_path)) == [1, 2, 3]
    assert judge_saved(tmp_path).result == finished.result


def test_a_stage_before_the_windows_counts_when_judged_again(tmp_path: Path) -> None:
    """What an init container's stage left undecided is not lost beside windows that passed."""
    lossy = recorded(tmp_path / "init-1", claims=claim_set(), evidence=evidence(coverage=coverage(lost_events=1)))
    finished = whole([replace(run(tmp_path, "init-1"), record=lossy), in_windows(tmp_path, evidence(), evidence())])
    finished.save()

    assert finished.result.outcome is Outcome.UNDECIDED
    assert judge_saved(tmp_path).result == finished.result


def test_a_window_that_could_not_be_saved_is_an_error_of_the_run(tmp_path: Path) -> None:
    """The sums are saved all the same."""
    lost = replace(in_windows(tmp_path, evidence(), evidence()), unsaved=InputError("window", "full", "space"))
    with pytest.raises(InputError, match="window"):
        lost.save()
    assert store.load_result(tmp_path).windows is not None
