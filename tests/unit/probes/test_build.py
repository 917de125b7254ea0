"""From readings to evidence, without a kernel: what each witness gives, and what it says that it did not see."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from probes.node.decoder import CpuReading, OwnEdge, OwnReading
from probes.node.untraced import Hidden, Untraced
from probes.readings import Reading, Readings, Watched
from probes.switches.decoder import SwitchEdge
from tests.unit.probes.readings import (
    ACTIONS,
    BANDWIDTH,
    CLAIM,
    DB,
    FILES,
    FRAME,
    INTERRUPTS,
    LOST,
    MASKS,
    ONLINE,
    QUIET,
    SECOND,
    START,
    SWITCHES,
    THREADS,
    built,
    but,
    state,
)
from toolkit.model import serde
from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot, ScanGap, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage, Evidence, Transition
from toolkit.model.evidence.controls import ControlEvidence
from toolkit.model.evidence.window import ClaimChangeEvidence
from toolkit.model.node_evidence import NodeEvidence

OF_THE_SESSION = {field.name for part in (NodeEvidence, ControlEvidence, ClaimChangeEvidence) for field in fields(part)}
"""What the session's own readings give (``tests/unit/toolkit/session/engine/test_composing.py``), and no witness."""


def doubts(*changed: Reading) -> dict[str, set[Witness]]:
    """Return what a window with these readings did not see, with the witnesses that it leaves doubtful."""
    return {spot.text: set(spot.witnesses) for spot in built(FRAME, but(*changed)).coverage.blindness}


def test_a_quiet_window_is_told_in_full() -> None:
    """Each witness's rows arrive, in numbers that can be checked by hand."""
    found = built(FRAME, QUIET)

    assert (found.started_at, found.start_monotonic_ns, found.duration_ns) == (FRAME.started_at, START, SECOND)
    (use,) = found.cpu_use
    assert (use.claim, use.cpu, use.switches, use.run_ns, use.out_of_set_ns, use.cuts) == ("db", 1, 40, 9_000, 50, 2)
    assert [(row.claim, row.tid, row.first_at_ns, row.total_ns) for row in found.offenders] == [("db", 70, 5, 50)]
    assert [(row.comm, row.cgroup, row.owner.value) for row in found.intruders] == [("cron", "/system/cron", "system")]
    assert found.standstill_by_cpu_ns == {0: 0, 1: 8}
    (level,) = [row for row in found.bandwidth if row.level == 0]
    assert (level.usage_ns, level.bpf_usage_ns, level.quota_us, level.window_ns) == (9_200, 9_000, 50_000, SECOND)
    assert (found.steal_ns, found.steal_by_cpu_ns) == (4, {0: 3, 1: 1})
    assert found.run_delay_ns == {"db": 19}
    assert [(row.name, row.count, row.ns) for row in found.irq_use or ()] == [("TIMER", 4, 400)]
    assert [(row.at_ns, row.to_claim, row.writer_comm) for row in found.cgroup_moves] == [(3, "db", "sh")]
    assert found.affinity_changes is None
    assert [row.tid for row in found.thread_masks] == [70]
    assert (found.toolkit_cpu_ns, found.bpf_run_ns) == (20, None)
    assert [event.cpu for event in found.hotplug] == [1]


def test_a_quiet_window_is_covered() -> None:
    """1000 switches were judged, the kernel counted 998 to 1005; nothing was lost, and nothing is in doubt."""
    found = built(FRAME, QUIET).coverage

    assert (found.switches_judged, found.switches_kernel, found.switches_skew) == (1_000, 1_005, 8)
    assert (found.lost_events, found.map_full, found.missed_runs, found.blindness, found.blind_spots) == (
        0,
        0,
        0,
        (),
        (),
    )
    assert (found.cpus_seen, found.cpus_online, found.cpus_unsampled, found.sampler_hz) == (
        ONLINE,
        ONLINE,
        CpuSet(),
        99,
    )
    assert (found.window_skew_ns, found.witness_skew_ns) == (20, 100 + 10 + 200 + 20)
    assert (found.softirqs_judged, found.softirqs_kernel, found.softirqs_skew) == (4, 4, 0)
    assert (found.proc_scans, found.file_readings, found.file_gap_ns) == (5, 1, SECOND)


def test_every_field_has_a_witness() -> None:
    """What no witness gives is what belongs to the window, or what only the session knows: a forgotten part shows."""
    parts = [reading.decode(Readings(FRAME, tuple(QUIET))) for reading in QUIET]
    given = [field.name for part in parts if part.evidence is not None for field in fields(part.evidence)]  # type: ignore[arg-type]
    covered = [field.name for part in parts if part.coverage is not None for field in fields(part.coverage)]  # type: ignore[arg-type]
    window = {"started_at", "start_monotonic_ns", "duration_ns", "environment", "coverage", "transitions"}

    assert len(given) == len(set(given))
    assert {field.name for field in fields(Evidence)} == set(given) | window | OF_THE_SESSION | {"picture"}
    whole = {"positive_control_latency_ms", "blind_spots", "blindness"}
    assert {field.name for field in fields(Coverage)} == set(covered) | whole
    assert len(covered) == len(set(covered))


def test_evidence_is_flat_in_a_file() -> None:
    """Parts are a matter of Python: a file has one level, and is read back as what was written."""
    found = built(FRAME, QUIET)
    text = serde.to_json(found)

    assert serde.from_json(Evidence, text, "evidence.json") == found
    assert json.loads(text).keys() == {field.name for field in fields(Evidence)}
    assert json.loads(text)["coverage"].keys() == {field.name for field in fields(Coverage)}


def test_lost_records_are_counted_by_difference() -> None:
    """Rings and maps count since the programs were loaded; what user space could not keep is added."""
    last = SwitchEdge(
        states=(state(closed_window=7, lost_events=5), state(closed_window=7, lost_events=2, map_full=4)),
        members_lost=6,
    )
    own = OwnReading(first=OwnEdge(missed_before=3, missed=3), last=OwnEdge(missed=5))

    found = built(FRAME, but(replace(SWITCHES, last=last, dropped=10), own)).coverage

    assert (found.lost_events, found.map_full, found.missed_runs) == (5, 1 + 6 + 10, 2)


def test_a_cpu_that_never_turned_its_window_over_is_not_seen() -> None:
    """Its counters are of another window; of an open window the running ones count, not those of the one before."""
    away = replace(SWITCHES, last=SwitchEdge(states=(state(closed_window=7, closed_judged=5), state(closed_window=6))))
    running = SwitchEdge(
        states=(state(window=7, judged=11, closed_window=6, closed_judged=99), state(window=7, judged=2))
    )

    # The ledger's last moment of a CPU that went offline in the window: it runs on in it.
    gone = replace(
        SWITCHES, last=SwitchEdge(states=(state(closed_window=7, closed_judged=5), state(window=7, judged=3)))
    )
    without = replace(FRAME, last=replace(FRAME.last, online=CpuSet.parse("0")))

    closed = built(FRAME, but(away)).coverage
    offline, silent = built(without, but(gone)).coverage, built(FRAME, but(gone)).coverage
    still = built(replace(FRAME, closed=False), but(replace(SWITCHES, last=running))).coverage

    assert (closed.cpus_seen, closed.switches_judged) == (CpuSet.parse("0"), 5)
    assert (offline.cpus_seen, offline.switches_judged) == (ONLINE, 8)
    assert (silent.cpus_seen, silent.switches_judged) == (CpuSet.parse("0"), 5)
    assert (still.cpus_seen, still.switches_judged) == (ONLINE, 13)


@pytest.mark.parametrize(
    ("changed", "told", "witnesses"),
    [
        (replace(MASKS, dropped={"db": 3}), "3 thread masks of db were not kept", {Witness.MASKS}),
        (
            replace(MASKS, gaps=(ScanGap(claim="db", scans=1, longest_ns=900, at_ns=0, allowed_ns=500),)),
            "thread masks of db were not read for",
            {Witness.MASKS},
        ),
        (replace(FILES, dropped=2), "2 changes of control files were not kept", {Witness.FILES}),
        (
            replace(ACTIONS, last=replace(ACTIONS.last, moves=9)),
            "4 moves between cgroups were not reported",
            {Witness.ACTIONS},
        ),
        (
            replace(INTERRUPTS, rows=()),
            "4 of 4 softirqs on watched CPUs passed no tracepoint",
            {Witness.INTERRUPTS},
        ),
        (replace(SWITCHES, slot_gap=(7 * SECOND, START)), "the observer stood still for 7.00 s", {Witness.SLOTS}),
        (CpuReading(lapses=("events were lost",)), "events were lost", set(EVERY_WITNESS)),
        (
            replace(THREADS, untraced=Untraced(switches=9, skew=0, threads=(Hidden(name="kvm (9)", cpus=ONLINE),))),
            "this kernel hides threads from its tracepoints: kvm (9)",
            {Witness.SYSTEM_TASKS, Witness.SWITCHES},
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Reading) else "",
)
def test_what_was_not_seen_leaves_its_witness_in_doubt(changed: Reading, told: str, witnesses: set[Witness]) -> None:
    """Overruns, gaps and hidden threads are doubts of the witness that they concern, and of no other."""
    ((text, kinds),) = doubts(changed).items()

    assert text.startswith(told)
    assert kinds == witnesses


def test_what_was_noted_comes_with_what_the_readings_show() -> None:
    """Each text once, and the notes of the observer's parts among them."""
    noted = BlindSpot(text="a thread met an error", witnesses=EVERY_WITNESS)
    found = built(replace(FRAME, spots=(noted, noted)), but(replace(FILES, dropped=1))).coverage

    assert found.blindness[0] == noted
    assert len(found.blindness) == 2
    assert found.blind_spots == tuple(spot.text for spot in found.blindness)


def test_hidden_switches_widen_what_may_differ() -> None:
    """What the kernel counted and no tracepoint told is a number of its own, and its doubt is added to the skew."""
    hidden = replace(THREADS, untraced=Untraced(switches=50, skew=7, threads=()))

    found = built(FRAME, but(hidden)).coverage

    assert (found.switches_untraced, found.switches_skew) == (50, 7 + 7)


def test_without_a_sampler_an_open_window_has_no_second_account() -> None:
    """Nothing interrupts a nohz_full CPU to count what runs there; when the window has closed it was counted."""
    silent = replace(BANDWIDTH, silent=CpuSet.parse("1"))
    still = replace(FRAME, closed=False)

    assert [row.bpf_usage_ns for row in built(still, but(silent)).bandwidth] == [None]
    assert [row.bpf_usage_ns for row in built(FRAME, but(silent)).bandwidth] == [9_000]


def test_a_claim_that_came_later_is_compared_from_its_first_reading_on() -> None:
    """What the ledger had counted by then is in no reading of the cgroup's own counters."""
    late = replace(BANDWIDTH, base_ns={"db": 500})

    assert [row.bpf_usage_ns for row in built(FRAME, but(late)).bandwidth] == [8_500]


def test_nested_claims_are_in_the_outer_ones_account() -> None:
    """The ledger gives a task to the deepest claim; the kernel's count of the outer cgroup includes it."""
    inner = Watched(claim=replace(CLAIM, name="in", cgroup="/pods/db/in"), ident=LOST, cpus=ONLINE, present=False)
    rows = {**SWITCHES.rows, LOST: [SWITCHES.rows[DB][1]]}
    frame = replace(FRAME, subjects=(inner, *FRAME.subjects))

    found = built(frame, but(replace(SWITCHES, rows=rows)))

    assert {row.claim: row.bpf_usage_ns for row in found.bandwidth if row.level == 0}["db"] == 18_000
    assert [(row.claim, row.run_ns) for row in found.cpu_use] == [("in", 9_000), ("db", 9_000)]


def test_transitions_are_the_windows_own() -> None:
    """No witness reads them: they are passed on."""
    change = Transition(claim="db", what="restart", start_at_ns=1, end_at_ns=2)

    assert built(replace(FRAME, transitions=(change,)), QUIET).transitions == (change,)
