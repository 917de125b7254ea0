"""What the controller of a fleet knows of one inventory host after a play: ``RESULTS/<host>/record.json``.

The node may be full, hang or be gone: the controller writes the record from what it has in hand, so each host of the
inventory has one. ``ansible/README.md`` says what writes it when.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.serde import stage_value

RECORD_FILE = "record.json"


class NodeOutcome(StrEnum):
    """How a node came out of a play, by cause. The last three are said by what reads many records, never by a play."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    UNSUPPORTED = "unsupported"
    """This node lacks something that pinproof needs."""
    AT_WORK = "at-work"
    """Other work is on the node, and a job that makes load was refused: not green, and nothing is missing."""
    NO_SPACE = "no-space"
    TIMED_OUT = "timed-out"
    """The job, or the whole node, did not answer within its time."""
    DIED = "died"
    """The job ended in a way that is no outcome, or the node went away while it ran."""
    UNREACHABLE = "unreachable"
    NOT_REACHED = "not-reached"
    """The play ended before this host's turn came."""
    USAGE_ERROR = "usage-error"
    WAIVED = "waived"
    STALE = "stale"
    NEVER = "never"

    def __bool__(self) -> bool:
        raise TypeError("an outcome is not a truth value: compare it with a member")


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One host after one play. Times are the controller's, ISO 8601 in UTC (``2026-11-28T23:18:00.000Z``).

    :param host: its name in the inventory.
    :param cause: one sentence: why the outcome is what it is.
    :param playbook: ``check``, ``conformance``, ``gate``, ``collect`` or a name of the user's.
    :param job: the play's id, the same for all its hosts.
    :param ended_at: ``None``: the play is not over, or was killed.
    :param exit_code: of the job on the node; ``None``: it did not end, or was not begun.
    :param path: ``session.json`` or ``result.json`` that came home, relative to the record's folder; ``None``: none.
    :param sha256: of the bytes of that file, in hex.
    :param before: the same file of the session before a rollout, relative likewise.
    :param before_sha256: of that.
    :param output: what the job printed, as a file, relative likewise.
    :param pinproof: version on the node; ``None``: it was not learnt.
    :param clock_ahead_s: how far the node's clock is ahead of the controller's (negative: behind), to within the
        time of one answer; ``None``: the node was not asked.
    :param notes: what else a reader should know, a sentence each: a wrong clock, evidence that stayed on the node.
    """

    host: str
    outcome: NodeOutcome
    cause: str
    playbook: str
    job: str
    started_at: str
    ended_at: str | None = None
    exit_code: int | None = None
    path: str | None = None
    sha256: str | None = None
    before: str | None = None
    before_sha256: str | None = None
    output: str | None = None
    pinproof: str | None = None
    clock_ahead_s: float | None = None
    notes: tuple[str, ...] = ()
