"""What a rule is: a pure check, the witnesses that it relies on, and the page that ``pinproof explain`` prints.

:mod:`validators.trust` doubts evidence, once for every rule; no rule does it by itself.
Source: docs/principles.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Verdict
from validators.trust import withhold_passes
from validators.witness import Witness

Check = Callable[[ClaimSet, Evidence], tuple[Verdict, ...]]
Spared = Callable[[ClaimSet], frozenset[Witness]]
"""Of a rule's witnesses those on which nothing rests with these claims: no claim promises what they witness."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDoc:
    """The page of one rule.

    :param claim: what it judges, one sentence.
    :param how: which evidence it looks at and how it decides.
    :param tolerance: every allowance, with its derivation.
    :param source: the documents that it follows.
    :param negative_control: how to break it on purpose; that must come out ``failed``.
    :param witnesses: what it rests on: a doubt about one of them, a blind spot for example, leaves nothing ``passed``.
    """

    id: str
    claim: str
    how: str
    tolerance: str
    source: str
    negative_control: str
    witnesses: tuple[Witness, ...]


def prose(text: str) -> str:
    """Join the source lines of each paragraph; an empty line separates paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _none(_claims: ClaimSet) -> frozenset[Witness]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: call it with claims and evidence, get one verdict per subject, after the loss rule."""

    doc: RuleDoc
    check: Check
    spared: Spared = _none

    @property
    def id(self) -> str:
        """The rule's name in verdicts and on the command line."""
        return self.doc.id

    def __call__(self, claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
        """Judge, and turn each ``passed`` that rests on incomplete evidence into ``undecided``."""
        return withhold_passes(self.check(claims, evidence), self.rests_on(claims), claims, evidence)

    def rests_on(self, claims: ClaimSet) -> frozenset[Witness]:
        """Return the witnesses whose blindness makes it undecided, for these claims."""
        return frozenset(self.doc.witnesses) - self.spared(claims)
