"""How long claims' tasks waited for a CPU, as histograms: native ones for a scraper that asks for OpenMetrics 2.0.

A node has two native histograms by rule (woken, preempted), and two for each claim by claim. Text formats before 2.0
have no native histograms: there, by rule, nothing stands for them, so that the number of series stays what it is; by
claim there are classic buckets.

Source: prometheus.io "Native Histograms" (schema 0: bounds are powers of two); OpenMetrics 2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import prometheus_client.samples
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.samples import Sample

from toolkit.model.evidence.delays import TOLD_NS
from toolkit.report.metrics_sight import PREFIX
from toolkit.session.windows.counters import WAITS, WAITS_NS, Counters

NAME = PREFIX + "long_wait_seconds"
TEXT = (
    f"How long tasks of a claim were runnable and waited, of waits of {TOLD_NS // 1000} us or longer. Native buckets "
    "are of powers of two: each stands for one whose bounds are 4.9 % greater."
)
BUCKETS = 20
"""Of :attr:`toolkit.model.evidence.Delay.woken`; the last has no end."""
FIRST = -15
"""Index of a native bucket whose upper bound is 2 ** -15 s, the nearest to twice :data:`TOLD_NS`."""
STEP = 2
"""Classic buckets are four times as long as the one before: half of the counted ones."""
_NATIVE: Any = getattr(prometheus_client.samples, "NativeHistogram", None)
_SPAN: Any = getattr(prometheus_client.samples, "BucketSpan", None)
NATIVE = _NATIVE is not None and _SPAN is not None
"""Whether the installed client library has them."""
Places = Callable[[str], tuple[str, ...]]


def histograms(counters: Counters, names: tuple[str, ...], places: Places, *, native: bool) -> Iterator[Metric]:
    """Yield the family of waits.

    :param names, places: further labels, and what they are for a claim.
    """
    if not (native and NATIVE) and not counters.series.by_claim:
        return
    labels = ("claim", "kind", *names)
    family = HistogramMetricFamily(NAME, TEXT, labels=labels)
    found: dict[tuple[str, str], list[int]] = {}
    for (name, key), number in sorted(counters.sums.items()):
        if name == WAITS:
            claim, kind, bucket = key
            found.setdefault((claim, kind), [0] * BUCKETS)[min(int(bucket), BUCKETS - 1)] += number
    for (claim, kind), counts in found.items():
        values, total_s = [claim, kind, *places(claim)], counters.sums[WAITS_NS, (claim, kind)] / 1e9
        if native and NATIVE:
            named = dict(zip(labels, values, strict=True))
            family.samples.append(Sample(NAME, named, 0, native_histogram=_native(counts, total_s)))
        else:
            family.add_metric(values, buckets=_classic(counts), sum_value=total_s)
    yield family


def _native(counts: Sequence[int], total_s: float) -> Any:
    first = next((at for at, count in enumerate(counts) if count), 0)
    used = counts[first : max((at + 1 for at, count in enumerate(counts) if count), default=first + 1)]
    return _NATIVE(
        count_value=sum(counts),
        sum_value=total_s,
        schema=0,
        zero_threshold=2.0 ** (FIRST - 1),
        zero_count=0,
        pos_spans=(_SPAN(FIRST + first, len(used)),),
        pos_deltas=tuple(count - before for before, count in zip((0, *used), used, strict=False)),
    )


def _classic(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return cumulated counts by upper bound (s)."""
    ends = [(str(TOLD_NS * 2 ** (at + 1) / 1e9), sum(counts[: at + 1])) for at in range(STEP - 1, BUCKETS - 1, STEP)]
    return [*ends, ("+Inf", sum(counts))]
