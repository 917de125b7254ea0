"""Nodes that decide otherwise than a scenario shows: the rule ``admission`` must fail, for the claims cannot.

Claims are made from the plan, so that a plan with other CPUs passes every rule that judges what runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.harness.catalogue import dealt, fitting, machine, scenarios
from tests.unit.catalogue.flips import flips
from tests.unit.catalogue.moved import with_cpus
from toolkit.allocation.node import Node
from toolkit.kubernetes.pod import Pod
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import ResizeBehaviour
from toolkit.model.verdict import Outcome
from toolkit.session.planning.admissions import admissions
from toolkit.session.planning.planned import Planned, plan_all
from toolkit.session.planning.resizing import containers

PLACES = {name: place for place, names in dealt().items() for name in names}

OPTIONS = (
    ("align-by-socket", "align-by-socket=true", "db/main"),
    ("distribute-across-cores", "distribute-cpus-across-cores=true", "db/main"),
    ("non-strict-reservation", "cpuManagerPolicyOptions", "web/app"),
    ("numa-closest", "prefer-closest-numa-nodes=true", "db/main"),
    ("numa-packed", "distribute-cpus-across-numa=false", "db/main"),
    ("smt-uncore", "prefer-align-cpus-by-uncorecache=true", "db/main"),
    ("smt-uncore-off", "prefer-align-cpus-by-uncorecache=false", "db/main"),
    ("strict-option-off", "strict-cpu-reservation=false", "web/app"),
    ("strict-uncore", "prefer-align-cpus-by-uncorecache=true", "db/main"),
    ("topology-best-effort", "topologyManagerPolicy=best-effort", "db/main"),
    ("topology-best-effort-many", "topologyManagerPolicy=best-effort", "pair/b"),
    ("topology-none", "topologyManagerPolicy=none", "db/main"),
    ("topology-none-many", "topologyManagerPolicy=none", "pair/b"),
    ("uncore-odd", "prefer-align-cpus-by-uncorecache=true", "db/main"),
    ("uncore-off", "prefer-align-cpus-by-uncorecache=false", "db/two"),
)
"""Scenario, the setting that its node does not keep, and whose CPUs are then other ones."""


def failed(name: str, work: Planned) -> set[str]:
    """Return about whom the rule ``admission`` fails when a scenario's node decides so."""
    return {v.subject for v in admissions(scenarios()[name], work) if v.outcome is Outcome.FAILED}


def planned(name: str) -> Planned:
    """Return what the model decides on the lab's machine of a scenario."""
    return plan_all(scenarios()[name], machine(PLACES[name]))


@pytest.mark.parametrize(("name", "setting", "subject"), OPTIONS, ids=[name for name, _, _ in OPTIONS])
def test_a_node_that_ignores_its_setting_is_noticed(name: str, setting: str, subject: str) -> None:
    """The same scenario, decided by a node on which the setting is the other way round."""
    scenario = scenarios()[name]
    if setting == "cpuManagerPolicyOptions":
        strict = {**scenario.kubelet, setting: {"strict-cpu-reservation": "true"}}
        other = replace(scenario, kubelet=strict)
    else:
        other = dict(flips(scenario))[setting]

    assert failed(name, planned(name)) == set()
    assert subject in failed(name, plan_all(other, machine(PLACES[name])))


@pytest.mark.parametrize("name", ["kubelet-restart"])
def test_a_kubelet_that_moves_what_runs_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted one that forgets its state and gives CPUs anew, from the other end."""
    readmit = Node.readmit

    def anew(self: Node) -> Iterator[tuple[Pod, object]]:
        state, reserved = self.cpu_state, self.cpu_policy.reserved
        free = iter(sorted(self.machine.cpus - reserved, reverse=True))
        entries = {
            uid: {one: CpuSet.of(next(free) for _ in cpus) for one, cpus in own.items()}
            for uid, own in state.entries.items()
        }
        owned = CpuSet.union(cpus for own in entries.values() for cpus in own.values())
        self.cpu_state = state._replace(entries=entries, default=self.machine.cpus - owned)
        yield from readmit(self)

    monkeypatch.setattr(Node, "readmit", anew)

    assert failed(name, planned(name)) == {"db/main (restart)"}


@pytest.mark.parametrize("name", ["kubelet-restart-gate-off", "kubelet-restart-strict"])
def test_a_container_that_shares_keeps_the_pool_where_no_kubelet_starts(name: str) -> None:
    """Nothing is there that could write a CPU set."""
    work = planned(name)
    assert work.restarted is not None
    shrunk = _without_a_cpu(work.plan, "web/app")

    assert work.restarted.refusal
    assert failed(name, replace(work, plan=shrunk)) == {"web/app (restart)"}


def test_a_resize_that_moves_an_owner_is_noticed() -> None:
    """v1.36 moves no container: not the pod that asked, as KEP-5554 would."""
    scenario = replace(scenarios()["resize-unmoved"], resize_behaviour=ResizeBehaviour.KEP_5554)

    work = plan_all(scenario, machine(PLACES[scenario.name]))

    assert work.resized is not None
    assert str(containers(work.resized)["db/main"][1].cpus) == "1-2"
    assert failed(scenario.name, work) == {"db/main", "db/main (resize)"}
    # Where KEP-5554 is expected only the number of CPUs that the scenario states is another one.
    assert {v.subject for v in admissions(scenario, work) if v.outcome is not Outcome.PASSED} == {"db/main"}


def test_a_resize_that_changes_the_cpu_of_the_creation_is_noticed() -> None:
    """As KEP-5554 plans it CPUs are added to those that are there: another two are none of these."""
    work = planned("resize-grow")
    assert work.resized is not None
    elsewhere = with_cpus(work.resized, "db/main", CpuSet.parse("2-3"))

    assert failed("resize-grow", work) == set()
    assert failed("resize-grow", replace(work, resized=elsewhere)) == {"db/main (resize)"}


def test_an_app_container_that_does_not_get_the_cpu_of_its_init_container_is_noticed() -> None:
    """Though another one is free for it."""
    work = planned("init-reuse")

    assert failed("init-reuse", replace(work, plan=with_cpus(work.plan, "db/main", CpuSet.of([2])))) == {"db/main"}


@pytest.mark.parametrize("name", ["kubelet-restart", "kubelet-restart-gate-off", "kubelet-restart-strict"])
def test_a_restart_is_shown_where_something_could_move(name: str) -> None:
    """On two CPUs there is one to own, and a kubelet that gives anew gives the same."""
    work = planned(name)

    assert name not in fitting("pair")
    assert len(work.plan.default_cpus - work.plan.reserved_cpus) >= 1


def _without_a_cpu(plan: Plan, name: str) -> Plan:
    cpus = containers(plan)[name][1].cpus
    return with_cpus(plan, name, cpus - CpuSet.of([max(cpus)]))
