"""``pinproof conformance``: the catalogue on this machine, with negative controls."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click
from tabulate import tabulate

from toolkit.cli.common import SECONDS, json_option, print_json, progress, runs_option, say
from toolkit.cli.ending import attempt, complain, leave, warn_of, worse
from toolkit.errors import ApplyError, HostUnsupportedError, InputError
from toolkit.host.topology import read_topology
from toolkit.model.conformance import ScenarioResult
from toolkit.model.scenario import Requirements, Scenario
from toolkit.model.serde import to_data
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome, worst
from toolkit.pipeline import conformance, execute
from toolkit.pipeline.judged import judged
from toolkit.pipeline.preflight import require_run
from toolkit.pipeline.repeats import REPEATS
from toolkit.pipeline.standing import standing
from toolkit.pipeline.stopping import StoppedError, go_on, stop_on_signals
from toolkit.report.conformance_junit import render_junit
from toolkit.report.conformance_table import render_conformance
from toolkit.report.text import count
from toolkit.scenario_file import load_catalogue
from toolkit.store import write_output

SCHEMA = "pinproof.conformance/1"


@click.command("conformance", short_help="Run the catalogue on this machine.")
@click.option("--select", "selected", multiple=True, metavar="ID", help="Scenario name or catalogue id; repeatable.")
@click.option(
    "--full",
    is_flag=True,
    help="Run all of the catalogue that fits, not only its core: some six minutes with two CPUs, longer with more.",
)
@click.option("--list", "only_list", is_flag=True, help="Say what the catalogue holds and what each scenario needs.")
@click.option("--runtime", type=click.Choice(["cgroupfs", "runc", "crun"]), default="cgroupfs", show_default=True)
@click.option("--duration", type=SECONDS, help="Seconds to observe each run.")
@click.option(
    "--repeats",
    type=click.IntRange(0, 10),
    default=REPEATS,
    show_default=True,
    help="Repeat a run that comes out undecided (a busy machine) so often at most; a failed one never.",
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write JUnit XML to this file.")
@click.option("-v", "--verbose", is_flag=True, help="Name each scenario that is skipped.")
@runs_option
@json_option
def command(
    selected: tuple[str, ...],
    full: bool,
    only_list: bool,
    runtime: str,
    duration: float | None,
    repeats: int,
    junit: Path | None,
    runs: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run the scenarios of the catalogue that fit this machine, each with its negative controls.

    Without --full: the core of the catalogue, one scenario for each kind of promise, in about a minute and a half
    on an idle machine with two CPUs. --select runs what it names, of the core or not.
    """
    scenarios = choose(load_catalogue(), selected)
    if only_list:
        show_list(scenarios, as_json)
        return
    topology = read_topology()
    require_run(runtime)
    warn_of(runs)
    if junit is not None:
        warn_of(junit.parent, exists=True)
    start = time.monotonic()
    reasons = {
        scenario.name: conformance.why_not(scenario, topology, runtime, full=full or bool(selected))
        for scenario in scenarios
    }
    with stop_on_signals() as stopped:
        settings = execute.Settings(runs=runs, runtime=runtime, duration_s=duration, repeats=repeats, stopped=stopped)
        results = _run_all(scenarios, reasons, topology, settings)
        outcome = worst(result.outcome for result in results)
        if as_json:
            found = [to_data(result) for result in results]
            print_json({"schema": SCHEMA, "outcome": outcome.value, "scenarios": found})
        else:
            say(render_conformance(results, time.monotonic() - start, verbose=verbose))
        sys.stdout.flush()
        code = _complain_of_unsaved(results)
        if junit is not None:
            code = worse(code, attempt(lambda: write_output(junit, render_junit(results))))
        if stopped and any(result.outcome is Outcome.UNDECIDED for result in results):
            code = worse(code, attempt(lambda: go_on(stopped)))
    leave(outcome, code)


def _run_all(
    scenarios: tuple[Scenario, ...], reasons: dict[str, str | None], topology: Topology, settings: execute.Settings
) -> list[ScenarioResult]:
    """Run those that nothing speaks against, one after the other; none after somebody asks to stop."""
    results = []
    work = [scenario for scenario in scenarios if reasons[scenario.name] is None]
    total = sum(conformance.count_runs(scenario) for scenario in work)
    with ExitStack() as stack:
        bar = stack.enter_context(progress(total, "conformance"))
        if work:
            # Compiled once: every run watches with the same programs.
            kept = stack.enter_context(standing(execute.new_run_id("conformance")))
            settings = replace(settings, standing=kept)
        done, cut = 0, False

        def step(what: str) -> None:
            nonlocal done
            bar.to(done, what)
            done += 1

        for scenario in scenarios:
            reason = reasons[scenario.name]
            if reason is not None:
                results.append(conformance.skipped(scenario, reason))
                continue
            if cut:
                results.append(conformance.skipped(scenario, "not run: somebody asked to stop"))
                continue
            results.append(_run(scenario, topology, settings, step))
            cut = bool(settings.stopped) and results[-1].outcome is not Outcome.PASSED
        bar.to(total)
    return results


def _complain_of_unsaved(results: list[ScenarioResult]) -> int:
    """Say on one line that runs could not be saved: the first, and how many more. Returns the exit code of that."""
    unsaved = [why for result in results for why in result.unsaved]
    if not unsaved:
        return 0
    complain(unsaved[0] + (f" (and so {count(len(unsaved) - 1, 'more run')})" if len(unsaved) > 1 else ""))
    return InputError.exit_code


def _run(
    scenario: Scenario, topology: Topology, settings: execute.Settings, step: Callable[[str], None]
) -> ScenarioResult:
    """Run a scenario; that one cannot be run, or is not run any more, does not throw away what is known of others."""
    try:
        go_on(settings.stopped)
        return conformance.run_one(scenario, topology, settings, step)
    except (ApplyError, HostUnsupportedError, StoppedError) as error:
        return replace(conformance.skipped(scenario, f"could not be run: {error}"), outcome=Outcome.UNDECIDED)


def choose(catalogue: tuple[Scenario, ...], selected: tuple[str, ...]) -> tuple[Scenario, ...]:
    """Return the scenarios with one of the names or catalogue ids, or all.

    :raises InputError: an id that nothing has.
    """
    if not selected:
        return catalogue
    for wanted in selected:
        if not any(wanted == scenario.name or wanted in scenario.catalogue for scenario in catalogue):
            raise InputError("--select", repr(wanted), "a scenario name or catalogue id (see conformance --list)")
    return tuple(s for s in catalogue if s.name in selected or set(s.catalogue) & set(selected))


def needs(requires: Requirements) -> str:
    """Say in short what a scenario asks of the machine."""
    parts = [
        f"{value} {what}"
        for value, what in (
            (requires.cpus, "CPUs"),
            (requires.cores, "cores"),
            (requires.numa_nodes, "NUMA nodes"),
            (requires.sockets, "sockets"),
            (requires.threads_per_core, "threads per core"),
            (requires.l3_groups, "L3 groups per socket"),
            (requires.memory_mib, "MiB of memory"),
        )
        if value > 1
    ]
    if requires.max_numa_nodes is not None:
        parts.append(f"at most {requires.max_numa_nodes} NUMA node")
    return ", ".join(parts) or "anything"


def show_list(scenarios: tuple[Scenario, ...], as_json: bool) -> None:
    """Print what the scenarios show, need, and judge."""
    if as_json:
        print_json(
            [
                {
                    "name": scenario.name,
                    "title": scenario.title,
                    "catalogue": list(scenario.catalogue),
                    "tier": scenario.tier.value,
                    "shows": scenario.shows,
                    "needs": to_data(scenario.requires),
                    "judges": list(judged(scenario)),
                    "rules": sorted({control.rule for control in scenario.negative_controls}),
                    "negative_controls": [to_data(control) for control in scenario.negative_controls],
                }
                for scenario in scenarios
            ]
        )
        return
    rows = [
        [
            scenario.name,
            textwrap.fill(", ".join(scenario.catalogue), 14),
            scenario.tier.value,
            textwrap.fill(scenario.title, 44),
            textwrap.fill(needs(scenario.requires), 28),
            textwrap.fill(", ".join(judged(scenario)), 40),
            "\n".join(f"{control.rule} ← {control.fault}" for control in scenario.negative_controls),
        ]
        for scenario in scenarios
    ]
    say(tabulate(rows, headers=["scenario", "ids", "tier", "shows", "needs", "judges", "negative controls"]))
