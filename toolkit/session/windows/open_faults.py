"""What a window that is open has shown for good: faults that its end will not excuse, found by the rules themselves.

A rule judges what it is given: of a window that is open the node's next reading, or a container's start, may excuse
what fails now. So a failure counts once it has been there in two looks that are :data:`SURE_S` apart, and is repeated
for as long as it lasts. No more is read for it than the snapshot that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.layers import Layer
from toolkit.model.verdict import Outcome, Verdict
from validators.intruders.being_made import PATIENCE_NS
from validators.registry import judge
from validators.rule import Rule
from validators.rules import applied, checkpoint, exclusive_cpus, hugepages, layers_agree

OF_NODE = (layers_agree.RULE, applied.RULE, hugepages.RULE, checkpoint.RULE)
"""Rules whose failures on a node that is followed are lines: nothing else reports them before the watch ends."""
SURE_S = 10.0
"""Longer than the longest pause between two readings of a node, and than what checkpoint and layers-agree wait for."""
SURE_OF_OTHERS_S = PATIENCE_NS / 1e9
"""The same of tasks of other pods: so long a new container may be unknown in whose cgroup its runtime is at work."""
_ASKED_FOR = (Layer.MODEL, Layer.CHECKPOINT, Layer.RUNTIME, Layer.CLAIM, Layer.CGROUP)
Key = tuple[str, str]


class OpenFaults:
    """Give it each look at an open window, then ask for what is certain."""

    def __init__(self) -> None:
        self._since_s: dict[Key, float] = {}
        """Subject and rule -> when a look found it failed first, where all looks since then have."""
        self._reported: set[Key] = set()
        """Reported of this window, which stays failed although it may be over."""
        self._window_ns = -1

    def look(self, claims: ClaimSet, evidence: Evidence, now_s: float) -> tuple[list[Verdict], set[str]]:
        """Return the verdicts about the node that have failed for good, and claims on whose CPUs other pods ran.

        :param claims: as they were when the window opened.
        """
        verdicts = judge(claims, evidence, (*of_node(evidence), exclusive_cpus.RULE))
        failed = [one for one in verdicts if one.outcome is Outcome.FAILED and _counts(one, evidence)]
        sure = self._sure(failed, evidence, now_s)
        broken = {one.subject for one in sure if one.rule == exclusive_cpus.ID}
        faults = [one for one in sure if one.rule != exclusive_cpus.ID]
        again = [one for one in faults if _key(one) in self._reported]
        over = _over(again, claims, evidence) if again else set()
        self._reported |= set(map(_key, faults))
        return [one for one in faults if _key(one) not in over], broken

    def ended(self, verdicts: Iterable[Verdict]) -> None:
        """Forget what the end of the window has excused."""
        failed = {_key(one) for one in verdicts if one.outcome is Outcome.FAILED}
        self._since_s = {key: since_s for key, since_s in self._since_s.items() if key in failed}

    def _sure(self, failed: list[Verdict], evidence: Evidence, now_s: float) -> list[Verdict]:
        """Return those that have been failed for long enough."""
        if evidence.start_monotonic_ns != self._window_ns:
            self._window_ns, self._reported = evidence.start_monotonic_ns, set()
        self._since_s = {key: self._since_s.get(key, now_s) for key in map(_key, failed)}
        patience = {exclusive_cpus.ID: SURE_OF_OTHERS_S}
        return [one for one in failed if now_s - self._since_s[_key(one)] >= patience.get(one.rule, SURE_S)]


def _key(verdict: Verdict) -> Key:
    return verdict.subject, verdict.rule


def of_node(evidence: Evidence) -> tuple[Rule, ...]:
    """Return the rules about the node whose failures are lines."""
    return OF_NODE if evidence.following is not None else OF_NODE[:1]


def _counts(verdict: Verdict, evidence: Evidence) -> bool:
    """Whether a failure is one of the node, or of tasks of other pods; those of claims have lines of their own."""
    if verdict.rule != exclusive_cpus.ID:
        return True
    others = {(row.cpu, row.tid) for row in evidence.intruders if row.owner is OwnerClass.FOREIGN_POD}
    return any((one.cpu, one.tid) in others for one in verdict.offenders)


def _over(verdicts: list[Verdict], claims: ClaimSet, evidence: Evidence) -> set[Key]:
    """Return those whose subjects are as they must be by now, whatever they were before in the window."""
    now = replace(evidence, files_before=evidence.files_after, files_during=(), state_files=evidence.state_files[-1:])
    rules = {one.rule for one in verdicts} - {layers_agree.ID}
    still = judge(claims, now, [rule for rule in OF_NODE if rule.id in rules])
    lasting = {_key(one) for one in still if one.outcome is Outcome.FAILED}
    lasting |= {_key(one) for one in verdicts if one.rule == layers_agree.ID and _differs(one)}
    return set(map(_key, verdicts)) - lasting


def _differs(verdict: Verdict) -> bool:
    """Whether the last words of the layers differ; about CPUs alone: what else fails there does not pass by itself."""
    said = {verdict.measures[f"{layer}_cpus"] for layer in _ASKED_FOR if f"{layer}_cpus" in verdict.measures}
    if len(said) != 1:
        return True
    held, had = str(verdict.measures.get(f"{Layer.OBSERVED}_cpus", "")), str(said.pop())
    return not (CpuSet.parse(held) if held else CpuSet()) <= (CpuSet.parse(had) if had else CpuSet())
