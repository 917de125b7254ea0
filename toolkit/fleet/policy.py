"""What a gate is told: smallest effects, how many repeats, and which findings are waived until when. A YAML file. Pure.

A waiver ends with its day (UTC), at most half a year ahead: one that nothing renews must not hide a defect for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field

from toolkit.errors import InputError
from toolkit.fleet.values import WaiverState
from toolkit.model.measures import MeasureKind
from toolkit.model.serde import from_data, stage_value
from toolkit.text.wording import kind_of
from toolkit.text.yaml_text import parse_document

MIN_REPEATS = 7
"""On each side: of fewer no test can tell a change of one measure among hundreds from chance."""
MAX_WAIVER_DAYS = 180
EXPECTED = "a gate's policy (apiVersion: pinproof/v1, kind: GatePolicy)"
Name = Annotated[str, Field(min_length=1, max_length=500)]
Effect = Annotated[float, Field(ge=0, le=1e18)]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRule:
    """A smallest effect of measures instead of the rule's own. :param ignore: they are not compared at all."""

    rule: Name = "*"
    measure: Name
    relative: Effect | None = None
    absolute: Effect | None = None
    ignore: bool = False


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One finding that is known and borne for a time; ``*`` in a pattern stands for anything.

    :param rule: of the finding; ``scenario`` of one that is lost, ``blind-spot``, ``negative-control``.
    :param cls: pattern of the hardware class's name (key ``class``). :param until: its last day, UTC.
    """

    rule: Name
    subject: Name = "*"
    scenario: Name = "*"
    cls: Name = "*"
    node: Name = "*"
    reason: Name
    issue: Name
    owner: Name
    until: date

    @property
    def ends(self) -> datetime:
        """The first moment at which it does not hold any more."""
        return datetime.combine(self.until + timedelta(days=1), time(), UTC)

    def matches(self, rule: str, subject: str, scenario: str, hardware: str, node: str) -> bool:
        """Say whether a finding is waived by it."""
        pairs = (
            *((self.rule, rule), (self.subject, subject), (self.scenario, scenario)),
            *((self.cls, hardware), (self.node, node)),
        )
        return all(fnmatchcase(value, pattern) for pattern, value in pairs)

    @property
    def text(self) -> str:
        """It as one line."""
        return f"{self.reason} ({self.issue}, {self.owner}, until {self.until.isoformat()})"

    @property
    def name(self) -> str:
        """Which one it is."""
        others = (("scenario", self.scenario), ("class", self.cls), ("node", self.node))
        return " ".join((self.rule, self.subject, *(f"{key} {value}" for key, value in others if value != "*")))


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A gate's policy.

    :param repeats: needed on each side (of a rollout: nodes, before and after). :param measures: ``required``: what
        cannot be judged for want of repeats leaves the gate undecided. :param interleaved: whether base and new of one
        node must have been run by turns.
    """

    repeats: Annotated[int, Field(ge=MIN_REPEATS, le=10_000)] = MIN_REPEATS
    measures: Literal["shown", "required"] = "shown"
    interleaved: bool = True
    effects: tuple[EffectRule, ...] = ()
    waivers: tuple[Waiver, ...] = field(default=())

    def effect(self, rule: str, name: str, kind: MeasureKind) -> MeasureKind | None:
        """Return what a gate looks at of a measure: the rule's word, or the last one here; ``None``: nothing."""
        for one in reversed(self.effects):
            if fnmatchcase(rule, one.rule) and fnmatchcase(name, one.measure):
                if one.ignore:
                    return None
                relative = kind.relative if one.relative is None else one.relative
                return replace(
                    kind, relative=relative, absolute=kind.absolute if one.absolute is None else one.absolute
                )
        return kind

    def waived(self, at: datetime) -> Sequence[Waiver]:
        """Return the waivers that hold at a moment."""
        return [one for one in self.waivers if at < one.ends]


class WaiversInUse:
    """The waivers of a policy that hold at a moment, and how many findings each covers."""

    def __init__(self, policy: Policy, at: datetime) -> None:
        self._all, self._holding = policy.waivers, policy.waived(at)
        self._used: Counter[Waiver] = Counter()

    def text(self, rule: str, subject: str, scenario: str, hardware: str, node: str) -> str:
        """Return the waiver that covers a finding, as one line, and count it; empty: none does."""
        for waiver in self._holding:
            if waiver.matches(rule, subject, scenario, hardware, node):
                self._used[waiver] += 1
                return waiver.text
        return ""

    def states(self) -> tuple[WaiverState, ...]:
        """Return what became of each: expired and unused ones are to be taken out."""
        return tuple(map(self._state, self._all))

    def _state(self, waiver: Waiver) -> WaiverState:
        used = self._used[waiver]
        return WaiverState(
            name=waiver.name,
            state="expired" if waiver not in self._holding else "used" if used else "unused",
            used=used,
            until=waiver.until.isoformat(),
            owner=waiver.owner,
            issue=waiver.issue,
        )


def parse_policy(text: str, where: str, at: datetime) -> Policy:
    """Read a policy. :param at: now; a waiver may not reach further than :data:`MAX_WAIVER_DAYS` from it.

    :raises InputError: one line.
    """
    data = parse_document(text, where)
    if not isinstance(data, dict):
        raise InputError(where, kind_of(data), EXPECTED)
    if (data.get("apiVersion"), data.get("kind")) != ("pinproof/v1", "GatePolicy"):
        found = f"apiVersion {str(data.get('apiVersion'))[:40]!r}, kind {str(data.get('kind'))[:40]!r}"
        raise InputError(where, found, EXPECTED)
    body = {key: value for key, value in data.items() if key not in ("apiVersion", "kind")}
    waivers = body.get("waivers")
    if isinstance(waivers, list):
        body["waivers"] = [_waiver(one, f"{where}: waivers.{at_}") for at_, one in enumerate(waivers)]
    policy = from_data(Policy, body, where)
    for number, waiver in enumerate(policy.waivers):
        latest = at.astimezone(UTC).date() + timedelta(days=MAX_WAIVER_DAYS)
        if waiver.until > latest:
            place = f"{where}: waivers.{number}.until"
            raise InputError(place, waiver.until.isoformat(), f"at most {MAX_WAIVER_DAYS} days ahead ({latest})")
    return policy


def _waiver(data: object, where: str) -> object:
    """``class`` is no name in Python, and a moment is no day."""
    if not isinstance(data, dict):
        return data
    until = data.get("until")
    if isinstance(until, datetime):
        raise InputError(f"{where}.until", until.isoformat(), "a date (2026-12-31); it ends with that day, UTC")
    if "cls" in data:
        raise InputError(where, "unknown key cls", "class")
    made = {("cls" if key == "class" else key): value for key, value in data.items()}
    return {**made, "until": until.isoformat()} if isinstance(until, date) else made
