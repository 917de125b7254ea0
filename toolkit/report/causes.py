"""One cause is told once: verdicts that have one reason, and what follows from it, are put together. Pure.

A gap of three seconds in which a node was not read leaves every rule about every container undecided, and one state
file that was edited breaks the promises of all containers of the pool: hundreds of verdicts, one thing to mend. What a
result keeps is not touched; only texts for people are shorter.

Two verdicts have one reason if their texts are the same but for names of subjects, paths and threads; undecided ones,
also if their numbers differ. What was measured of a failure tells one from another, so its numbers count. A verdict
with several reasons goes with one of them if each is the whole reason of another verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet
from toolkit.model.verdict import Outcome, Verdict
from toolkit.text.wording import count, listed

NAMED = 8
"""So many verdicts of one reason are named; of more their rules are counted."""
_WHEN = re.compile(
    r"^(?:stage [^:]+: |window \d+ of \d+ \([^)]*\)(?:, and \d+ more \w+)?: |in its life until [^:]+: )+"
)
"""What stands before a reason: of which window, stage or life it is."""
_MORE = re.compile(r" \(and \d+ more\)")
_TASK = re.compile(r"[^\s,:;()]+ \(\d+\)|\d+ \([^()\s]+\)")
_PATH = re.compile(r"(?<![\w/])/[^\s,;:]+")
_NUMBER = re.compile(r"\d+(?:[.,-]\d+)*")
_FIRST = ("evidence-health", "checkpoint", "layers-agree")
"""Rules about what the others rest on: their verdict tells the cause."""
_BY_PROMISE = frozenset(
    {
        *("layers-agree", "applied", "affinity-mask", "cpuset-containment", "exclusive-cpus", "reserved-cpus"),
        *("transition-window", "smt-alignment", "llc-alignment", "numa-alignment", "socket-alignment"),
    }
)
"""Rules that a promise of other CPUs than a container has makes fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause. :param head: the verdict that tells it. :param others: for the same reason, or because of it."""

    head: Verdict
    others: tuple[Verdict, ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """All of them, the one that tells it first."""
        return self.head, *self.others

    @property
    def behind(self) -> str:
        """Return how many follow, and which; nothing if none do: ``… and 2 more verdicts for the same reason (…)``."""
        if not self.others:
            return ""
        rules = by_rule(self.others)
        if len(self.others) <= NAMED:
            what = "; ".join(f"{rule} of {listed(subjects)}" for rule, subjects in rules.items())
        else:
            what = ", ".join(f"{rule} {len(subjects)}" for rule, subjects in rules.items())
        return f"… and {count(len(self.others), 'more verdict')} for the same reason ({what})"


def by_rule(verdicts: Iterable[Verdict]) -> dict[str, list[str]]:
    """Return the subjects of verdicts, in their order, by rule."""
    rules: dict[str, list[str]] = {}
    for verdict in verdicts:
        rules.setdefault(verdict.rule, []).append(verdict.subject)
    return rules


def causes(verdicts: Iterable[Verdict]) -> tuple[Cause, ...]:
    """Return the causes of verdicts of one outcome, that of most of them first, else in their order."""
    kept = list(verdicts)
    if not kept:
        return ()
    names = _names(kept)
    groups: dict[frozenset[str], list[Verdict]] = {}
    for verdict in kept:
        groups.setdefault(_kinds(verdict, names), []).append(verdict)
    groups = _joined(groups)
    found = list(groups.values())
    if kept[0].outcome is Outcome.FAILED:
        found = _with_consequences(found)
    ordered = sorted(found, key=lambda group: -len(group))
    return tuple(_cause(group) for group in ordered)


def _cause(group: Sequence[Verdict]) -> Cause:
    ranked = sorted(group, key=lambda one: _FIRST.index(one.rule) if one.rule in _FIRST else len(_FIRST))
    return Cause(head=ranked[0], others=tuple(ranked[1:]))


def _names(verdicts: Iterable[Verdict]) -> Callable[[str], str]:
    """Return what takes the subjects' names out of a text."""
    subjects = {verdict.subject for verdict in verdicts}
    longest_first = sorted(subjects, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w/-])")
    return lambda text: pattern.sub("NAME", text)


def _kinds(verdict: Verdict, names: Callable[[str], str]) -> frozenset[str]:
    """Return the reasons of a verdict without what differs from subject to subject."""
    text = _PATH.sub("PATH", _TASK.sub("TASK", names(_WHEN.sub("", verdict.reason))))
    if verdict.outcome is Outcome.UNDECIDED:
        text = _NUMBER.sub("#", _MORE.sub("", text))
    return frozenset(text.split("; "))


def _joined(groups: dict[frozenset[str], list[Verdict]]) -> dict[frozenset[str], list[Verdict]]:
    """Let verdicts of several reasons, each of which is another's only one, go with that of most."""
    single = {next(iter(kinds)): kinds for kinds in groups if len(kinds) == 1}
    found = {kinds: list(group) for kinds, group in groups.items()}
    for kinds in groups:
        if len(kinds) > 1 and all(kind in single for kind in kinds):
            most = max(sorted(kinds), key=lambda kind: len(groups[single[kind]]))
            found[single[most]] += found.pop(kinds)
    return found


def _with_consequences(groups: list[list[Verdict]]) -> list[list[Verdict]]:
    """Put what breaks because a state file promises other CPUs than the kubelet has asked for behind that."""
    every = [verdict for group in groups for verdict in group]
    has = {one.subject: cpus for one in every if (cpus := _promised_otherwise(one)) is not None}
    if not has:
        return groups
    because = [one for one in every if _follows(one, has)]
    gone = set(map(id, because))
    rest = [left for group in groups if (left := [one for one in group if id(one) not in gone])]
    return [because, *rest]


def _promised_otherwise(verdict: Verdict) -> CpuSet | None:
    """Return what a container has where that is what was asked for, and its state file says something else."""
    if verdict.rule != "layers-agree":
        return None
    said = {name: _said(verdict, name) for name in ("checkpoint", "cri", "cgroup")}
    has, asked = said["cgroup"], said["cri"]
    if has is None or said["checkpoint"] is None or asked not in (None, has) or said["checkpoint"] == has:
        return None
    return has


def _said(verdict: Verdict, layer: str) -> CpuSet | None:
    """Return the last word of a layer; a sum of windows has those of the window that decides."""
    measures = verdict.measures
    text = measures.get(f"{layer}_cpus", measures.get(f"window_{layer}_cpus"))
    return CpuSet.parse(text) if isinstance(text, str) and text else None


def _follows(verdict: Verdict, has: dict[str, CpuSet]) -> bool:
    """Whether a failure is only that containers run where they may by what was asked for, not by the state file.

    A thread beyond what its own cgroup has is a cause of its own.
    """
    if verdict.rule == "checkpoint":
        return verdict.subject == "cpu_manager_state"
    if verdict.rule not in _BY_PROMISE:
        return False
    if verdict.rule == "layers-agree":
        return _promised_otherwise(verdict) is not None
    if verdict.rule == "applied":
        return verdict.subject in has and _only_cpus(verdict.reason)
    inside = all(one.claim in has and one.cpu in has[one.claim] for one in verdict.offenders)
    return inside and (verdict.subject in has or bool(verdict.offenders))


def _only_cpus(reason: str) -> bool:
    """Whether nothing but the set of CPUs, as it was written and as it is, is not what was promised."""
    found = _WHEN.sub("", reason)
    more = re.search(r" \(and (\d+) more\)", found)
    return found.startswith("cpuset.") and (more is None or more[1] == "1")
