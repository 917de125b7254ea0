"""A session: the index of a conformance run, small enough to be fetched from thousands of nodes (``session.json``).

It says what each scenario came to, what did not pass and why, the measures that gates compare, and each broken promise
by name; the runs themselves lie beside it, packed, each with the SHA-256 of its file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from toolkit.model.identity import Identity
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome

SCHEMA = "pinproof.session/1"
FILE = "session.json"
MAX_REASON = 160
"""Characters of a reason in the index; the whole one is in the run."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVerdict:
    """A verdict that did not pass. :param reason: its first characters."""

    rule: str
    subject: str
    outcome: Outcome
    reason: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionControl:
    """One promise that was broken on purpose. ``passed``: its rule reported it.

    :param name: of it in this scenario: the fault, whose promise it broke, and the rule that must report it, such as
        ``widen-cpuset db/main cpuset-containment``.
    :param subject: whose verdict must be ``failed``; empty: that of the one whose promise it broke.
    :param run: the packed run in which it was broken; empty: there is none.
    """

    name: str
    outcome: Outcome
    subject: str = ""
    reason: str = ""
    run: str = ""

    @property
    def about(self) -> str:
        """Whose verdict must be ``failed``."""
        return self.subject or self.name.partition(" ")[2].rpartition(" ")[0]

    @property
    def fault(self) -> str:
        """What was broken."""
        return self.name.partition(" ")[0]

    @property
    def rule(self) -> str:
        """The rule that must report it."""
        return self.name.rpartition(" ")[2]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScenario:
    """One scenario that was run.

    :param promises: hash of the scenario and of what was promised: those of one hash can be compared.
    :param passed: rule -> how many of its verdicts passed. :param skipped: how many were skipped.
    :param others: those that failed or are undecided.
    :param measures: ``rule subject`` -> the measures that gates compare, with units in their names.
    :param repeated: how many undecided runs were thrown away. :param run: the packed run that was judged.
    """

    name: str
    catalogue: tuple[str, ...] = ()
    outcome: Outcome
    reason: str = ""
    promises: str = ""
    passed: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    others: tuple[SessionVerdict, ...] = ()
    measures: dict[str, dict[str, int | float]] = field(default_factory=dict)
    controls: tuple[SessionControl, ...] = ()
    repeated: int = 0
    run: str = ""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What ``session.json`` holds; how its measures stand there, :mod:`toolkit.model.session_text` says.

    :param cmdline, cgroup: the kernel's command line, and ``v2``, ``hybrid`` or ``v1``: facts that fleets compare.
    :param complete: all scenarios that fit were run; a signal or other work may have ended it before.
    :param blind_spots: what was not seen, without its numbers -> in how many scenarios.
    :param files: each file beside ``session.json`` that holds a run -> its SHA-256, in hexadecimal.
    :param counts: outcome -> number of scenarios, those that do not fit this machine (``skipped``) included.
    :param skipped: scenario that was not run -> the first characters of the reason.
    """

    schema: Literal["pinproof.session/1"] = "pinproof.session/1"
    session: str
    outcome: Outcome
    complete: bool
    started_at: str
    duration_s: float
    pinproof: str = ""
    kernel: str = ""
    cmdline: str = ""
    cgroup: str = ""
    identity: Identity = field(default_factory=Identity)
    counts: dict[str, int] = field(default_factory=dict)
    scenarios: tuple[SessionScenario, ...] = ()
    blind_spots: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
