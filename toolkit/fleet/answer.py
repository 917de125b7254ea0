"""The values of one answer about many nodes (``pinproof.fleet/1``), and what its exit code is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.fleet.facts import Separating
from toolkit.fleet.values import WaiverState
from toolkit.model.node_record import NodeOutcome
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome, exit_code

WORST_FIRST = (
    NodeOutcome.FAILED,
    NodeOutcome.DIED,
    NodeOutcome.TIMED_OUT,
    NodeOutcome.USAGE_ERROR,
    NodeOutcome.UNDECIDED,
    NodeOutcome.NO_SPACE,
    NodeOutcome.UNREACHABLE,
    NodeOutcome.NOT_REACHED,
    NodeOutcome.AT_WORK,
    NodeOutcome.UNSUPPORTED,
    NodeOutcome.STALE,
    NodeOutcome.NEVER,
    NodeOutcome.WAIVED,
    NodeOutcome.PASSED,
)
GREEN = (NodeOutcome.PASSED, NodeOutcome.WAIVED)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that a node's row rests on. :param kind: ``record``, ``conformance``, ``watch``, or a scenario's name.

    :param counts: it is new enough, and the newest of its kind. The outcomes of those that count make the node's.
    """

    kind: str
    outcome: NodeOutcome
    cause: str
    at: str
    path: str
    counts: bool = True


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One host. :param at: when it was last heard of (UTC). :param not_passed: rule -> its worst outcome here."""

    host: str
    outcome: NodeOutcome
    cause: str
    expected: bool
    at: str = ""
    machine: str = ""
    boot_id: str = ""
    hardware: str = ""
    software: str = ""
    pinproof: str = ""
    not_passed: dict[str, Outcome] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """The nodes of one hardware class with one software."""

    hardware: str
    software: str
    counts: dict[NodeOutcome, int]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFound:
    """A rule that did not pass, on one class. :param nodes: of ``of`` nodes of the class on which it was judged.

    :param host, where, reason: the first of them, by name.
    """

    rule: str
    outcome: Outcome
    hardware: str
    software: str
    nodes: int
    of: int
    host: str
    where: str
    reason: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Facts that separate nodes. :param question: ``failed``, ``undecided``, or of a rule; against what passed."""

    question: str
    facts: tuple[Separating, ...]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A measure of one node that is far from that of its class.

    :param z: distance from the median in standard deviations, robustly. :param of: nodes that were compared.
    """

    host: str
    hardware: str
    software: str
    scenario: str
    about: str
    measure: str
    value: float
    median: float
    z: float
    of: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """What was judged nowhere in a hardware class.

    :param what: ``scenarios`` (that others ran), ``rules``, ``sessions``.
    :param anywhere: the fleet has it elsewhere.
    """

    hardware: str
    what: Literal["scenarios", "rules", "sessions"]
    names: tuple[str, ...]
    anywhere: bool


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A blind spot, without its numbers. :param new: the last answer had none such."""

    text: str
    nodes: int
    new: bool


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """Two hosts that are one machine, or one host that is several."""

    machines: tuple[str, ...]
    hosts: tuple[str, ...]
    text: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A host that came out otherwise than last time; ``None``: it was not, or is no more, in the answer."""

    host: str
    before: NodeOutcome | None
    after: NodeOutcome | None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is new since the last answer. :param rules: those that were not among the last answer's on that class."""

    since: str
    worse: tuple[Change, ...] = ()
    better: tuple[Change, ...] = ()
    others: tuple[Change, ...] = ()
    rules: tuple[RuleFound, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """Many nodes in one answer.

    :param counts: outcome -> number of nodes. :param accepted: outcomes that are borne with: they stay what they are,
        and the exit code does not look at them.
    :param expected: how many hosts were; ``None``: nothing said.
    :param outliers: the farthest; ``outliers_count`` is the number of all.
    """

    schema: Literal["pinproof.fleet/1"] = "pinproof.fleet/1"
    outcome: Outcome
    made_at: str
    max_age_s: float
    counts: dict[NodeOutcome, int]
    expected: int | None
    accepted: tuple[NodeOutcome, ...] = ()
    changes: Changes | None = None
    classes: tuple[ClassCount, ...] = ()
    rules: tuple[RuleFound, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    outliers_count: int = 0
    holes: tuple[Hole, ...] = ()
    blind_spots: tuple[Unseen, ...] = ()
    twice: tuple[Twice, ...] = ()
    waivers: tuple[WaiverState, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def code(self) -> int:
        """The exit code: that of the worst node whose outcome is not accepted; 0 where each node's is."""
        counted = {one: number for one, number in self.counts.items() if one not in self.accepted}
        return exit_code(total(counted) if counted or not self.counts else Outcome.PASSED)


def place(outcome: NodeOutcome) -> int:
    """Return the place of an outcome among all, the worst first."""
    return WORST_FIRST.index(outcome)


def total(counts: dict[NodeOutcome, int]) -> Outcome:
    """Return what a fleet comes to: what is neither failed nor green is undecided."""
    if counts.get(NodeOutcome.FAILED):
        return Outcome.FAILED
    return Outcome.PASSED if counts and all(one in GREEN for one in counts) else Outcome.UNDECIDED
