"""What a rule is: a pure check, the witnesses that it relies on, and the page that ``pinproof explain`` prints.

:mod:`validators.credibility.trust` doubts evidence, once for every rule; no rule does it by itself.
Source: docs/principles.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.measures import MeasureKind
from toolkit.model.serde import stage_value
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from validators.credibility.trust import withhold_passes
from validators.queries import view
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
    :param measures: every measure that its verdicts may have.
    :param witnesses: what it rests on: a doubt about one of them, a blind spot for example, leaves nothing ``passed``.
    """

    id: str
    claim: str
    how: str
    tolerance: str
    source: str
    negative_control: str
    witnesses: tuple[Witness, ...]
    measures: tuple[MeasureKind, ...] = ()


Needs = Callable[[ClaimSet], float]
"""How many seconds of a window a rule needs before it can say ``passed`` of these claims."""

FILES_S = 0.3
"""Files and masks are read when a window opens and closes, and masks every 200 ms between."""
SWITCHES_S = 1.0
"""A hundred periods of the sampler that sees tasks which never switch, and four times the 250 ms in which the planted
escape must be reported, without which no rule about switches says ``passed``."""


def prose(text: str) -> str:
    """Join the source lines of each paragraph; an empty line separates paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _none(_claims: ClaimSet) -> frozenset[Witness]:
    return frozenset()


def _files(_claims: ClaimSet) -> float:
    return FILES_S


def needs_switches(_claims: ClaimSet) -> float:
    """Return the seconds that a rule about switches needs."""
    return SWITCHES_S


class Judgement:
    """One subject while it is judged: call it with the decision and its reason, get the verdict.

    :param measures: what was found so far; what is added later is in the verdict, too.
    :param offenders: the same, in any order.
    :param ending: what every reason ends with.
    """

    def __init__(
        self,
        rule: str,
        subject: str,
        measures: Mapping[str, Measure] | None = None,
        offenders: Sequence[Offender] = (),
        ending: str = "",
    ) -> None:
        self._rule, self._subject, self._ending = rule, subject, ending
        self._measures: Mapping[str, Measure] = {} if measures is None else measures
        self._offenders = offenders

    def __call__(self, outcome: Outcome, reason: str) -> Verdict:
        """Decide."""
        return Verdict(
            rule=self._rule,
            subject=self._subject,
            outcome=outcome,
            reason=reason + self._ending,
            measures=dict(self._measures),
            offenders=view.sorted_offenders(self._offenders),
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: call it with claims and evidence, get one verdict per subject, after the loss rule.

    :param needs: without a promise that it judges, as good as nothing.
    :param of_node: its subjects are the node, CPUs or files: no claim's, also where a claim has such a name.
    """

    doc: RuleDoc
    check: Check
    spared: Spared = _none
    needs: Needs = _files
    of_node: bool = False
    of_others: bool = False
    """It judges which other tasks ran on its subject's CPUs: unseen tasks of another claim leave it in doubt."""

    @property
    def id(self) -> str:
        """The rule's name in verdicts and on the command line."""
        return self.doc.id

    def __call__(self, claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
        """Judge, and turn each ``passed`` that rests on incomplete evidence into ``undecided``."""
        verdicts = self.check(claims, evidence)
        return withhold_passes(
            verdicts, self.rests_on(claims), claims, evidence, of_node=self.of_node, of_others=self.of_others
        )

    def rests_on(self, claims: ClaimSet) -> frozenset[Witness]:
        """Return the witnesses whose blindness makes it undecided, for these claims."""
        return frozenset(self.doc.witnesses) - self.spared(claims)
