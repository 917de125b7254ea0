"""``pinproof simulate``: replay recorded or hand-written allocation scenarios through the model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from toolkit.allocation.admission import does_not_start
from toolkit.allocation.simulate import differences, simulate
from toolkit.allocation.vectors import VectorScenario, read_vectors
from toolkit.cli.common import say, say_line
from toolkit.errors import InputError
from toolkit.model.serde import printable_json
from toolkit.text.names import printable
from toolkit.text.wording import count
from toolkit.verbs import VERBS

DEFECT_TAGS = frozenset({"leak", "panic", "exclusive-overlap", "combination-aliasing"})
"""Scenarios in which the real components misbehave."""
SHOWN_DIFFERENCES = 5
SHOWN_CHARACTERS = 300


@click.command("simulate", short_help=VERBS["simulate"].does)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Compare each outcome with the scenario's 'expect'.")
@click.option("--json", "as_json", is_flag=True, help='Print {"results": {"<scenario id>": <as "expect">}}.')
@click.option("--quirks", is_flag=True, help="Reproduce the defects of kubelet v1.36.2 instead of correcting them.")
def command(files: tuple[Path, ...], check: bool, as_json: bool, quirks: bool) -> None:
    """Replay allocation scenarios through the model of kubelet v1.36.2.

    Without an option it reports what happened, event by event. With --check and --json together the JSON goes to
    standard output and the report of the check to standard error.

    Exit code: 0; with --check 1 if an outcome differs; 2 bad input.
    """
    results: dict[str, Any] = {}
    tally = _Tally(quirks=quirks, to_stderr=as_json)
    scenarios = [scenario for path in files for scenario in read_vectors(path)]
    for scenario in _progress(scenarios):
        outcome = simulate(scenario, quirks=quirks)
        if as_json:
            if scenario.id in results:
                raise InputError("simulate", f"scenario {scenario.id!r} in two files", "every id once")
            results[scenario.id] = outcome
        if check:
            tally.add(scenario, outcome)
        elif not as_json:
            say(describe(scenario, outcome))
    if as_json:
        click.echo(printable_json(json.dumps({"results": results}, separators=(",", ":"), ensure_ascii=False)))
    if check:
        tally.end()
        sys.exit(1 if tally.failed else 0)


def _progress(scenarios: list[VectorScenario]) -> Iterable[VectorScenario]:
    if len(scenarios) < 100 or not sys.stderr.isatty():
        yield from scenarios
        return
    with click.progressbar(scenarios, label="scenarios", file=sys.stderr) as bar:
        yield from bar


class _Tally:
    """Counts scenarios that agree with their recorded outcome, and shows those that do not."""

    def __init__(self, *, quirks: bool, to_stderr: bool) -> None:
        self.quirks, self.to_stderr = quirks, to_stderr
        self.passed = self.failed = self.silent = 0
        self.defects: list[tuple[str, str]] = []

    def add(self, scenario: VectorScenario, outcome: dict[str, Any]) -> None:
        if scenario.expect is None:
            self.silent += 1
            return
        found = list(differences(scenario.expect, outcome))
        if not found:
            self.passed += 1
        elif self._is_known_defect(scenario):
            tags = ", ".join(tag for tag in scenario.tags if tag in DEFECT_TAGS)
            self.defects.append((scenario.id, tags))
        else:
            self.failed += 1
            for path, expected, got in found[:SHOWN_DIFFERENCES]:
                self._say(f"{scenario.id}: {_place(path)}: expected {_short(expected)}, got {_short(got)}")
            if len(found) > SHOWN_DIFFERENCES:
                self._say(f"{scenario.id}: and {len(found) - SHOWN_DIFFERENCES} more differences")

    def _is_known_defect(self, scenario: VectorScenario) -> bool:
        """A tagged scenario is set apart only if the named defect, reproduced, explains every difference."""
        if self.quirks or not DEFECT_TAGS & set(scenario.tags):
            return False
        return not list(differences(scenario.expect, simulate(scenario, quirks=True)))

    def end(self) -> None:
        for name, tags in self.defects:
            self._say(f"{name}: kubelet defect ({tags}): --quirks reproduces it, here the sane outcome differs")
        if self.silent:
            self._say(f"{self.silent} without a recorded outcome")
        if self.defects:
            self._say(f"{count(len(self.defects), 'kubelet defect')} set apart")
        self._say(f"{self.passed} passed, {self.failed} failed")

    def _say(self, text: str) -> None:
        say_line(text, err=self.to_stderr)


def _place(path: str) -> str:
    """Turn ``events[3].containers.c1.cpus`` into ``event 3, containers.c1.cpus``."""
    if path.startswith("events[") and "]" in path:
        number, rest = path[len("events[") :].split("]", 1)
        return f"event {number}, {rest.lstrip('.') or 'whole'}"
    return path or "whole"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def describe(scenario: VectorScenario, outcome: dict[str, Any]) -> str:
    """Return lines that report what happened in a scenario."""
    title = f"{scenario.id}: {scenario.description}" if scenario.description else scenario.id
    if "startup_error" in outcome:
        error = outcome["startup_error"]
        return f"{printable(title)}\n  {printable(does_not_start(error['stage'], error['message']))}"
    lines = [title]
    startup = outcome["startup"]
    lines.append(f"  start: allocatable CPUs {startup['allocatable_cpus'] or 'none'}")
    for event, result in zip(scenario.events, outcome.get("events", ()), strict=False):
        subject = event.pod.name if event.pod is not None else event.uid
        lines += [f"  {line}" for line in _event_lines(f"{event.kind} {subject}".strip(), result)]
    return "\n".join(map(printable, lines))


def _event_lines(title: str, result: dict[str, Any]) -> Iterable[str]:
    pool = f"; shared pool {result['default_cpuset'] or 'empty'}" if "default_cpuset" in result else ""
    if "panic" in result:
        yield f"{title}: the kubelet crashes: {result['panic']}"
    elif "startup_error" in result:
        error = result["startup_error"]
        yield f"{title}: {does_not_start(error['stage'], error['message'])}"
    elif result.get("admitted") is False:
        yield f"{title}: refused, {result['reason']}: {result['message']}{pool}"
    else:
        yield f"{title}: {'admitted' if result.get('admitted') else 'done'}{pool}"
    if "leaked" in result:
        yield f"  leaked: {result['leaked']['pod_cpusets']}"
    for name, container in result.get("containers", {}).items():
        mems = f", memory node {container['mems']}" if "mems" in container else ""
        yield f"  {name}: CPUs {container['cpus'] or 'any'} ({container['isolation']}){mems}"
    for entry in result.get("readmit", ()):
        what = "admitted again" if entry["admitted"] else f"refused, {entry['reason']}: {entry['message']}"
        yield f"  {entry['pod']}: {what}"
