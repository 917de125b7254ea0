"""``pinproof run``: plan, apply, observe, judge and report scenarios on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from toolkit.cli.common import (
    SECONDS,
    json_option,
    live_node_option,
    named,
    print_json,
    progress,
    runs_option,
    runtime_option,
    say,
    verbose_option,
)
from toolkit.cli.ending import (
    Output,
    attempt,
    complain,
    leave,
    remark,
    reported,
    show_and_save,
    warn_of,
    warn_of_cache,
    worse,
)
from toolkit.cli.windows import Shown, keep_option, print_window, window_option
from toolkit.errors import InputError, PinproofError
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome, worst
from toolkit.report.table import render_table
from toolkit.scenario_file import load_scenario
from toolkit.session.engine import execute
from toolkit.session.engine.consecutive import Judged
from toolkit.session.engine.long_stage import Cut
from toolkit.session.engine.record import Run
from toolkit.session.engine.stopping import StoppedError, stop_on_signals
from toolkit.session.planning.admissions import unexpected_admission
from toolkit.session.planning.course import Course, honest
from toolkit.session.planning.fitting import unmet
from toolkit.session.planning.guard import free_machine, still_free
from toolkit.session.planning.planned import plan_all
from toolkit.session.planning.preflight import require_run
from toolkit.text import names
from toolkit.verbs import VERBS


@click.command("run", short_help=VERBS["run"].does)
@click.argument("scenarios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SCENARIO...")
@runtime_option
@click.option("--duration", type=SECONDS, help="Seconds to observe, instead of the scenario's own.")
@window_option
@keep_option
@live_node_option
@runs_option
@verbose_option
@json_option
def command(
    scenarios: tuple[Path, ...],
    runtime: str,
    duration: float | None,
    window_s: float,
    keep: int | None,
    on_live_node: bool,
    runs: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Plan SCENARIO files, apply them to this machine, observe the result and judge it.

    What is observed for longer than a window is cut into consecutive windows without gaps. Each is judged, printed
    (one line if it passed, else with details) and saved as DIR/RUN/window-000001 and so on, their sums in
    DIR/RUN/result.json. SIGINT, SIGTERM and SIGHUP end the last window; it is judged like the others.

    Exit code: that of the worst verdict.
    """
    loaded = [load_scenario(path) for path in scenarios]
    topology = free_machine(insisted=on_live_node)
    plans = []
    for path, scenario in zip(scenarios, loaded, strict=True):
        lacking = unmet(scenario.requires, topology)
        if lacking:
            raise InputError(str(path), lacking)
        with named(path):
            work = plan_all(scenario, topology)
        surprise = unexpected_admission(scenario, work)
        if surprise:
            raise InputError(str(path), surprise, "the admissions that the scenario states")
        plans.append(honest(work, str(path)))
    require_run(runtime)
    warn_of(runs)
    warn_of_cache()
    with stop_on_signals() as stopped:
        windows = _Windows(Shown(verbose=verbose, as_json=as_json, output=Output()))
        settings = execute.Settings(
            runs=runs,
            cpus=topology.online if on_live_node else None,
            runtime=runtime,
            duration_s=duration,
            stopped=stopped,
            cut=Cut(window_s=window_s, keep=keep, ended=windows.ended),
        )
        if as_json:
            outcome, code = _run_json(plans, settings)
        else:
            outcome, code = _run_tables(plans, settings, verbose=verbose)
    leave(outcome, code, *windows.codes)


class _Windows:
    """Prints and saves the windows of long runs as they end. :attr:`codes`: the exit codes of that."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._worst = 0

    def ended(self, judged: Judged, save: Callable[[Judged], None]) -> None:
        """One more window has been judged."""
        self._worst = worse(self._worst, print_window(judged, save, self._shown))

    @property
    def codes(self) -> tuple[int, int]:
        """Of saving, and of standard output."""
        return self._worst, self._shown.output.code


def _run_tables(plans: list[Course], settings: execute.Settings, *, verbose: bool) -> tuple[Outcome, int]:
    """Run the plans; print and save each result as it comes."""
    outcomes: list[Outcome] = []
    codes: list[int] = []

    def one(course: Course) -> None:
        finished = _run(course, settings)
        outcomes.append(finished.outcome)
        code = show_and_save(lambda: _show(finished, verbose=verbose), finished.save)
        codes.extend((code, _cut_short(finished)))
        if not code:
            show = remark if course is plans[-1] else say
            for stage in finished.before:
                show(f"Stage {stage.stage} saved in {names.from_path(stage.path)}")
            show(f"Run saved in {names.from_path(finished.path)}\n")

    codes.append(_each(plans, settings, one))
    return worst(outcomes), worse(*codes)


def _run_json(plans: list[Course], settings: execute.Settings) -> tuple[Outcome, int]:
    """Run the plans and save each result as it comes; print all as one document, even if a run cannot be made."""
    outcomes: list[Outcome] = []
    codes: list[int] = []
    results: list[object] = []

    def one(course: Course) -> None:
        finished = _run(course, settings)
        outcomes.append(finished.outcome)
        results.append(to_data(finished.result))
        codes.extend((attempt(finished.save), _cut_short(finished)))

    try:
        codes.append(_each(plans, settings, one))
    finally:
        if results:
            print_json(results[0] if len(plans) == 1 else results)
    return worst(outcomes), worse(*codes)


def _each(plans: list[Course], settings: execute.Settings, one: Callable[[Course], None]) -> int:
    """Run one plan after the other; the first that cannot be run, a signal, or other work that has begun here
    meanwhile, ends the loop and is reported.

    :returns: the exit code of what ended the loop, or 0.
    """
    for number, course in enumerate(plans):
        try:
            if number:
                still_free(settings.cpus)
            one(course)
        except PinproofError as error:
            complain(f"{course.scenario.name}: {error}{_not_run(plans[number + 1 :])}")
            return error.exit_code
        if settings.stopped and plans[number + 1 :]:
            ended = StoppedError(settings.stopped[0], _not_run(plans[number + 1 :]))
            complain(str(ended))
            return ended.exit_code
    return 0


def _not_run(plans: list[Course]) -> str:
    return f"; not run: {', '.join(course.scenario.name for course in plans)}" if plans else ""


def _run(course: Course, settings: execute.Settings) -> Run:
    with progress(settings.duration_s or course.scenario.duration_s, course.scenario.name) as bar:
        return execute.run_scenario(course, settings, bar.to)


def _cut_short(finished: Run) -> int:
    """Report what ended the windows of a run before their time; return its exit code, or 0."""
    return reported(finished.error) if finished.error is not None else 0


def _show(finished: Run, *, verbose: bool) -> None:
    say(f"{finished.scenario.name}: {names.printable(finished.scenario.title)}\n")
    for stage in finished.before:
        say(f"Stage {stage.stage}: {worst(verdict.outcome for verdict in stage.verdicts).value}\n")
    say(render_table(finished.result, verbose=verbose))
