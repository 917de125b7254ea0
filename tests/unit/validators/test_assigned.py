"""Rule layers-agree: the kubelet's counters of assigned containers against those that came into its state file."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.toolkit.sources.edited import DATA
from tests.unit.validators.evidence_builder import SECOND, claim_set, cpus, evidence, one_owner
from toolkit.model.evidence.following import ALLOCATION_ERRORS, ASSIGNMENTS, KUBELET_START, Following, Gauges
from toolkit.model.picture import Picture
from toolkit.model.state_files import CpuEntry, CpuStateFile
from toolkit.sources.kubelet.gauges import Entered, manager_gauges
from validators.layers import metrics
from validators.rules import layers_agree

COUNT = "kubelet_cpu_manager_exclusive_cpu_allocation_count"


def read(at_s: float, node: int, pod: int, to_s: float | None = None, started: float = 5, **counted: float) -> Gauges:
    """A reading, with how many came into the file by then, and what the kubelet has counted."""
    samples = {f'{ASSIGNMENTS}{{assignment_type="{kind}",resource_name="cpu"}}': n for kind, n in counted.items()}
    return Gauges(
        values={COUNT: 2.0, KUBELET_START: started} | samples,
        assigned=cpus("2-3"),
        shared=cpus("1"),
        entered={"node": node, "pod": pod},
        since_ns=round(at_s * SECOND),
        until_ns=round((at_s if to_s is None else to_s) * SECOND),
    )


def judged(*gauges: Gauges) -> tuple[str, str]:
    found = evidence(following=Following(source="kubelet"), gauges=gauges)
    (verdict,) = (row for row in layers_agree.RULE.check(claim_set(), found) if row.subject == "kubelet metrics")
    return verdict.outcome.value, verdict.reason


@pytest.mark.parametrize(
    ("gauges", "outcome", "words"),
    [
        pytest.param(
            [read(1, 0, 0, node_exclusive=1), read(4, 0, 0, node_exclusive=1)], "passed", ASSIGNMENTS, id="none"
        ),
        pytest.param(
            [read(1, 0, 0, 5, node_exclusive=1), read(6, 2, 0, 9, node_exclusive=3)], "passed", ASSIGNMENTS, id="two"
        ),
        pytest.param(
            [read(1, 0, 0, 5, node_exclusive=1), read(6, 2, 0, 9, node_exclusive=9)], "passed", "", id="unseen"
        ),
        pytest.param(
            [read(1, 0, 0, 5, node_exclusive=1), read(6, 2, 0, 9, node_exclusive=2)],
            "failed",
            "container_assignments of CPUs (node_exclusive) grew by 1, 2 containers came into the state file",
            id="one-uncounted",
        ),
        pytest.param(
            [read(1, 0, 0, 5), read(6, 0, 3, 9, pod_exclusive=1, pod_shared=1)],
            "failed",
            "(pod_exclusive, pod_shared) grew by 2, 3 containers",
            id="of-a-budget",
        ),
        pytest.param(
            [read(1, 0, 0, 5), read(6, 0, 3, 9, pod_exclusive=1, pod_shared=2)], "passed", "", id="first-of-all"
        ),
        pytest.param([read(1, 0, 0, 5), read(6, 2, 3, 9)], "passed", "", id="gate-off"),
        pytest.param(
            [read(1, 0, 0, 5, node_exclusive=7), read(6, 2, 0, 9, started=90, node_exclusive=1)],
            "passed",
            "",
            id="restart",
        ),
        pytest.param(
            [read(1, 0, 0, 5, node_exclusive=1), read(6, 1, 0, 9, started=6, node_exclusive=1)],
            "failed",
            "",
            id="its-clock",
        ),
        pytest.param(
            [read(1, 0, 0, 5, node_exclusive=1), read(6, 1, 0, node_exclusive=1), read(7, 1, 0, 9, node_exclusive=2)],
            "passed",
            "",
            id="a-moment-later",
        ),
        pytest.param(
            [read(1, 0, 0, node_exclusive=2), read(4, 1, 0, 9, node_exclusive=2)], "passed", "", id="counted-at-once"
        ),
        pytest.param(
            [read(1, 0, 0, node_exclusive=2), read(4, 1, 0, node_exclusive=3), read(5, 3, 0, 9, node_exclusive=3)],
            "failed",
            "grew by 1, 2 containers",
            id="after-two",
        ),
        pytest.param(
            [read(1, 0, 0, 5, exclusive_from_node=1), read(6, 2, 0, 9, exclusive_from_node=1)],
            "passed",
            "",
            id="other-words",
        ),
    ],
)
def test_what_came_must_have_been_counted(gauges: list[Gauges], outcome: str, words: str) -> None:
    """A counter of one life of the kubelet may grow by more, never by less; without the gate nothing is compared."""
    found, reason = judged(*gauges)
    assert found == outcome
    assert words.removeprefix("resource_manager_") in reason


def test_without_the_gate_the_counters_are_not_named() -> None:
    """Nothing is said to agree that was not there."""
    assert "assignments" not in judged(read(1, 0, 0, 5), read(6, 0, 0, 9))[1]


def moment(name: str) -> tuple[dict[str, float], CpuStateFile]:
    """Metrics and state file of a recorded node."""
    (path,) = DATA.glob(f"{name}*.tar.gz")
    with tarfile.open(path) as archive:
        texts = {
            one.name.rpartition("/")[2]: archive.extractfile(one).read().decode()  # type: ignore[union-attr]
            for one in archive
            if one.name.endswith(("metrics_managers.txt", "cpu_manager_state"))
        }
    state: Mapping[str, Mapping[str, Mapping[str, str]]] = json.loads(texts["cpu_manager_state"])
    file = CpuStateFile(
        text="",
        policy="static",
        checksum_ok=True,
        entries=tuple(
            CpuEntry(pod_uid=uid, container=name, cpus=cpus)
            for uid, own in state["entries"].items()
            for name, cpus in own.items()
        ),
        pods=tuple(CpuEntry(pod_uid=uid, container="", cpus=own["cpuSet"]) for uid, own in state["podEntries"].items()),
    )
    return manager_gauges(texts["metrics_managers.txt"]), file


def test_a_real_kubelet_counts_what_comes_into_its_state_file() -> None:
    """Three moments: a pod with a budget and two shared containers came, then an init container with its main."""
    entered, found = Entered(), []
    for name in ("B2-2", "B2-3", "B2-4"):
        values, file = moment(name)
        kinds = {
            kind: values.get(f'{ASSIGNMENTS}{{assignment_type="{kind}",resource_name="cpu"}}', 0) for kind in KINDS
        }
        found.append((entered.of(file), kinds["node_exclusive"], kinds["pod_exclusive"] + kinds["pod_shared"]))
    (_, node_0, pod_0), *later = found
    assert [(came["node"], came["pod"]) for came, _, _ in later] == [(n - node_0, p - pod_0) for _, n, p in later]
    assert later[-1][0] == {"node": 2, "pod": 2}


KINDS = ("node_exclusive", "pod_exclusive", "pod_shared")


def test_a_file_that_says_nothing_counts_nothing() -> None:
    """What is there when it speaks again came meanwhile; what goes and comes again is counted again."""
    entered = Entered()
    (_, one), (_, three) = moment("B2-2"), moment("B2-3")
    assert entered.of(one) == {"node": 0, "pod": 0}
    assert entered.of(None) == entered.of(CpuStateFile(text="", problem="torn")) == {}
    assert entered.of(three) == {"node": 0, "pod": 2}
    assert entered.of(replace(three)) == {"node": 0, "pod": 2}
    assert entered.of(one) == {"node": 0, "pod": 2}
    assert entered.of(three) == {"node": 0, "pod": 4}


def test_a_capture_counts_what_failed_since_the_kubelet_started() -> None:
    """It hides nothing, and one that failed before the reading is no fault of the state."""
    values = {COUNT: 2.0, f'{ALLOCATION_ERRORS}{{resource_name="cpu",source="pod"}}': 2.0}
    (verdict,) = metrics.check("layers-agree", evidence(picture=Picture(metrics=values), state_files=(one_owner(),)))
    assert (verdict.outcome.value, verdict.measures["allocation_errors"]) == ("passed", 2)
    assert verdict.reason.endswith("2 allocations of the resource managers have failed since the kubelet started")
