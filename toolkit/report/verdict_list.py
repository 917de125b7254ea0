"""Verdicts as text: causes of what did not pass, one line a rule for what passed, a count of what was skipped. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report import page
from toolkit.report.causes import by_rule, causes
from toolkit.report.layout import paragraph
from toolkit.report.text import printable
from toolkit.text.wording import and_more, count, first_of

MAX_OFFENDERS = 5
"""Offenders of one verdict that are named; JSON has all."""
MASKS = ("affinity-mask", "transition-window")
"""Rules whose offenders are threads by what they may: when that was read first and last is no run time."""
MAX_SUBJECTS = 12
"""Subjects of one rule with one reason that are named."""


def render_verdicts(verdicts: Iterable[Verdict], *, verbose: bool = False) -> str:
    """Return the verdicts by outcome, the worst first.

    :param verbose: name each verdict, and give the reason of those that passed or were skipped, too.
    """
    by_outcome: dict[Outcome, list[Verdict]] = {}
    for verdict in verdicts:
        by_outcome.setdefault(verdict.outcome, []).append(verdict)
    bad = (Outcome.FAILED, Outcome.UNDECIDED)
    in_full = (*bad, Outcome.PASSED, Outcome.SKIPPED) if verbose else bad
    parts = [_in_full(outcome, by_outcome[outcome], every=verbose) for outcome in in_full if outcome in by_outcome]
    if not verbose:
        parts += [_passed(by_outcome.get(Outcome.PASSED, ())), _skipped(by_outcome)]
    return "\n\n".join(part for part in parts if part) or "no verdicts"


def _in_full(outcome: Outcome, verdicts: Sequence[Verdict], *, every: bool) -> str:
    """Return each cause with its reason, and behind it how many more verdicts have it. :param every: name them."""
    lines = [outcome.value.capitalize()]
    width = max(len(verdict.rule) for verdict in verdicts)
    for group, behind in _groups(verdicts, every=every):
        for rule, subjects in by_rule(group).items():
            lines.append(paragraph(first_of(subjects, MAX_SUBJECTS), f"  {rule:{width}}  ", " " * (width + 4)))
        lines.append(paragraph(group[0].reason, "    "))
        lines += _offenders(group)
        lines += [paragraph(behind, "    ")] if behind else []
    return "\n".join(lines)


def _groups(verdicts: Sequence[Verdict], *, every: bool) -> list[tuple[Sequence[Verdict], str]]:
    """Return the verdicts that stand above one reason, with what is said behind it."""
    if not every:
        return [((cause.head,), cause.behind) for cause in causes(verdicts)]
    by_reason: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_reason.setdefault(verdict.reason, []).append(verdict)
    return [(group, "") for group in by_reason.values()]


def _offenders(verdicts: Iterable[Verdict]) -> list[str]:
    lines = []
    for verdict in verdicts:
        named = named_tasks(verdict)
        lines += [paragraph(one, "    - ", "      ") for one in named[:MAX_OFFENDERS]]
        if more := and_more(len(named) - MAX_OFFENDERS):
            lines.append(f"    -{more} (--json names them)")
    return lines


def named_tasks(verdict: Verdict) -> list[str]:
    """Return a text for each offender, or for each command where there are too many of them."""
    by_mask = verdict.rule in MASKS
    if len(verdict.offenders) <= MAX_OFFENDERS:
        return [_offender(one, by_mask=by_mask) for one in verdict.offenders]
    groups: dict[tuple[str, str], list[Offender]] = {}
    for one in verdict.offenders:
        groups.setdefault((one.claim, one.comm), []).append(one)
    texts = []
    for group in groups.values():
        alone = len({one.tid for one in group}) == 1
        texts += [_offender(one, by_mask=by_mask) for one in group] if alone else [_together(group, by_mask=by_mask)]
    return texts


def _together(group: Sequence[Offender], *, by_mask: bool) -> str:
    """Return what the tasks of one command come to."""
    tasks, first = len({one.tid for one in group}), group[0]
    where = f"{first.comm} of {first.claim}, {cpus_text(CpuSet.of(one.cpu for one in group))}: {count(tasks, 'task')}"
    begin = f"first after {min(one.first_at_ns for one in group) / 1e6:.1f} ms"
    if by_mask:
        return f"{where}, {begin}"
    switches = count(sum(one.switches for one in group), "switch", "switches")
    total, longest = sum(one.total_ns for one in group), max(one.longest_ns for one in group)
    return f"{where}, {switches}, {total / 1e6:.3f} ms, longest {longest / 1e6:.3f} ms, {begin}"


def _offender(one: Offender, *, by_mask: bool) -> str:
    """Return the thread, its claim and CPU. An offender by its mask alone has not run there: no run time."""
    thread = f"{one.comm} ({one.tid})" if one.tid else one.comm
    where = f"{thread} of {one.claim}, CPU {one.cpu}"
    if not one.total_ns and not one.switches:
        return where
    if by_mask:
        return f"{where}: allowed for {one.total_ns / 1e6:.1f} ms, first read after {one.first_at_ns / 1e6:.1f} ms"
    times = f"{one.total_ns / 1e6:.3f} ms, longest {one.longest_ns / 1e6:.3f} ms"
    return f"{where}: {count(one.switches, 'switch', 'switches')}, {times}, first after {one.first_at_ns / 1e6:.1f} ms"


def _passed(verdicts: Sequence[Verdict]) -> str:
    """Return one line for each rule: the subjects, or the one subject and what was found."""
    if not verdicts:
        return ""
    rules: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        rules.setdefault(verdict.rule, []).append(verdict)
    width = max(map(len, rules))
    room = page.width() - width - 4
    rows = [
        f"  {rule:{width}}  {_one_line(group[0], room) if len(group) == 1 else _named(group, room)}"
        for rule, group in rules.items()
    ]
    return "\n".join(["Passed", *rows])


def _one_line(verdict: Verdict, room: int) -> str:
    """Return the subject and as much of its reason as the line holds."""
    subject = printable(verdict.subject)
    if len(subject) > room // 2:
        return _cut(subject, room)
    return textwrap.shorten(f"{subject}: {printable(verdict.reason)}", room, placeholder=" …")


def _named(verdicts: Sequence[Verdict], room: int) -> str:
    """Return the subjects' names, as many as the line holds, and the number of the others."""
    text = ""
    for number, verdict in enumerate(verdicts):
        name = (", " if number else "") + printable(verdict.subject)
        rest = len(verdicts) - number - 1
        if len(text + name) + len(and_more(rest)) > room:
            return text + and_more(rest + 1) if text else _cut(f"{len(verdicts)} subjects, the first {name}", room)
        text += name
    return text


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _skipped(by_outcome: dict[Outcome, list[Verdict]]) -> str:
    skipped = by_outcome.get(Outcome.SKIPPED, [])
    if not skipped:
        return ""
    judged = {one.rule for outcome, found in by_outcome.items() if outcome is not Outcome.SKIPPED for one in found}
    # A rule that judged nothing is named, so that its absence above is not taken for a pass.
    silent = dict.fromkeys(verdict.rule for verdict in skipped if verdict.rule not in judged)
    text = f"Skipped: {count(len(skipped), 'verdict')} (--verbose gives the reasons)."
    return paragraph(text + (f" These rules judged nothing: {', '.join(silent)}." if silent else ""))
