"""``pinproof conformance``: the catalogue on this machine, with negative controls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from toolkit.cli.common import (
    SECONDS,
    json_option,
    live_node_option,
    print_json,
    progress,
    runs_option,
    runtime_option,
    say,
)
from toolkit.cli.ending import attempt, complain, leave, remark, reported, show_and_save, warn_of, warn_of_cache, worse
from toolkit.cli.html import html_option, read_session, write_page
from toolkit.errors import ApplyError, HostUnsupportedError, InputError
from toolkit.faults.registry import id_of
from toolkit.model.conformance import ScenarioResult
from toolkit.model.scenario import Requirements, Scenario
from toolkit.model.serde import to_data
from toolkit.model.session import Session
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.report.conformance_junit import render_junit
from toolkit.report.conformance_table import render_conformance
from toolkit.report.layout import paragraph
from toolkit.scenario_file import load_catalogue
from toolkit.session import conformance
from toolkit.session.conformance import REPEATS
from toolkit.session.engine import execute
from toolkit.session.engine.identity import environment_here
from toolkit.session.engine.prepared import prepared
from toolkit.session.engine.stopping import StoppedError, go_on, stop_on_signals
from toolkit.session.index import save_session, session_of
from toolkit.session.planning import fitting
from toolkit.session.planning.guard import free_machine, still_free
from toolkit.session.planning.judged import judged
from toolkit.session.planning.preflight import require_run
from toolkit.store import new_run_id, write_output
from toolkit.text import names
from toolkit.text.wording import count
from toolkit.verbs import VERBS

SCHEMA = "pinproof.conformance/1"


@click.command("conformance", short_help=VERBS["conformance"].does)
@click.option("--select", "selected", multiple=True, metavar="ID", help="Scenario name or catalogue id; repeatable.")
@click.option(
    "--full",
    is_flag=True,
    help="Run every scenario that fits, not only the core: about five minutes with two CPUs, longer with more.",
)
@click.option(
    "--list", "only_list", is_flag=True, help="List the scenarios: what each shows, needs and breaks on purpose."
)
@runtime_option
@click.option("--duration", type=SECONDS, help="Seconds to observe each run, instead of the scenario's own.")
@click.option(
    "--repeats",
    type=click.IntRange(0, 10),
    metavar="N",
    default=REPEATS,
    show_default=True,
    help="Repeats of an undecided run (busy machine), at most; a failed run is never repeated.",
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write JUnit XML to this file.")
@html_option
@click.option("-v", "--verbose", is_flag=True, help="Name each scenario that is skipped.")
@live_node_option
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
    html: Path | None,
    on_live_node: bool,
    runs: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run the scenarios of the catalogue that fit this machine, each with its negative controls.

    Without --full the core of the catalogue is run, one scenario for each kind of promise: about a minute and a half on
    an idle machine with two CPUs. --select runs the scenarios that it names, whether they are in the core or not.

    Where work begins on this machine meanwhile, no more scenarios are started: what was judged is printed and saved.

    Exit code: that of the worst scenario; 4 where work has begun here and nothing failed.
    """
    scenarios = choose(load_catalogue(), selected)
    if only_list:
        show_list(scenarios, as_json)
        return
    require_run(runtime)
    topology = free_machine(insisted=on_live_node)
    warn_of(runs)
    warn_of_cache()
    for path in filter(None, (junit, html)):
        warn_of(path.parent, exists=True)
    begun = _Begun(session=new_run_id("conformance"), at=datetime.now(UTC), at_s=time.monotonic())
    reasons = {
        scenario.name: fitting.why_not(scenario, topology, runtime, full=full or bool(selected))
        for scenario in scenarios
    }
    with stop_on_signals() as stopped:
        settings = execute.Settings(
            runs=runs / begun.session,
            session=begun.session,
            cpus=topology.online if on_live_node else None,
            runtime=runtime,
            duration_s=duration,
            repeats=repeats,
            stopped=stopped,
        )
        results, came = _run_all(scenarios, reasons, topology, settings)
        index = begun.index(results, topology, complete=came is None and not stopped)
        code = worse(
            show_and_save(lambda: _show(results, index, as_json=as_json, verbose=verbose), lambda: _save(runs, index)),
            _complain_of_unsaved(results),
            _cut_short(results, came, stopped),
        )
        code = worse(code, _write(junit, html, results, index, runs))
        if not as_json and not code:
            _say_where(runs, index)
    leave(index.outcome, code)


def _write(junit: Path | None, html: Path | None, results: list[ScenarioResult], index: Session, runs: Path) -> int:
    """Write what is asked for beside the session. Returns the exit code of what could not be written."""
    code = 0
    if junit is not None:
        code = attempt(lambda: write_output(junit, render_junit(results, index.identity)))
    return worse(code, write_page(html, lambda: _page(results, index, runs)))


def _page(results: list[ScenarioResult], index: Session, runs: Path) -> str:
    """Return the page of the session as it was saved; of one in which nothing was run, of its results."""
    from toolkit.report.html.session import session_page

    if not index.files:
        return session_page(index, results, {})
    return read_session(runs / index.session, draw=True)[1](None, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A session that has begun. :param at_s: by the monotonic clock."""

    session: str
    at: datetime
    at_s: float

    def index(self, results: list[ScenarioResult], topology: Topology, *, complete: bool) -> Session:
        """Put its index together."""
        return session_of(
            self.session,
            results,
            environment_here(self.session, topology),
            started_at=self.at.isoformat(timespec="milliseconds"),
            duration_s=time.monotonic() - self.at_s,
            complete=complete,
        )


def _say_where(runs: Path, index: Session) -> None:
    if index.files:
        remark(f"\nSession saved in {names.from_path(runs / index.session)}")


def _cut_short(results: list[ScenarioResult], came: HostUnsupportedError | None, stopped: Sequence[int]) -> int:
    """Report what ended the session before its time; return its exit code, or 0."""
    code = 0 if came is None else reported(came)
    if stopped and any(result.outcome is Outcome.UNDECIDED for result in results):
        code = worse(code, attempt(lambda: go_on(stopped)))
    return code


def _show(results: list[ScenarioResult], index: Session, *, as_json: bool, verbose: bool) -> None:
    if as_json:
        found = [to_data(result) for result in results]
        print_json({"schema": SCHEMA, "outcome": index.outcome.value, "session": index.session, "scenarios": found})
    else:
        say(render_conformance(results, index.duration_s, verbose=verbose))


def _save(runs: Path, index: Session) -> None:
    """Save the index, last of all. Where no run was made, or could be saved, there is none: that has been said."""
    if index.files:
        save_session(runs / index.session, index)


def _run_all(
    scenarios: tuple[Scenario, ...], reasons: dict[str, str | None], topology: Topology, settings: execute.Settings
) -> tuple[list[ScenarioResult], HostUnsupportedError | None]:
    """Run the scenarios that have no reason to be skipped, one after the other, until a signal asks to stop, or
    other work begins here: that is returned too.
    """
    results: list[ScenarioResult] = []
    came: HostUnsupportedError | None = None
    work = [scenario for scenario in scenarios if reasons[scenario.name] is None]
    total = sum(conformance.count_runs(scenario) for scenario in work)
    with ExitStack() as stack:
        bar = stack.enter_context(progress(total, "conformance"))
        if work:
            # Loaded once: every run observes with the same programs.
            kept = stack.enter_context(prepared(new_run_id("conformance")))
            settings = replace(settings, prepared=kept)
        done, cut, begun = 0, "", False

        def step(what: str) -> None:
            nonlocal done
            bar.to(done, what)
            done += 1

        for scenario in scenarios:
            reason = reasons[scenario.name]
            if reason is not None:
                results.append(conformance.skipped(scenario, reason))
                continue
            if begun and not cut and (came := _came(settings)) is not None:
                cut = str(came)
            if cut:
                results.append(conformance.skipped(scenario, f"not run: {cut}"))
                continue
            begun = True
            results.append(_run(scenario, topology, settings, step))
            if settings.stopped and results[-1].outcome is not Outcome.PASSED:
                cut = "a signal asked to stop"
        bar.to(total)
    return results, came


def _came(settings: execute.Settings) -> HostUnsupportedError | None:
    """Look whether the machine is still free; return what says that it is not."""
    try:
        still_free(settings.cpus)
    except HostUnsupportedError as error:
        return error
    return None


def _complain_of_unsaved(results: list[ScenarioResult]) -> int:
    """Report on one line which run could not be saved, and how many more. Returns the exit code."""
    unsaved = [why for result in results for why in result.unsaved]
    if not unsaved:
        return 0
    complain(unsaved[0] + (f" (and so {count(len(unsaved) - 1, 'more run')})" if len(unsaved) > 1 else ""))
    return InputError.exit_code


def _run(
    scenario: Scenario, topology: Topology, settings: execute.Settings, step: Callable[[str], None]
) -> ScenarioResult:
    """Run a scenario. One that cannot be run is undecided; the results of the others are kept."""
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
    """Return what a scenario requires of the machine, in short."""
    parts = [
        f"{value} {what}"
        for value, what in (
            (requires.cpus, "CPUs"),
            (requires.cores, "cores"),
            (requires.numa_nodes, "NUMA nodes"),
            (requires.sockets, "sockets"),
            (requires.threads_per_core, "threads per core"),
            (requires.l3_groups, "L3 groups per socket"),
            (requires.cpus_per_numa_node, "CPUs per NUMA node"),
            (requires.numa_nodes_per_socket, "NUMA nodes per socket"),
            (requires.memory_mib, "MiB of memory"),
        )
        if value > 1
    ]
    if requires.max_numa_nodes is not None:
        parts.append(f"at most {requires.max_numa_nodes} NUMA node")
    if requires.even_numa_nodes:
        parts.append("of one size")
    if requires.device_nodes:
        parts.append("the NUMA nodes of its PCI devices")
    return ", ".join(parts) or "any machine"


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
    say("\n\n".join(_entry(scenario) for scenario in scenarios))


def _entry(scenario: Scenario) -> str:
    """Return what one scenario shows, what it needs, and which faults must make which rules fail."""
    controls = dict.fromkeys(f"{id_of(control.fault)} fails {control.rule}" for control in scenario.negative_controls)
    lines = (
        scenario.title,
        f"needs {needs(scenario.requires)}",
        f"judges {', '.join(judged(scenario))}",
        f"negative controls: {', '.join(controls)}" if controls else "",
    )
    head = f"{scenario.name} ({', '.join((*scenario.catalogue, scenario.tier.value))})"
    return "\n".join([head, *(paragraph(line, "  ", "    ") for line in lines if line)])
