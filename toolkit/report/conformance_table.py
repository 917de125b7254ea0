"""A conformance run as text: what ran, what was skipped and why (grouped), and one line that sums it up. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.verdict import Outcome
from toolkit.report.layout import fitted, paragraph
from toolkit.text.wording import count

_LACKING = re.compile(r"(at most )?\d+ ([^(,]+?) \(this machine has \d+\)")


def render_conformance(results: Sequence[ScenarioResult], seconds: float, *, verbose: bool = False) -> str:
    """Return the report. :param verbose: name every scenario that was skipped."""
    ran = [result for result in results if result.outcome is not Outcome.SKIPPED]
    skipped = [result for result in results if result.outcome is Outcome.SKIPPED]
    parts = []
    if ran:
        rows = [
            (result.name, ", ".join(result.catalogue), result.outcome.value, _passed(result), caught(result.controls))
            for result in ran
        ]
        headers = ("scenario", "ids", "outcome", "verdicts passed", "caught")
        parts.append(fitted(rows, headers, flexible=(1,), shares=(1.0,)))
    if not_passed := [result for result in ran if result.outcome is not Outcome.PASSED]:
        rows_why = [(result.name, result.outcome.value, result.reason) for result in not_passed]
        parts.append("Not passed\n" + fitted(rows_why, ("scenario", "outcome", "why"), flexible=(2,), shares=(1.0,)))
    if skipped and verbose:
        rows_skipped = [(result.name, result.reason) for result in skipped]
        parts.append("Skipped\n" + fitted(rows_skipped, ("scenario", "why"), flexible=(1,), shares=(1.0,)))
    elif skipped:
        groups = Counter(group(result.reason) for result in skipped).most_common()
        lines = [paragraph(reason, f"  {number:4d}  ", " " * 8) for reason, number in groups]
        parts.append("\n".join([f"Skipped {count(len(skipped), 'scenario')} (--verbose names them)", *lines]))
    parts.append(paragraph(_sum(results, seconds)))
    return "\n\n".join(parts)


def caught(controls: Sequence[ControlResult]) -> str:
    """Return ``2/2`` for those that ran; those that this machine cannot break prove nothing and are counted apart."""
    ran = [control for control in controls if control.outcome is not Outcome.SKIPPED]
    passed = sum(control.outcome is Outcome.PASSED for control in ran)
    left_out = len(controls) - len(ran)
    return f"{passed}/{len(ran)}" + (f", {left_out} skipped" if left_out else "")


def _passed(result: ScenarioResult) -> str:
    return str(sum(verdict.outcome is Outcome.PASSED for verdict in result.verdicts))


def group(reason: str) -> str:
    """Return why a scenario was skipped without its numbers, so that equal reasons are counted together."""
    lacking = _LACKING.findall(reason) if reason.startswith("needs ") else []
    if not lacking:
        return reason
    # The numbers differ from scenario to scenario: --verbose and --list give them.
    parts = [f"{'fewer' if at_most else 'more'} {what}" for at_most, what in lacking]
    return f"needs {', '.join(parts)} than there are here"


def _sum(results: Sequence[ScenarioResult], seconds: float) -> str:
    controls = [control for result in results for control in result.controls]
    number = Counter(result.outcome for result in results)
    minutes, rest = divmod(round(seconds), 60)
    took = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    counts_text = ", ".join(f"{number[outcome]} {outcome.value}" for outcome in Outcome)
    if number[Outcome.SKIPPED] == len(results):
        return f"{counts_text}: nothing was judged on this machine."
    again = [why for result in results for why in result.repeated]
    repeated = f"; {count(len(again), 'undecided run')} repeated (the first: {again[0]})" if again else ""
    return f"{counts_text}; broken promises caught: {caught(controls)}{repeated}; took {took}."
