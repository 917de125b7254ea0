"""What a session's scenarios are compared by."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tests.unit.validators.evidence_builder import claim_set
from toolkit.model.scenario import Scenario
from toolkit.model.serde import stage_value
from toolkit.scenario_file import load_catalogue
from toolkit.session.index import promises_digest


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Later(Scenario):
    """A scenario of a later pinproof, which can say more."""

    more: int = 0


def test_a_later_pinproof_gives_the_same_hash() -> None:
    """Unless the scenario says what it could not say before."""
    scenario = load_catalogue()[0]
    before = promises_digest(scenario, claim_set())
    values = {one.name: getattr(scenario, one.name) for one in fields(scenario)}

    assert promises_digest(Later(**values), claim_set()) == before
    assert promises_digest(Later(**values, more=1), claim_set()) != before
    assert promises_digest(replace(scenario, title="in other words"), claim_set()) == before
    assert promises_digest(replace(scenario, duration_s=99.0), claim_set()) != before
