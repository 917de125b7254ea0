"""Metrics by rule: as many series with one claim as with hundreds, and nothing that a sum would hide is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.toolkit.report.metrics_builder import bandwidth, busy, watched
from tests.unit.validators.evidence_builder import claim_set, intruder
from toolkit.model.evidence import OwnerClass
from toolkit.model.result import make_result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.metrics import MAX_SERIES, PLACE, registry_of
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.session.windows.series import OTHER, Detail, Series
from toolkit.timeline.ran import asked
from validators.registry import RULES

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def values(state: SessionState, verdicts: tuple[Verdict, ...] = ()) -> Values:
    """Sample name and labels -> value."""
    text = generate_latest(registry_of(claim_set, lambda: state, lambda *_: verdicts)).decode()
    return {
        (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if k not in PLACE))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(("claims", "cpus"), [(1, 2), (100, 2), (500, 128)])
def test_a_node_has_at_most_so_many_series(claims: int, cpus: int) -> None:
    """Whatever runs there; every rule has verdicts, every witness and owner class its numbers."""
    read = values(watched(Detail.RULE, *busy(claims, cpus)))
    assert len(read) <= MAX_SERIES
    assert len(read) == len(values(watched(Detail.RULE, *busy(7, 3)))), "it depends on the node"


def test_sums_are_those_of_all_claims() -> None:
    """Of both windows; how much is summed up is said."""
    read = values(watched(Detail.RULE, *busy(100, 2)))
    key = (("claim", OTHER), ("cpu", OTHER))
    assert read["pinproof_switches_total", key] == 2 * 100 * 2 * 10
    assert read["pinproof_run_seconds_total", key] == 2 * 100 * 2
    assert read["pinproof_cgroup_usage_seconds_total", (("claim", OTHER), ("level", "0"))] == 2 * 100
    assert read["pinproof_window_verdicts_total", (("outcome", "passed"), ("rule", "noise"), ("subject", OTHER))] == 100
    assert read["pinproof_summed_series", ()] == 200
    assert read["pinproof_summed_verdicts", ()] == 100 * len(RULES)


def test_no_sum_goes_back_when_claims_go() -> None:
    """Claims that no window names any more are forgotten, their time is not: rate() would take a reset of it."""
    counters, before = Counters(series=Series(Detail.RULE)), 0.0
    key = (("claim", OTHER), ("cpu", OTHER))
    for number in range(60):
        found, verdicts = busy(3 if number < 5 else 1, 2)
        counters.add(found, asked(found).rows)
        counters.judged(make_result(found, verdicts, unknown=None))
        now = values(SessionState(counters=counters))["pinproof_run_seconds_total", key]
        assert now > before
        before = now


def test_one_that_fails_is_not_hidden_by_the_others() -> None:
    """Of a rule the worst subject is shown; the claim that is throttled most and the CPU with most intrusion, too."""
    found, verdicts = busy(100, 2)
    verdicts = (replace(verdicts[0], outcome=Outcome.FAILED), *verdicts[1:])
    guest = replace(intruder(OwnerClass.SYSTEM, total_ns=found.duration_ns // 4), cpu=1)
    found = replace(found, bandwidth=(*found.bandwidth, bandwidth("bad", 0, nr_throttled=60)), intruders=(guest,))
    read = values(watched(Detail.RULE, found, verdicts))
    failed = (("pinproof_verdict", "failed"), ("rule", RULES[0].doc.id), ("subject", OTHER))
    assert read["pinproof_verdict", failed] == 1
    assert read["pinproof_worst_throttled_ratio", ()] == 0.6
    assert read["pinproof_worst_intruder_ratio", (("owner", "system"),)] == pytest.approx(0.25)


def test_by_claim_the_same_has_their_names() -> None:
    """The option that a user has: ``--metrics-detail claim``."""
    read = values(watched(Detail.CLAIM, *busy(100, 2)))
    assert read["pinproof_switches_total", (("claim", "c042"), ("cpu", "1"))] == 2 * 10
    assert len(read) > 5000
