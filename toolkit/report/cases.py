"""A run or a session as other programs' lists of checks: TAP 14, and Sonobuoy's results in its "manual" format.

One group for each scenario (of a run: the run), one case for each verdict and each negative control. What is undecided
did not hold: neither format has a word for it, so it is no pass in either, and says why.
Source: testanything.org, "TAP 14 specification" (escapes, subtests, YAML diagnostics, directives); Sonobuoy,
"Plugin results: manual" (``name``, ``status``, ``meta``, ``details``, ``items``; statuses of its own are counted).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from toolkit.model.conformance import ScenarioResult
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, worst
from toolkit.report.text import printable

PLUGIN = "pinproof"
INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One check."""

    name: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Checks that belong together."""

    name: str
    outcome: Outcome
    reason: str
    cases: tuple[Case, ...]


def group_of_run(result: Result, name: str) -> Group:
    """Return the cases of one run."""
    cases = tuple(Case(name=f"{v.rule} {v.subject}", outcome=v.outcome, reason=v.reason) for v in result.verdicts)
    return Group(name=name, outcome=result.outcome, reason="", cases=cases)


def groups_of_session(results: Sequence[ScenarioResult]) -> tuple[Group, ...]:
    """Return the cases of each scenario, with the promises that were broken on purpose."""
    return tuple(_scenario(result) for result in results)


def _scenario(result: ScenarioResult) -> Group:
    cases = [Case(name=f"{v.rule} {v.subject}", outcome=v.outcome, reason=v.reason) for v in result.verdicts]
    cases += [
        Case(name=f"negative control {one.name}", outcome=one.outcome, reason=one.reason) for one in result.controls
    ]
    said = {case.outcome for case in cases}
    if not cases or result.outcome not in said:
        # It never ran, its plan was wrong, or a run of it is missing: nothing of the scenario's own outcome is lost.
        cases.append(Case(name="the scenario itself", outcome=result.outcome, reason=result.reason))
    return Group(name=result.name, outcome=result.outcome, reason=result.reason, cases=tuple(cases))


def render_tap(groups: Sequence[Group]) -> str:
    """Return a TAP 14 document: a subtest for each group."""
    lines = ["TAP version 14", f"1..{len(groups)}"]
    for number, group in enumerate(groups, 1):
        lines.append(f"# Subtest: {_escaped(group.name)}")
        lines += [f"{INDENT}{line}" for line in _cases(group.cases)]
        lines += _point(number, Case(name=group.name, outcome=group.outcome, reason=group.reason))
    return "\n".join(lines) + "\n"


def _cases(cases: Sequence[Case]) -> Iterator[str]:
    yield f"1..{len(cases)}"
    for number, case in enumerate(cases, 1):
        yield from _point(number, case)


def _point(number: int, case: Case) -> Iterator[str]:
    good = case.outcome in (Outcome.PASSED, Outcome.SKIPPED)
    skip = f" # SKIP {_escaped(case.reason)}".rstrip() if case.outcome is Outcome.SKIPPED else ""
    yield f"{'ok' if good else 'not ok'} {number} - {_escaped(case.name)}{skip}"
    if not good:
        found = {"outcome": str(case.outcome), "message": printable(case.reason)}
        yield "  ---"
        yield from (f"  {line}" for line in _yaml(found).splitlines())
        yield "  ..."


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace("#", "\\#")


def render_sonobuoy(groups: Sequence[Group], node: str) -> str:
    """Return ``sonobuoy_results.yaml``: the plugin, this node, its groups, their cases."""
    outcome = worst(group.outcome for group in groups)
    of_node = {
        "name": printable(node) or "node",
        "status": str(outcome),
        "meta": {"type": "node"},
        "items": [_item(group) for group in groups],
    }
    return _yaml({"name": PLUGIN, "status": str(outcome), "meta": {"type": "summary"}, "items": [of_node]})


def _item(group: Group) -> dict[str, object]:
    cases = [
        {
            "name": printable(case.name),
            "status": str(case.outcome),
            **({"details": {"reason": printable(case.reason)}} if case.outcome is not Outcome.PASSED else {}),
        }
        for case in group.cases
    ]
    return {"name": printable(group.name), "status": str(group.outcome), "meta": {"type": "scenario"}, "items": cases}


def _yaml(data: object) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
