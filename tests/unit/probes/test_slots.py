"""How long the slots of CPU time are: as short as a claim needs it that it is judged by them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.observer import Observer
from probes.options import ObserveOptions
from probes.readings import Moment
from probes.subjects import Subject
from probes.switches import slots
from probes.switches.decoder import SwitchEdge, SwitchReading
from probes.switches.records import SLOTS, Row
from probes.switches.slots import SELDOM_NS
from probes.switches.spreads import EVERY, HORIZON, Counted
from probes.switches.tally import row
from probes.switches.watch import SwitchWatch
from probes.witness import Edge, OpenWindow
from toolkit.model.claims import NO_QUOTA, Claim
from toolkit.model.cpuset import CpuSet

STEP_NS = ObserveOptions().bin_ms * 1_000_000
LOOK_NS = EVERY * STEP_NS
BEGAN_NS = 1000 * STEP_NS + 30_000_000
WEB = Claim(name="web", cgroup="/web")


class Node:
    """Two claims that run half of the time in every slot, and the clock."""

    def __init__(self, **promised: Any) -> None:
        self.splits, self.closed, self.number = 0, False, 1
        self.now_ns = self.start_ns = self.end_ns = BEGAN_NS
        self.options = ObserveOptions()
        claims = (WEB, Claim(name="db", cgroup="/db", **promised))
        self.subjects = {claim.name: self.subject(claim, slot) for slot, claim in enumerate(claims)}
        self.rows = SimpleNamespace(all_ns=self.all_ns, of=self.of, of_each=self.of_each)
        self.waits, self.culprits = dict[bytes, bytes](), dict[bytes, bytes]()
        self.spreads = SimpleNamespace(read=self.read_spreads)
        state = SimpleNamespace(
            ledger=self,
            subjects=self.subjects,
            published=None,
            trails=SimpleNamespace(forgotten=0),
            options=self.options,
        )
        self.watch = SwitchWatch(
            cast("Observer", state), cast("Any", None), cast("OpenWindow", self), cast("Any", None)
        )
        self.blind_spots, self.offenders, self.intruders = (), dict[bytes, bytes](), dict[bytes, bytes]()

    def subject(self, claim: Claim, slot: int) -> Subject:
        return Subject(claim=claim, cgroup_id=slot, slot=slot, ident=slot, cpus=CpuSet(), since_ns=self.now_ns)

    def ran_ns(self, slot: int) -> int:
        since_ns = next((one.since_ns for one in self.subjects.values() if one.slot == slot), BEGAN_NS)
        return (self.now_ns - since_ns) // 2

    def all_ns(self, wanted: Iterable[int], _window: int) -> list[int]:
        return [self.ran_ns(slot) for slot in range(max(wanted, default=-1) + 1)]

    def of(self, slot: int, _window: int) -> list[Row]:
        return [row({"ns": self.ran_ns(slot)})]

    def of_each(self, wanted: Iterable[int], window: int) -> list[list[Row]]:
        return [self.of(slot, window) for slot in wanted]

    def read_spreads(self, wanted: Iterable[int], _window: int) -> dict[int, Counted]:
        return {slot: self.counted(slot) for slot in wanted}

    def counted(self, slot: int) -> Counted:
        words, since_ns = [0] * SLOTS, self.now_ns - 2 * self.ran_ns(slot)
        first, last = since_ns // STEP_NS, self.now_ns // STEP_NS
        for number in range(first, last):
            words[number % SLOTS] += (
                min(number * STEP_NS + STEP_NS, self.now_ns) - max(number * STEP_NS, since_ns)
            ) // 2
        running = (self.now_ns - max(last * STEP_NS, since_ns)) // 2
        return Counted(struct.pack(f"={SLOTS}Q", *words), {last: running} if running else {})

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

    def run(self, looks: int, each_ns: int = LOOK_NS) -> None:
        """Let time pass, and look as often as the listener does."""
        for _ in range(looks):
            self.now_ns += each_ns
            self.watch.slots.look(self.watch)

    def edge(self) -> Edge:
        """Return the edge that would be read now."""
        return Edge(Moment(at_ns=self.now_ns), (SwitchEdge(),))

    def close(self) -> None:
        """Let the window end now."""
        self.closed, self.end_ns = True, self.now_ns
        self.watch.close(self.edge())

    def read(self) -> SwitchReading:
        return self.watch.read(self.edge())

    def lengths(self, name: str) -> list[int]:
        return [one.length_ns for one in self.read().bins if one.claim == name]

    def used_ns(self, name: str) -> int:
        return sum(one.usage_ns for one in self.read().bins if one.claim == name)


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a node, whose clock is the observer's."""

    def make(**promised: Any) -> Node:
        made = Node(**promised)
        monkeypatch.setattr(slots, "time", SimpleNamespace(monotonic_ns=lambda: made.now_ns))
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
    """How CPU time was spread is judged where a bandwidth or a part of it is promised; long slots need fewer looks.

    Slots are the kernel's: the first and the last are what is in the window of them.
    """
    node = nodes(**promised)
    node.run(8)
    node.close()

    short = [STEP_NS - 30_000_000, *[STEP_NS] * (8 * EVERY - 1), 30_000_000]
    assert node.lengths("web") == (short if often else [SELDOM_NS] * 4)
    assert node.splits == (8 if often else 4)
    assert node.used_ns("web") == (node.now_ns - BEGAN_NS) // 2
    if often:
        assert {one.usage_ns for one in node.read().bins if one.length_ns == STEP_NS} == {STEP_NS // 2}


def test_an_open_window_has_what_is_known_by_now(nodes: Any) -> None:
    """Up to the moment when it is asked for, whenever the last look was; it goes on as if it had not been asked for."""
    node = nodes(quota_us=50_000)
    for _ in range(3):
        node.run(1)
        node.now_ns += 7 * STEP_NS + 10_000_000
        assert node.used_ns("db") == (node.now_ns - BEGAN_NS) // 2
        assert sum(node.lengths("db")) == node.now_ns - BEGAN_NS
        assert max(node.lengths("db")) == STEP_NS
    node.close()
    assert node.lengths("db") == [STEP_NS - 30_000_000, *[STEP_NS] * (3 * EVERY + 20), 60_000_000]
    assert {one.usage_ns for one in node.read().bins if one.length_ns == STEP_NS} == {STEP_NS // 2}


def test_the_last_slot_ends_with_the_window(nodes: Any) -> None:
    """Slots have all that a claim has used, however short the last one is; that none was closed is no standstill."""
    node = nodes()
    node.run(2)
    node.run(1, 3 * STEP_NS)
    node.close()

    assert node.lengths("web") == [SELDOM_NS, 3 * STEP_NS]
    assert node.used_ns("web") == (node.now_ns - BEGAN_NS) // 2
    assert node.read().slot_gap[0] == LOOK_NS


@pytest.mark.parametrize("looks", [0, 3])
def test_after_a_long_pause_the_sum_is_known(nodes: Any, looks: int) -> None:
    """Slots that the kernel gave up are one, also at the end of a window, and those after it are short again."""
    node = nodes(quota_us=50_000)
    node.run(2)
    node.run(1, HORIZON * STEP_NS)
    if looks:
        node.run(looks)
    node.close()

    lengths = node.lengths("db")
    assert max(lengths) >= HORIZON * STEP_NS
    assert sum(lengths) == node.now_ns - BEGAN_NS
    assert node.used_ns("db") == pytest.approx((node.now_ns - BEGAN_NS) // 2, abs=STEP_NS)
    assert lengths.count(STEP_NS) >= looks * EVERY - 2
    assert node.read().slot_gap[0] == HORIZON * STEP_NS


def test_a_quota_that_is_promised_meanwhile_has_short_slots(nodes: Any) -> None:
    """As long as the claim is watched; what it used when its place is another's is kept."""
    node = nodes()
    node.run(3)
    late = node.subjects["late"] = node.subject(Claim(name="late", cgroup="/late", quota_us=50_000), 2)
    node.watch.claim_added(late)
    node.run(3)
    node.now_ns += STEP_NS
    node.watch.claim_removed(late, node.now_ns)
    del node.subjects["late"]
    node.run(4)
    node.close()
    assert node.lengths("web")[0] == SELDOM_NS
    assert node.lengths("web").count(STEP_NS) >= EVERY - 1
    assert max(node.lengths("web")) <= SELDOM_NS + LOOK_NS
    assert node.used_ns("web") == (node.now_ns - BEGAN_NS) // 2


@pytest.mark.parametrize("others", [{"quota_us": 50_000}, {}])
def test_what_a_removed_claim_used(nodes: Any, others: dict[str, int]) -> None:
    """Up to the moment when it was removed, whether or not others that go on have short slots."""
    node = nodes(**others)
    node.run(1)
    late = node.subjects["late"] = node.subject(Claim(name="late", cgroup="/late", quota_us=50_000), 2)
    node.watch.claim_added(late)
    node.run(2)
    node.now_ns += 7 * STEP_NS
    used_ns = node.ran_ns(2)
    node.watch.claim_removed(late, node.now_ns)
    del node.subjects["late"]
    node.run(3)
    node.close()
    assert node.used_ns("late") == used_ns
    assert max(node.lengths("late")) == STEP_NS


def test_a_quota_that_a_claim_gets_or_loses_meanwhile(nodes: Any) -> None:
    """A container is resized in place: its slots are short from then on, as long as it has a quota."""
    node = nodes()
    node.run(3)
    node.promises("db", quota_us=50_000)
    node.run(4)
    assert node.lengths("db").count(STEP_NS) >= 2 * EVERY - 1
    node.promises("db", quota_us=NO_QUOTA)
    node.run(6)
    node.close()
    assert node.lengths("db")[0] == SELDOM_NS
    assert max(node.lengths("db")[-2:]) >= SELDOM_NS
    assert node.used_ns("db") == (node.now_ns - BEGAN_NS) // 2
