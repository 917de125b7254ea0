"""What a source said, cut into windows: a value with its first and last reading, what was said before with its time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tests.unit.validators.evidence_builder import evidence
from tests.unit.validators.live_layers_builder import BE, SAME, judged, node
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpu_tuning import CpuSettings
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.following import Following, Gauges
from toolkit.model.held import FOREVER_NS, OWING, Held, Why
from toolkit.model.layers import ApiCpus, Layer, LayerView
from toolkit.model.node_reading import MissingPart
from toolkit.model.state_files import StateReading
from toolkit.model.verdict import Outcome
from toolkit.session.following.layer_history import LayerHistory
from toolkit.sources.live_source import SourceReading
from validators.layers.claim_layers import claim_layers
from validators.queries.life import whole

SECOND = 1_000_000_000


def reading(at_s: int, cpus: str) -> SourceReading:
    view = LayerView(claim="be/main", layer=Layer.RUNTIME, at_ns=at_s * SECOND, cpus=CpuSet.parse(cpus))
    return SourceReading(
        claims=ClaimSet(claims=(), reconcile_period_s=10.0), layers=(view,), give_back_s=15.0, complete=True
    )


def test_a_window_has_what_was_said_in_it_and_last_before() -> None:
    """Read every 2 s from 2 s to 20 s; the set shrank between 8 s and 10 s. A window from 9 s to 15 s."""
    history = LayerHistory("kubelet")
    for at_s in range(2, 21, 2):
        history.read(reading(at_s, "0-3" if at_s <= 8 else "0-2"), at_s * SECOND)

    stated = history.node_evidence(9 * SECOND, 6 * SECOND)

    assert [(str(view.cpus), view.at_ns // SECOND) for view in stated.layers] == [("0-2", 1), ("0-2", 6)]
    before = history.node_evidence(5 * SECOND, 2 * SECOND)
    assert [(str(view.cpus), view.at_ns // SECOND) for view in before.layers] == [("0-3", -3), ("0-3", 2)]
    assert stated.following is not None
    assert (stated.following.readings, stated.following.gap_ns, stated.following.slack_ns) == (
        3,
        2 * SECOND,
        5 * SECOND,
    )


def test_a_state_file_that_was_silent_says_the_same_anew() -> None:
    """It said 0 until 4 s and from 12 s on; what the pool was in between is not said."""
    history = LayerHistory("kubelet")
    for at_s in range(2, 15, 2):
        said = LayerView(claim="be/main", layer=Layer.CHECKPOINT, at_ns=at_s * SECOND, cpus=CpuSet.parse("0"))
        silent = 4 < at_s < 12
        one = reading(at_s, "0-1" if silent else "0")
        history.read(one if silent else replace(one, layers=(*one.layers, said)), at_s * SECOND)

    rows = [view for view in history.node_evidence(0, 20 * SECOND).layers if view.layer is Layer.CHECKPOINT]
    layers = claim_layers(whole(Claim(name="be/main", cgroup="/c"), replace(evidence(), layers=tuple(rows))))
    assert [(one.first_ns // SECOND, one.last_ns // SECOND) for one in layers.state] == [(2, 4), (12, 14)]


def test_a_set_is_given_back_once_from_its_first_sight_on() -> None:
    """Another reading of the same does not move the limit; when it has been given back, when is history."""
    history = LayerHistory("kubelet")
    row = Held(claim="be/main", cpus=CpuSet.parse("3"), why=Why.OWED, from_ns=10 * SECOND)
    assert history.owes(row, 15.0, 10 * SECOND).due_ns == 25 * SECOND
    assert history.owes(replace(row, from_ns=12 * SECOND), 15.0, 12 * SECOND).due_ns == 25 * SECOND
    (one,) = history.node_evidence(5 * SECOND, 8 * SECOND).held
    assert (one.from_ns, one.due_ns, one.to_ns) == (5 * SECOND, 20 * SECOND, FOREVER_NS)
    history.gave_back("be/main", 14 * SECOND)
    (one,) = history.node_evidence(5 * SECOND, 30 * SECOND).held
    assert one.to_ns == 9 * SECOND
    assert history.node_evidence(15 * SECOND, SECOND).held == ()


def test_what_was_given_back_too_late_was_so_although_more_is_owed() -> None:
    """CPUs 2-3 were due after 15 s; CPU 3 went after 20 s, CPU 2 is owed on: each is late once, in a row of its own."""
    history = LayerHistory("kubelet")
    row = Held(claim="be/main", cpus=CpuSet.parse("2-3"), why=Why.OWED)
    history.owes(replace(row, from_ns=SECOND), 15.0, SECOND)
    history.owes(replace(row, cpus=CpuSet.parse("2"), from_ns=21 * SECOND), 15.0, 21 * SECOND)

    rows = [one for one in history.node_evidence(0, 30 * SECOND).held if one.why in OWING]
    assert [(str(one.cpus), one.from_ns, one.due_ns) for one in rows] == [
        ("3", SECOND, 16 * SECOND),
        ("2", SECOND, 16 * SECOND),
    ]
    assert [one.to_ns for one in rows] == [21 * SECOND, FOREVER_NS]

    seen = node(SAME, SAME, SAME, held=tuple(replace(one, claim=BE.name) for one in rows))
    reason = judged(seen).reason
    assert [reason.count(f"it has CPUs {cpus}, which were promised away") for cpus in ("3", "2", "2-3")] == [1, 1, 0]


def test_a_container_in_the_making_is_told_while_it_is_one() -> None:
    """Created by 4 s, running by 8 s: of the windows in which a reading said so, with the times of the readings."""
    history = LayerHistory("kubelet")
    for at_s in range(2, 13, 2):
        row = Held(claim="x/c", cgroup="/kubepods/podx/c", why=Why.BEING_MADE)
        history.read(replace(reading(at_s, "0-3"), held=(row,) if 4 <= at_s < 8 else ()), at_s * SECOND)

    (one,) = history.node_evidence(3 * SECOND, 2 * SECOND).held
    assert (one.cgroup, one.from_ns, one.to_ns) == ("/kubepods/podx/c", SECOND, 3 * SECOND + 1)
    assert history.node_evidence(5 * SECOND, 5 * SECOND).held[0].from_ns == -SECOND
    assert history.node_evidence(7 * SECOND, 5 * SECOND).held == ()


def test_what_was_said_of_a_life_that_ended_is_not_said_of_the_next() -> None:
    """Another cgroup, another container. In a window that ended before that life did it is the present one."""
    history = LayerHistory("kubelet")
    history.read(reading(1, "0-3"), SECOND)
    history.ended("be/main", "/old", 2 * SECOND)
    history.read(reading(3, "0-2"), 3 * SECOND)

    stated = history.node_evidence(0, 5 * SECOND)
    assert [str(view.cpus) for view in stated.layers] == ["0-2"]
    (life,) = stated.ended_lives
    assert (life.claim, life.cgroup, life.until_ns) == ("be/main", "/old", 2 * SECOND)
    assert [(str(view.cpus), view.at_ns) for view in life.layers] == [("0-3", SECOND)]

    earlier, later = history.node_evidence(0, SECOND * 3 // 2), history.node_evidence(4 * SECOND, SECOND)
    assert [str(view.cpus) for view in earlier.layers] == ["0-3"]
    assert [str(view.cpus) for view in later.layers] == ["0-2"]
    assert earlier.ended_lives == later.ended_lives == ()


def test_what_was_promised_anew_after_a_window_is_known_in_it() -> None:
    """For as long as a node may go unread: what promised it may have written it within the window."""
    history = LayerHistory("docker")
    history.read(reading(1, "0-3"), SECOND)
    history.renewed(Claim(name="be/main", cgroup="/c"), 12 * SECOND)

    assert [one.at_ns for one in history.node_evidence(0, 10 * SECOND).claim_changes] == [12 * SECOND]
    assert [one.at_ns for one in history.node_evidence(5 * SECOND, 5 * SECOND).claim_changes] == [7 * SECOND]
    for start_s, length_s in ((0, 12), (0, -4), (11, 10)):
        assert history.node_evidence(start_s * SECOND, length_s * SECOND).claim_changes == (), (start_s, length_s)


def following(history: LayerHistory, start_s: int, duration_s: int) -> Following:
    found = history.node_evidence(start_s * SECOND, duration_s * SECOND).following
    assert found is not None
    return found


def test_only_an_answer_counts_as_a_reading() -> None:
    """Asked every 2 s, in vain from 8 s on: the gap grows over the ends of windows, and each window says why."""
    history = LayerHistory("docker")
    history.begin(0)
    dead = replace(reading(0, "0-3"), complete=False, missing=(MissingPart(part="docker", reason="refused"),))
    for at_s in range(2, 41, 2):
        history.read(reading(at_s, "0-3") if at_s < 8 else dead, at_s * SECOND)

    found = [following(history, start_s, 10) for start_s in (0, 10, 20)]

    assert [(one.readings, one.unanswered, one.gap_ns // SECOND) for one in found] == [
        (3, 2, 4),
        (0, 6, 14),
        (0, 6, 24),
    ]
    assert [one.missing for one in found] == [("docker: refused",)] * 3


def test_a_window_without_an_attempt_is_as_the_last_one_before() -> None:
    """Windows shorter than the time between two readings: an answer holds, and so does a failure."""
    history = LayerHistory("kubelet")
    history.begin(0)
    history.read(reading(1, "0-3"), SECOND)
    assert (following(history, 2, 1).unanswered, following(history, 2, 1).gap_ns) == (0, 2 * SECOND)
    history.failed("hangs", 4 * SECOND)
    assert (following(history, 5, 1).readings, following(history, 5, 1).unanswered) == (0, 1)
    assert following(history, 2, 1).unanswered == 0, "what came after a window is not of it"


def test_what_lies_before_the_watch_is_no_gap() -> None:
    """Read first, then programs are compiled for a minute, then the first window opens."""
    history = LayerHistory("kubelet")
    history.read(reading(1, "0-3"), SECOND)
    history.begin(60 * SECOND)
    history.read(reading(62, "0-3"), 62 * SECOND)
    assert following(history, 60, 5).gap_ns == 3 * SECOND


def test_gauges_are_cut_into_what_lasted() -> None:
    """Read every 10 s, another value from 30 s on: a window has each with its first and last time in it."""
    history = LayerHistory("kubelet")
    for at_s in range(10, 51, 10):
        history.read(replace(reading(at_s, "0-3"), gauges=Gauges(values={"a": at_s // 30})), at_s * SECOND)
        history.read(reading(at_s + 2, "0-3"), (at_s + 2) * SECOND)

    found = history.node_evidence(15 * SECOND, 30 * SECOND).gauges
    assert [(one.values["a"], one.since_ns // SECOND, one.until_ns // SECOND) for one in found] == [
        (0, -5, 5),
        (1, 15, 30),
    ]
    assert history.node_evidence(60 * SECOND, SECOND).gauges == ()


def test_a_file_that_is_not_written_has_been_so_since_its_first_reading() -> None:
    """Two readings for a window in which nothing changed: how long a file has said the same decides what is a leak."""
    history = LayerHistory("kubelet")
    state = StateReading(at_ns=0, cpus_online=CpuSet.parse("0-3"), containers=())
    for at_s in range(2, 41, 2):
        history.read(replace(reading(at_s, "0-3"), state_files=(state,)), at_s * SECOND)

    stated = history.node_evidence(35 * SECOND, 5 * SECOND)

    assert [one.at_ns // SECOND for one in stated.state_files] == [-33, 5]

    # A reading after the window's end is the last one: it was so at the end.
    stated = history.node_evidence(25 * SECOND, 5 * SECOND)
    assert [one.at_ns // SECOND for one in stated.state_files] == [-23, 5]


def test_a_forgotten_container_is_so_until_a_reading_says_otherwise() -> None:
    """From its first reading; one in which the runtime was asked in vain ends nothing, another life does."""
    history = LayerHistory("kubelet")
    row = Held(claim="be/main", cpus=CpuSet.parse("3"), why=Why.FORGOTTEN, asks=1)
    for at_s, rows, complete in ((2, (), True), (4, (row,), True), (6, (), False), (8, (row,), True), (10, (), True)):
        history.read(replace(reading(at_s, "3"), held=rows, complete=complete), at_s * SECOND)

    for length_s in (4, 6):
        (one,) = history.node_evidence(5 * SECOND, length_s * SECOND).held
        assert (one.from_ns, one.to_ns) == (-SECOND, 5 * SECOND)
    assert history.node_evidence(11 * SECOND, SECOND).held == ()
    history.read(replace(reading(12, "3"), held=(row,)), 12 * SECOND)
    history.ended("be/main", "/c", 13 * SECOND)
    assert history.node_evidence(14 * SECOND, SECOND).held == ()


def test_what_a_state_file_said_before_the_window_reaches_back_for_two_reconciles() -> None:
    """Files change each 2 s on a busy node: what stands on in each of them is known from its begin on."""
    history = LayerHistory("kubelet")
    for at_s in range(2, 81, 2):
        state = StateReading(at_ns=0, cpus_online=CpuSet.parse(f"0-{at_s}"), containers=())
        history.read(replace(reading(at_s, "0-3"), state_files=(state,)), at_s * SECOND)

    stated = history.node_evidence(60 * SECOND, 4 * SECOND)

    assert [one.at_ns // SECOND for one in stated.state_files] == list(range(-30, 5, 2))
    # Of a file that cannot be read any more nothing is history.
    assert history.node_evidence(99 * SECOND, SECOND).state_files[-1].at_ns == -19 * SECOND
    for at_s in range(100, 131, 2):
        history.read(reading(at_s, "0-3"), at_s * SECOND)
    assert history.node_evidence(120 * SECOND, SECOND).state_files == ()


def test_a_version_that_becomes_known_is_new_although_the_cpus_are_the_same() -> None:
    """From 8 s on the kubelet can be asked: what its pod-resources means is known for the window."""
    history = LayerHistory("kubelet")
    for at_s in range(2, 15, 2):
        meant = ApiCpus.EITHER if at_s < 8 else ApiCpus.POOL
        said = LayerView(
            claim="be/main", layer=Layer.POD_RESOURCES, at_ns=at_s * SECOND, cpus=CpuSet.parse("0-1"), api_cpus=meant
        )
        history.read(replace(reading(at_s, "0-1"), layers=(said,)), at_s * SECOND)

    rows = list(history.node_evidence(0, 20 * SECOND).layers)
    layers = claim_layers(whole(Claim(name="be/main", cgroup="/c"), replace(evidence(), layers=tuple(rows))))
    assert [(one.first_ns // SECOND, one.last_ns // SECOND) for one in layers.api] == [(2, 14)]
    assert layers.api_cpus is ApiCpus.POOL


def test_what_a_machine_says_of_its_cpus_stands_until_it_is_read_again() -> None:
    """A source reads it once in a while."""
    history = LayerHistory("kubelet")
    settings = CpuSettings(default_interrupts=CpuSet.parse("0"))
    history.read(replace(reading(2, "0-3"), cpu_settings=settings), 2 * SECOND)
    history.read(reading(4, "0-3"), 4 * SECOND)

    assert history.node_evidence(3 * SECOND, 6 * SECOND).cpu_settings == settings


def test_an_owner_without_an_entry_that_changes_while_it_is_late_is_late_once() -> None:
    """Forgotten at 2 s and late from 17 s on; at 40 s it asks for one CPU and is certain, at 50 s it is not any more:
    no moment is in two rows, and windows that see two of them find one debt, since 2 s.
    """
    history = LayerHistory("kubelet")
    two = Held(claim=BE.name, cpus=CpuSet.parse("2-3"), why=Why.FORGOTTEN, asks=2, certain=False)
    one = replace(two, asks=1, certain=True)
    for at_s in range(2, 81, 2):
        row = two if at_s < 40 else one if at_s < 50 else replace(one, certain=False)
        history.read(replace(reading(at_s, "2-3"), held=(row,)), at_s * SECOND)

    found = []
    for start_s in (0, 30, 45, 60):
        rows = history.node_evidence(start_s * SECOND, 30 * SECOND).held
        assert all(before.to_ns == after.from_ns for before, after in pairwise(rows))
        verdict = judged(node(SAME, SAME, SAME, held=rows))
        since = "since 2.0 s" if start_s == 0 else f"since {start_s - 2:.1f} s before"
        assert verdict.reason.count("of its own requested") == verdict.reason.count(since) == 1, verdict.reason
        found.append((verdict.outcome, verdict.measures["forgotten_ms"]))
    assert found == [
        (Outcome.UNDECIDED, 28_000),
        (Outcome.FAILED, 48_000),
        (Outcome.FAILED, 48_000),
        (Outcome.UNDECIDED, 88_000),
    ]
