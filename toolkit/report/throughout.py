"""What the sentence of many windows says: only what is true of each of them that judged it. Pure.

The ``windows_`` measures of a summed verdict are those of all windows that passed. A ``result.json`` from before they
were kept has none: of such a verdict it is said only that it passed.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpuset import cpus_text
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.windows.throughout import CHANGED
from validators.wording import listed, milliseconds, plural

MAX_NAMES = 4
"""Subjects that a sentence names one by one."""
MAX_FAILED = 3
"""Failures that a sentence names."""
_SET = "windows_cpus"
_OTHERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("windows_kthread_ns", "windows_percpu_kthread_ns"), "kernel threads"),
    # Not "system tasks": where no pods root was given one of them may be a pod's.
    (("windows_system_ns",), "other tasks without a claim"),
    (("windows_sandbox_ns",), "pause sandboxes and runtime helpers"),
    (("windows_toolkit_ns",), "pinproof itself"),
    (("windows_canaries_ns",), "pinproof's canaries"),
    (("windows_excused_ns",), "claims before their present sets held"),
)


def passed(result: Result, rule: str) -> list[Verdict]:
    """Return the verdicts of a rule that passed."""
    return [verdict for verdict in result.verdicts if verdict.rule == rule and verdict.outcome is Outcome.PASSED]


def number(verdict: Verdict, name: str) -> int:
    """Return a measure that is a number; 0 if it was not measured."""
    value = verdict.measures.get(name, 0)
    return value if isinstance(value, int) else 0


def text(verdict: Verdict, name: str) -> str:
    """Return a measure that is a text; empty if there is none."""
    value = verdict.measures.get(name, "")
    return value if isinstance(value, str) else ""


def windows(result: Result) -> str:
    """Return how many windows came to what, and what failed in most of them."""
    sums = result.windows
    if sums is None:
        return ""
    counts = {Outcome.PASSED: sums.passed, Outcome.FAILED: sums.failed, Outcome.UNDECIDED: sums.undecided}
    told = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    if len(told) < 2:
        what = told[0].partition(" ")[2] if told else "skipped"
        return f"Each of {sums.count} windows {'is ' if what == Outcome.UNDECIDED else ''}{what}."
    named = [one for one in result.verdicts if one.outcome is Outcome.FAILED and not number(one, "subjects_count")]
    worst = sorted(named, key=lambda one: -number(one, "windows_failed_count"))
    failed = [f"`{one.subject}` ({one.rule}, {_in_windows(one)})" for one in worst[:MAX_FAILED]]
    failed += [f"{len(worst) - MAX_FAILED} more verdicts"] if len(worst) > MAX_FAILED else []
    return f"Of {sums.count} windows {listed(told)}." + (f" Failed: {listed(failed)}." if failed else "")


def _in_windows(verdict: Verdict) -> str:
    return plural(number(verdict, "windows_failed_count"), "window", "windows")


def facts(result: Result) -> list[str]:
    """Return a phrase for each promise about CPUs that was kept in every window that judged it."""
    found = []
    for rule, phrases in (
        ("cpuset-containment", _contained),
        ("reserved-cpus", _reserved),
        ("exclusive-cpus", _exclusive),
    ):
        verdicts = _named(result, rule)
        known = all(_SET in verdict.measures for verdict in verdicts)
        found += phrases(result, verdicts) if known else [_only_passed(rule, verdicts)]
    return found


def throttled(result: Result) -> list[str]:
    """Return a sentence for each claim that its quota held back in a window, of many for those held back most."""
    found = [one for one in _named(result, "quota-throttling") if number(one, "windows_nr_throttled")]
    most = sorted(found, key=lambda one: -number(one, "windows_nr_throttled"))
    more = f"{len(found) - MAX_NAMES} more claims that were throttled kept to their quotas."
    return [
        f"`{one.subject}` kept to its quota, throttled in {number(one, 'windows_nr_throttled'):,} of "
        f"{number(one, 'windows_nr_periods'):,} periods{_where(result, one)}."
        for one in most[:MAX_NAMES]
    ] + [more] * (len(found) > MAX_NAMES)


def _named(result: Result, rule: str) -> list[Verdict]:
    """Leave out the total of subjects that are gone: it is no claim with a CPU set."""
    return [verdict for verdict in passed(result, rule) if "subjects_count" not in verdict.measures]


def _contained(result: Result, verdicts: list[Verdict]) -> list[str]:
    many = _Many.of(result, "cpuset-containment", verdicts)
    if many.judged > MAX_NAMES:
        but = _but(sum(number(verdict, "windows_transition_ns") for verdict in verdicts), "in transition")
        return [f"no task of {many.text} ran outside its CPUs{but}{many.where(result)}"] if many.passed else []
    return [
        f"no task of `{verdict.subject}` ran outside {_cpus(verdict, 'its CPUs')}"
        f"{_but(number(verdict, 'windows_transition_ns'), 'in transition')}{_where(result, verdict)}"
        for verdict in verdicts
    ]


def _reserved(result: Result, verdicts: list[Verdict]) -> list[str]:
    return [
        f"no workload ran on {_cpus(verdict, 'reserved CPUs', 'reserved ')}"
        f"{_but(number(verdict, 'windows_excused_ns'), 'before present sets held')}{_where(result, verdict)}"
        for verdict in verdicts
    ]


def _exclusive(result: Result, verdicts: list[Verdict]) -> list[str]:
    many = _Many.of(result, "exclusive-cpus", verdicts)
    if many.judged > MAX_NAMES:
        excused = sum(number(verdict, "windows_excused_ns") for verdict in verdicts)
        but = f"{_but(excused, 'before their present sets held')}{many.where(result)}"
        return [f"the exclusive CPUs of {many.text} hosted no workload but their owners'{but}"] if many.passed else []
    found = []
    for verdict in verdicts:
        times = [(sum(number(verdict, name) for name in names), kind) for names, kind in _OTHERS]
        hosted = listed(["owners", *(f"{milliseconds(ns)} of {kind}" for ns, kind in times if ns)])
        cpus = _cpus(verdict, f"the CPUs of `{verdict.subject}`")
        found.append(f"{cpus}, while exclusive, hosted only {hosted}{_where(result, verdict)}")
    # Two claims that share their CPUs say the same of them.
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Many:
    """What came of a rule for many claims. :param judged: how many it judged; of these ``gone`` were gone at the end.

    :param named: verdicts of those that passed, and were not.
    """

    judged: int
    gone: int
    passed: int
    named: list[Verdict]

    @classmethod
    def of(cls, result: Result, rule: str, named: list[Verdict]) -> _Many:
        """Count. :param named: the rule's verdicts that passed, of claims that are there."""
        judged = [one for one in result.verdicts if one.rule == rule and one.outcome is not Outcome.SKIPPED]
        totals = [one for one in judged if "subjects_count" in one.measures]
        skipped = sum(number(one, "subjects_skipped_count") for one in totals)
        gone = sum(number(one, "subjects_count") for one in totals) - skipped
        kept = sum(number(one, "subjects_passed_count") for one in totals)
        return cls(judged=len(judged) - len(totals) + gone, gone=gone, passed=len(named) + kept, named=named)

    @property
    def text(self) -> str:
        """How many passed, of how many."""
        whole = plural(self.judged, "claim", "claims")
        return whole if self.passed == self.judged else f"{self.passed} of {whole}"

    def where(self, result: Result) -> str:
        """In which windows that was so."""
        return f" ({self.gone} came and went)" if self.gone else _where(result, *self.named)


def _only_passed(rule: str, verdicts: list[Verdict]) -> str:
    names = f"{len(verdicts)} subjects"
    if len(verdicts) <= MAX_NAMES:
        names = listed([f"`{verdict.subject}`" for verdict in verdicts])
    return f"`{rule}` passed for {names}"


def _cpus(verdict: Verdict, changed: str, kind: str = "") -> str:
    """Return the set that it had in all windows. :param changed: what is said if it had more than one."""
    cpus = text(verdict, _SET)
    return f"{changed} (which changed)" if cpus == CHANGED else f"{kind}{cpus_text(cpus)}"


def _but(ns: int, when: str) -> str:
    return f" (but {milliseconds(ns)} {when})" if ns else ""


def _where(result: Result, *verdicts: Verdict) -> str:
    """Return in how many windows it was judged; nothing if in all of them."""
    count = result.windows.count if result.windows is not None else 1
    judged = sorted({number(verdict, "windows_passed_count") for verdict in verdicts})
    if judged == [count]:
        return ""
    many = f"{judged[0]}" if len(judged) == 1 else f"{judged[0]} to {judged[-1]}"
    return f" in the {many} of {count} windows that judged {'it' if len(verdicts) == 1 else 'them'}"
