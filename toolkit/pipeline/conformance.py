"""Every scenario of the catalogue that fits this machine, each with its negative controls; the rest with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import NegativeControl, Requirements, Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome, worst
from toolkit.pipeline import execute
from toolkit.pipeline.execute import Run, Settings


def misfit(requires: Requirements, topology: Topology) -> str | None:
    """Say what the machine lacks for a scenario; ``None`` if it fits."""
    sockets = topology.sockets
    l3_groups = topology.l3_groups.values()
    per_socket = [sum(1 for group in l3_groups if group <= socket) for socket in sockets.values()]
    has = {
        "CPUs": (len(topology.online), requires.cpus),
        "NUMA nodes with CPUs": (sum(1 for cpus in topology.numa_cpus.values() if cpus) or 1, requires.numa_nodes),
        "sockets": (len(sockets) or 1, requires.sockets),
        "threads per core": (topology.smt_level or 1, requires.threads_per_core),
        "L3 groups per socket": (min(per_socket, default=1) or 1, requires.l3_groups),
    }
    lacking = [f"{wanted} {what} (this machine has {found})" for what, (found, wanted) in has.items() if found < wanted]
    return f"needs {', '.join(lacking)}" if lacking else None


def unexpected_admission(scenario: Scenario, plan: Plan) -> str | None:
    """Say where the plan admits or refuses other pods than the scenario says; ``None`` if it agrees."""
    for pod in plan.pods:
        if pod.admitted == (pod.name in scenario.rejected_pods):
            if pod.admitted:
                return f"pod {pod.name} should have been refused"
            return f"pod {pod.name} was refused: {pod.reason}: {pod.message}"
    return None


def run_one(
    scenario: Scenario,
    plan: Plan,
    online: CpuSet,
    settings: Settings,
    progress: Callable[[str], None] = lambda _what: None,
) -> ScenarioResult:
    """Run a scenario honestly, then once more for each of its negative controls."""
    surprise = unexpected_admission(scenario, plan)
    if surprise is not None:
        return _result(scenario, Outcome.FAILED, surprise)
    progress(scenario.name)
    honest = execute.run_scenario(scenario, plan, online, settings)
    controls = []
    for control in scenario.negative_controls:
        progress(f"{scenario.name} / {control.rule} broken by {control.fault}")
        controls.append(_caught(control, execute.run_scenario(scenario, plan, online, settings, control)))
    outcome = worst([honest.outcome, *(control.outcome for control in controls)])
    return ScenarioResult(
        name=scenario.name,
        title=scenario.title,
        catalogue=scenario.catalogue,
        outcome=outcome,
        reason=_reason(honest, controls),
        run=str(honest.path),
        verdicts=honest.verdicts,
        controls=tuple(controls),
    )


def skipped(scenario: Scenario, reason: str) -> ScenarioResult:
    """Return the result of a scenario that this machine cannot run."""
    return _result(scenario, Outcome.SKIPPED, reason)


def _result(scenario: Scenario, outcome: Outcome, reason: str) -> ScenarioResult:
    return ScenarioResult(
        name=scenario.name, title=scenario.title, catalogue=scenario.catalogue, outcome=outcome, reason=reason
    )


def _caught(control: NegativeControl, run: Run) -> ControlResult:
    """A control passes when its rule says ``failed`` about its subject; a rule that cannot fail proves nothing."""
    subject = control.subject or control.target
    verdicts = [v for v in run.verdicts if v.rule == control.rule and (not subject or v.subject == subject)]
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAILED]
    undecided = [verdict for verdict in verdicts if verdict.outcome is Outcome.UNDECIDED]
    if failed:
        outcome, reason = Outcome.PASSED, failed[0].reason
    elif undecided:
        outcome, reason = Outcome.UNDECIDED, undecided[0].reason
    else:
        found = ", ".join(f"{v.subject}: {v.outcome.value}" for v in verdicts) or "no verdict"
        outcome, reason = Outcome.FAILED, f"{control.rule} did not notice {control.fault.value} ({found})"
    return ControlResult(
        rule=control.rule,
        fault=control.fault.value,
        subject=subject,
        outcome=outcome,
        reason=reason,
        run=str(run.path),
    )


def _reason(honest: Run, controls: Iterable[ControlResult]) -> str:
    """Sum up in one line: the first thing that is not passed, or what was shown."""
    for verdict in honest.verdicts:
        if verdict.outcome is honest.outcome and verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
            return f"{verdict.rule} {verdict.subject}: {verdict.reason}"
    missed = [control for control in controls if control.outcome is not Outcome.PASSED]
    if missed:
        return f"negative control {missed[0].rule}/{missed[0].fault}: {missed[0].reason}"
    judged = sum(1 for verdict in honest.verdicts if verdict.outcome is Outcome.PASSED)
    return f"{judged} verdicts passed, {len(list(controls))} broken promises caught"
