"""Rule ``layers-agree`` on a followed node: lag, drift, growing late, threads that stay, CPUs that do not come back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, control_write, mask
from tests.unit.validators.live_layers_builder import (
    BE,
    CGROUP,
    SAME,
    Word,
    granted,
    judged,
    node,
    said,
)
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import StateWrite, Transition
from toolkit.model.evidence.node import HotplugEvent
from toolkit.model.held import Held, Why
from toolkit.model.layers import ApiCpus, Layer
from toolkit.model.verdict import Outcome


def test_layers_that_agree() -> None:
    """Four layers, one set."""
    verdict = judged(node(SAME, SAME, SAME, "0-3"))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.reason == "checkpoint, cri, cgroup, observed agree"


def test_threads_that_were_not_read_are_undecided() -> None:
    """The three others agree; whether threads hold it is not known. One that came or went is no doubt."""
    seen = node(SAME, SAME, SAME, thread_masks=())
    verdict = judged(seen)
    assert verdict.outcome is Outcome.UNDECIDED
    assert (
        verdict.reason
        == "checkpoint, cri, cgroup agree; no thread of it was read: whether observed agrees is not known"
    )

    gone = Transition(claim=BE.name, what="claim-removed", start_at_ns=20 * SECOND, end_at_ns=20 * SECOND)
    assert judged(replace(seen, transitions=(gone,))).outcome is Outcome.PASSED


def test_a_container_that_slept_is_no_doubt() -> None:
    """Its thread was read, and did not run."""
    seen = node(SAME, SAME, SAME, "0-3")
    assert not [row for row in seen.cpu_use if row.claim == BE.name]
    assert judged(seen).outcome is Outcome.PASSED


@pytest.mark.parametrize(("since_s", "outcome"), [(16, Outcome.PASSED), (13, Outcome.FAILED)])
def test_lag_is_failed_beyond_period_and_slack_only(since_s: float, outcome: Outcome) -> None:
    """The state file has taken CPU 3 away; by the end of the window that is 13 s, or 16 s, ago. The bound is 15 s."""
    verdict = judged(node([(0, "0-3"), (since_s - 1, "0-3"), (since_s, "0-2"), (29, "0-2")], SAME, SAME))

    assert verdict.outcome is outcome
    assert f"checkpoint and cri differ since {since_s:.1f} s: CPUs 0-2 against 0-3" in verdict.reason


@pytest.mark.parametrize(
    ("first_s", "held", "outcome", "why"),
    [
        (-1, False, Outcome.UNDECIDED, "for 5.0 s, or longer: the window, which opened on it, is too short"),
        (-1, True, Outcome.PASSED, "a reconcile may take 15.0 s: the reconcile period and 5.0 s, which the window's"),
        (1, False, Outcome.PASSED, "a reconcile may take 15.0 s: the reconcile period and 5.0 s, which the window's"),
    ],
    ids=["of an unknown time", "dated by what it owes", "seen to begin"],
)
def test_lag_in_a_window_shorter_than_a_reconcile(first_s: float, why: str, outcome: Outcome, *, held: bool) -> None:
    """A window of 5 s in which state file and runtime differ to its end: whether that is a lag depends on its begin."""
    owes = Held(claim=BE.name, cpus=CpuSet.parse("3"), why=Why.OWED, from_ns=-SECOND, due_ns=14 * SECOND)
    before = [(-1.0, "0-3"), (0.5, "0-3")] if first_s > 0 else []
    seen = node([*before, (first_s, "0-2"), (4, "0-2")], [(-60, "0-3"), (4, "0-3")], SAME[:1], held=(owes,) * held)
    verdict = judged(replace(seen, duration_ns=5 * SECOND, files_after=(granted(5, "0-3"),)))

    assert (verdict.outcome, why in verdict.reason) == (outcome, True), verdict.reason
    assert "agree" not in verdict.reason


@pytest.mark.parametrize(("since_s", "outcome"), [(16, Outcome.PASSED), (13, Outcome.FAILED), (-300, Outcome.FAILED)])
@pytest.mark.parametrize("runtime", [True, False])
def test_an_empty_pool_takes_all_cpus_away(since_s: float, outcome: Outcome, *, runtime: bool) -> None:
    """Every CPU is assigned (F2): the kubelet skips the empty set, what shared keeps what is another's."""
    state: list[Word] = [(-320, "0-3"), (since_s - 1, "0-3"), (since_s, ""), (29, "")]
    verdict = judged(node(state, [(-320, "0-3"), (29, "0-3")] if runtime else [], SAME))

    assert verdict.outcome is outcome, verdict.reason
    assert "CPUs none against 0-3" in verdict.reason
    assert "the shared pool is empty, and no reconcile repairs it" in verdict.reason


def test_growing_late_is_no_fault() -> None:
    """However late: it may have more than it has."""
    verdict = judged(node([(-100, "0-5"), (29, "0-5")], [(-200, "0-3"), (29, "0-3")], SAME))

    assert verdict.outcome is Outcome.PASSED
    assert "growing late is no fault" in verdict.reason


def test_drift_is_failed_at_once() -> None:
    """The cgroup was widened for a second, and put back."""
    verdict = judged(node(SAME, SAME, [(0, "0-3"), (7, "0-5"), (8, "0-3")]))

    assert verdict.outcome is Outcome.FAILED
    assert (
        verdict.reason == "cri and cgroup differ from 7.0 s to 8.0 s: CPUs 0-3 asked for against 0-5: drift, no bound"
    )


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        ([(-3, "0-3"), (1.2, "0-3")], Outcome.FAILED),
        ([(-3, "0-3"), (0.4, "0-3")], Outcome.UNDECIDED),
        ([(-1, "0-3"), (1.2, "0-3")], Outcome.UNDECIDED),
        ([(1.2, "0-3")], Outcome.PASSED),
    ],
    ids=["word of long ago, and again", "not asked again", "word of a moment ago", "asked for a moment ago"],
)
def test_drift_that_stands_does_not_pass_in_a_window_shorter_than_the_guard(
    asked: list[Word], outcome: Outcome
) -> None:
    """The cgroup is wide in all of a window of 1.5 s: how long the runtime has said otherwise is known from before."""
    seen = node(SAME[:1], asked, [(0, "0-5")], duration_ns=round(1.5 * SECOND), files_after=(granted(1.5, "0-5"),))

    verdict = judged(seen)
    assert verdict.outcome is outcome, verdict.reason
    assert "cri and cgroup differ in the whole window" in verdict.reason


def test_a_reconcile_is_no_drift() -> None:
    """The cgroup is written before the runtime's answer is read anew, 2 s later at the most."""
    state: list[Word] = [(0, "0-2"), (29, "0-2")]
    asked: list[Word] = [(0, "0-3"), (9, "0-3"), (11, "0-2"), (29, "0-2")]

    assert judged(node(state, asked, [(0, "0-3"), (9.1, "0-2")])).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("returned_s", "then", "outcome"),
    [(13, "0-2", Outcome.PASSED), (15, "0-2", Outcome.FAILED), (13, "0-1", Outcome.FAILED)],
    ids=["slow", "too slow for one", "for something else"],
)
def test_a_runtime_that_says_late_what_it_wrote_is_no_drift(returned_s: float, then: str, outcome: Outcome) -> None:
    """CRI-O says what was asked for before until its runtime's program has returned, which has written at 9.1 s."""
    state: list[Word] = [(0, "0-2"), (29, "0-2")]
    asked: list[Word] = [(0, "0-3"), (returned_s - 0.5, "0-3"), (returned_s, then), (29, then)]

    verdict = judged(node(state, asked, [(0, "0-3"), (9.1, "0-2")]))
    assert verdict.outcome is outcome, verdict.reason
    assert outcome is Outcome.PASSED or "cri and cgroup differ from 9.1 s on: CPUs 0-3 asked for" in verdict.reason


@pytest.mark.parametrize(("unread_s", "outcome"), [(9, Outcome.PASSED), (1, Outcome.FAILED)])
def test_a_cgroup_that_was_not_read_may_have_followed_long_ago(unread_s: int, outcome: Outcome) -> None:
    """The observer got no CPU for 9 s: the file was as asked at 26 s, and by then it may have been so since 17 s."""
    state: list[Word] = [(-20, "0-2"), (17, "0-2"), (18, "0-3"), (29, "0-3")]
    asked: list[Word] = [(20, "0-3"), (29, "0-3")]
    seen = node(state, asked, [(0, "0-2"), (26, "0-3")])
    seen = replace(seen, coverage=replace(seen.coverage, file_gap_ns=unread_s * SECOND))

    assert judged(seen).outcome is outcome, judged(seen).reason


def test_an_update_under_way_when_the_window_opens_is_no_drift() -> None:
    """The runtime is first asked after the cgroup has followed: what it said before is another window's."""
    state: list[Word] = [(0, "0-2"), (29, "0-2")]
    asked: list[Word] = [(2.5, "0-2"), (29, "0-2")]

    assert judged(node(state, asked, [(0, "0-3"), (2.2, "0-2")])).outcome is Outcome.PASSED


def test_an_update_that_never_reaches_the_cgroup_is_drift() -> None:
    """The runtime's word has changed, the file has not."""
    state: list[Word] = [(0, "0-2"), (29, "0-2")]
    asked: list[Word] = [(0, "0-3"), (9, "0-3"), (11, "0-2"), (29, "0-2")]

    assert judged(node(state, asked, [(0, "0-3")])).outcome is Outcome.FAILED


def test_an_old_word_of_the_runtime_breaks_no_promise() -> None:
    """CRI-O has restarted: it says what the container was made with, and it is never asked anew."""
    state: list[Word] = [(-100, "0-2"), (29, "0-2")]
    asked: list[Word] = [(-100, "0-3"), (29, "0-3")]
    verdict = judged(node(state, asked, [(0, "0-2")], "0-2"))

    assert verdict.outcome is Outcome.PASSED, verdict.reason
    assert verdict.reason.endswith("for 129.0 s; the cgroup has what was promised: the runtime's word is an old one")
    assert "lag_ms" not in verdict.measures


@pytest.mark.parametrize(("grown_s", "outcome"), [(28, Outcome.PASSED), (20.5, Outcome.FAILED)])
def test_what_is_promised_next_may_be_what_an_old_word_says(grown_s: float, outcome: Outcome) -> None:
    """The cgroup grows at the next reconcile, which may take 15 s; meanwhile it is no drift, but beyond that it is."""
    state: list[Word] = [(-100, "0-2"), (grown_s - 15.5, "0-2"), (grown_s - 15, "0-3"), (29, "0-3")]
    if outcome is Outcome.FAILED:
        state[1:3] = [(3, "0-2"), (3.5, "0-3")]
    verdict = judged(node(state, [(-100, "0-3"), (29, "0-3")], [(0, "0-2"), (grown_s, "0-3")]))

    assert verdict.outcome is outcome, verdict.reason


def test_a_set_of_before_is_drift_where_the_runtime_has_been_asked_anew() -> None:
    """The pool shrank and the kubelet has reconciled; then another program wrote the set of before."""
    state: list[Word] = [(-100, "0-3"), (5, "0-3"), (6, "0-2"), (29, "0-2")]
    asked: list[Word] = [(-100, "0-3"), (7, "0-3"), (9, "0-2"), (29, "0-2")]
    verdict = judged(node(state, asked, [(0, "0-3"), (8.5, "0-2"), (12, "0-3")]))

    assert verdict.outcome is Outcome.FAILED
    assert "cri and cgroup differ from 12.0 s on: CPUs 0-2 asked for against 0-3" in verdict.reason


@pytest.mark.parametrize(
    ("state", "cgroup"),
    [
        ([(-100, "0-2"), (29, "0-2")], [(0, "0-2"), (20, "0-1")]),
        ([(-100, "0-2"), (29, "0-2")], [(0, "0-3"), (20, "0-2")]),
        ([(-100, "0-1"), (9, "0-1"), (10, "0-2"), (29, "0-2")], [(0, "0-2")]),
        ([], [(0, "0-2")]),
        ([(-100, ""), (29, "")], [(0, "0-2")]),
    ],
    ids=["not to the end", "not from the beginning", "promised later", "no state file", "an empty pool"],
)
def test_a_word_is_old_only_where_the_cgroup_had_all_the_time_what_was_promised(
    state: list[Word], cgroup: list[Word]
) -> None:
    """Else another program wrote it, or it was not reconciled."""
    verdict = judged(node(state, [(-100, "0-3"), (29, "0-3")], cgroup))

    assert verdict.outcome is Outcome.FAILED, verdict.reason


def test_threads_of_an_earlier_cgroup_are_not_compared() -> None:
    """The container restarted: its threads before held what was right then."""
    made = Transition(claim=BE.name, what="cgroup-made", start_at_ns=9 * SECOND, end_at_ns=9 * SECOND, cause="host")
    state: list[Word] = [(0, "0-2"), (29, "0-2")]
    early = mask(BE.name, "0-3", first_at_ns=2 * SECOND, last_at_ns=8 * SECOND)
    seen = node(state, state, [(0, "0-2"), (9.5, "0-2")], thread_masks=(early,))

    assert judged(replace(seen, transitions=(made,))).outcome is Outcome.PASSED
    assert judged(seen).outcome is Outcome.FAILED


def test_a_set_read_while_the_cgroup_was_made_was_held_by_right() -> None:
    """A shared container began with the whole pool and was narrowed by the next reconcile, as its cgroup was.

    The file was read first before the container was known, and only readings that differ are kept.
    """
    added = Transition(claim=BE.name, what="claim-added", start_at_ns=SECOND, end_at_ns=SECOND, cause="kubelet")
    state: list[Word] = [(1, "0-2"), (29, "0-2")]
    asked: list[Word] = [(1, "0-3"), (8, "0-2"), (29, "0-2")]
    held = mask(BE.name, "0-3", first_at_ns=SECOND, last_at_ns=7 * SECOND)
    seen = node(state, asked, [(0.5, "0-3"), (8, "0-2")], thread_masks=(held,), transitions=(added,))

    assert judged(seen).outcome is Outcome.PASSED


def test_a_drift_at_the_end_waits_for_the_next_window() -> None:
    """The runtime was not asked again after the file differed."""
    late = node(SAME, SAME, [(0, "0-3"), (29.5, "0-5")])

    assert judged(late).outcome is Outcome.UNDECIDED


def test_threads_that_keep_an_old_set() -> None:
    """The cgroup was narrowed at the beginning, a thread held the wider mask to the end."""
    state: list[Word] = [(0, "0-2"), (29, "0-2")]
    verdict = judged(node(state, state, [(0, "0-2")], "0-3"))

    assert verdict.outcome is Outcome.FAILED
    assert "cgroup and observed differ since 0.0 s: CPUs 0-2 against 0-3 of thread" in verdict.reason


@pytest.mark.parametrize(("now", "outcome"), [("0-2", Outcome.FAILED), ("", Outcome.FAILED), ("0-3", Outcome.PASSED)])
def test_a_cpu_that_is_back_must_be_back_in_the_cpuset(now: str, outcome: Outcome) -> None:
    """CPU 3 was unplugged and is back since before this window: a v1 cpuset stays narrowed, or empty, by itself."""
    assert judged(node(SAME, SAME, [(0, now)])).outcome is outcome


def test_a_cpu_that_is_offline_is_no_drift() -> None:
    """While it is away the cpuset is without it."""
    gone = HotplugEvent(cpu=3, online=False, at_ns=5 * SECOND)

    assert judged(node(SAME, SAME, [(0, "0-3"), (6, "0-2")], hotplug=(gone,))).outcome is Outcome.PASSED


def test_drift_names_its_writer() -> None:
    """The write before the first reading that differs."""
    author = control_write(11, CGROUP, "0-1", pid=7, tid=7, comm="echo")
    late = replace(author, at_ns=20 * SECOND, pid=8)
    verdict = judged(node(SAME, SAME, [(0, "0-3"), (12, "0-1")], control_writes=(author, late)))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.endswith(
        "drift, no bound; cpuset.cpus of be/main was written by echo (pid 7) at 01:00:11.000 UTC: '0-1'"
    )
    assert verdict.measures["writer_pid"] == 7


def test_lag_behind_a_state_file_names_what_changed_that() -> None:
    """A file that was edited by hand, and well: ``checkpoint`` finds nothing. Not where the runtime's word is newer."""
    by_hand = StateWrite(at_ns=int(12.9 * SECOND), file="cpu_manager_state", did="replaced", pid=7, comm="vi")
    edited = node([(0, "0-3"), (12, "0-3"), (13, "0-2"), (29, "0-2")], SAME, SAME, state_writes=(by_hand,))
    verdict = judged(edited)

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.endswith("; cpu_manager_state was replaced by vi (pid 7) at 01:00:12.900 UTC")
    assert verdict.measures["writer_comm"] == "vi"
    later = judged(node(SAME, [(0, "0-3"), (12, "0-3"), (13, "0-2"), (29, "0-2")], SAME, state_writes=(by_hand,)))
    assert "vi" not in later.reason


@pytest.mark.parametrize(
    ("meant", "lasts_s", "outcome", "words"),
    [
        (ApiCpus.POOL, 29, Outcome.PASSED, "agree"),
        (ApiCpus.OWN, 29, Outcome.FAILED, "CPUs 0-3 are the shared pool, and reported as its own"),
        (ApiCpus.OWN, 10, Outcome.PASSED, "CPUs 0-3 are the shared pool, and reported as its own"),
        (ApiCpus.EITHER, 29, Outcome.UNDECIDED, "as kubelets before v1.23 do for a container that owns no CPU"),
        (None, 29, Outcome.PASSED, "agree"),
    ],
    ids=["before v1.23", "later", "one answer", "version unknown", "saved before it was said"],
)
def test_the_shared_pool_in_pod_resources(meant: ApiCpus | None, lasts_s: float, outcome: Outcome, words: str) -> None:
    """What the API says of a container that owns no CPU is judged by the kubelet's release, as of a capture (F53)."""
    seen = node(SAME, SAME, SAME, "0-3")
    said_by_api = said(Layer.POD_RESOURCES, (0, "0-3"), (lasts_s, "0-3"))
    verdict = judged(replace(seen, layers=(*seen.layers, *(replace(row, api_cpus=meant) for row in said_by_api))))

    assert (verdict.outcome, words in verdict.reason) == (outcome, True), verdict.reason
