"""Which scenarios fit a machine whose cores have different numbers of threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.toolkit.scenario_builder import container, pod, scenario
from tests.unit.toolkit.session.smt_machine import smt_machine
from toolkit.model.scenario import Requirements
from toolkit.scenario_file import load_catalogue
from toolkit.session.planning import fitting
from toolkit.session.planning.planned import plan_scenario

CATALOGUE = {one.name: one for one in load_catalogue()}


@pytest.mark.parametrize(
    ("requires", "lacks"),
    [
        (Requirements(cores=3, threads_per_core=2), None),
        (Requirements(cores=4), None),
        (Requirements(cores=4, threads_per_core=2), "4 cores of 2 threads (this machine has 3)"),
    ],
    ids=["enough of them", "one of any kind", "one too many"],
)
def test_threads_are_counted_core_by_core(requires: Requirements, lacks: str | None) -> None:
    """A sibling that is offline is missing in its own core, and in no other."""
    found = fitting.unmet(requires, smt_machine(4, offline="7"))

    assert found is None if lacks is None else lacks in str(found)


@pytest.mark.parametrize(
    ("name", "offline", "why"),
    [
        ("smt-admit", "", None),
        ("smt-admit", "7", "takes each core of this machine for one of 1 thread, and admits pod odd"),
        ("distribute-across-cores", "7", None),
        ("exclusive-two", "7", None),
    ],
)
def test_a_scenario_is_skipped_where_the_kubelet_shows_something_else(name: str, offline: str, why: str | None) -> None:
    """By the plan: with an offline sibling the kubelet refuses no half cores, and says nothing of it."""
    found = fitting.why_not(CATALOGUE[name], smt_machine(4, offline))

    assert found is None if why is None else why in str(found)


def test_a_plan_that_breaks_what_is_judged_is_not_run() -> None:
    """Half a core under full-pcpus-only, or reserved CPUs under strict reservation: a rule would fail at once."""
    one = scenario(pod("own", container("main", "2")))
    strict = {"cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}

    assert fitting.why_not(one, smt_machine(4, offline="7")) is None
    why = fitting.why_not(replace(one, kubelet=one.kubelet | strict), smt_machine(4, offline="7"))
    assert "reserved-cpus-owned, own" in str(why)
    guest = replace(one, kubelet=one.kubelet | strict, pods=(*one.pods, pod("web", container("main"))), leaves=("own",))
    assert "reserved-cpus-owned, own" in str(fitting.why_not(guest, smt_machine(4, offline="7")))


def test_a_core_is_that_with_the_most_threads() -> None:
    """The amount ``=core`` is a whole core where there is one."""
    plan = plan_scenario(scenario(pod("own", container("main", "=core"))), smt_machine(4, offline="7"))

    assert len(plan.pods[0].containers[0].cpus) == 2
