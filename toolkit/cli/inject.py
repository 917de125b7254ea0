"""``pinproof inject``: break isolation on purpose, then restore it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from toolkit.cli.common import SECONDS, json_option, live_node_option, print_json, runs_option, say, say_line
from toolkit.cli.ending import leave, remark, show_and_save, warn_of, warn_of_cache
from toolkit.errors import InputError
from toolkit.faults.consent import CONSENT
from toolkit.faults.fault import Fault
from toolkit.faults.injection import Injection
from toolkit.faults.planting import planted
from toolkit.faults.registry import INJECTABLE, fault_named
from toolkit.faults.torn import Tear
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import printable_json, to_data
from toolkit.model.verdict import Outcome
from toolkit.report.layout import paragraph
from toolkit.report.verdict_list import render_verdicts
from toolkit.session import planted_run
from toolkit.session.engine.stopping import StoppedError, stop_on_signals
from toolkit.session.planning.guard import free_machine
from toolkit.session.planning.preflight import require_run
from toolkit.store import new_run_id
from toolkit.text import names
from toolkit.text.names import canonical
from toolkit.verbs import VERBS

TICK_S = 0.05


@click.command("inject", short_help=VERBS["inject"].does)
@click.argument("fault", required=False)
@click.option("--list", "only_list", is_flag=True, help="List the faults, what each changes and which rules report it.")
@click.option("--target", "targets", multiple=True, metavar="CGROUP", help="Cgroup to plant it in; repeatable.")
@click.option("--cpus", metavar="LIST", help="CPUs that the fault concerns. Default: see --list.")
@click.option(
    "--quota", type=int, metavar="US", default=1000, show_default=True, help="Quota for quota-imposed, in microseconds."
)
@click.option(
    "--irq",
    type=click.IntRange(0),
    metavar="N",
    help="Interrupt for irq-moved. Default: the busiest that can be moved.",
)
@click.option("--state-file", default="", metavar="FILE", help="The cpu_manager_state for checkpoint-torn.")
@click.option(
    "--tear",
    type=click.Choice([str(tear) for tear in Tear]),
    default=str(Tear.LEAKED),
    show_default=True,
    help="What checkpoint-torn does to a CPU.",
)
@click.option(
    "--duration",
    type=SECONDS,
    help="Seconds until it is undone. Default: 1.5 in its own sandbox; until interrupted with a target.",
)
@click.option(CONSENT, "consent", is_flag=True, help="Allow it outside pinproof's own sandboxes.")
@live_node_option
@runs_option
@json_option
def command(
    fault: str | None,
    only_list: bool,
    targets: tuple[str, ...],
    cpus: str | None,
    quota: int,
    irq: int | None,
    state_file: str,
    tear: str,
    duration: float | None,
    consent: bool,
    on_live_node: bool,
    runs: Path,
    as_json: bool,
) -> None:
    """Plant FAULT, then restore exactly what it changed.

    Without --target and --state-file the fault is planted in a sandbox of its own and observed. The verdicts that
    report it are printed and the run is saved.

    With a target the fault stays until --duration has passed or pinproof is interrupted. Each change is written to a
    journal first, so that `pinproof cleanup` can undo it after a crash.

    Exit code: in a sandbox 0 if every rule that must report the fault did, else 1; with a target 0 once it is undone.
    """
    if only_list:
        print_faults(as_json)
        return
    if fault is None:
        raise InputError("inject", "no fault was named", "one; pinproof inject --list names them")
    wanted = fault_named(fault)
    injection = Injection(
        fault=wanted.id,
        targets=tuple(map(canonical, targets)),
        cpus=None if cpus is None else CpuSet.parse(cpus, "--cpus"),
        quota_us=quota,
        irq=irq,
        state_file=state_file,
        tear=Tear(tear),
        consent=consent,
    )
    if targets or state_file:
        _hold(wanted, injection, duration, as_json)
    else:
        _show(wanted, injection, duration or 1.5, on_live_node, runs, as_json)


def print_faults(as_json: bool) -> None:
    """Print the faults."""
    if as_json:
        print_json([to_data(fault.description) for fault in INJECTABLE])
        return
    say("\n\n".join(_entry(fault) for fault in INJECTABLE))


def _entry(fault: Fault) -> str:
    """Return what happens, which files change, which rules report it, and what it affects."""
    lines = (
        fault.changes,
        f"reported by {', '.join((*fault.rules, *fault.undecides))}",
        f"scope: {fault.scope.value}; see {', '.join(fault.field)} of docs/failures.md",
    )
    return "\n".join([f"{fault.id}: {fault.title}", *(paragraph(line, "  ", "    ") for line in lines)])


def _hold(fault: Fault, injection: Injection, duration: float | None, as_json: bool) -> None:
    with stop_on_signals() as stopped, planted(injection, run_id=new_run_id("inject")) as made:
        if as_json:
            planted_now = {"fault": fault.id, "changes": [to_data(change) for change in made.changes]}
            click.echo(printable_json(json.dumps(planted_now)))
        else:
            for change in made.changes:
                say_line(f"{change.path or change.after}: {change.before.strip()!r} -> {change.after.strip()!r}")
            say(f"{fault.title}; " + ("until interrupted" if duration is None else f"for {duration:g} s"))
        end = None if duration is None else time.monotonic() + duration
        while not stopped and (end is None or time.monotonic() < end):
            time.sleep(TICK_S)
    if not as_json:
        say("taken back")


def _show(fault: Fault, injection: Injection, duration: float, on_live_node: bool, runs: Path, as_json: bool) -> None:
    require_run()
    free = free_machine(insisted=on_live_node).online
    cpus = free if on_live_node else None
    warn_of(runs)
    warn_of_cache()
    with stop_on_signals() as stopped:
        done = planted_run.run(
            injection, run_id=new_run_id("inject"), runs=runs, duration_s=duration, stopped=stopped, cpus=cpus
        )
        code = show_and_save(lambda: _print(fault, done, as_json), done.record.save)
    if not code and not as_json:
        remark(f"Run saved in {names.from_path(done.record.saved.path)}")
    if done.missed and stopped:
        raise StoppedError(stopped[0], " before the fault was reported")
    leave(Outcome.FAILED if done.missed else Outcome.PASSED, code)


def _print(fault: Fault, done: planted_run.PlantedRun, as_json: bool) -> None:
    reported = [v for v in done.verdicts if v.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    if as_json:
        print_json(
            {
                "fault": to_data(fault.description),
                "missed": list(done.missed),
                "unjudged": done.unjudged,
                "verdicts": [to_data(verdict) for verdict in done.verdicts],
            }
        )
    else:
        say(paragraph(f"{fault.title}: {fault.changes}") + "\n")
        say(render_verdicts(reported))
        for rule, reason in done.unjudged.items():
            say("\n" + paragraph(f"not judged here: {rule}: {reason}"))
        say("\n" + (f"MISSED by {', '.join(done.missed)}" if done.missed else "reported as it should be"))
