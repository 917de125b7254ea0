"""Evidence that was edited: what cannot be of one run, or of one watch, is not passed.

Recorded runs of a real machine are edited in every way that takes something away or calls it something else.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.cli.saved_edits import edits
from tests.unit.validators.evidence_builder import balanced, claim_db, claim_set, evidence, in_a_row, use
from toolkit import store
from toolkit.cli.main import cli
from toolkit.errors import InputError
from toolkit.model.actions import CgroupMove
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.held import Held, Why
from toolkit.model.verdict import Outcome
from toolkit.session.engine.record import recorded
from toolkit.session.saved import judge_saved
from toolkit.session.windows.sums import Sums
from validators.credibility.one_observation import misfits

DATA = Path(__file__).resolve().parents[3] / "data"
RUNS = DATA / "runs"
WATCH = DATA / "watches/escape-seen"
"""Three windows: in the first a task joins the claim on a CPU that it does not have, in the second it ends."""
STAGES = ("claims", "evidence", "canaries")

NO_CONSEQUENCE = {
    "bandwidth.system_ns": "a remark: no rule reads it",
    "run_delay_ns": "a measure, for people",
    "toolkit_cpu_ns": "a measure, for people",
    "usage_bins": "no quota and no weight was promised: how CPU time was spread is not judged",
    "canaries.cpu": "where the control ran; what it showed is compared with its own evidence",
    "coverage.window_skew_ns": "an allowance: less of it lets less pass",
    "coverage.witness_skew_ns": "an allowance: less of it lets less pass",
    "cpu_use.arrival_lag_ns": "an allowance: less of it lets less pass",
    "cpu_use.departure_lag_ns": "an allowance: less of it lets less pass",
    "cpu_use.idle_wakes": "an allowance: less of it lets less pass",
    "canaries.planted_switches": "less planted than was seen is no missed escape",
    "cpu_use.samples": "samples inside the set are a second witness of where it ran, which the ledger tells",
    "files_before.at_ns": "what the file said is judged; that it was read after the window began would be noticed",
    "thread_masks": "the thread's masks lie within its claim's CPUs; by whatever number or name, and read how often",
    "coverage.file": "how closely files were followed: 0 is what runs say from before it was measured",
    "coverage.scan_gaps": "how closely threads were followed: none is what runs say from before it was measured",
    "files_before: taken out": "the root cgroup's, which promises nothing",
    "files_after: taken out": "the root cgroup's, which promises nothing",
}
"""Of a passed window without a result: edits after which it passes, by what they begin with, and why it may."""


def read(run: Path, stage: str) -> Any:
    return json.loads((run / f"{stage}.json").read_text())


def outcome(run: Path) -> Outcome | None:
    """Return what a run comes to; ``None``: it is refused."""
    try:
        return judge_saved(run).result.outcome
    except InputError:
        return None


def after_edits(run: Path) -> dict[str, set[Outcome | None]]:
    """Return what the run comes to after each kind of edit of its evidence."""
    path = run / "evidence.json"
    original = path.read_bytes()
    found: dict[str, set[Outcome | None]] = {}
    for what, edited in edits(json.loads(original), [one["name"] for one in read(run, "claims")["claims"]]):
        path.write_text(json.dumps(edited))
        found.setdefault(what, set()).add(outcome(run))
    path.write_bytes(original)
    return found


def a_copy(of: Path, to: Path, *, result: bool = True) -> Path:
    shutil.copytree(of, to)
    if not result:
        (to / "result.json").unlink(missing_ok=True)
    return to


def saved_watch(path: Path) -> Path:
    """The recorded windows as they are saved today, with digests and sums."""
    sums, before = Sums(), ""
    for number, source in store.window_paths(WATCH).items():
        run = store.load_run(source)
        window = path / store.WINDOW.format(number)
        record = recorded(window, claims=run.claims, evidence=run.evidence, canaries=run.canaries, before=before)
        record.save()
        before = store.digest_of(record.texts["result"])
        sums.add(number, record.result, record.ran.rows)
    store.save_windows_result(path, store.reread(sums.result()))
    return path


@pytest.mark.parametrize("source", [WATCH / "window-000001", WATCH / "window-000002", RUNS / "quota-half-busy-host"])
def test_no_edit_of_the_evidence_lets_a_failed_run_pass(source: Path, tmp_path: Path) -> None:
    """Also where there is no result that it could be compared with."""
    run = a_copy(source, tmp_path / "run", result=False)
    assert outcome(run) is Outcome.FAILED
    found = after_edits(run)
    assert len(found) > 50
    assert {what for what, outcomes in found.items() if Outcome.PASSED in outcomes} == set()


def test_edits_of_a_passed_window_that_leave_it_passed_are_of_no_consequence(tmp_path: Path) -> None:
    """Each of them has its reason; what has none leaves nothing passed."""
    run = a_copy(WATCH / "window-000003", tmp_path / "run")
    assert outcome(run) is Outcome.PASSED
    passed = {what for what, outcomes in after_edits(run).items() if Outcome.PASSED in outcomes}
    assert {what for what in passed if not what.startswith(tuple(NO_CONSEQUENCE))} == set()
    unused = {begin for begin in NO_CONSEQUENCE if not any(what.startswith(begin) for what in passed)}
    assert unused == set()


@pytest.mark.parametrize("number", [1, 3])
def test_beside_its_result_no_edit_passes(number: int, tmp_path: Path) -> None:
    """The result states the digest of what was judged: then also what would be of no consequence is noticed."""
    watch = saved_watch(tmp_path / "watch")
    run = watch / store.WINDOW.format(number)
    assert outcome(run) is (Outcome.FAILED if number == 1 else Outcome.PASSED)
    assert {what for what, outcomes in after_edits(run).items() if Outcome.PASSED in outcomes} == set()


@pytest.mark.parametrize("stage", ["claims", "canaries"])
def test_other_stages_are_held_to_their_digest(stage: str, tmp_path: Path) -> None:
    """A promise that was changed, or controls of another run, are not those that were judged; nor is none."""
    run = saved_watch(tmp_path / "watch") / "window-000003"
    path = run / f"{stage}.json"
    path.write_text(path.read_text() + " ")
    done = CliRunner().invoke(cli, ["judge", str(run)])
    assert done.exit_code == 3
    assert f"{stage}.json is not the one that result.json was made of" in " ".join(done.stdout.split())
    if stage == "canaries":
        path.unlink()
        assert outcome(run) is Outcome.UNDECIDED


def test_a_saved_watch_is_of_one_piece(tmp_path: Path) -> None:
    """What was saved is judged as it was, without a word."""
    done = CliRunner().invoke(cli, ["judge", str(saved_watch(tmp_path / "watch")), "--json"])
    assert (done.exit_code, done.stderr) == (1, "")
    assert "run" not in {one["subject"] for one in json.loads(done.stdout)["verdicts"]}


@pytest.mark.parametrize("digests", [True, False])
@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize(
    "kept", [(3, 3, 3), (3,), (3, None, None), (None, None, 3)], ids=["copies", "alone", "first", "last"]
)
def test_windows_that_are_not_of_one_watch(
    kept: tuple[int | None, ...], sums: bool, digests: bool, tmp_path: Path
) -> None:
    """The failed ones replaced by copies of the passed one, or taken away: with sums or without, digests or not."""
    watch = saved_watch(tmp_path / "watch")
    made = tmp_path / "made"
    for number, source in enumerate(kept, start=1):
        if source is not None:
            window = a_copy(watch / store.WINDOW.format(source), made / store.WINDOW.format(number))
            if not digests:
                path = window / "result.json"
                path.write_text(json.dumps({**json.loads(path.read_text()), "digests": {}}))
    if sums:
        shutil.copy(watch / "result.json", made)
    expected = Outcome.UNDECIDED if sums or digests or (len(kept) > 1 and kept != (3, None, None)) else Outcome.PASSED
    # Neither sums nor digests: a watch that was killed after its first window says the same.
    assert outcome(made) is expected


@pytest.mark.parametrize("verb", [["judge"], ["report"], ["compare", str(RUNS / "three-classes")]])
@pytest.mark.parametrize("digests", [True, False])
def test_evidence_of_another_run(verb: list[str], digests: bool, tmp_path: Path) -> None:
    """Of the same machine and the same claims: three lines on standard error were all that was said."""
    watch = saved_watch(tmp_path / "watch")
    run, other = watch / "window-000001", watch / "window-000003"
    shutil.copy(other / "evidence.json", run)
    if not digests:
        path = run / "result.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "digests": {}}))
    done = CliRunner().invoke(cli, [*verb, str(run)])
    assert done.exit_code == (1 if verb[0] == "compare" else 3)


def row_outside(**changes: Any) -> Evidence:
    """``db`` ran for 30 ms on CPU 0, all of it in a transition."""
    row = replace(use("db", 0, switches=3, run_ns=30_000_000, samples=0), transition_switches=3)
    return balanced(evidence(cpu_use=(*evidence().cpu_use, replace(row, transition_ns=30_000_000)), **changes))


def move(at_ns: int, hierarchy: str) -> CgroupMove:
    return CgroupMove(
        at_ns=at_ns,
        tid=7,
        comm="db",
        whole_process=True,
        from_claim="",
        to_claim="db",
        hierarchy=hierarchy,
        cgroup="/kubepods/poda/db",
        writer_tid=1,
        writer_comm="runc",
    )


CHANGE = Transition(claim="db", what="mask-change", start_at_ns=0, end_at_ns=25_000_000)
GREW = Held(claim="db", cpus=CpuSet.parse("0"), why=Why.GRANTED, from_ns=0, certain=False)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, False),
        ({"transitions": (CHANGE,)}, True),
        ({"transitions": (replace(CHANGE, claim="web"),)}, False),
        ({"transitions": (replace(CHANGE, end_at_ns=1_000_000),)}, False),
        ({"held": (replace(GREW, to_ns=5_000_000_000),)}, False),
        ({"held": (replace(GREW, to_ns=30_000_000_001),)}, True),
        ({"held": (replace(GREW, why=Why.OWED, to_ns=25_000_000),)}, True),
        ({"held": (replace(GREW, why=Why.OWED, to_ns=1_000_000),)}, False),
        ({"cgroup_moves": (move(5_000_000_000, "v2"), move(5_030_000_000, "cpuset"))}, True),
        ({"cgroup_moves": (move(5_000_000_000, "v2"), move(5_001_000_000, "cpuset"))}, False),
    ],
    ids=[
        *("nothing", "changed", "another", "too-early", "grew-in-it", "grew-after-it", "owed", "owed-before"),
        *("joining", "short-joining"),
    ],
)
def test_a_transition_has_something_behind_it(changes: dict[str, Any], fits: bool) -> None:
    """A change of this very claim that ended no earlier, also just after the window, or a joining that took so long."""
    found = misfits(claim_set(), row_outside(**changes))
    assert (not found) is fits


def test_the_ledger_s_sum_is_that_of_its_rows() -> None:
    """One of them less, or one more, and it is not: to the nanosecond, with claims inside counted in."""
    whole = evidence()
    assert misfits(claim_set(), whole) == ()
    assert len(misfits(claim_set(), replace(whole, cpu_use=whole.cpu_use[1:]))) == 1
    assert len(misfits(claim_set(), replace(whole, cpu_use=(*whole.cpu_use, whole.cpu_use[0])))) == 1
    inner = claim_db(name="db/in", cgroup="/kubepods/poda/db/in")
    rows = (*whole.cpu_use[1:], use("db/in", 2))
    assert misfits(claim_set(*claim_set().claims, inner), replace(whole, cpu_use=rows)) == ()


def test_windows_follow_one_another(tmp_path: Path) -> None:
    """Healthy ones do; one that begins later than the one before ended, or earlier, is not of that watch."""
    for name, shift_ns, expected in (("on", 0, 0), ("late", 1_000_000, 3), ("early", -1_000_000, 3)):
        first, second = in_a_row(evidence(), evidence())
        second = replace(second, start_monotonic_ns=second.start_monotonic_ns + shift_ns)
        path, before = tmp_path / name, ""
        for number, one in ((1, first), (2, second)):
            record = recorded(path / store.WINDOW.format(number), claims=claim_set(), evidence=one, before=before)
            record.save()
            before = store.digest_of(record.texts["result"])
        assert CliRunner().invoke(cli, ["judge", str(path)]).exit_code == expected
