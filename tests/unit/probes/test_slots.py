"""How often the running slots of CPU time are closed: as often as a claim needs it that it is judged by them."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.options import ObserveOptions
from probes.readings import Moment
from probes.state import State
from probes.subjects import Subject
from probes.switches import watch
from probes.switches.decoder import SwitchReading
from probes.switches.watch import SELDOM_NS, SwitchWatch
from probes.witness import OpenWindow
from toolkit.model.claims import NO_QUOTA, Claim
from toolkit.model.cpuset import CpuSet

STEP_NS = ObserveOptions().bin_ms * 1_000_000
STEPS = SELDOM_NS // STEP_NS
WEB = Claim(name="web", cgroup="/web")


class Node:
    """Two claims that run all the time, and the clock."""

    def __init__(self, **promised: Any) -> None:
        self.now_ns, self.splits, self.closed, self.number, self.start_ns = 0, 0, False, 1, 0
        claims = (WEB, Claim(name="db", cgroup="/db", **promised))
        self.subjects = {claim.name: self.subject(claim, slot) for slot, claim in enumerate(claims)}
        self.rows = SimpleNamespace(all_ns=self.all_ns, of=lambda *_: [])
        state = SimpleNamespace(
            ledger=self, subjects=self.subjects, published=None, trails=SimpleNamespace(forgotten=0)
        )
        self.watch = SwitchWatch(cast("State", state), cast("Any", None), cast("OpenWindow", self), cast("Any", None))
        self.blind_spots, self.offenders, self.intruders = (), dict[bytes, bytes](), dict[bytes, bytes]()

    def subject(self, claim: Claim, slot: int) -> Subject:
        return Subject(claim=claim, cgroup_id=slot, slot=slot, ident=slot, cpus=CpuSet(), since_ns=self.now_ns)

    def all_ns(self, slots: Iterable[int], _window: int) -> list[int]:
        return [self.now_ns // 2] * (max(slots) + 1)

    def promises(self, name: str, **promised: Any) -> None:
        self.subjects[name].claim = Claim(name=name, cgroup=f"/{name}", **promised)
        self.watch.promised(self.subjects[name])

    def split(self, _cpus: CpuSet) -> None:
        self.splits += 1

    def sampled(self) -> CpuSet:
        return CpuSet()

    def all_subjects(self) -> list[Subject]:
        return list(self.subjects.values())

    present = all_subjects

    def run(self, steps: int) -> None:
        """Let time pass, and look as often as the listener does."""
        for _ in range(steps):
            self.now_ns += STEP_NS
            self.watch.add_bins()

    def read(self) -> SwitchReading:
        return self.watch.read(cast("Any", None), Moment(at_ns=self.now_ns, turn_ns=0, online=CpuSet()))

    def lengths(self, name: str) -> list[int]:
        return [row.length_ns for row in self.read().bins if row.claim == name]


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a node, whose clock is the observer's."""

    def make(**promised: Any) -> Node:
        made = Node(**promised)
        monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic_ns=lambda: made.now_ns))
        return made

    return make


@pytest.mark.parametrize(
    ("promised", "often"),
    [
        ({"quota_us": 50_000}, True),
        ({"weight": 100}, True),
        ({"shares": 1024, "contended": False}, False),
        ({"quota_us": NO_QUOTA}, False),
        ({}, False),
    ],
)
def test_slots_are_as_short_as_a_promise_needs_them(nodes: Any, promised: dict[str, Any], often: bool) -> None:
    """How CPU time was spread is judged where a bandwidth or a part of it is promised; nobody is interrupted else."""
    node = nodes(**promised)
    node.run(STEPS)

    assert node.lengths("web") == ([STEP_NS] * STEPS if often else [SELDOM_NS])
    assert node.splits == (STEPS if often else 1)


def test_the_last_slot_ends_with_the_window(nodes: Any) -> None:
    """Slots have all that a claim has used, however short the last one is; that none was closed is no standstill."""
    node = nodes()
    node.run(STEPS + 3)
    node.watch.before_end()

    assert node.lengths("web") == [SELDOM_NS, 3 * STEP_NS]
    assert sum(row.usage_ns for row in node.read().bins if row.claim == "web") == node.now_ns // 2
    assert node.read().slot_gap[0] == STEP_NS


def test_a_quota_that_is_promised_meanwhile_has_short_slots(nodes: Any) -> None:
    """As long as the claim is watched."""
    node = nodes()
    node.run(3)
    late = node.subjects["late"] = node.subject(Claim(name="late", cgroup="/late", quota_us=50_000), 2)
    node.watch.claim_added(late)
    node.run(4)
    assert node.lengths("late") == [STEP_NS] * 4
    node.watch.claim_removed(node.subjects.pop("late"), node.now_ns)
    node.run(STEPS)
    assert node.lengths("web") == [*[4 * STEP_NS], *[STEP_NS] * 3, SELDOM_NS]


def test_a_quota_that_a_claim_gets_or_loses_meanwhile(nodes: Any) -> None:
    """A container is resized in place: its slots are short from then on, as long as it has a quota."""
    node = nodes()
    node.run(3)
    node.promises("db", quota_us=50_000)
    node.run(4)
    node.promises("db", quota_us=NO_QUOTA)
    node.run(STEPS)
    assert node.lengths("db") == [*[4 * STEP_NS], *[STEP_NS] * 3, SELDOM_NS]
