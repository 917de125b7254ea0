"""What the sentence of many windows says: only what is true of each of them that judged it. Pure.

The ``windows_`` measures of a summed verdict are those of all windows that passed. A ``result.json`` from before they
were kept has none: of such a verdict it is said only that it passed.
"""

from __future__ import annotations

from toolkit.model.cpuset import cpus_text
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.windows.throughout import CHANGED
from validators.wording import listed, milliseconds

MAX_NAMES = 4
"""Subjects that a sentence names one by one."""
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
    """Return a sentence for each claim that its quota held back in a window."""
    found = [one for one in _named(result, "quota-throttling") if number(one, "windows_nr_throttled")]
    return [
        f"`{one.subject}` kept to its quota, throttled in {number(one, 'windows_nr_throttled'):,} of "
        f"{number(one, 'windows_nr_periods'):,} periods{_where(result, one)}."
        for one in found[:MAX_NAMES]
    ]


def _named(result: Result, rule: str) -> list[Verdict]:
    """Leave out the total of subjects that are gone: it is no claim with a CPU set."""
    return [verdict for verdict in passed(result, rule) if "subjects_count" not in verdict.measures]


def _contained(result: Result, verdicts: list[Verdict]) -> list[str]:
    if len(verdicts) > MAX_NAMES:
        but = _but(sum(number(verdict, "windows_transition_ns") for verdict in verdicts), "in transition")
        return [f"no task of {len(verdicts)} claims ran outside its CPUs{but}{_where(result, *verdicts)}"]
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
    if len(verdicts) > MAX_NAMES:
        excused = sum(number(verdict, "windows_excused_ns") for verdict in verdicts)
        but = _but(excused, "before their present sets held")
        where = _where(result, *verdicts)
        return [f"the exclusive CPUs of {len(verdicts)} claims hosted no workload but their owners'{but}{where}"]
    found = []
    for verdict in verdicts:
        times = [(sum(number(verdict, name) for name in names), kind) for names, kind in _OTHERS]
        hosted = listed(["owners", *(f"{milliseconds(ns)} of {kind}" for ns, kind in times if ns)])
        cpus = _cpus(verdict, f"the CPUs of `{verdict.subject}`")
        found.append(f"{cpus}, while exclusive, hosted only {hosted}{_where(result, verdict)}")
    # Two claims that share their CPUs say the same of them.
    return list(dict.fromkeys(found))


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
