"""What is known and borne for a time: a node of which every finding is waived is ``waived``, never ``passed``."""

from __future__ import annotations

from dataclasses import replace

from toolkit.fleet.policy import WaiversInUse
from toolkit.fleet.reading import Finding, Report, said_of
from toolkit.model.node_record import NodeOutcome
from toolkit.model.verdict import rank, worst
from toolkit.text.wording import count

CONTROL = "control "


class Waiving(WaiversInUse):
    """The waivers of a gate's policy over the findings of nodes."""

    def of(self, report: Report, host: str) -> Report:
        """Return a report as it is with the waivers: what is left of its findings makes its outcome.

        Waived is what findings alone made so. A file that cannot be read, a session that was cut short, an outcome that
        no finding explains, or more findings than are kept stay what they are.
        """
        if report.outcome not in (NodeOutcome.FAILED, NodeOutcome.UNDECIDED):
            return report
        if report.broken or not report.complete or not report.findings:
            return report
        if worst(one.outcome for one in report.findings).value != report.outcome.value:
            return report
        texts = {one: self._covered(one, report, host) for one in report.findings}
        left = [one for one, text in texts.items() if not text]
        if not left:
            first, text = next(iter(texts.items()))
            more = f", and {count(len(texts) - 1, 'other finding')}" if len(texts) > 1 else ""
            return replace(report, outcome=NodeOutcome.WAIVED, cause=f"waived: {said_of(first)}: {text}{more}")
        counts = min(left, key=lambda one: rank(one.outcome))
        note = f"{count(len(texts) - len(left), 'finding')} waived"
        notes = report.notes if len(left) == len(texts) else (*report.notes, note)
        return replace(report, outcome=NodeOutcome(counts.outcome.value), cause=said_of(counts), notes=notes)

    def _covered(self, finding: Finding, report: Report, host: str) -> str:
        rule, subject = finding.rule, finding.subject
        if subject.startswith(CONTROL):
            rule, subject = "negative-control", subject.removeprefix(CONTROL)
        return self.text(rule, subject, finding.scenario, report.hardware.name, host)
