"""The rule ``admission``: the plan held against what the scenario and the kubelet's contract say about it. Pure.

Which pods it takes and refuses, which CPUs it gives (:mod:`toolkit.session.planning.expected`), and what keeps those
that it has (:mod:`toolkit.session.planning.retained`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.model.verdict import Outcome, Verdict
from validators.rule import RuleDoc, prose

if TYPE_CHECKING:  # verbs that only print the page need no planner
    from toolkit.model.scenario import Scenario
    from toolkit.session.planning.planned import Planned
    from toolkit.session.planning.resizing import Answer
    from toolkit.session.planning.restarting import Restarted

ADMISSION = "admission"
"""The rule that judges the plan before anything runs: which pods the node takes, and that it warns of nothing. Not one
of the registry's, because a saved run has no evidence about it: the plan is compared with the scenario itself."""
PAGE = RuleDoc(
    id=ADMISSION,
    claim=prose("""
        The plan admits the pods that the scenario names, refuses the others with its reasons, gives the CPUs that it
        expects, takes none from a container that keeps them, and has no warning.
    """),
    how=prose("""
        `pinproof conformance` compares the model's plan with the scenario before anything runs. A pod that is not
        in `rejectedPods` must be admitted; one that is must be refused, with the reason that is given there. A resize
        in `rejectedResizes` must be refused with these words, any other must be done (subject `POD (resize)`). A
        kubelet that `kubeletRestart` starts over the state files must start and admit every pod again, or refuse
        with the words that stand there (subject `kubelet (restart)`). A plan that warns, of an empty shared pool
        for example, fails (subject `node`).

        Which CPUs the model chose is compared, too. What owns CPUs has the same ones after a kubelet's restart, after
        departures and visits of others, and after a resize (subjects `POD/CONTAINER (restart)`, `(departures)`,
        `(leaves)`, `(resize)`); only a resize as KEP-5554 plans it adds CPUs to those that are there, or takes some
        of them. What `expect` says about a container's CPUs is held against the machine's topology (subject
        `POD/CONTAINER`).

        Only `conformance` judges it. `judge` does not repeat it: a saved run has no evidence about it.
    """),
    tolerance="None.",
    source="docs/catalogue.md; docs/failures.md F2, F39, F65; docs/facts.md K-kubelet-5; KEP-5554",
    negative_control="Plan for another node (fault `change-node` of a scenario): one that admits the pod, or warns.",
    witnesses=(),
)
NODE = "node"
RESTART = "kubelet (restart)"


def admissions(scenario: Scenario, work: Planned) -> tuple[Verdict, ...]:
    """Compare the plan with what the scenario says: a verdict for each pod, change and container, one for warnings."""
    from toolkit.session.planning.expected import expected
    from toolkit.session.planning.retained import retained

    known = {pod["metadata"]["name"] for pod in scenario.pods}
    verdicts = [
        _admission(name, scenario, admitted, reason, message)
        for name, admitted, reason, message in work.admissions
        if name in known
    ]
    verdicts += [_resize(answer, scenario.rejected_resizes.get(answer.pod)) for answer in work.answers]
    if work.restarted is not None:
        verdicts.append(_restart(work.restarted, scenario.refused_restart))
    verdicts += [
        _verdict(one.subject, Outcome.FAILED if one.wrong else Outcome.PASSED, one.wrong or one.found)
        for one in (*retained(scenario, work), *expected(scenario, work))
    ]
    warnings = [warning for plan in work.every_plan for warning in plan.warnings]
    if warnings:
        verdicts.append(_verdict(NODE, Outcome.FAILED, warnings[0]))
    else:
        verdicts.append(_verdict(NODE, Outcome.PASSED, "the plan gives every container what it was promised"))
    return tuple(verdicts)


def _admission(name: str, scenario: Scenario, admitted: bool, reason: str, message: str) -> Verdict:
    if name not in scenario.rejected_pods:
        if admitted:
            return _verdict(name, Outcome.PASSED, "admitted, as it should be")
        return _verdict(name, Outcome.FAILED, f"pod {name} was refused: {reason}: {message}")
    wanted = scenario.rejected_pods[name]
    if admitted:
        return _verdict(name, Outcome.FAILED, f"pod {name} should have been refused")
    if wanted and reason != wanted:
        return _verdict(name, Outcome.FAILED, f"pod {name} was refused with {reason}, not with {wanted}: {message}")
    return _verdict(name, Outcome.PASSED, f"refused with {reason}: {message}")


def _resize(answer: Answer, wanted: str | None) -> Verdict:
    subject = f"{answer.pod} (resize)"
    if wanted is None:
        outcome = Outcome.PASSED if answer.done else Outcome.FAILED
        return _verdict(subject, outcome, f"the resize should be done: {answer.text}")
    if answer.done:
        return _verdict(subject, Outcome.FAILED, f"the resize should not be done ({wanted}), and was")
    if wanted not in answer.text:
        return _verdict(subject, Outcome.FAILED, f"the resize should not be done with {wanted!r}: {answer.text}")
    return _verdict(subject, Outcome.PASSED, f"the resize was answered with {answer.text}")


def _restart(done: Restarted, wanted: str) -> Verdict:
    if done.refusal:
        if wanted and wanted in done.refusal:
            return _verdict(RESTART, Outcome.PASSED, done.refusal)
        return _verdict(RESTART, Outcome.FAILED, f"{done.refusal}{f', not with {wanted!r}' if wanted else ''}")
    if wanted:
        return _verdict(RESTART, Outcome.FAILED, f"it should not have started over the state files ({wanted})")
    if done.evicted:
        pod, reason = done.evicted[0]
        return _verdict(RESTART, Outcome.FAILED, f"it does not admit pod {pod}, which runs, again: {reason}")
    return _verdict(RESTART, Outcome.PASSED, "it starts over the state files and admits every pod again")


def _verdict(subject: str, outcome: Outcome, reason: str) -> Verdict:
    return Verdict(rule=ADMISSION, subject=subject, outcome=outcome, reason=reason, measures={})


def unexpected_admission(scenario: Scenario, work: Planned) -> str | None:
    """Return where the plan admits or refuses other pods than the scenario says; ``None`` if it agrees."""
    for verdict in admissions(scenario, work):
        if verdict.subject != NODE and verdict.outcome is Outcome.FAILED:
            return verdict.reason
    return None
