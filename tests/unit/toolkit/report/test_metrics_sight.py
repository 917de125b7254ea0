"""What cannot be seen is a metric: a look that fails, a session that is over, doubtful witnesses, subjects that go."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.validators.evidence_builder import claim_set, coverage, evidence
from toolkit.errors import InputError
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report import metrics, metrics_file
from toolkit.report.metrics import PLACE, SessionCollector, registered
from toolkit.report.metrics_file import MetricsFile, exported
from toolkit.session.windows.counters import KEPT_WINDOWS, Counters, SessionState
from toolkit.timeline.ran import asked
from validators.registry import judge

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]
UP = ("pinproof_observer_up", ())


def parsed(text: str) -> Values:
    """Sample name and labels -> value."""
    return {
        (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if k not in PLACE))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def read(state_now: Callable[[], SessionState]) -> Values:
    """What a scrape of this look says."""
    return parsed(generate_latest(registered(SessionCollector(claim_set, state_now, judge))).decode())


def judged(found: Evidence) -> tuple[Counters, Result]:
    """One window that has ended."""
    counters, result = Counters(), make_result(found, judge(claim_set(), found), unknown=None)
    counters.add(found, asked(found).rows)
    counters.judged(result)
    return counters, result


def test_an_open_window() -> None:
    """A window is open: up, judged up to its start, no outcome yet, no witness doubtful, each of them named."""
    values = read(lambda: SessionState(open=evidence(), window_s=30.0))

    assert values[UP] == 1
    assert values["pinproof_judged_until_timestamp_seconds", ()] == 1795309200.0  # 2026-11-22T01:00:00+00:00
    assert values["pinproof_window_planned_seconds", ()] == 30
    assert {value for (name, _), value in values.items() if name == "pinproof_last_window"} == {0}
    spots = {dict(labels)["witness"]: value for (name, labels), value in values.items() if name.endswith("blind_spots")}
    assert spots == dict.fromkeys(map(str, Witness), 0)


def test_a_window_that_has_ended() -> None:
    """Judged up to its end, and its outcome."""
    counters, result = judged(evidence())
    values = read(lambda: SessionState(counters=counters, open=evidence(), last=result))

    assert values["pinproof_judged_until_timestamp_seconds", ()] == 1795309200.0 + 10
    assert values["pinproof_last_window", (("pinproof_last_window", "passed"),)] == 1
    assert values["pinproof_positive_control_missed_windows_total", ()] == 0


def test_a_look_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised: not up, what was known last is served, counters never go back; then it goes on."""
    monkeypatch.setattr(metrics, "FRESH_S", -1.0)
    answers: list[SessionState | BaseException] = [
        SessionState(open=evidence()),
        OSError(5, "x"),
        KeyError("y"),
        SessionState(open=evidence()),
    ]

    def state_now() -> SessionState:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    registry = registered(SessionCollector(claim_set, state_now, judge))
    scrapes = [parsed(generate_latest(registry).decode()) for _ in range(4)]

    assert [scrape[UP] for scrape in scrapes] == [1, 0, 0, 1]
    assert [scrape["pinproof_switches_judged_total", ()] for scrape in scrapes] == [1_204_331] * 4


def test_a_look_that_never_succeeds() -> None:
    """Not up and nothing judged since the epoch: the rule about old windows fires, too."""

    def state_now() -> SessionState:
        raise RuntimeError("the observer is gone")

    values = read(state_now)
    assert values[UP] == 0
    assert values["pinproof_judged_until_timestamp_seconds", ()] == 0


def test_doubtful_witnesses() -> None:
    """The witness of a blind spot is named, now and in a count that a scrape between windows cannot miss."""
    spots = (BlindSpot(text="a", witnesses=(Witness.SWITCHES,)), BlindSpot(text="b", witnesses=(Witness.SWITCHES,)))
    blind = evidence(coverage=coverage(blindness=spots, positive_control_latency_ms=None), canaries=())
    counters, result = judged(blind)
    values = read(lambda: SessionState(counters=counters, open=evidence(), last=result))

    assert values["pinproof_blind_spots", (("witness", "switches"),)] == 2
    assert values["pinproof_blind_windows_total", (("witness", "switches"),)] == 1
    assert values["pinproof_blind_windows_total", (("witness", "masks"),)] == 0
    assert values["pinproof_positive_control_missed_windows_total", ()] == 1


def test_throttled_time_and_own_cost() -> None:
    """Throttled time by claim and level; the time that the controls took."""
    values = read(lambda: SessionState(open=evidence()))

    assert values["pinproof_cfs_throttled_seconds_total", (("claim", "web"), ("level", "0"))] == 15
    assert values["pinproof_canary_seconds_total", ()] == pytest.approx(0.1)


def test_outcomes_that_have_not_come_yet_are_zero() -> None:
    """The first failure must be an increase, not a series that was not there before."""
    counters, result = judged(evidence())
    values = read(lambda: SessionState(counters=counters, open=evidence(), last=result))
    key = (("outcome", "failed"), ("rule", "cpuset-containment"), ("subject", "db"))

    assert values["pinproof_window_verdicts_total", key] == 0


def test_subjects_that_are_gone_are_forgotten() -> None:
    """Containers come and go for ever: the number of series stays; those that stay keep their sums."""
    counters, result = judged(evidence())
    sizes = set()
    for number in range(5 * KEPT_WINDOWS):
        name = f"pod{number}/main"
        row = replace(evidence().cpu_use[0], claim=name)
        found = evidence(cpu_use=(*evidence().cpu_use, row))
        counters.add(found, asked(found).rows)
        verdict = Verdict(rule="cpuset-containment", subject=name, outcome=Outcome.PASSED, reason="", measures={})
        counters.judged(replace(result, verdicts=(*result.verdicts, verdict)))
        if number >= KEPT_WINDOWS:
            sizes.add((len(counters.sums), len(counters.verdicts), len(counters.named)))

    assert len(sizes) == 1
    assert counters.sums["run", ("db", "2")] == (5 * KEPT_WINDOWS + 1) * 10**9
    assert counters.verdicts["cpuset-containment", "pod3/main", Outcome.PASSED] == 0


def test_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole at once when the block begins; not up when it has ended, whatever the look says; nothing else is left."""
    path = tmp_path / "pinproof.prom"
    with MetricsFile(claim_set, lambda: SessionState(open=evidence()), path, pytest.fail):
        during = parsed(path.read_text())
    after = parsed(path.read_text())

    assert (during[UP], after[UP]) == (1, 0)
    assert during["pinproof_switches_judged_total", ()] == after["pinproof_switches_judged_total", ()] == 1_204_331
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_written_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every period; a file that cannot be written is said once, and written again when it can be."""
    monkeypatch.setattr(metrics_file, "PERIOD_S", 0.02)
    folder, moved, said = tmp_path / "a", tmp_path / "b", []
    folder.mkdir()
    path = folder / "x.prom"
    with MetricsFile(claim_set, lambda: SessionState(open=evidence()), path, said.append):
        first = path.stat().st_ino
        wait(lambda: path.stat().st_ino != first)
        folder.rename(moved)
        wait(lambda: bool(said))
        moved.rename(folder)
        path.unlink()
        wait(path.exists)

    assert len(said) == 1
    assert "x.prom" in said[0]


def wait(until: Callable[[], bool]) -> None:
    """Wait for a condition, a minute at most."""
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("name", ["metrics.txt", "metrics", "none/metrics.prom"])
def test_a_file_that_is_no_use(name: str, tmp_path: Path) -> None:
    """One line: node_exporter reads no other names, and a folder that does not exist is not made."""
    with (
        pytest.raises(InputError),
        exported(claim_set, SessionState, address="127.0.0.1", port=None, file=tmp_path / name, complain=pytest.fail),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
