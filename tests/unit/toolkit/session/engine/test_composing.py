"""From the readings of a whole window, the session's own among them, to its evidence: without a kernel."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from probes.build import build
from probes.readings import Readings, Watched
from probes.subjects import Violation
from probes.switches import tally
from tests.unit.probes.readings import CLAIM, FRAME, ONLINE, QUIET, START, SWITCHES, but
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment, Runtime
from toolkit.model.evidence.following import Following
from toolkit.model.held import Held, Why
from toolkit.model.node_evidence import NOTHING, NodeEvidence
from toolkit.session.engine.canary import CLEAN, POSITIVE
from toolkit.session.engine.composing import compose

POSITIVE_IDENT, CLEAN_IDENT = 20, 21
PLANTED = {POSITIVE: 31, CLEAN: 30}
REPORT = Violation(
    claim=POSITIVE, tid=1, tgid=1, comm="canary", cpu=0, first_at_ns=1_000_000, reported_at_ns=3_500_000, ns=5, window=7
)


def canary(name: str, ident: int) -> Watched:
    """Return a canary's claim as it was watched."""
    return Watched(claim=Claim(name=name, cgroup=f"/{name}", cpus=CpuSet.of([1])), ident=ident, cpus=CpuSet.of([1]))


@pytest.fixture
def readings() -> Readings:
    """The quiet window with both canaries beside its claim: each ran 30 times on CPU 0, the positive one outside."""
    rows = {
        **SWITCHES.rows,
        POSITIVE_IDENT: [
            tally.row({"switches": 30, "ns": 1_500, "out_switches": 30, "out_ns": 1_500}),
            tally.row({}),
        ],
        CLEAN_IDENT: [tally.row({"switches": 30, "ns": 1_400}), tally.row({})],
    }
    canaries = (canary(POSITIVE, POSITIVE_IDENT), canary(CLEAN, CLEAN_IDENT))
    return Readings(replace(FRAME, subjects=(*FRAME.subjects, *canaries)), but(replace(SWITCHES, rows=rows)))


def test_the_canaries_are_a_reading_like_others(readings: Readings) -> None:
    """They give their own part, and none of their rows is among those of the claims that are judged."""
    found = compose(readings, cpu=0, planted=PLANTED, reported=REPORT, changes=(), node_evidence=NOTHING).evidence

    positive, clean = found.canaries
    assert (positive.positive, positive.planted_switches, positive.out_of_set_switches) == (True, 31, 30)
    assert (positive.planted_at_ns, positive.reported_at_ns, positive.out_of_set_ns) == (1_000_000, 3_500_000, 1_500)
    assert (clean.positive, clean.planted_switches, clean.out_of_set_switches, clean.run_ns) == (False, 30, 0, 1_400)
    assert (clean.planted_at_ns, clean.reported_at_ns) == (0, None)
    assert found.coverage.positive_control_latency_ms == 2.5
    assert {row.claim for row in found.cpu_use} == {"db"}


def test_an_escape_that_was_not_reported_has_no_latency(readings: Readings) -> None:
    """It was planted all the same, and seen by the ledger."""
    found = compose(readings, cpu=0, planted=PLANTED, reported=None, changes=(), node_evidence=NOTHING).evidence

    assert (found.canaries[0].planted_at_ns, found.canaries[0].reported_at_ns) == (0, None)
    assert found.canaries[0].out_of_set_switches == 30
    assert found.coverage.positive_control_latency_ms is None


def test_what_the_node_says_is_a_part(readings: Readings) -> None:
    """Every field of its word arrives, and what was promised anew beside it; the machine is the window's."""
    stated = NodeEvidence(
        runtime=Runtime(name="runc", version="1.1"),
        following=Following(source="kubelet", readings=3),
        held=(Held(claim="db", cpus=ONLINE, why=Why.OWED, from_ns=1, due_ns=2),),
        claim_changes=(ClaimChange(at_ns=99 << 40, claim=CLAIM),),
    )
    changes = (ClaimChange(at_ns=5, claim=replace(CLAIM, cpus=None)),)
    machine = Environment(kernel="6.18", cgroup="v2", cmdline="quiet", cpus_online=ONLINE, hz=250)
    there = replace(readings, frame=replace(readings.frame, environment=machine))

    found = compose(there, cpu=0, planted=PLANTED, reported=None, changes=changes, node_evidence=stated).evidence

    assert {field.name: getattr(found, field.name) for field in fields(NodeEvidence)} == {
        field.name: getattr(stated, field.name) for field in fields(NodeEvidence)
    } | {"claim_changes": (*changes, *stated.claim_changes)}
    assert (found.changed, found.renewed, found.environment) == (changes, stated.claim_changes, machine)


def test_the_rest_is_what_the_witnesses_gave(readings: Readings) -> None:
    """Composing adds parts and takes none away: without the session's own it is the evidence of the probes alone."""
    found = compose(readings, cpu=0, planted=PLANTED, reported=None, changes=(), node_evidence=NOTHING).evidence
    alone = build(Readings(FRAME, QUIET))

    assert replace(found, canaries=()) == alone
    assert (found.start_monotonic_ns, found.coverage.blindness) == (START, ())


def test_the_canaries_evidence_is_of_the_same_type_beside(readings: Readings) -> None:
    """Their rows alone; what the node counts is in both, tasks without a claim are with the claims that are judged."""
    found = compose(readings, cpu=0, planted=PLANTED, reported=REPORT, changes=(), node_evidence=NOTHING)

    assert type(found.canaries) is type(found.evidence)
    assert {row.claim for row in found.canaries.cpu_use} == {POSITIVE, CLEAN}
    assert (found.canaries.offenders, found.canaries.thread_masks, found.canaries.bandwidth) == ((), (), ())
    assert (found.canaries.intruders, len(found.evidence.intruders)) == ((), 1)
    assert found.canaries.steal_ns == found.evidence.steal_ns
    assert found.canaries.coverage.switches_judged == found.evidence.coverage.switches_judged
