"""One run, or one window of several, as a page shows it. Pure: of what was judged, nothing is judged here.

:func:`run_view` keeps what is drawn, not the evidence: a session has a hundred runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import quote

from toolkit.fleet.facts import of_environment
from toolkit.fleet.values import Comparison
from toolkit.model.claim_changes import in_force
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.evidence.delays import Culprit, CulpritClass, Delay
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.causes import causes
from toolkit.report.html.comparison import difference
from toolkit.report.html.curves import Curve, curves_of
from toolkit.report.html.machine import Machine, machine_of
from toolkit.report.html.page import UPLOT, Step, cut, explained, page
from toolkit.report.html.timeline import Times, timeline_of
from toolkit.report.summary import summary
from toolkit.report.table import not_seen
from toolkit.report.verdict_list import named_tasks
from toolkit.session.saved import Judged, Shown
from toolkit.text.wording import brief, count, first_lines, first_of
from validators.registry import RULES

MAX_CAUSES, MAX_TASKS, MAX_SUBJECTS, MAX_WAITED, MAX_BEHIND = 40, 6, 12, 12, 5
PAGES = {rule.doc.id: rule.doc for rule in RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """One cause of what did not pass. :param judges: what its rule judges. :param tasks: offenders, in words."""

    rule: str
    subject: str
    outcome: str
    reason: str
    behind: str
    judges: str
    broken_by: str
    tasks: tuple[str, ...]
    measures: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A rule that passed. :param said: its reason, where it judged one subject alone."""

    rule: str
    judges: str
    subjects: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A claim whose threads waited. :param share: of the window.

    :param throttled, longest: empty: none, or not known. :param behind: what had the CPU meanwhile, most of it first.
    """

    claim: str
    waited: str
    share: float
    throttled: str = ""
    longest: str = ""
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The pictures of one window. :param which: of several; empty: it is all. :param own_cpu: what pinproof took."""

    which: str
    machine: Machine
    times: Times
    curves: tuple[Curve, ...]
    waited: tuple[Waited, ...]
    own_cpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """What a page shows of a run."""

    name: str
    outcome: str
    sentence: str
    started_at: str
    duration_s: float
    counts: dict[str, int]
    why: tuple[Why, ...]
    more_why: int
    kept: tuple[Kept, ...]
    skipped: tuple[tuple[str, str], ...]
    windows: tuple[str, ...]
    drawn: Drawn | None
    coverage: tuple[tuple[str, str], ...]
    unseen: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    node: str
    scenario: str
    again: tuple[Step, ...]


def run_view(judged: Judged, shown: Shown, name: str) -> RunView:
    """Return what is shown of a run that was judged again.

    :param shown: the window of it that is drawn. :param name: what its user calls the run.
    """
    result, scenario = judged.result, judged.run.scenario
    why = whys([one for one in result.verdicts if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED)])
    identity = result.environment.identity
    return RunView(
        name=name,
        outcome=str(result.outcome),
        sentence=summary(result),
        started_at=result.started_at,
        duration_s=result.duration_s,
        counts=counts(result.verdicts),
        why=why[:MAX_CAUSES],
        more_why=max(0, len(why) - MAX_CAUSES),
        kept=kept(result.verdicts),
        skipped=skipped(result.verdicts),
        windows=_windows(result),
        drawn=_drawn(shown),
        coverage=_coverage(result),
        unseen=tuple(first_lines(not_seen(result), 30)),
        environment=of_environment(result.environment),
        node="" if identity is None else identity.node,
        scenario="" if scenario is None else scenario.name,
        again=_again(result, "" if scenario is None else scenario.name, name, judged.run.evidence),
    )


def _drawn(shown: Shown) -> Drawn | None:
    """Return the pictures of a window; one reading of a node's files has none."""
    run = shown.judged.run
    evidence, claims = run.evidence, in_force(run.claims, run.evidence.changed)
    if evidence.picture is not None or evidence.duration_ns <= 0:
        return None
    return Drawn(
        which=shown.which,
        machine=machine_of(claims, evidence, shown.judged.ran.rows),
        times=timeline_of(run.claims, evidence, shown.judged.result),
        curves=curves_of(claims, evidence),
        waited=_waited(evidence),
        own_cpu=_own(evidence),
    )


def run_page(view: RunView, *, base: Comparison | None = None, base_name: str = "") -> str:
    """Return the page of a run. :param base: what differs to a run before."""
    title = f"{view.outcome}: {view.scenario or view.name}"
    differs = None if base is None else difference(base, base_name)
    return page("run.html", title=title, programs=programs_of(view), run=view, base=differs)


def programs_of(*views: RunView) -> list[str]:
    """Return what a page with these runs needs beside its own program."""
    return [UPLOT] if any(one.drawn is not None and one.drawn.curves for one in views) else []


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Return outcome -> number of verdicts, the worst first; what did not come is left out."""
    number = Counter(one.outcome for one in verdicts)
    order = (Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED, Outcome.SKIPPED)
    return {str(outcome): number[outcome] for outcome in order if number[outcome]}


def whys(verdicts: Sequence[Verdict]) -> tuple[Why, ...]:
    """Return the causes of what failed, then of what is undecided."""
    found = []
    for outcome in (Outcome.FAILED, Outcome.UNDECIDED):
        for cause in causes(one for one in verdicts if one.outcome is outcome):
            head, doc = cause.head, PAGES.get(cause.head.rule)
            tasks = named_tasks(head)
            found.append(
                Why(
                    rule=head.rule,
                    subject=head.subject,
                    outcome=str(outcome),
                    reason=cut(head.reason),
                    behind=cause.behind,
                    judges="" if doc is None else doc.claim,
                    broken_by="" if doc is None else doc.negative_control,
                    tasks=tuple(first_lines(tasks, MAX_TASKS, "(result.json names them)")),
                    measures=tuple((name, _measure(name, value)) for name, value in head.measures.items())[:40],
                )
            )
    return tuple(found)


def kept(verdicts: Iterable[Verdict]) -> tuple[Kept, ...]:
    """Return the rules that passed, in their order."""
    rules: dict[str, list[Verdict]] = {}
    for one in verdicts:
        if one.outcome is Outcome.PASSED:
            rules.setdefault(one.rule, []).append(one)
    return tuple(
        Kept(
            rule=rule,
            judges="" if (doc := PAGES.get(rule)) is None else doc.claim,
            subjects=first_of([one.subject for one in found], MAX_SUBJECTS),
            said=cut(found[0].reason) if len(found) == 1 else f"{len(found)} subjects",
        )
        for rule, found in rules.items()
    )


def skipped(verdicts: Iterable[Verdict]) -> tuple[tuple[str, str], ...]:
    """Return rule and reason of what was skipped, each pair once, with the number of subjects."""
    found = Counter((one.rule, one.reason) for one in verdicts if one.outcome is Outcome.SKIPPED)
    return tuple(
        (rule, f"{cut(reason)}{f' ({number} subjects)' if number > 1 else ''}")
        for (rule, reason), number in list(found.items())[:60]
    )


def _measure(name: str, value: object) -> str:
    if name.endswith("_ns") and isinstance(value, int) and value >= 0:
        return brief(value) if value < 10**13 else f"{value / 1e9:.0f} s"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else cut(str(value))


def _windows(result: Result) -> tuple[str, ...]:
    sums = result.windows
    if sums is None:
        return ()
    found = [f"{count(sums.count, 'window')}: " + ", ".join(
        f"{number} {outcome}" for outcome in Outcome if (number := getattr(sums, outcome))
    )]  # fmt: skip
    found += [
        f"window {one.number}, {one.started_at}, {one.duration_s:.1f} s: {one.outcome}: {'; '.join(one.reasons[:2])}"
        for one in sums.worst
    ]
    return tuple(cut(text) for text in found[:30])


def _waited(evidence: Evidence) -> tuple[Waited, ...]:
    """Return what waited for a CPU, the longest first; behind what, where the ledger told that."""
    window = max(1, evidence.duration_ns)
    told: dict[str, list[Delay]] = {}
    for one in evidence.delays:
        told.setdefault(one.claim, []).append(one)
    waits = {claim: sum(one.wait_ns for one in mine) for claim, mine in told.items()} or evidence.run_delay_ns
    ranked = sorted(((ns, claim) for claim, ns in waits.items() if ns > 0), reverse=True)
    found = []
    for ns, claim in ranked[:MAX_WAITED]:
        mine = told.get(claim, ())
        throttled, longest = sum(one.throttled_ns for one in mine), max((one.longest_ns for one in mine), default=0)
        found.append(
            Waited(
                claim=claim,
                waited=brief(ns),
                share=ns / window,
                throttled=brief(throttled) if throttled else "",
                longest=brief(longest) if longest else "",
                behind=tuple(_behind(claim, evidence.culprits)),
            )
        )
    return tuple(found)


def _behind(claim: str, culprits: Iterable[Culprit]) -> Iterable[str]:
    """Name what had the CPUs while a claim waited, over all of them."""
    sums: dict[tuple[str, str], list[int]] = {}
    for one in culprits:
        if one.claim == claim:
            of_one = sums.setdefault((str(one.owner), one.name or one.cgroup), [0, 0])
            of_one[0] += one.total_ns
            of_one[1] += one.turns
    ranked = sorted(sums.items(), key=lambda item: -item[1][0])
    for (owner, name), (ns, turns) in ranked[:MAX_BEHIND]:
        own = (
            "its own tasks" if name == claim and owner == CulpritClass.CLAIM else f"{name} ({owner})" if name else owner
        )
        yield f"{own} {brief(ns)} in {count(turns, 'turn')}"


def _own(evidence: Evidence) -> str:
    """Say what the observer took itself."""
    on_watched = sum(one.total_ns for one in evidence.intruders if one.owner is OwnerClass.TOOLKIT)
    took = f"pinproof itself took {brief(evidence.toolkit_cpu_ns)} of CPU time in the window"
    return f"{took}, {brief(on_watched) if on_watched else 'none'} of it on watched CPUs"


def _coverage(result: Result) -> tuple[tuple[str, str], ...]:
    coverage = result.coverage
    lost = coverage.lost_events + coverage.map_full + coverage.missed_runs
    latency = coverage.positive_control_latency_ms
    return (
        ("context switches judged", f"{coverage.switches_judged:,} of {coverage.switches_kernel:,}"),
        ("not traced by the kernel", f"{coverage.switches_untraced:,}"),
        ("events, counts and program runs lost", f"{lost:,}"),
        ("CPUs seen", f"{coverage.cpus_seen} of {coverage.cpus_online}"),
        ("CPU-clock samples", f"{coverage.sampler_hz} a second" if coverage.sampler_hz else "none"),
        ("complete scans of the threads", f"{coverage.proc_scans:,}"),
        ("planted escape", "not seen" if latency is None else f"reported after {latency:.1f} ms"),
    )


def _again(result: Result, scenario: str, name: str, evidence: Evidence) -> tuple[Step, ...]:
    """Return the commands that explain what did not pass, and that repeat the run."""
    bad = [one for one in result.verdicts if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    explain = explained((one.rule for one in bad), 3)
    if scenario:
        return (*explain, Step(f"sudo pinproof conformance --select {quote(scenario)}", "repeat it"))
    followed = evidence.following
    source = quote(f"--{followed.source}") if followed is not None else "--claims FILE"
    return (
        *explain,
        Step(f"sudo pinproof watch {source} --duration {max(10, round(result.duration_s))}", "look again"),
        Step(f"pinproof judge {quote(name)}", "the same verdicts, from the saved evidence"),
    )
