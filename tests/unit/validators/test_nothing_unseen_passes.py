"""Evidence in which something was not read, or was wrong for a time: no rule says ``passed`` of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_web, cpus, mask, use
from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.model.claims import Alignment, ClaimSet, HugepageLimit, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.layers import Layer, LayerView
from toolkit.model.placement import HugetlbUse
from toolkit.model.state_files import MemoryNode, MemoryRow, MemoryStateFile, StateReading
from toolkit.model.verdict import Verdict
from validators.registry import judge

DB, WEB = CLAIMS.claims
NODE = replace(CLAIMS, reconcile_period_s=10.0)
GIB = 1 << 30


def verdict(rule: str, subject: str, claims: ClaimSet, seen: Evidence) -> Verdict:
    (found,) = (one for one in judge(claims, seen) if (one.rule, one.subject) == (rule, subject))
    return found


def said(claim: str, layer: Layer, text: str, *at_s: float) -> tuple[LayerView, ...]:
    return tuple(LayerView(claim=claim, layer=layer, at_ns=round(at * SECOND), cpus=cpus(text)) for at in at_s)


def followed(db: tuple[LayerView, ...], files: dict[str, Any] | None = None, **more: Any) -> Evidence:
    """A node that is followed; the layers say this of db, and its files hold that at both ends."""
    base = healthy()
    row = replace(base.files_before[0], **(files or {}))
    values = {
        "following": Following(source="kubelet", readings=5, gap_ns=2 * SECOND, slack_ns=5 * SECOND),
        "layers": (*db, *said("web", Layer.CHECKPOINT, "0", -60, 9), *said("web", Layer.RUNTIME, "0", -60, 9)),
        "files_before": (row, base.files_before[1]),
        "files_after": (row, base.files_after[1]),
    }
    return replace(base, **{**values, **more})


STATE = said("db", Layer.CHECKPOINT, "2-3", -60, 9)
NARROW: dict[str, Any] = {
    "cpu_use": (use("db", 2, run_ns=2 * SECOND, samples=200), use("web", 0, run_ns=5 * SECOND, samples=500)),
    "thread_masks": (mask("db", "2"), mask("web", "0", tid=200)),
}


def test_an_exclusive_container_with_too_few_cpus_is_no_pool_that_grows_late() -> None:
    """It has one of the two that the state file says, for longer than a reconcile takes."""
    asked = said("db", Layer.RUNTIME, "2", -60, 9)
    only = {"cpus": cpus("2"), "cpus_effective": cpus("2")}

    assert verdict("layers-agree", "db", NODE, followed((*STATE, *asked), only, **NARROW)).outcome == "failed"


def test_a_lag_beyond_its_bound_is_no_better_for_having_ended() -> None:
    """55 s, where a reconcile may take 15."""
    rows = (*said("db", Layer.CHECKPOINT, "2-3", -60, 59), *said("db", Layer.RUNTIME, "0-3", -60, 55))
    wide = {"cpus": cpus("0-3"), "cpus_effective": cpus("0-3")}
    found = verdict(
        "layers-agree",
        "db",
        NODE,
        followed((*rows, *said("db", Layer.RUNTIME, "2-3", 56, 59)), wide, duration_ns=60 * SECOND),
    )

    assert (found.outcome, "for 115.0 s" in found.reason) == ("failed", True)


def test_a_cpuset_that_was_not_read_agrees_with_nothing() -> None:
    blank = {"cpus": None, "cpus_effective": None}
    rows = (*STATE, *said("db", Layer.RUNTIME, "2-3", -60, 9))

    assert verdict("layers-agree", "db", NODE, followed(rows, blank)).outcome == "undecided"


def test_a_layer_without_cpus_does_not_take_the_set_from_applied() -> None:
    rows = (LayerView(claim="db", layer=Layer.CHECKPOINT, at_ns=0, cpus=None, mems=cpus("0")),)
    wide = {"cpus": cpus("0-3"), "cpus_effective": cpus("0-3")}

    assert verdict("applied", "db", NODE, followed(rows, wide)).outcome == "failed"


def test_memory_nodes_that_are_wrong_at_the_end_differ() -> None:
    claims = replace(NODE, claims=(claim_db(mems=cpus("0")), WEB))
    after = replace(healthy().files_after[0], mems=cpus("0-1"), mems_effective=cpus("0-1"))
    seen = followed(STATE, files_after=(after, healthy().files_after[1]))

    assert verdict("layers-agree", "db", claims, seen).outcome == "failed"


def ancestor(demand: float | None, **above: Any) -> Verdict:
    """Judge web, which used 0.1 CPUs of 0.5, below a pod whose counters say this."""
    claims = replace(CLAIMS, claims=(DB, claim_web(cpus=cpus("0"), demand_cpus=demand)))
    own = {"usage_ns": SECOND, "bpf_usage_ns": SECOND, "nr_throttled": 0, "throttled_ns": 0}
    levels = {0: own, 1: {"usage_ns": SECOND, **above}}
    rows = tuple(
        replace(row, **levels[row.level]) if row.claim == "web" and row.level in levels else row
        for row in healthy().bandwidth
    )
    return verdict("quota-throttling", "web", claims, healthy(bandwidth=rows))


def test_an_ancestor_that_throttled_a_small_load_leaves_it_open() -> None:
    found = ancestor(0.3, quota_us=10_000, nr_throttled=100)

    assert found.outcome == "undecided"
    assert "/kubepods/podb was throttled in 100 periods" in found.reason


@pytest.mark.parametrize("unread", [{"quota_us": None}, {"quota_us": 10_000, "nr_throttled": None}])
def test_an_ancestor_that_was_not_read_leaves_it_open(unread: dict[str, Any]) -> None:
    assert ancestor(None, **{"nr_throttled": 100, **unread}).outcome == "undecided"


def test_throttled_time_without_a_throttled_period() -> None:
    """Of an exclusive container it is a quota that was put back within its period; of another one it cannot be."""
    rows = [
        replace(row, throttled_ns=900_000_000) if row.claim == "db" and row.level == 0 else row
        for row in healthy().bandwidth
    ]
    assert verdict("quota-free", "db", CLAIMS, healthy(bandwidth=tuple(rows))).outcome == "failed"
    claims = replace(CLAIMS, claims=(DB, claim_web(cpus=cpus("0"), demand_cpus=None)))
    stood: dict[str, Any] = {"usage_ns": SECOND, "bpf_usage_ns": SECOND, "nr_throttled": 0, "throttled_ns": 9 * SECOND}
    rows = [replace(row, **stood) if row.claim == "web" and row.level == 0 else row for row in healthy().bandwidth]
    assert verdict("quota-throttling", "web", claims, healthy(bandwidth=tuple(rows))).outcome == "undecided"


@pytest.mark.parametrize("by_node", [None, {}, {0: 0}, {0: 2 << 20}, {0: 4 << 20}])
def test_every_huge_page_has_a_node(by_node: dict[int, int] | None) -> None:
    """4 MiB are in use."""
    limit = (HugepageLimit(page_bytes=2 << 20, limit_bytes=8 << 20),)
    claims = replace(CLAIMS, claims=(claim_db(mems=cpus("0"), hugepages=limit), WEB))
    two = replace(healthy().environment, topology={"numa_nodes": {"0": "0-1", "1": "2-3"}})
    row = HugetlbUse(
        claim="db", page_bytes=2 << 20, limit_bytes=8 << 20, usage_bytes=4 << 20, failures=0, node_bytes=by_node
    )
    found = verdict("hugepages", "db", claims, healthy(environment=two, hugetlb=(row,), pages=()))

    assert found.outcome == ("passed" if by_node == {0: 4 << 20} else "undecided")


@pytest.mark.parametrize(("rule", "field"), [("mems-containment", "mems_allowed"), ("affinity-mask", "cpus_allowed")])
def test_a_mask_that_is_empty_was_not_read(rule: str, field: str) -> None:
    claims = replace(CLAIMS, claims=(claim_db(mems=cpus("0")), WEB))
    blank: dict[str, Any] = {field: CpuSet()}
    masks = (mask("db", "2-3", **blank), mask("web", "0", tid=200))

    assert verdict(rule, "db", claims, healthy(thread_masks=masks)).outcome == "undecided"


def test_a_shrink_after_which_no_thread_was_read_is_open() -> None:
    """The limit is 50 ms; the threads were read last before the change."""
    shrink = Transition(
        claim="web",
        what="mask-change",
        start_at_ns=4 * SECOND,
        end_at_ns=4 * SECOND + 1_000_000,
        cpus_before=cpus("0,2"),
        cpus_after=cpus("0"),
        cause="toolkit",
    )
    claims = replace(CLAIMS, claims=(claim_db(cpus=cpus("3")), WEB), transition_limit_ms=50.0)
    masks = (mask("db", "3"), mask("web", "0,2", tid=200, last_at_ns=4 * SECOND - 1))
    seen = healthy(transitions=(shrink,), thread_masks=masks, cpu_use=(use("db", 3), use("web", 0)))
    assert verdict("transition-window", "web", claims, seen).outcome == "undecided"
    later = mask("web", "0", tid=200, epoch=1, first_at_ns=5 * SECOND)
    seen = replace(seen, thread_masks=(*masks, later))
    assert verdict("transition-window", "web", claims, seen).outcome == "passed"


@pytest.mark.parametrize("nodes", [(0,), (0, 1, 2), (0, 1)])
def test_a_memory_file_has_the_machines_nodes(nodes: tuple[int, ...]) -> None:
    rows = tuple(
        MemoryRow(
            node=node,
            kind="memory",
            total_bytes=8 * GIB,
            system_reserved_bytes=GIB,
            allocatable_bytes=7 * GIB,
            reserved_bytes=0,
            free_bytes=7 * GIB,
        )
        for node in nodes
    )
    tables = tuple(MemoryNode(node=node, assignments=0, group=CpuSet.of([node])) for node in nodes)
    file = MemoryStateFile(text="", version=1, policy="Static", checksum_ok=True, rows=rows, nodes=tables)
    reading = StateReading(
        at_ns=0,
        cpus_online=cpus("0-3"),
        cpu=None,
        cpu_policy="none",
        memory=file,
        memory_policy="Static",
        containers=(),
        node_bytes={0: 8 * GIB, 1: 8 * GIB},
    )
    found = verdict("checkpoint", "memory_manager_state", CLAIMS, healthy(state_files=(reading,)))

    assert found.outcome == ("passed" if nodes == (0, 1) else "failed")


@pytest.mark.parametrize("asked", [{"alignments": (Alignment.NUMA_EVEN,)}, {"preferences": (Preference.CLOSEST,)}])
def test_cpus_whose_node_is_not_known_are_neither_even_nor_near(asked: dict[str, Any]) -> None:
    topology = {"numa_nodes": {"0": "0", "1": "1"}, "numa_distances": {"0": [10, 20], "1": [20, 10]}}
    seen = healthy(environment=replace(healthy().environment, topology=topology))

    assert (
        verdict("numa-alignment", "db", replace(CLAIMS, claims=(claim_db(**asked), WEB)), seen).outcome == "undecided"
    )


def test_exclusive_cpus_that_are_not_known_were_not_kept() -> None:
    claims = replace(CLAIMS, claims=(claim_db(cpus=None), WEB))

    assert verdict("exclusive-cpus", "db", claims, healthy()).outcome == "undecided"


@pytest.mark.parametrize(("made_s", "outcome"), [(9.99, "passed"), (5.0, "failed")])
def test_a_cgroup_that_is_being_set_up_at_the_end_of_a_window(made_s: float, outcome: str) -> None:
    """Its runtime has 2 s to write the files; after that they must be right."""
    again = Transition(
        claim="db", what="cgroup-made", start_at_ns=round(made_s * SECOND), end_at_ns=round(made_s * SECOND) + 1
    )
    fresh = replace(healthy().files_after[0], cpus=cpus("0-3"), cpus_effective=cpus("0-3"))
    seen = healthy(transitions=(again,), files_after=(fresh, healthy().files_after[1]))

    assert verdict("applied", "db", CLAIMS, seen).outcome == outcome


def test_a_realtime_load_was_not_held_by_its_quota() -> None:
    """It wants a CPU and used half of one in three periods: nothing shows that the quota held it there."""
    own: dict[str, Any] = {"nr_periods": 3, "nr_throttled": 0, "throttled_ns": 0}
    rows = tuple(replace(row, **own) if row.claim == "web" and row.level < 2 else row for row in healthy().bandwidth)
    seen = healthy(bandwidth=rows, thread_masks=(mask("db", "2-3"), mask("web", "0", tid=200, policy="fifo")))

    assert verdict("quota-throttling", "web", CLAIMS, seen).outcome == "undecided"


def test_the_pod_resources_api_alone_agrees_with_nothing() -> None:
    """Its CPUs are compared with the state file's; without that they are one word."""
    rows = said("db", Layer.POD_RESOURCES, "0-1", 0, 9)

    assert "pod-resources" not in verdict("layers-agree", "db", NODE, followed(rows)).reason.partition("agree")[0]


def test_a_count_that_may_be_off_by_itself_is_no_witness() -> None:
    seen = healthy(coverage=replace(healthy().coverage, switches_judged=1, switches_skew=1_204_330))

    assert verdict("evidence-health", "node", CLAIMS, seen).outcome == "undecided"


@pytest.mark.parametrize(
    ("what", "promised", "outcome"),
    [
        ("claim-added", True, "skipped"),
        ("claim-added", False, "skipped"),
        ("cgroup-made", True, "undecided"),
        ("cgroup-made", False, "skipped"),
    ],
)
def test_what_comes_with_the_last_moments_is_judged_in_the_next_window(what: str, promised: bool, outcome: str) -> None:
    """A container of a followed node is; of another claim, of which nothing was read either, nothing is known."""
    came = Transition(claim="db", what=what, start_at_ns=9 * SECOND, end_at_ns=9 * SECOND + 1, cpus_after=cpus("2-3"))
    claims = NODE if promised else replace(NODE, claims=(claim_db(cpus=None, quota_us=None), WEB))
    base = healthy()
    being_made = replace(base.files_after[0], cpus=cpus(""), cpus_effective=cpus(""), quota_us=50_000)
    ends = {"files_before": base.files_before[1:], "files_after": (being_made, *base.files_after[1:])}

    assert verdict("applied", "db", claims, followed(STATE, transitions=(came,), **ends)).outcome == outcome
    # What has its values already was read, and is right.
    right = verdict(
        "applied", "db", NODE, followed(STATE, transitions=(came,), **ends | {"files_after": base.files_after})
    )
    assert right.outcome == "passed"
