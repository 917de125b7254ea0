"""Series of claims and CPUs, of rules and subjects: so many and no more, whatever the node; nothing is lost by that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.validators.evidence_builder import SECOND, claim_set, evidence, use
from toolkit.model.evidence import CpuUse, Evidence
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.metrics import registry_of
from toolkit.session.windows import counters as counting
from toolkit.session.windows import series
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.session.windows.series import MAX_BROKEN, MAX_PAIRS, MAX_VERDICTS, OTHER
from toolkit.timeline.ran import asked

FAMILIES = 5
"""With labels ``claim`` and ``cpu``."""
Values = dict[tuple[str, str, str], float]
"""By metric, claim and CPU."""


def read(state: SessionState) -> tuple[Values, int, float]:
    """Return the values by claim and CPU, how many series there are in all, and how many pairs are summed up."""
    text = generate_latest(registry_of(claim_set, lambda: state, lambda *_: ())).decode()
    found, count, summed = Values(), 0, 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            count += 1
            if sample.name == "pinproof_summed_series":
                summed = sample.value
            elif "cpu" in sample.labels and "claim" in sample.labels:
                found[sample.name, sample.labels["claim"], sample.labels["cpu"]] = sample.value
    return found, count, summed


@cache
def rows(claims: int, cpus: int, **changes: int) -> tuple[CpuUse, ...]:
    """Every claim ran for a second on every CPU."""
    one = replace(use("c", 0, switches=10, run_ns=SECOND), **changes)
    return tuple(replace(one, claim=f"c{claim:03d}", cpu=cpu) for claim in range(claims) for cpu in range(cpus))


def window(cpu_use: tuple[CpuUse, ...]) -> Evidence:
    return evidence(cpu_use=cpu_use, bandwidth=(), intruders=())


def test_a_node_of_500_claims_on_128_cpus_has_a_bounded_scrape() -> None:
    """64,000 pairs: the sums by claim are right to the last switch, and the pairs that are not shown are counted."""
    values, count, summed = read(SessionState(open=window(rows(500, 128))))
    assert len({(claim, cpu) for _, claim, cpu in values if cpu != OTHER}) == MAX_PAIRS
    assert summed == 500 * 128 - MAX_PAIRS
    assert count < FAMILIES * (MAX_PAIRS + 500) + 200
    of_claims = Counter[str]()
    for (name, claim, _), value in values.items():
        if name == "pinproof_switches_total":
            of_claims[claim] += int(value)
    assert of_claims == {f"c{claim:03d}": 1280 for claim in range(500)}


def test_a_cpu_outside_the_claim_is_named_even_where_it_is_summed_up() -> None:
    """The worst is what one asks for: its time outside has its own series, the rest of it stays in the sum."""
    broken = replace(use("c499", 127, switches=10, run_ns=SECOND), out_of_set_switches=3, out_of_set_ns=7_000_000)
    values, _, _ = read(SessionState(open=window((*rows(500, 128)[:-1], broken))))
    assert values["pinproof_out_of_set_switches_total", "c499", "127"] == 3
    assert values["pinproof_out_of_set_seconds_total", "c499", "127"] == 0.007
    assert values["pinproof_out_of_set_seconds_total", "c499", OTHER] == 0
    assert ("pinproof_run_seconds_total", "c499", "127") not in values
    assert values["pinproof_run_seconds_total", "c499", OTHER] == 128


def test_where_everything_is_broken_it_is_bounded_too() -> None:
    """So many more have series of their own; the others are in the sum, none is lost."""
    values, _, _ = read(SessionState(open=window(rows(500, 128, out_of_set_switches=2, out_of_set_ns=5))))
    outside = {key: value for key, value in values.items() if key[0] == "pinproof_out_of_set_switches_total"}
    assert len(outside) <= MAX_PAIRS + MAX_BROKEN + 500
    assert sum(outside.values()) == 2 * 500 * 128


def test_a_small_node_has_every_cpu_by_itself() -> None:
    """Nothing is summed up where there is no need."""
    values, _, summed = read(SessionState(open=window(rows(10, 20))))
    assert (summed, {cpu for _, _, cpu in values} & {OTHER}) == (0, set())


def test_no_counter_goes_back_while_claims_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through windows that are open, end, break a claim, lose one for good, and have room again for others."""
    monkeypatch.setattr(series, "MAX_PAIRS", 30)
    monkeypatch.setattr(series, "MAX_BROKEN", 5)
    monkeypatch.setattr(counting, "KEPT_WINDOWS", 2)
    counters, before = Counters(), Values()
    many, fewer = rows(8, 6), rows(8, 6)[12:]
    broken = tuple(replace(row, out_of_set_switches=1, out_of_set_ns=9) for row in many[-12:])
    late = tuple(use(f"new{claim}", cpu) for claim in range(3) for cpu in range(6))
    kinds = [many, (*many[:-12], *broken), *[fewer] * 4, (*fewer, *late), (*late, *fewer)]
    result = make_result(window(()), (), unknown=None)
    for cpu_use in kinds:
        for seen in (cpu_use, cpu_use[::-1]):
            after, _, _ = read(SessionState(counters=counters.copy(), open=window(seen)))
            assert {key for key in before if key not in after and key[1] not in ("c000", "c001")} == set()
            assert [key for key, value in before.items() if after.get(key, value) < value] == []
            before = after
        found = window(cpu_use)
        counters.add(found, asked(found).rows)
        counters.judged(result)
    assert any(claim.startswith("new") and cpu != OTHER for _, claim, cpu in before)
    assert any(claim.startswith("new") and cpu == OTHER for _, claim, cpu in before)
    assert not any(claim in ("c000", "c001") for _, claim, _ in before)


States = dict[tuple[str, str], str]
"""The state of each pair of rule and subject."""
Counts = dict[tuple[str, str, str], float]
"""Windows by rule, subject and outcome."""
RULES = ("applied", "affinity-mask", "quota-free", "noise", "layers-agree", "cpuset-containment")


def judged_of(state: SessionState, *so_far: Verdict) -> tuple[States, Counts, float]:
    """Return what a scrape says of verdicts, and how many are summed up. :param so_far: those of an open window."""
    text = generate_latest(registry_of(claim_set, lambda: state, lambda *_: so_far)).decode()
    states, counts, summed, seen = States(), Counts(), 0.0, set[tuple[str, ...]]()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = (sample.name, *sorted(sample.labels.values()))
            assert labels not in seen, "Prometheus refuses a scrape with a series twice"
            seen.add(labels)
            if sample.name == "pinproof_summed_verdicts":
                summed = sample.value
            elif sample.name == "pinproof_verdict" and sample.value:
                assert states.setdefault((sample.labels["rule"], sample.labels["subject"]), "") == ""
                states[sample.labels["rule"], sample.labels["subject"]] = sample.labels["pinproof_verdict"]
            elif sample.name == "pinproof_window_verdicts_total":
                counts[sample.labels["rule"], sample.labels["subject"], sample.labels["outcome"]] = sample.value
    return states, counts, summed


def verdict(rule: str, subject: str, outcome: Outcome = Outcome.PASSED) -> Verdict:
    return Verdict(rule=rule, subject=subject, outcome=outcome, reason="", measures={})


def all_of(subjects: int, **failed: str) -> list[Verdict]:
    """Every rule passes for every subject. :param failed: subject -> the rule that does not."""
    names = [f"c{number:03d}" for number in range(subjects)]
    return [
        verdict(rule, name, Outcome.FAILED if failed.get(name) == rule else Outcome.PASSED)
        for rule in RULES
        for name in names
    ]


def ended_with(counters: Counters, verdicts: list[Verdict]) -> Result:
    """A window ends with these."""
    result = make_result(window(()), tuple(verdicts), unknown=None)
    counters.judged(result)
    return result


def test_verdicts_of_500_claims_are_bounded_and_none_is_lost() -> None:
    """So many pairs have series of their own; what is said of the others counts by rule, and their number is said."""
    counters = Counters()
    last = ended_with(counters, all_of(500))
    states, counts, summed = judged_of(SessionState(counters=counters, last=last))
    assert len([pair for pair in states if pair[1] != OTHER]) == MAX_VERDICTS
    assert summed == len(RULES) * 500 - MAX_VERDICTS
    for rule in RULES:
        assert sum(value for (of, _, outcome), value in counts.items() if (of, outcome) == (rule, "passed")) == 500
    assert set(states.values()) == {"passed"}


def test_a_failure_among_the_summed_rises_in_the_sum_and_is_named() -> None:
    """``increase()`` sees no counter that begins with 1: the first failure is in the sum, further ones in its own."""
    counters = Counters()
    last = ended_with(counters, all_of(500))
    key = (RULES[-1], "c499")
    failing = all_of(500, c499=RULES[-1])
    _, before, _ = judged_of(SessionState(counters=counters.copy(), last=last))
    assert before[RULES[-1], OTHER, "failed"] == 0
    assert (*key, "failed") not in before

    last = ended_with(counters, failing)
    states, once, _ = judged_of(SessionState(counters=counters.copy(), last=last))
    assert (states[key], states[RULES[-1], OTHER]) == ("failed", "passed")
    assert (once[RULES[-1], OTHER, "failed"], once[*key, "failed"]) == (1, 0)

    last = ended_with(counters, failing)
    _, twice, _ = judged_of(SessionState(counters=counters, last=last))
    assert (twice[RULES[-1], OTHER, "failed"], twice[*key, "failed"]) == (1, 1)


def test_where_all_fail_the_sum_says_so() -> None:
    """No more than so many are named; that others failed, too, is the state of the sum, also in a first window."""
    counters = Counters()
    failing = [verdict(rule, f"c{number:03d}", Outcome.FAILED) for rule in RULES for number in range(500)]
    last = ended_with(counters, failing)
    states, counts, _ = judged_of(SessionState(counters=counters, last=last))
    assert len(states) <= MAX_VERDICTS + MAX_BROKEN + len(RULES)
    assert states[RULES[-1], OTHER] == "failed"
    assert sum(value for (_, _, outcome), value in counts.items() if outcome == "failed") == len(failing)

    so_far = [*all_of(500), verdict("noise", "late", Outcome.FAILED)]
    states, _, _ = judged_of(SessionState(open=window(())), *so_far)
    assert states["noise", OTHER] == "failed"


def test_no_count_of_verdicts_goes_back_while_subjects_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the sum either, also where a subject is called as the sum is."""
    monkeypatch.setattr(series, "MAX_VERDICTS", 6)
    monkeypatch.setattr(series, "MAX_BROKEN", 1)
    monkeypatch.setattr(counting, "KEPT_WINDOWS", 2)
    counters, before = Counters(), Counts()
    other = [verdict(rule, OTHER, Outcome.UNDECIDED) for rule in RULES]
    kinds = [all_of(3), all_of(3, c002="applied"), all_of(3, c001="noise") + other, *[all_of(1)] * 4, all_of(4)]
    for verdicts in kinds:
        last = ended_with(counters, verdicts)
        _, after, summed = judged_of(SessionState(counters=counters.copy(), last=last))
        assert [key for key, value in before.items() if after.get(key, value) < value] == []
        assert {key[1] for key in before if key not in after} <= {"c001", "c002"}
        before = after
    assert (before["applied", "c000", "passed"], before["noise", OTHER, "failed"]) == (len(kinds), 1)
    assert summed == len(RULES) * 4 - 6
