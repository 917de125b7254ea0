"""The rule ``checkpoint``: how long what is wrong has stood by the window's end, and by which configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.checkpoint_builder import BOTH, GOOD, judged, known, memory, reading, state, written
from tests.unit.validators.evidence_builder import SECOND, claim_set, cpus, evidence
from toolkit.allocation.checkpoint.state_files import memory_state_file
from toolkit.model.evidence.following import Following
from toolkit.model.state_files import StateReading
from toolkit.model.verdict import Verdict
from validators.rules.checkpoint import RULE

LEAKED = state("0", {"u1": {"db": "2-3"}})
"""CPU 1 is in no set."""
OTHER = state("0", {"u1": {"db": "3"}})
"""CPUs 1 and 2 are in none."""


def at(at_s: float, text: str | None, **changes: object) -> StateReading:
    """Return a reading with the configuration of its time."""
    known_ = {"reserved_cpus": cpus("0"), "at_ns": round(at_s * SECOND), **changes}
    return reading(text, **known_)


def followed(*said: StateReading, **node: object) -> Verdict:
    """Judge what was read of a node that is followed."""
    claims = claim_set(**{"reserved_cpus": cpus("0"), **node})
    return RULE(claims, evidence(state_files=said, following=Following(source="kubelet")))[0]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([(0, GOOD), (10, BOTH)], "undecided"),
        ([(10, BOTH)], "undecided"),
        ([(0, GOOD), (5.1, BOTH), (10, BOTH)], "undecided"),
        ([(0, GOOD), (5, BOTH), (10, BOTH)], "failed"),
        ([(0, GOOD), (5, LEAKED), (10, LEAKED)], "failed"),
        ([(0, GOOD), (4, LEAKED), (7, OTHER), (10, LEAKED)], "failed"),
        ([(0, GOOD), (4, LEAKED), (7, GOOD), (10, LEAKED)], "undecided"),
        ([(-60, BOTH), (10, BOTH)], "failed"),
    ],
    ids=["just now", "only reading", "less", "bound", "leak", "among others", "twice", "before the window"],
)
def test_a_last_reading_has_the_time_of_every_other(said: list[tuple[float, str]], outcome: str) -> None:
    """A window may end between two saves of the kubelet; what stands for 5 s is no such moment."""
    assert followed(*(at(at_s, text) for at_s, text in said)).outcome.value == outcome


@pytest.mark.parametrize(
    "text", [GOOD.replace("0-1", "0,1"), GOOD + "}", state("", {}, policy="none")], ids=["checksum", "spoilt", "policy"]
)
def test_what_no_save_makes_fails_at_once(text: str) -> None:
    """A file is written whole: another checksum, version or policy is no half of a change."""
    assert followed(at(0, GOOD), at(10, text)).outcome.value == "failed"


@pytest.mark.parametrize(("seconds", "outcome"), [(5.0, "failed"), (4.9, "undecided")])
def test_memory_has_the_same_time(seconds: float, outcome: str) -> None:
    """Tables are saved, the blocks not yet."""
    torn, good = (memory_state_file(written(value)) for value in (memory(reserved=400), memory()))
    said = [
        at(at_s, None, memory=file, memory_policy="Static", cpu_policy="none")
        for at_s, file in ((0.0, good), (10 - seconds, torn), (10.0, torn))
    ]

    assert followed(*said).outcome.value == outcome


def test_no_save_follows_where_a_file_is_read_only_once() -> None:
    """A capture is all that is known, and what pinproof's model wrote has no second save."""
    assert judged(at(0, BOTH)).outcome.value == "failed"
    assert followed(at(10, BOTH, modelled=True)).outcome.value == "failed"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([(0, GOOD), (1, LEAKED), (6, LEAKED), (8, GOOD)], "failed"),
        ([(0, GOOD), (1, LEAKED), (5.9, LEAKED), (8, GOOD)], "passed"),
        ([(0, GOOD), (1, LEAKED), (3, OTHER), (6, LEAKED), (8, GOOD)], "failed"),
        ([(-60, LEAKED), (-1, LEAKED), (1, GOOD), (8, GOOD)], "passed"),
    ],
    ids=["lasts", "shorter", "among others", "before"],
)
def test_cpus_in_no_set_that_were_put_back(said: list[tuple[float, str]], outcome: str) -> None:
    """As every other wrong state: repaired before the window ends, and wrong for seconds of it."""
    verdict = followed(*(at(at_s, text) for at_s, text in said))

    assert verdict.outcome.value == outcome, verdict.reason
    assert outcome == "passed" or "CPU 1 is in no set: leaked (for 5.0 s, then no more)" in verdict.reason


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (at(0, state("1"), strict_reservation=True), at(9, state("0-3", {}))),
        (at(0, GOOD), at(9, state("1-3", {}), strict_reservation=True)),
        (at(0, GOOD, cpu_policy="none"), at(9, state("0-3", {}))),
        (at(0, state("0-1"), reserved_cpus=cpus("2")), at(9, state("0-3", {}))),
    ],
    ids=["strict before", "strict now", "policy", "reserved"],
)
def test_a_kubelet_that_is_set_up_anew_is_judged_by_what_holds_when(before: StateReading, now: StateReading) -> None:
    """The configuration is changed, then the kubelet is stopped, the file removed, and the kubelet started."""
    edited = replace(
        before,
        at_ns=SECOND,
        cpu_policy=now.cpu_policy,
        reserved_cpus=now.reserved_cpus,
        strict_reservation=now.strict_reservation,
    )
    said = (before, edited, replace(edited, at_ns=8 * SECOND), now)
    # The claims of a window are those of its begin.
    node = {"reserved_cpus": before.reserved_cpus, "strict_reservation": before.strict_reservation}

    assert followed(*said, **node).outcome.value == "passed"
    lost = replace(at(0, state("1", {"u1": {"db": "2"}})), strict_reservation=edited.strict_reservation)
    broken = (lost, replace(lost, at_ns=8 * SECOND), now)
    assert followed(*broken, **node).outcome.value == "failed"


def test_what_was_wrong_for_long_is_so_although_the_file_is_gone() -> None:
    """A broken file that is removed breaks no evidence."""
    assert followed(at(0, BOTH), at(6, BOTH), at(9, None, cpu_policy="static")).outcome.value == "failed"
    assert followed(at(0, BOTH), at(4, BOTH), at(9, None, cpu_policy="static")).outcome.value == "undecided"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([(0, False), (25, False), (30, True)], "failed"),
        ([(0, False), (24.9, False), (30, True)], "passed"),
        ([(0, False), (5, True), (30, False)], "passed"),
        ([(0, False), (5, None), (30, False)], "passed"),
    ],
    ids=["taken back", "in time", "another", "not known"],
)
def test_a_leak_lasts_without_a_break(said: list[tuple[float, bool | None]], outcome: str) -> None:
    """No healthy kubelet leaves it for two reconciles and 5 s; one that was owned meanwhile is another."""
    owned = {True: known("u1/db"), False: (), None: None}

    assert followed(*(at(at_s, GOOD, containers=owned[is_owned]) for at_s, is_owned in said)).outcome.value == outcome


def test_a_leak_that_may_not_be_one_yet_says_nothing_of_what_was_not_read() -> None:
    """Whether all CPUs are in a set is not known: a container that is just gone does not make it so."""
    assert followed(at(0, GOOD, containers=(), union_known=False)).outcome.value == "undecided"


def test_hundreds_of_owners_are_compared_once_each() -> None:
    """Pairs of owners are looked at only where two have a CPU together."""
    many = {f"u{n}": {"c": str(n)} for n in range(1, 1000)}
    file = state("0", many)
    one = at(0, file, cpus_online=cpus("0-999"), containers=known(*(f"u{n}/c" for n in range(1, 1000))))
    assert followed(one).outcome.value == "passed"
    both = replace(one, cpu=reading(state("0", {**many, "v": {"c": "999"}})).cpu)
    assert "CPU 999 belongs to both u999 and v" in followed(both, replace(both, at_ns=6 * SECOND)).reason
