"""The sentence of a run: how long, how complete, who stayed where, who was throttled to what, was the control seen.

Made from a :class:`~toolkit.report.result.Result` alone, and it says only what passed; the rest is in the table.
Source: design.md, the sentence at its head.
"""

from __future__ import annotations

from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, Verdict

MAX_NAMES = 4


def summary(result: Result) -> str:
    """Return the summary, a few plain sentences."""
    coverage = result.coverage
    judged = f"{coverage.switches_judged:,} of the kernel's {coverage.switches_kernel:,} context switches were judged"
    if coverage.switches_untraced:
        judged += f" ({coverage.switches_untraced:,} were of threads without a claim that it does not trace)"
    sentences = [f"For {result.duration_s:.1f} s, {judged}, {coverage.lost_events:,} were lost."]
    facts = [*_contained(result), *_reserved(result), *_exclusive(result)]
    if facts:
        sentences.append(_capital(", ".join(facts)) + ".")
    sentences += [f"`{verdict.subject}` was {verdict.reason}." for verdict in _throttled(result)]
    if coverage.positive_control_latency_ms is not None:
        sentences.append(f"A planted escape was seen {coverage.positive_control_latency_ms:.1f} ms after it began.")
    else:
        sentences.append("No planted escape was seen.")
    counts = {outcome: sum(verdict.outcome is outcome for verdict in result.verdicts) for outcome in Outcome}
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    sentences.append(f"Verdicts: {told or 'none'}.")
    return " ".join(sentences)


def _passed(result: Result, rule: str) -> list[Verdict]:
    return [verdict for verdict in result.verdicts if verdict.rule == rule and verdict.outcome is Outcome.PASSED]


def _contained(result: Result) -> list[str]:
    verdicts = _passed(result, "cpuset-containment")
    if len(verdicts) > MAX_NAMES:
        return [f"no task of {len(verdicts)} containers ran outside its CPUs"]
    return [
        f"no task of `{verdict.subject}` ran outside CPUs {verdict.measures.get('cpus', '?')}" for verdict in verdicts
    ]


def _reserved(result: Result) -> list[str]:
    return [
        f"no workload ran on reserved CPUs {verdict.measures.get('reserved_cpus', '?')}"
        for verdict in _passed(result, "reserved-cpus")
    ]


def _exclusive(result: Result) -> list[str]:
    verdicts = _passed(result, "exclusive-cpus")
    if len(verdicts) > MAX_NAMES:
        return [f"the exclusive CPUs of {len(verdicts)} containers hosted only them and the system"]
    facts = []
    for verdict in verdicts:
        noise = [
            (_ns(verdict, "kthread_ns") + _ns(verdict, "percpu_kthread_ns"), "kernel threads"),
            (_ns(verdict, "system_ns") + _ns(verdict, "sandbox_ns"), "system tasks"),
            (_ns(verdict, "toolkit_ns"), "pinproof itself"),
        ]
        guests = [f"`{verdict.subject}`", *(f"{ns / 1e6:.1f} ms of {who}" for ns, who in noise if ns)]
        facts.append(f"exclusive CPUs {verdict.measures.get('cpus', '?')} hosted only {_list(guests)}")
    return facts


def _ns(verdict: Verdict, name: str) -> int:
    value = verdict.measures.get(name, 0)
    return value if isinstance(value, int) else 0


def _throttled(result: Result) -> list[Verdict]:
    found = [verdict for verdict in _passed(result, "quota-throttling") if verdict.reason.startswith("throttled to")]
    return found[:MAX_NAMES]


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
