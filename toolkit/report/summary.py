"""The sentence of a run: duration, completeness, containment, throttling, and the positive control.

Made from a :class:`~toolkit.report.result.Result` alone, and it states what passed, and of many windows
how many did not; the verdicts have the rest.
Source: docs/principles.md.
"""

from __future__ import annotations

from toolkit.model.cpuset import cpus_text
from toolkit.model.evidence import Coverage
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report import throughout
from toolkit.report.throughout import MAX_NAMES, number, passed, text
from toolkit.text.wording import count
from validators.wording import milliseconds


def summary(result: Result) -> str:
    """Return the summary, a few plain sentences."""
    coverage = result.coverage
    judged = f"{coverage.switches_judged:,} of the kernel's {coverage.switches_kernel:,} context switches were judged"
    if coverage.switches_untraced:
        judged += f" ({coverage.switches_untraced:,} were of threads without a claim that it does not trace)"
    still = result.duration_s == 0 and not coverage.switches_kernel
    sentences = [f"For {result.duration_s:.1f} s, {judged}, {_lost(coverage)}."]
    if still:
        sentences = ["This is one reading of the node's files: how its tasks ran was not observed."]
    # A summed verdict has other measures: what is true of all windows.
    summed = result.windows is not None and result.windows.count > 1
    sentences += [throughout.windows(result)] if summed and throughout.windows(result) else []
    facts = throughout.facts(result) if summed else [*_contained(result), *_reserved(result), *_exclusive(result)]
    if facts:
        sentences.append(_capital(", ".join(facts)) + ".")
    sentences += throughout.throttled(result) if summed else _throttled(result)
    sentences += _own_noise(result)
    if coverage.positive_control_latency_ms is not None:
        sentences.append(f"A planted escape was seen {coverage.positive_control_latency_ms:.1f} ms after it began.")
    elif not still:
        sentences.append("No planted escape was seen.")
    counts = {outcome: sum(verdict.outcome is outcome for verdict in result.verdicts) for outcome in Outcome}
    counts_text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    sentences.append(f"Verdicts: {counts_text or 'none'}.")
    return " ".join(sentences)


def _lost(coverage: Coverage) -> str:
    ways = (
        (coverage.missed_runs, "the kernel skipped {:,} runs of the program"),
        (coverage.map_full, "{:,} counts were lost (map full)"),
        (coverage.lost_events, "{:,} reports of details were lost"),
    )
    return ", ".join(words.format(lost) for lost, words in ways if lost) or "0 were lost"


def _contained(result: Result) -> list[str]:
    verdicts = passed(result, "cpuset-containment")
    if len(verdicts) > MAX_NAMES:
        moving = sum(number(verdict, "transition_ns") for verdict in verdicts)
        but = f" (but {milliseconds(moving)} in transition)" if moving else ""
        return [f"no task of {len(verdicts)} claims ran outside its CPUs{but}"]
    return [
        f"no task of `{verdict.subject}` ran outside {_cpus(verdict, 'cpus')}{_excused(verdict, ' ({})')}"
        for verdict in verdicts
    ]


def _own_noise(result: Result) -> list[str]:
    """Say what pinproof itself took of the exclusive CPUs."""
    ran = {one.subject: one for one in result.verdicts if one.rule == "noise" and "toolkit_ns" in one.measures}
    if not ran:
        return []
    total = sum(number(one, "toolkit_ns") for one in ran.values())
    worst = max(ran.values(), key=lambda one: number(one, "toolkit_ns"))
    where = f", most on {worst.subject.upper()}" if total and len(ran) > 1 else ""
    longest = max(number(one, "toolkit_longest_ns") for one in ran.values())
    most = f" (at most {milliseconds(longest)} at a time{where})" if longest else ""
    return [f"Own noise: pinproof ran {milliseconds(total)} on {count(len(ran), 'exclusive CPU')}{most}."]


def _reserved(result: Result) -> list[str]:
    return [
        f"no workload ran on reserved {_cpus(verdict, 'reserved_cpus')}{_excused(verdict, ' but {}')}"
        for verdict in passed(result, "reserved-cpus")
    ]


def _exclusive(result: Result) -> list[str]:
    # Which owners ran there is the rule's own finding: claims of one pod may share CPUs, and a claim may be idle.
    verdicts = [verdict for verdict in passed(result, "exclusive-cpus") if "hosted" in verdict.measures]
    if len(verdicts) > MAX_NAMES:
        excused = sum(number(verdict, "excused_ns") for verdict in verdicts)
        but = f" (but {milliseconds(excused)} before their present sets held)" if excused else ""
        return [f"the exclusive CPUs of {len(verdicts)} claims hosted no workload but their owners'{but}"]
    # Two claims that share their CPUs say the same of them.
    said = [f"exclusive {_cpus(verdict, 'cpus')} {text(verdict, 'hosted')}" for verdict in verdicts]
    return list(dict.fromkeys(said))


def _cpus(verdict: Verdict, name: str) -> str:
    return cpus_text(text(verdict, name) or "?")


def _excused(verdict: Verdict, words: str) -> str:
    """Return what was outside and breaks nothing, where there is any."""
    excused = text(verdict, "excused")
    return words.format(excused) if excused else ""


def _throttled(result: Result) -> list[str]:
    found = [one for one in passed(result, "quota-throttling") if one.measures.get("demand_exceeds_quota")]
    return [f"`{verdict.subject}` was {verdict.reason}." for verdict in found[:MAX_NAMES]]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
