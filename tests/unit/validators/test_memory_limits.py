"""Rule ``applied``: a memory limit is what the kernel's whole pages make of the promise."""

from __future__ import annotations

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, db_files, evidence
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.verdict import Outcome
from validators.rules import applied

ODD = 50_000_001


def judged(promised: int, found: int) -> Outcome:
    """What is said of a limit that both readings show."""
    read = (db_files(memory_max_bytes=found),)
    seen = evidence(files_before=read, files_after=read, files_during=())
    return applied.RULE(claim_set(claim_db(memory_bytes=promised)), seen)[0].outcome


@pytest.mark.parametrize("found", [1 << 30, ODD // 4096 * 4096, ODD // 65_536 * 65_536])
def test_memory_limit_is_rounded_down_to_pages(found: int) -> None:
    """The kernel keeps whole pages."""
    promised = max(found, ODD)
    assert judged(promised, found) is Outcome.PASSED


@pytest.mark.parametrize(("promised", "less"), [(1 << 30, 4096), (1 << 30, -4096), (1 << 30, 1 << 29), (ODD, 8321)])
def test_memory_limit_that_no_page_explains(promised: int, less: int) -> None:
    """Another limit, however near: the promise is whole pages of every size, or the next whole ones are others."""
    assert judged(promised, promised - less) is Outcome.FAILED


@pytest.mark.parametrize(
    ("promised", "found", "outcome"),
    [
        (7 << 60, 7 << 60, Outcome.PASSED),
        (7 << 60, NO_LIMIT, Outcome.FAILED),
        ((1 << 63) - 1, NO_LIMIT, Outcome.PASSED),
        (1 << 30, NO_LIMIT, Outcome.FAILED),
        (NO_LIMIT, NO_LIMIT, Outcome.PASSED),
        (NO_LIMIT, 1 << 30, Outcome.FAILED),
        (NO_LIMIT, 0, Outcome.FAILED),
    ],
)
def test_memory_limit_beyond_the_kernels_counter(promised: int, found: int, outcome: Outcome) -> None:
    """7Ei is a limit like any other; 8Ei, which the API takes for one byte less, the kernel takes for none."""
    assert judged(promised, found) is outcome
