"""What was used against its quota, slot by slot. Pure.

A curve is data for uPlot, which lets it be read closely, and an SVG, which is printed and stands where no program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from toolkit.model.claims import NO_QUOTA, ClaimSet
from toolkit.model.evidence import BandwidthUse, Evidence
from toolkit.report.html.drawing import path, svg
from toolkit.text.wording import brief, count

MAX_CURVES, MAX_SLOTS = 4, 600
WIDE, HIGH = 1000, 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One claim. :param bound, mean, least, most: in CPUs. :param data: for the page's program: seconds and CPUs."""

    claim: str
    bound: float
    mean: float
    least: float
    most: float
    said: str
    data: dict[str, object]
    picture: Markup


def curves_of(claims: ClaimSet, evidence: Evidence) -> tuple[Curve, ...]:
    """Return what was used by claims with a quota, those that came nearest to it first."""
    slots: dict[str, list[tuple[float, float]]] = {}
    # The last slot ends with the window: a sliver of one says little, and would be drawn as a fall or a peak.
    least_ns = max((one.length_ns for one in evidence.usage_bins), default=0) / 4
    for one in evidence.usage_bins:
        if one.length_ns > least_ns:
            middle = (one.start_at_ns + one.length_ns / 2) / 1e9
            slots.setdefault(one.claim, []).append((round(middle, 4), round(one.usage_ns / one.length_ns, 4)))
    use = {one.claim: one for one in evidence.bandwidth if one.level == 0}
    found = []
    for claim in claims.claims:
        mine = sorted(slots.get(claim.name, ()))
        if claim.quota_us is not None and claim.quota_us != NO_QUOTA and len(mine) > 1:
            found.append(_curve(claim.name, claim.quota_us / claim.period_us, mine, use.get(claim.name)))
    found.sort(key=lambda one: -one.most / one.bound)
    return tuple(found[:MAX_CURVES])


def _curve(name: str, bound: float, slots: Sequence[tuple[float, float]], use: BandwidthUse | None) -> Curve:
    at, used = zip(*slots[:: -(-len(slots) // MAX_SLOTS)], strict=True)
    said = ""
    if use is not None and use.nr_periods is not None:
        said = f"throttled in {use.nr_throttled or 0} of {count(use.nr_periods, 'period')}"
        said += f", for {brief(use.throttled_ns)}" if use.throttled_ns else ""
    return Curve(
        claim=name,
        bound=bound,
        mean=sum(used) / len(used),
        least=min(used),
        most=max(used),
        said=said,
        data={"x": at, "y": used, "bound": bound},
        picture=_still(at, used, bound),
    )


def _still(at: Sequence[float], used: Sequence[float], bound: float) -> Markup:
    most = max(*used, bound) * 1.1 or 1.0
    points = "L".join(
        f"{round((x - at[0]) / ((at[-1] - at[0]) or 1) * WIDE)} {round(HIGH - y / most * HIGH)}"
        for x, y in zip(at, used, strict=True)
    )
    line = round(HIGH - bound / most * HIGH)
    return svg(
        "still",
        (WIDE, HIGH),
        [path(f"M{points}", "line"), path(f"M0 {line}H{WIDE}", "bound")],
        stretched=True,
    )
