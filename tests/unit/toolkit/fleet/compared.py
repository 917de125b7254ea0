"""Comparisons for tests: of two runs, and of groups of made-up sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from toolkit.fleet.comparison import Asked
from toolkit.fleet.comparison import compare as compare_groups
from toolkit.fleet.observed import Observed, of_result
from toolkit.fleet.values import Comparison
from toolkit.model.claims import ClaimSet
from toolkit.model.result import Result
from toolkit.session.index import gated_measures
from validators.registry import measure_of

NO_CLAIMS = (None, None)
AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def compare(
    base: Result,
    new: Result,
    *,
    scenarios: tuple[str, str] = ("", ""),
    promises: tuple[ClaimSet | None, ClaimSet | None] = NO_CLAIMS,
) -> Comparison:
    """Compare one run with one."""
    before, after = (
        of_result(one, gated_measures(one.verdicts), scenario=name, claims=claims)
        for one, name, claims in zip((base, new), scenarios, promises, strict=True)
    )
    return gate((before,), (after,))


def gate(base: Sequence[Observed], new: Sequence[Observed], **others: Any) -> Comparison:
    """Compare groups of runs."""
    return compare_groups(Asked(base=base, new=new, kind_of=measure_of, at=others.pop("at", AT), **others))
