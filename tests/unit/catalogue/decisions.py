"""What a node decided, turned round in the plan itself: the rule ``admission`` must notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from toolkit.model.plan import Plan
from toolkit.session.planning.admissions import RESTART
from toolkit.session.planning.planned import Planned
from toolkit.session.planning.restarting import Restarted

REFUSAL = "refusal"


def decisions(work: Planned) -> Iterator[tuple[str, Planned]]:
    """Yield for each refusal that a scenario promises: the subject of its verdict, and a node that does not refuse."""
    for name in work.scenario.rejected_pods:
        before = None if work.before is None else _admitted(work.before, name)
        yield name, replace(work, plan=_admitted(work.plan, name), before=before)
    for name in work.scenario.rejected_resizes:
        answers = tuple(replace(one, done=True) if one.pod == name else one for one in work.answers)
        yield f"{name} (resize)", replace(work, answers=answers)
    if work.scenario.refused_restart:
        yield RESTART, replace(work, restarted=Restarted(before=work.plan))


def _admitted(plan: Plan, name: str) -> Plan:
    return replace(plan, pods=tuple(replace(pod, admitted=True) if pod.name == name else pod for pod in plan.pods))
