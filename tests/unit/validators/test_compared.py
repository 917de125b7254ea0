"""Rule ``applied``: what was wrong before the window is known by its reading, whatever the words about it are."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import SECOND, claim_set, control_write, cpus, db_files, evidence
from toolkit.model.evidence import HotplugEvent
from toolkit.model.verdict import Outcome
from validators.queries.compared import Compared, Wrong
from validators.rules import applied


def test_words_decide_nothing() -> None:
    """A sentence that begins with "before" is of after the window, where its reading was."""
    later = Compared(wrong=[Wrong(what="before the quota was none", when="after the window")])
    assert not later.wrong_before
    later.add(Compared(wrong=[Wrong(what="the quota was none", when="after midnight", before=True)]))
    assert later.wrong_before


def test_the_writer_before_the_window_is_looked_for_before_it() -> None:
    """A set that was wrong when the window opened, and one that went wrong while it was open."""
    wide = db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3"))
    write = control_write(-1.0, "/kubepods/poda/db", "0-3")
    good = evidence(control_writes=(write,))
    at_once = replace(good, files_before=(wide, *good.files_before[1:]))
    at_last = replace(good, files_after=(wide, *good.files_after[1:]))

    found = [applied.RULE(claim_set(), seen)[0] for seen in (at_once, at_last)]

    assert [one.outcome for one in found] == [Outcome.FAILED] * 2
    assert ["db was written by sh (pid 4711) at 00:59:59.000 UTC, 1.0 s before" in one.reason for one in found] == [
        True,
        False,
    ], [one.reason for one in found]
    assert found[0].reason.startswith("before the window cpuset.cpus was 0-3, promised 2-3")
    assert found[1].reason.startswith("after the window cpuset.cpus was 0-3, promised 2-3")


def test_what_was_wrong_before_a_cpu_went_offline_stays_wrong() -> None:
    """The kernel shrinks a set when a CPU goes; what was read before that was written."""
    narrow = db_files(cpus=cpus("2"), cpus_effective=cpus("2"))
    good = evidence(hotplug=(HotplugEvent(at_ns=5 * SECOND, cpu=3, online=False),))
    before = replace(good, files_before=(narrow, *good.files_before[1:]), files_after=(narrow, *good.files_after[1:]))
    after = replace(good, files_after=(narrow, *good.files_after[1:]))

    outcomes = [applied.RULE(claim_set(), seen)[0].outcome for seen in (before, after)]

    assert outcomes == [Outcome.FAILED, Outcome.UNDECIDED]
