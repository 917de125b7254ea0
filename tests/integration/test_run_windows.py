"""Long runs in consecutive windows: a fault taints its own, what changed in the first is promised in the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.integration.conformance_runs import SCENARIOS
from toolkit.cli.main import cli
from toolkit.host import cgroupfs
from toolkit.host.topology import read_topology
from toolkit.model.verdict import Outcome
from toolkit.session.engine.execute import Settings, run_scenario
from toolkit.session.engine.long_stage import Cut
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.record import Run
from toolkit.session.planning.course import honest
from toolkit.session.planning.fitting import why_not
from toolkit.session.planning.planned import plan_all
from toolkit.store import load_run, stage_paths, window_paths

pytestmark = pytest.mark.integration
ONLINE = read_topology().online


def long_run(name: str, runs: Path, kept: Prepared) -> Run:
    """Run a scenario of the catalogue for two windows, of a second and a little more."""
    topology = read_topology()
    if reason := why_not(SCENARIOS[name], topology):
        pytest.skip(reason)
    settings = Settings(runs=runs, duration_s=2.1, prepared=kept, cut=Cut(window_s=1.0))
    done = run_scenario(honest(plan_all(SCENARIOS[name], topology)), settings)
    done.save()
    return done


def failures(run: Run) -> list[str]:
    return [f"{v.rule} {v.subject}: {v.reason}" for v in run.result.verdicts if v.outcome is Outcome.FAILED]


def test_a_fault_taints_its_window(tmp_path: Path, kept: Prepared) -> None:
    """A cpuset that is widened and put back in the second of three windows fails that window, and the run."""
    if len(ONLINE) < 2:
        pytest.skip("to widen a cpuset takes two CPUs")
    topology = read_topology()
    work = plan_all(SCENARIOS["exclusive-and-shared"], topology)
    # The run asks once a second, and for the first time when the window before has been judged: both are in the second.
    steps = [(3.5, ONLINE), (4.4, next(one.cpus for one in work.plan.pods[0].containers))]

    def meddle(passed_s: float) -> None:
        if steps and passed_s >= steps[0][0]:
            base = cgroupfs.detect().controller_dir("cpuset")
            (file,) = base.glob("pinproof-*exclusive-and-shared*/**/*main*/cpuset.cpus")
            file.write_text(str(steps.pop(0)[1]))

    settings = Settings(runs=tmp_path, duration_s=9.0, prepared=kept, cut=Cut(window_s=3.0))
    done = run_scenario(honest(work), settings, meddle)
    assert not steps
    assert done.sums is not None
    assert done.sums.windows is not None
    assert [one.number for one in done.sums.windows.worst if one.outcome is Outcome.FAILED] == [2], failures(done)
    assert done.outcome is Outcome.FAILED


@pytest.mark.beside
@pytest.mark.parametrize("name", ["resize-grow", "pool-shrinks-and-grows", "restart", "burst-create"])
def test_what_changes_in_the_first_window_holds_in_the_rest(name: str, tmp_path: Path, kept: Prepared) -> None:
    """A resize, a visit, a restart and a late start are judged where they happen; later windows fail nothing."""
    done = long_run(name, tmp_path, kept)
    windows = {number: load_run(path) for number, path in window_paths(done.directory).items()}

    assert failures(done) == []
    assert len(windows) > 1
    first, last = windows[1], windows[max(windows)]
    moved = {one.claim.name: one.claim.cpus for one in first.evidence.claim_changes}
    promised = {claim.name: claim.cpus for claim in last.claims.claims}
    assert {name: promised[name] for name in moved if name in promised} == {
        name: cpus for name, cpus in moved.items() if name in promised
    }
    assert last.evidence.claim_changes == ()
    assert not stage_paths(done.directory)


@pytest.mark.beside
def test_stages_before_the_windows_are_kept(tmp_path: Path, kept: Prepared) -> None:
    """Init containers run before; their stage is saved beside the windows and judged with them."""
    done = long_run("init-reuse", tmp_path, kept)

    assert [path.name for path in stage_paths(done.directory)] == [run.stage.replace(" ", "-") for run in done.before]
    assert len(window_paths(done.directory)) > 1
    again = CliRunner().invoke(cli, ["judge", str(done.directory), "--json"])
    assert json.loads(again.stdout)["outcome"] == done.result.outcome
