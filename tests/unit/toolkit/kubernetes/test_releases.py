"""The one table of releases: what its rows answer, and that no other module knows when a behaviour came."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import toolkit
from toolkit.allocation.cpu.options.registry import OPTIONS as CPU_OPTIONS
from toolkit.allocation.topology.options.registry import OPTIONS as TOPOLOGY_OPTIONS
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.kubelet_version import statement, warning
from toolkit.kubernetes.releases import (
    ALLOCATED_STATE,
    API_REPORTS_POOL,
    API_STATES_NODE_0,
    BEHAVIOURS,
    GATE,
    HIGH_ABOVE_REQUEST,
    INIT_CONTAINERS_COUNT,
    MODEL,
    NEWEST,
    NO_HIGH_BY_DEFAULT,
    NO_HIGH_WITHOUT_REQUEST,
    OPTIONS,
    UPSTREAM,
    Behaviour,
    Kind,
    Series,
    Stage,
    least,
)

TABLES = ("releases.py", "known_gates.py", "kubelet_fields.py", "kernel_defects.py")
"""Data by release, of kubelets and of the kernel."""
SOURCES = Path(toolkit.__file__).parent
A_SERIES = re.compile(r"(?:[<>=]=?|:|since=|until=)\s*\(1, [1-9]\d\)")


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        (API_STATES_NODE_0, {(1, 20): True, (1, 22): True, (1, 23): False, NEWEST: False}),
        (API_REPORTS_POOL, {(1, 20): True, (1, 22): True, (1, 23): False, NEWEST: False, (1, 99): False}),
        (ALLOCATED_STATE, {(1, 32): False, (1, 33): True, (1, 99): True}),
        (HIGH_ABOVE_REQUEST, {(1, 26): False, (1, 27): True, NEWEST: True}),
        (NO_HIGH_WITHOUT_REQUEST, {(1, 26): False, (1, 27): True, (1, 36): True, (1, 37): False}),
        (NO_HIGH_BY_DEFAULT, {(1, 36): False, (1, 37): True}),
        (INIT_CONTAINERS_COUNT, {(1, 25): False, (1, 26): None, (1, 28): None, (1, 29): True}),
    ],
    ids=lambda value: value.name if isinstance(value, Behaviour) else "",
)
def test_a_row_answers_for_each_series(row: Behaviour, answers: dict[Series, bool | None]) -> None:
    """Of a series that is not known it is not known; what a kubelet is at least may decide."""
    assert {series: row.of(series) for series in answers} == answers
    assert row.of(None) is None


def test_what_a_kubelet_is_at_least_decides_in_one_direction() -> None:
    """A newer one has what came; it has no more what went."""
    assert (ALLOCATED_STATE.at_least((1, 32)), ALLOCATED_STATE.at_least((1, 33))) == (None, True)
    assert (API_REPORTS_POOL.at_least((1, 22)), API_REPORTS_POOL.at_least((1, 23))) == (None, False)
    assert least({"NodeDeclaredFeatures": True}, "") == (1, 35)
    assert least({}, 'kubelet_cpu_manager_allocation_per_numa{numa_node="0"} 1') == (1, 33)


def test_every_row_has_a_source_and_a_place_in_time() -> None:
    """And says in words what it is; none is newer than what the table claims to know; gates are those of the model."""
    assert len({(row.kind, row.name) for row in BEHAVIOURS}) == len(BEHAVIOURS)
    for row in BEHAVIOURS:
        ends = [end for end in (row.perhaps_since, row.since, row.until) if end is not None]
        assert row.source, row.name
        assert row.what, row.name
        assert ends, row.name
        assert sorted(ends) == ends, row.name
        assert max(ends) <= (UPSTREAM if row.kind is Kind.DECISION else NEWEST), row.name
    for gate in GATE.values():
        steps = [step.since for step in gate.steps]
        assert sorted(set(steps)) == steps, gate.name
        assert steps[-1] <= NEWEST, gate.name
        assert set(gate.needs) <= GATE.keys(), gate.name


def test_no_other_module_compares_series() -> None:
    """A module that depends on a release asks a row."""
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name not in TABLES
        for line in path.read_text().splitlines()
        if A_SERIES.search(line) and "SERIES: Series" not in line
    ]
    assert found == []


def test_gates_of_a_series() -> None:
    """What came later is off unless it is given; a release refuses what it does not know, or has locked."""
    old = FeatureGates({"PodLevelResources": True}).of_series((1, 32))
    assert (old["PodLevelResources"], old["DisableCPUQuotaWithExclusiveCPUs"]) == (True, False)
    assert FeatureGates().of_series(NEWEST).on - FeatureGates().on == {"MemoryQoS"}
    managers = FeatureGates({"PodLevelResourceManagers": True})
    assert managers.of_series((1, 35)).problem() == "unrecognized feature gate: PodLevelResourceManagers"
    assert managers.of_series((1, 37)).problem() is None
    resize = FeatureGates({"InPlacePodVerticalScaling": False})
    assert resize.of_series((1, 34)).problem() is None
    assert "locked to true" in (resize.of_series((1, 37)).problem() or "")
    alone = FeatureGates({"InPlacePodVerticalScalingExclusiveCPUs": True, "InPlacePodVerticalScaling": False})
    assert alone.of_series((1, 33)).problem() is None, "gates do not need others yet"


_ON = {
    "CPUManagerPolicyBetaOptions": (1, 26),
    "TopologyManagerPolicyBetaOptions": (1, 28),
    "SidecarContainers": (1, 29),
    "KubeletCgroupDriverFromCRI": (1, 31),
    "DisableCPUQuotaWithExclusiveCPUs": (1, 33),
    "InPlacePodVerticalScaling": (1, 33),
    "PodLevelResources": (1, 34),
    "DynamicResourceAllocation": (1, 34),
    "InPlacePodLevelResourcesVerticalScaling": (1, 36),
    "NodeDeclaredFeatures": (1, 36),
    "CustomCPUCFSQuotaPeriod": (1, 36),
    "MemoryQoS": (1, 37),
}
"""As the documentation's table of feature gates has them."""


@pytest.mark.parametrize("minor", range(26, 38))
def test_gates_that_are_on_by_default(minor: int) -> None:
    """Of each release from v1.26 to v1.37."""
    assert FeatureGates(series=(1, minor)).on == {name for name, since in _ON.items() if since <= (1, minor)}


_STAGES = {
    "full-pcpus-only": {26: Stage.BETA, 32: Stage.BETA, 33: Stage.GA},
    "distribute-cpus-across-numa": {26: Stage.ALPHA, 32: Stage.ALPHA, 33: Stage.BETA, 37: Stage.BETA},
    "align-by-socket": {26: Stage.ALPHA, 37: Stage.ALPHA},
    "distribute-cpus-across-cores": {30: None, 31: Stage.ALPHA, 37: Stage.ALPHA},
    "strict-cpu-reservation": {31: None, 32: Stage.ALPHA, 33: Stage.BETA, 35: Stage.GA},
    "prefer-align-cpus-by-uncorecache": {31: None, 32: Stage.ALPHA, 34: Stage.BETA, 36: Stage.GA},
    "prefer-closest-numa-nodes": {26: Stage.ALPHA, 28: Stage.BETA, 32: Stage.GA},
    "max-allowable-numa-nodes": {30: None, 31: Stage.BETA, 35: Stage.GA},
}


@pytest.mark.parametrize("name", _STAGES)
def test_options_of_a_series(name: str) -> None:
    """How mature an option is in a release decides which gate it needs there."""
    assert {minor: OPTIONS[name].of((1, minor)) for minor in _STAGES[name]} == _STAGES[name]
    assert OPTIONS.keys() == _STAGES.keys() == {*CPU_OPTIONS, *TOPOLOGY_OPTIONS}
    assert OPTIONS[name].of(MODEL) is not None


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("v1.36.3", "other v1.36 releases are taken to agree"),
        (
            "v1.20.2",
            "the decisions of v1.20.2 may differ. Gates that it has off by default are off unless",
        ),
        ("v1.35.9-eks-1", "Decides as kubelet v1.36.2: the decisions of v1.35.9-eks-1 may differ."),
        ("v1.37.0", "Decides as kubelet v1.36.2: the decisions of v1.37.0 may differ."),
        ("v1.38.0", "v1.38.0 is newer than what is known here, and is answered as v1.37; its decisions may differ"),
        ("v2.0.0", "v2.0.0 is newer than what is known here"),
        ("v0.0.0-master", "built from no release, and is answered as v1.36"),
        ("", "The kubelet's version is not known (--kubelet-version names it)"),
    ],
)
def test_a_plan_says_which_kubelet_answers(version: str, said: str) -> None:
    """Each version gets its own words: one that is unknown is not passed off as the model's."""
    assert said in statement(version)
    assert (statement(version) == statement(None)) is (version == "v1.36.3")
    assert version in ("", "v1.36.3") or version in warning(version, ())
