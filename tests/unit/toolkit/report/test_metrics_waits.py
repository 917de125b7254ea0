"""How long waits were: native histograms where the format has them, classic buckets by claim, nothing else by rule."""

from __future__ import annotations

import urllib.request
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.toolkit.report.metrics_builder import busy, watched
from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.model.evidence import Delay
from toolkit.report.metrics import MAX_SERIES, registry_of
from toolkit.report.metrics_server import MetricsServer
from toolkit.report.metrics_waits import BUCKETS, NAME, NATIVE
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.session.windows.series import MAX_HISTOGRAMS, OTHER, Detail, Series

ROW = Delay(
    claim="web", cpu=1, wait_ns=700_000, woken_ns=200_000, preempted_ns=400_000, woken=(0, 3, 0, 1), preempted=(0,) * 19
)
ROWS = (ROW, replace(ROW, cpu=2, woken=(1,), preempted=(*(0,) * 19, 2)))


def state(detail: Detail, rows: tuple[Delay, ...] = ROWS) -> SessionState:
    """Return an open window of these waits."""
    return SessionState(counters=Counters(series=Series(detail)), open=replace(evidence(), delays=rows))


def scraped(found: SessionState, accept: str) -> str:
    """Return what a scraper gets that asks for a format."""
    with MetricsServer(claim_set, lambda: found, "127.0.0.1", 0) as server:
        asked = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return bytes(answer.read()).decode()


@pytest.mark.skipif(not NATIVE, reason="the installed prometheus_client has no native histograms")
@pytest.mark.parametrize(("detail", "claim"), [(Detail.RULE, OTHER), (Detail.CLAIM, "web")])
def test_native_where_the_format_has_them(detail: Detail, claim: str) -> None:
    """One sample each, of both CPUs: from 2 ** -16 s on, each bucket twice as long as the one before."""
    text = scraped(state(detail), "application/openmetrics-text;version=2.0.0")
    found = {line.partition(" ")[0]: line.partition(" ")[2] for line in text.splitlines() if line.startswith(NAME)}
    woken = next(value for name, value in found.items() if f'claim="{claim}"' in name and 'kind="woken"' in name)
    preempted = next(value for name, value in found.items() if 'kind="preempted"' in name)

    assert len(found) == 2
    assert woken.startswith("{count:5,sum:0.0004,schema:0,zero_threshold:1.52587890625e-05,zero_count:0,")
    assert "positive_spans:[-15:4],positive_deltas:[1,2,-3,1]" in woken
    assert "positive_spans:[4:1],positive_deltas:[2]" in preempted


@pytest.mark.parametrize("accept", ["", "text/plain;version=0.0.4", "text/plain;version=1.0.0", "*/*"])
def test_no_other_format_has_a_sample_without_a_value(accept: str) -> None:
    """By rule nothing stands for it; OpenMetrics 1.0 leaves native ones out by itself."""
    assert NAME not in scraped(state(Detail.RULE), accept)
    assert NAME + "{" not in scraped(state(Detail.RULE), "application/openmetrics-text;version=1.0.0")


def test_classic_buckets_by_claim() -> None:
    """With the bounds that were counted; the sum is of the same waits."""
    text = generate_latest(registry_of(claim_set, lambda: state(Detail.CLAIM), lambda *_: ())).decode()
    samples = {
        (one.name.removeprefix(NAME), one.labels.get("le", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name.startswith(NAME) and one.labels["kind"] == "woken"
    }

    assert (samples["_count", ""], samples["_sum", ""]) == (5, pytest.approx(0.0004))
    assert [samples["_bucket", le] for le in ("6.4e-05", "0.000256", "+Inf")] == [4, 5, 5]
    assert len(samples) == 12


def test_series_are_bounded() -> None:
    """By rule as many as before, whatever waits; by claim the first claims have their own, the others are a sum."""
    rows = tuple(replace(ROW, claim=f"c{number}", woken=(1,) * BUCKETS) for number in range(MAX_HISTOGRAMS + 5))
    found, verdicts = busy(100, 2)
    by_rule = registry_of(claim_set, lambda: watched(Detail.RULE, replace(found, delays=rows), verdicts), lambda *_: ())
    by_claim = registry_of(claim_set, lambda: state(Detail.CLAIM, rows), lambda *_: ())
    claims = {line.split('claim="')[1].split('"')[0] for line in generate_latest(by_claim).decode().splitlines()
              if line.startswith(NAME)}  # fmt: skip

    assert sum(not line.startswith("#") for line in generate_latest(by_rule).decode().splitlines()) <= MAX_SERIES
    assert (len(claims), OTHER in claims) == (MAX_HISTOGRAMS + 1, True)
