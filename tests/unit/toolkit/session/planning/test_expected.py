"""Which CPUs a scenario expects, and what keeps them: what is wrong is one line, by the machine's own groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab.harness.catalogue import machine as lab
from tests.unit.toolkit.scenario_builder import container, machine, pod, resizing, scenario
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import Expectation, Requirements
from toolkit.session.planning.expected import expected
from toolkit.session.planning.fitting import unmet
from toolkit.session.planning.planned import Planned, plan_all
from toolkit.session.planning.retained import retained


def given(plan: Plan, cpus: str, number: int = 0) -> Plan:
    """Return the plan with other CPUs for the first container of a pod."""
    pods = list(plan.pods)
    one = replace(pods[number].containers[0], cpus=CpuSet.parse(cpus))
    pods[number] = replace(pods[number], containers=(one, *pods[number].containers[1:]))
    return replace(plan, pods=tuple(pods))


def on_two_sockets(cpus: str) -> Planned:
    """Return a plan for two sockets of two nodes of two cores, that gives a container these CPUs."""
    work = plan_all(scenario(pod("db", container("c", "1"))), lab("two-sockets"))
    return replace(work, plan=given(work.plan, cpus))


@pytest.mark.parametrize(
    ("cpus", "wanted", "wrong"),
    [
        ("4-7", Expectation(cpus="4-7"), ""),
        ("4-7", Expectation(cpus="4-6"), "expected 4-6"),
        ("0-15", Expectation(cpus="online"), ""),
        ("1-15", Expectation(cpus="online"), "expected 0-15"),
        ("2-3", Expectation(cores=1), ""),
        ("1-2", Expectation(cores=1), "on 2 cores; expected 1"),
        ("4-7", Expectation(numa_nodes=1), ""),
        ("3-4", Expectation(numa_nodes=1), "on 2 NUMA nodes; expected 1"),
        ("3-4", Expectation(numa_nodes=3), "on 2 NUMA nodes; expected 3"),
        ("8-15", Expectation(sockets=1), ""),
        ("7-8", Expectation(sockets=1), "on 2 sockets; expected 1"),
        ("3-4", Expectation(uncore_caches=2), ""),
        ("4-5", Expectation(uncore_caches=2), "on 1 level 3 cache; expected 2"),
        ("1-4", Expectation(whole_numa_nodes=1), ""),
        ("1-2,4-6", Expectation(whole_numa_nodes=1), "it has 0 NUMA nodes wholly; expected 1"),
        ("8,12", Expectation(nearest_numa_nodes=True), ""),
        ("4,8", Expectation(nearest_numa_nodes=True), "on NUMA nodes that are not nearest to each other"),
        ("20", Expectation(sockets=1), "the socket of some is not known; expected 1 socket"),
        ("4-7", Expectation(count=4, quota_us=-1, pod_quota_us=-1, shares=1024, memory_max=1 << 26), ""),
        ("4-7", Expectation(count=3), "number of CPUs 4; expected 3"),
        ("4-7", Expectation(count="=numa", shares="=numa/2*512", memory_max="=67108864"), ""),
        ("4-6", Expectation(count="=numa-1", shares="=socket/2*128+512"), ""),
        ("4-7", Expectation(count="=numa-1"), "number of CPUs 4; expected 3"),
        ("4-7", Expectation(shares="=core*1024"), "weight 1024; expected 2048"),
        ("4-7", Expectation(mems="any"), ""),
        ("4-7", Expectation(mems="cpus"), "memory nodes any; expected 1"),
        ("4-7", Expectation(mems="one"), "memory nodes any; expected one"),
        ("4-7", Expectation(quota_us=100_000), "quota none; expected 100000"),
        ("4-7", Expectation(pod_quota_us=100_000), "quota of the pod none; expected 100000"),
        ("4-7", Expectation(shares=2048), "weight 1024; expected 2048"),
        ("4-7", Expectation(memory_max=-1), "memory.max 67108864; expected none"),
        ("4-7", Expectation(mems="1"), "memory nodes any; expected 1"),
        ("4,8", Expectation(sockets=1, numa_nodes=1), "on 2 NUMA nodes; expected 1; on 2 sockets; expected 1"),
    ],
)
def test_cpus_are_held_against_the_machine(cpus: str, wanted: Expectation, wrong: str) -> None:
    """Node 0 has the reserved CPU, which no container can own."""
    work = on_two_sockets(cpus)

    (found,) = expected(replace(work.scenario, expect={"db/c": wanted}), work)

    assert found.subject == "db/c"
    if wrong:
        assert found.wrong.startswith(f"db/c has CPUs {cpus}: {wrong}")
    else:
        assert (found.wrong, found.found) == ("", f"has CPUs {cpus}, as expected")


@pytest.mark.parametrize("text", ["=numa*", "=nodes", "=core-numa"])
def test_an_amount_that_is_none_is_refused_in_one_line(text: str) -> None:
    """Names where it stands."""
    work = on_two_sockets("4-7")
    wanted = {"db/c": Expectation(count=text)}

    with pytest.raises(InputError, match=r"scenario s: expect\.db/c: "):
        list(expected(replace(work.scenario, name="s", expect=wanted), work))


def test_the_cpus_of_another() -> None:
    """An app container and its init container, and one that nothing was given to."""
    work = plan_all(scenario(pod("db", container("c", "1"), init=(container("i", "1"),))), machine(4))
    wanted = replace(work.scenario, expect={"db/c": Expectation(same_as="db/i"), "web/c": Expectation(cpus="1")})

    same, absent = expected(wanted, work)

    assert same.wrong == ""
    assert absent.wrong == "web/c has no CPUs: its pod was not admitted"
    moved = replace(work, plan=given(work.plan, "2"))
    assert next(expected(wanted, moved)).wrong != ""


def test_an_owner_keeps_its_cpus_beside_a_departure() -> None:
    """A pod that leaves is not asked, and one that shares gets what is freed."""
    pods = (pod("db", container("c", "1")), pod("gone", container("c", "1")), pod("web", container("c")))
    work = plan_all(scenario(*pods, departures=("gone",)), machine(4))

    found = list(retained(work.scenario, work))
    moved = next(retained(work.scenario, replace(work, plan=given(work.plan, "3"))))

    assert [(one.subject, one.wrong) for one in found] == [("db/c (departures)", "")]
    assert moved.wrong == "db/c had CPUs 1 and has 3; expected the same"


@pytest.mark.parametrize(
    ("after", "wrong"),
    [("1-2", False), ("1", False), ("2", True), ("2-3", True)],
    ids=["added to", "the same", "another", "others"],
)
def test_a_resize_adds_cpus_or_takes_some(after: str, wrong: bool) -> None:
    """KEP-5554; a pod that did not ask keeps its own."""
    work = plan_all(resizing(), machine(4))
    assert work.resized is not None

    (found,) = retained(work.scenario, replace(work, resized=given(work.resized, after)))

    assert (found.subject, bool(found.wrong)) == ("db/c (resize)", wrong)
    refused = replace(work, answers=tuple(replace(one, done=False) for one in work.answers))
    assert [bool(one.wrong) for one in retained(refused.scenario, refused)] == [True]


def test_machines_are_asked_for_their_nodes() -> None:
    """Nodes of a socket, CPUs of a node: of the smallest."""
    two = lab("two-sockets")

    assert unmet(Requirements(numa_nodes_per_socket=2, cpus_per_numa_node=4), two) is None
    assert unmet(Requirements(numa_nodes_per_socket=3), two) == "needs 3 NUMA nodes per socket (this machine has 2)"
    assert unmet(Requirements(cpus_per_numa_node=5), two) == "needs 5 CPUs per NUMA node (this machine has 4)"
