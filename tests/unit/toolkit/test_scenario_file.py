"""Scenario files: the shipped catalogue reads, and wrong files are refused in one line."""

from __future__ import annotations

import pytest

from toolkit.errors import InputError
from toolkit.model.scenario import Tier
from toolkit.scenario_file import load_catalogue, parse_scenario
from toolkit.session.planning.admissions import ADMISSION
from validators.registry import RULES

GOOD = """
apiVersion: pinproof/v1
kind: Scenario
name: one
title: One pod
pods:
  - {apiVersion: v1, kind: Pod, metadata: {name: db}, spec: {containers: [{name: main}]}}
workloads:
  db/main: [{kind: spin, threads: 2}]
"""


def test_the_catalogue_reads_and_every_scenario_breaks_something() -> None:
    """Each shipped scenario parses, has a unique name equal to its file's, and carries a negative control."""
    catalogue = load_catalogue()

    names = [scenario.name for scenario in catalogue]
    assert sorted(set(names)) == sorted(names)
    assert [scenario.name for scenario in catalogue if not scenario.negative_controls] == []


def test_every_control_names_a_rule_that_exists() -> None:
    """A negative control of a rule that is never judged could never be caught."""
    rules = {rule.id for rule in RULES} | {ADMISSION}

    named = {control.rule for scenario in load_catalogue() for control in scenario.negative_controls}

    assert named <= rules


def test_every_rule_is_broken_by_some_scenario() -> None:
    """Each rule that a scenario can give something to judge has a negative control in the catalogue."""
    named = {control.rule for scenario in load_catalogue() for control in scenario.negative_controls}

    assert {rule.id for rule in RULES} - named == set()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("name: one", "name: One/..", "name: "),
        ("threads: 2", "threads: -1", "threads"),
        ("threads: 2", "threads: 0x2", "line 9: workloads.db/main[0].threads: 0x2; expected a plain decimal number"),
        ("title: One pod", "title: x\nrequires: {cpus: 1_0}", "line 6: requires.cpus: 1_0; expected a plain decimal"),
        ("title: One pod", "title: x\ndurationSeconds: 1:0", "durationSeconds: 1:0; expected a plain decimal"),
        ("kind: spin", "kind: party", "kind"),
        ("db/main: ", "db/other: ", "container 'db/other'"),
        ("metadata: {name: db}", "metadata: {}", "pods[0].metadata.name: nothing"),
        ("metadata: {name: db}", "metadata: {name: ../../x}", "pods[0].metadata.name: '../../x'; expected a name"),
        ("{name: main}", "{name: a/b}", "pods[0].spec.containers[0].name: 'a/b'; expected a name"),
        ("containers: [", "containers: 7, x: [", "pods[0].spec.containers: 7; expected a list of containers"),
        ("title: One pod", "titel: One pod", "title is missing"),
        ("pods:", "pods: []\nfoo:", "pods: "),
        ("workloads:", "arrivals: [web]\nworkloads:", "arrivals: pod 'web'"),
        ("workloads:", "departures: [db/x]\nworkloads:", "departures: container 'db/x'"),
        ("workloads:", "restarts: [db]\nworkloads:", "restarts: pod 'db'"),
        ("workloads:", "pileUps: [db/x]\nworkloads:", "pileUps: container 'db/x'"),
        ("workloads:", "resizes: [{metadata: {name: web}, spec: {}}]\nworkloads:", "resizes: pod 'web'"),
        (
            "workloads:",
            "resizes: [{metadata: {name: db}, spec: {containers: [{name: x}]}}]\nworkloads:",
            "resizes: container 'db/x'",
        ),
        ("workloads:", "rejectedResizes: {db: Infeasible}\nworkloads:", "rejectedResizes: pod 'db'"),
        ("workloads:", "resizeBehaviour: v2\nworkloads:", "resizeBehaviour"),
        ("workloads:", "transitionLimitMs: -1\nworkloads:", "transitionLimitMs"),
        ("workloads:", "noiseBudgetNsPerS: .nan\nworkloads:", "noiseBudgetNsPerS"),
        ("workloads:", "rejectedPods: {x: Evil}\nworkloads:", "rejectedPods: pod 'x'"),
        ("workloads:", "expect: {db/x: {cores: 1}}\nworkloads:", "expect: container 'db/x'; expected one of db/main"),
        ("workloads:", "rejectedPods: [db]\nexpect: {db/main: {cores: 1}}\nworkloads:", "expect: container 'db/main'"),
        ("workloads:", "expect: {db/main: {sameAs: db/x}}\nworkloads:", "expect.sameAs: container 'db/x'"),
        (
            "workloads:",
            "expect: {db/main: {}}\nworkloads:",
            "expect.db/main: one of cpus, sameAs",
        ),
        (
            "workloads:",
            "expect: {db/main: {cpus: 1-x}}\nworkloads:",
            'expect.db/main.cpus: a CPU list in quotes such as "1,4-5"',
        ),
        ("workloads:", "expect: {db/main: {cpus: ''}}\nworkloads:", "a CPU list in quotes"),
        ("workloads:", "expect: {db/main: {cpus: 1}}\nworkloads:", "expect.db/main.cpus: a CPU list in quotes"),
        ("workloads:", "expect: {db/main: {sameAs: db/main}}\nworkloads:", "expected another container"),
        ("workloads:", "expect: {db/main: {cores: true}}\nworkloads:", "expect.db/main.cores"),
        ("workloads:", "expect: {db/main: {numaNodes: 0}}\nworkloads:", "expect.db/main.numaNodes"),
        ("workloads:", "expect: {db/main: {count: numa}}\nworkloads:", "expect.db/main.count"),
        ("workloads:", "expect: {db/main: {mems: all}}\nworkloads:", "a list of NUMA nodes in quotes such as"),
        ("workloads:", "expect: {db/main: {memoryMax: x}}\nworkloads:", "expect.db/main.memoryMax"),
        ("workloads:", "expect: {db/main: {nodes: 1}}\nworkloads:", "expect.db/main.nodes"),
        ("workloads:", "tier: some\nworkloads:", "tier"),
        ("workloads:", "requires: {cpus: 0}\nworkloads:", "cpus"),
    ],
)
def test_refuses_in_one_line(old: str, new: str, complaint: str) -> None:
    """Whatever is wrong is told in one line that names the file."""
    assert parse_scenario(GOOD, "one.yaml").name == "one"

    with pytest.raises(InputError) as caught:
        parse_scenario(GOOD.replace(old, new), "one.yaml")

    assert complaint in str(caught.value)
    assert str(caught.value).startswith("one.yaml: ")


def test_rejected_pods_with_and_without_reasons() -> None:
    """A list says only that pods are refused, a mapping says why."""
    listed = parse_scenario(GOOD + "rejectedPods: [db]\n", "one.yaml")
    reasoned = parse_scenario(GOOD + "rejectedPods: {db: SMTAlignmentError}\n", "one.yaml")

    assert (listed.rejected_pods, reasoned.rejected_pods) == ({"db": ""}, {"db": "SMTAlignmentError"})


def test_controls_carry_settings_pods_and_needs() -> None:
    """A control may bring settings and pods of its own, name their containers, and need more than its scenario."""
    added = "{apiVersion: v1, kind: Pod, metadata: {name: more}, spec: {containers: [{name: c}]}}"
    text = (
        f"{GOOD}tier: core\nnegativeControls:\n"
        "  - {rule: applied, fault: change-node, target: more/c, kubelet: {cpuManagerPolicy: null},"
        f" pods: [{added}], requires: {{numaNodes: 2}}}}\n"
    )

    scenario = parse_scenario(text, "one.yaml")

    control = scenario.negative_controls[0]
    assert (
        control.fault,
        control.kubelet,
        control.requires.numa_nodes,
    ) == ("change-node", {"cpuManagerPolicy": None}, 2)
    assert control.pods[0]["metadata"]["name"] == "more"
    assert Tier.CORE is scenario.tier


def test_a_pod_in_a_scenario_is_read_as_a_kubelet_reads_it() -> None:
    """YAML 1.1: ``0644`` is common in manifests, and what a scenario holds of them may be a copy."""
    volume = "volumes: [{name: v, configMap: {name: c, defaultMode: 0644}}]"

    scenario = parse_scenario(GOOD.replace("spec: {", "spec: {" + volume + ", "), "file")

    assert scenario.pods[0]["spec"]["volumes"][0]["configMap"]["defaultMode"] == 0o644
