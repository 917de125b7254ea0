"""``pinproof run``: plan, apply, observe, judge and report scenarios on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.common import (
    SECONDS,
    json_option,
    leave,
    named,
    print_json,
    progress,
    require_directory,
    runs_option,
    say,
)
from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.model import names
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome, worst
from toolkit.pipeline import execute
from toolkit.pipeline.conformance import misfit, unexpected_admission
from toolkit.pipeline.planning import plan_all
from toolkit.pipeline.preflight import require_run
from toolkit.report.table import render_run
from toolkit.scenario_file import load_scenario
from toolkit.store import load_result, load_run


@click.command("run", short_help="Apply scenarios here, watch and judge them.")
@click.argument("scenarios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SCENARIO...")
@click.option("--runtime", type=click.Choice(["cgroupfs", "runc", "crun"]), default="cgroupfs", show_default=True)
@click.option("--duration", type=SECONDS, help="Seconds to observe, instead of the scenario's own.")
@runs_option
@json_option
def command(scenarios: tuple[Path, ...], runtime: str, duration: float | None, runs: Path, as_json: bool) -> None:
    """Put SCENARIO files on this machine, watch them, and judge what was seen."""
    loaded = [load_scenario(path) for path in scenarios]
    topology = read_topology()
    plans = []
    for path, scenario in zip(scenarios, loaded, strict=True):
        lacking = misfit(scenario.requires, topology)
        if lacking:
            raise InputError(str(path), lacking)
        with named(path):
            work = plan_all(scenario, topology)
        surprise = unexpected_admission(scenario, work)
        if surprise:
            raise InputError(str(path), surprise, "the admissions that the scenario states")
        plans.append(work)
    require_run(runtime)
    require_directory(runs)
    settings = execute.Settings(runs=runs, runtime=runtime, duration_s=duration)
    outcomes: list[Outcome] = []
    results = []
    for work in plans:
        scenario = work.scenario
        seconds = duration or scenario.duration_s
        with progress(seconds, scenario.name) as bar:
            finished = execute.run_scenario(work, settings, bar.to)
        outcomes.append(finished.outcome)
        if as_json:
            results.append(to_data(load_result(finished.path)))
        else:
            saved = load_run(finished.path)
            say(f"{scenario.name}: {names.printable(scenario.title)}\n")
            for stage in finished.before:
                say(f"Stage {stage.stage}: {stage.outcome.value}, saved in {names.from_path(stage.path)}\n")
            say(render_run(saved.claims, saved.evidence, finished.verdicts))
            say(f"\nRun saved in {names.from_path(finished.path)}\n")
    if as_json:
        print_json(results[0] if len(results) == 1 else results)
    leave(worst(outcomes))
