"""Every scenario of the catalogue that fits this machine, each with its negative controls; the rest with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from toolkit.errors import ApplyError, HostUnsupportedError
from toolkit.faults.fault import Target, When
from toolkit.faults.registry import word_of
from toolkit.model.conformance import ControlResult, ScenarioResult, first_problem
from toolkit.model.cpuset import CpuSet
from toolkit.model.scenario import NegativeControl, Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome, Verdict, worst
from toolkit.session.engine import execute
from toolkit.session.engine.execute import Settings
from toolkit.session.engine.record import Kept, Run
from toolkit.session.engine.stopping import StoppedError, go_on
from toolkit.session.index import promises_digest
from toolkit.session.planning import course as courses
from toolkit.session.planning.admissions import ADMISSION, NODE, admissions
from toolkit.session.planning.fitting import unmet
from toolkit.session.planning.planned import Planned, plan_all
from toolkit.session.planning.resizing import containers
from toolkit.text.wording import count
from validators.placement.groups import VIRTUAL_MACHINE


def run_one(
    scenario: Scenario,
    topology: Topology,
    settings: Settings,
    progress: Callable[[str], None] = lambda _what: None,
) -> ScenarioResult:
    """Run a scenario honestly, then once more for each fault of its negative controls that fits the machine.

    What comes out undecided is run again, ``settings.repeats`` times at most; the result says so.
    """
    work = plan_all(scenario, topology)
    admitted = admissions(scenario, work)
    progress(scenario.name)
    if any(verdict.outcome is Outcome.FAILED for verdict in admitted):
        reason = next(verdict.reason for verdict in admitted if verdict.outcome is Outcome.FAILED)
        return replace(_result(scenario, Outcome.FAILED, reason), verdicts=admitted)
    kept = Kept(session=bool(settings.session))
    course = courses.honest(work)
    honest, repeated = repeat_undecided(
        lambda: kept.keep(execute.run_scenario(course, settings), scenario.name),
        lambda run: None if settings.stopped else _undecided(_staged(run)),
        settings.repeats,
    )
    controls: list[ControlResult] = []
    for group in fault_groups(scenario):
        lacking = unmet(group[0].requires, topology) or idle_fault(work, group[0])
        if lacking is not None:
            controls += [_control(control, Outcome.SKIPPED, lacking) for control in group]
            continue
        progress(f"{scenario.name} / {group[0].fault} {group[0].target}".rstrip())
        found, again = repeat_undecided(partial(_attempt, work, group, settings, kept), _undecided, settings.repeats)
        controls += found
        repeated += again
    verdicts = (*admitted, *_staged(honest))
    outcomes = [honest.outcome, *(verdict.outcome for verdict in admitted), *_proof(controls)]
    reason = _reason(verdicts, controls)
    if settings.stopped and worst(outcomes) is not Outcome.FAILED:
        # Cut short: what failed has failed, nothing else is known.
        outcomes.append(Outcome.UNDECIDED)
        reason = str(StoppedError(settings.stopped[0]))
    return ScenarioResult(
        name=scenario.name,
        title=scenario.title,
        catalogue=scenario.catalogue,
        outcome=worst(outcomes),
        reason=reason,
        run=kept.path(honest),
        verdicts=verdicts,
        controls=tuple(controls),
        repeated=repeated,
        unsaved=tuple(kept.unsaved),
        packed=kept.packed(honest),
        files=dict(kept.files),
        promises=promises_digest(scenario, honest.record.claims),
        blind_spots=honest.result.coverage.blind_spots,
    )


def _attempt(work: Planned, group: tuple[NegativeControl, ...], settings: Settings, kept: Kept) -> list[ControlResult]:
    """Break a promise, once; that it cannot be broken, or is cut short, says nothing about the rule."""
    try:
        go_on(settings.stopped)
        found = _broken(work, group, settings, kept)
    except (ApplyError, HostUnsupportedError, StoppedError) as error:
        return [_control(control, Outcome.UNDECIDED, f"could not be run: {error}") for control in group]
    if not settings.stopped:
        return found
    cut = str(StoppedError(settings.stopped[0]))
    return [
        one if one.outcome is Outcome.PASSED else replace(one, outcome=Outcome.UNDECIDED, reason=cut) for one in found
    ]


def _undecided(results: Sequence[Verdict] | Sequence[ControlResult]) -> str | None:
    """Return why results are undecided; ``None``: decided, also where one failed, which no other run undoes."""
    if worst(result.outcome for result in results) is not Outcome.UNDECIDED:
        return None
    first = next(result for result in results if result.outcome is Outcome.UNDECIDED)
    return f"{first.rule} {first.subject}: {first.reason}"


def idle_fault(work: Planned, control: NegativeControl) -> str | None:
    """Return why a fault would change nothing on this machine; ``None`` if it breaks what is promised."""
    plans = [plan for plan in (work.before, work.plan) if plan is not None]
    found = next((named[control.target] for plan in plans if control.target in (named := containers(plan))), None)
    if found is None:
        return None
    target = Target(
        claim=control.target,
        cpus=found[1].cpus,
        mems=found[1].mems,
        online=work.online,
        memory_nodes=CpuSet.of(node.id for node in work.topology.numa if node.mem_bytes),
        nodes=tuple(node.cpus for node in work.topology.numa),
    )
    return word_of(control).idle(target)


def fault_groups(scenario: Scenario) -> tuple[tuple[NegativeControl, ...], ...]:
    """Group the controls that need the same fault: one run shows all rules that must notice it."""
    groups: dict[str, list[NegativeControl]] = {}
    for control in scenario.negative_controls:
        # The fault with all of its settings; only what must notice it differs.
        groups.setdefault(repr(replace(control, rule="", subject="")), []).append(control)
    return tuple(tuple(group) for group in groups.values())


def count_runs(scenario: Scenario) -> int:
    """Return how many steps :func:`run_one` reports."""
    return 1 + len(fault_groups(scenario))


def _broken(work: Planned, group: tuple[NegativeControl, ...], settings: Settings, kept: Kept) -> list[ControlResult]:
    """Break a promise, once, and look whether each rule noticed."""
    control = group[0]
    planned = [one for one in group if one.rule == ADMISSION]
    watched = tuple(one for one in group if one.rule != ADMISSION)
    found: list[ControlResult] = []
    word = word_of(control)
    varied = word.when in (When.PROMISE, When.NODE)
    changed = plan_all(word.vary(control, work.scenario), work.topology) if varied else None
    if planned:
        verdicts = admissions(work.scenario, changed or work)
        found += [judge_control(one, verdicts, "") for one in planned]
    if watched:
        if changed is not None and word.when is When.PROMISE:
            course = courses.broken(changed, control)
        else:
            course = courses.broken(work, control, other=changed)
        run = execute.run_controls(course, watched, settings)
        kept.keep(run, ".".join(filter(None, (work.scenario.name, control.fault, control.target.replace("/", "-")))))
        path, packed, hidden = kept.path(run), kept.packed(run), run.hidden
        judged = (judge_control(one, run.verdicts, path, _cpus(work, one.target), hidden) for one in watched)
        found += [replace(one, packed=packed) for one in judged]
    return found


def _staged(run: Run) -> tuple[Verdict, ...]:
    """Return the verdicts of all stages; those of the stages before say so in their subject."""
    before = [
        replace(verdict, subject=f"{verdict.subject} ({stage.stage})")
        for stage in run.before
        for verdict in stage.verdicts
    ]
    return (*before, *run.verdicts)


def _proof(controls: Iterable[ControlResult]) -> list[Outcome]:
    """What the controls prove: nothing, if none of them fits the machine."""
    return [control.outcome for control in controls if control.outcome is not Outcome.SKIPPED] or [Outcome.UNDECIDED]


def skipped(scenario: Scenario, reason: str) -> ScenarioResult:
    """Return the result of a scenario that this machine cannot run."""
    return _result(scenario, Outcome.SKIPPED, reason)


def _result(scenario: Scenario, outcome: Outcome, reason: str) -> ScenarioResult:
    return ScenarioResult(
        name=scenario.name, title=scenario.title, catalogue=scenario.catalogue, outcome=outcome, reason=reason
    )


def _cpus(work: Planned, target: str) -> CpuSet:
    """Return the CPUs that a container has when the fault is made."""
    found = containers(work.plan).get(target)
    return found[1].cpus if found else CpuSet()


def judge_control(
    control: NegativeControl, verdicts: Iterable[Verdict], run: str, cpus: CpuSet | None = None, hidden: str = ""
) -> ControlResult:
    """A control passes when its rule says ``failed`` about its subject; a rule that cannot fail proves nothing.

    :param hidden: why the fault may not have come to show: nothing can be blamed for not noticing it then.

    What a virtual machine may not judge at all is skipped with the rule's own reason.
    """
    # A rule that judges the node, or CPUs, has no verdict about the target itself.
    by_cpu = {f"cpu {cpu}" for cpu in cpus or ()}
    subjects = {control.subject} if control.subject else {control.target, NODE, *by_cpu}
    about = [v for v in verdicts if v.rule == control.rule and v.subject in subjects]
    if about and all(v.outcome is Outcome.SKIPPED and v.reason.startswith(VIRTUAL_MACHINE) for v in about):
        return _control(control, Outcome.SKIPPED, about[0].reason, run)
    failed = [verdict for verdict in about if verdict.outcome is Outcome.FAILED]
    undecided = [verdict for verdict in about if verdict.outcome is Outcome.UNDECIDED]
    if failed:
        return _control(control, Outcome.PASSED, failed[0].reason, run)
    if undecided:
        return _control(control, Outcome.UNDECIDED, undecided[0].reason, run)
    if hidden:
        return _control(control, Outcome.UNDECIDED, hidden, run)
    found = ", ".join(f"{v.subject}: {v.outcome.value}" for v in about) or "no verdict"
    reason = f"{control.rule} did not notice {control.fault} ({found})"
    return _control(control, Outcome.FAILED, reason, run)


def _control(control: NegativeControl, outcome: Outcome, reason: str, run: str = "") -> ControlResult:
    return ControlResult(
        rule=control.rule,
        fault=control.fault,
        subject=control.subject or control.target,
        outcome=outcome,
        reason=reason,
        run=run,
        target=control.target,
    )


def _reason(verdicts: tuple[Verdict, ...], controls: list[ControlResult]) -> str:
    """Sum up in one line: the first thing that is not passed, or what was shown."""
    if problem := first_problem(verdicts, controls):
        return problem
    caught = sum(1 for control in controls if control.outcome is Outcome.PASSED)
    if not caught:
        return "no negative control fits this machine"
    judged = sum(1 for verdict in verdicts if verdict.outcome is Outcome.PASSED)
    return f"{count(judged, 'verdict')} passed, {count(caught, 'broken promise')} caught"


T = TypeVar("T")

REPEATS = 4
"""How often at most a run that comes out undecided is repeated, unless something says otherwise: four more runs outlast
a burst of some seconds on a busy host; one that is busy all the time is not waited for."""


def repeat_undecided(
    attempt: Callable[[], T], undecided: Callable[[T], str | None], repeats: int
) -> tuple[T, tuple[str, ...]]:
    """Attempt until it is decided.

    :param undecided: say why a result is undecided; ``None``: it is decided.
    :param repeats: how often at most after the first time.
    :returns: the last result, and why those before it were thrown away.
    """
    thrown_away: list[str] = []
    while True:
        found = attempt()
        why = undecided(found)
        if why is None or len(thrown_away) >= repeats:
            return found, tuple(thrown_away)
        thrown_away.append(why)
