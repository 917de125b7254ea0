"""``pinproof plan``: what the kubelet would decide, in a table, as JSON, or as a picture of the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from toolkit.allocation.cpu.options.registry import OPTIONS as CPU_OPTIONS
from toolkit.allocation.topology.options.registry import OPTIONS as TOPOLOGY_OPTIONS
from toolkit.cli.common import json_option, named, print_json, say, say_line
from toolkit.cli.ending import attempt, worse
from toolkit.cli.kubelet_files import check_config_dir, config_dir_option
from toolkit.cli.node_options import node_options, refuse_places
from toolkit.errors import InputError
from toolkit.host.isolation import read_isolation
from toolkit.host.sysfs import SysTree
from toolkit.host.topology import read_topology
from toolkit.kubernetes.kubelet_change import patch_of
from toolkit.kubernetes.kubelet_version import MODELLED, statement
from toolkit.model.isolation import Finding
from toolkit.model.node_reading import NodeReading
from toolkit.model.plan import Plan
from toolkit.model.scenario import Scenario
from toolkit.model.serde import to_data
from toolkit.model.topology import Topology
from toolkit.report.isolation_text import finding_text
from toolkit.report.layout import paragraph
from toolkit.report.machine_drawing import svg_drawing, text_drawing
from toolkit.report.machine_owners import owners
from toolkit.report.plan_difference import difference_table, plan_difference
from toolkit.report.plan_text import render
from toolkit.scenario_file import load_scenario
from toolkit.session.planning.from_state import plan_from_state
from toolkit.session.planning.kubelet_defects import KUBELET_DEFECT
from toolkit.session.planning.plan_examined import examined
from toolkit.session.planning.planned import plan_scenario
from toolkit.sources.kubelet.configuration import merge
from toolkit.sources.kubelet.question import Held, Question, ask
from toolkit.sources.kubelet.reading import nothing, read_capture, read_live, says_anything
from toolkit.sources.places import Places
from toolkit.store import write_output
from toolkit.text.names import printable
from toolkit.verbs import VERBS

PATH = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """One scenario with its plan. :param changed, after: scenario and plan with the changes of ``--diff``.

    :param fresh: whether the plan begins with an empty node.
    :param found, found_after: what is wrong with either plan, its options, or on the machine beside it.
    :param version: of the kubelet that is asked about; empty: not known; ``None``: none is. :param cgroup_root: its
        ``cgroupRoot``.
    """

    scenario: Scenario
    topology: Topology
    plan: Plan
    changed: Scenario | None = None
    after: Plan | None = None
    version: str | None = None
    cgroup_root: str = ""
    warnings: tuple[str, ...] = ()
    found: tuple[Finding, ...] = ()
    fresh: bool = True
    found_after: tuple[Finding, ...] = ()

    @property
    def appear(self) -> list[Finding]:
        """What is found with the changes only."""
        return [finding for finding in self.found_after if finding not in self.found]

    @property
    def vanish(self) -> list[Finding]:
        """What is found without the changes only."""
        return [finding for finding in self.found if finding not in self.found_after]


@click.command("plan", short_help=VERBS["plan"].does)
@click.argument("scenarios", nargs=-1, type=PATH, metavar="[SCENARIO...]")
@click.option(
    "--sysroot",
    "--topology",
    type=PATH,
    help="Plan for the machine whose /sys and /proc were saved here.  [default: this machine, or that of --capture]",
)
@click.option("--kubelet-config", type=PATH, help="A KubeletConfiguration file, as a node has it.")
@config_dir_option
@click.option(
    "--pods", "manifests", type=PATH, help="Pod manifests: a file or a directory; admitted in the order of file names."
)
@click.option("--capture", type=PATH, help="Capture (a directory or a .tar.gz) that gives what no other option gives.")
@click.option("--kubelet", is_flag=True, help="Ask about the node of this machine's kubelet, as it is now, instead.")
@click.option(
    "--drained", is_flag=True, help="Begin with an empty node, whatever the pods of --capture or --kubelet hold."
)
@click.option(
    "--kubelet-version", default="", metavar="VERSION", help="The kubelet's version, if it is not the model's."
)
@click.option(
    "--diff",
    "changes",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Show what changes with this option of the kubelet: a field, a policy option or a feature gate. Repeatable.",
)
@click.option("--svg", type=PATH, help="Write a picture of the machine, coloured by owner.")
@partial(node_options, without=("version", "metrics", "objects"))
@json_option
def command(
    scenarios: tuple[Path, ...],
    sysroot: Path | None,
    kubelet_config: Path | None,
    config_dir: Path | None,
    manifests: Path | None,
    capture: Path | None,
    kubelet: bool,
    drained: bool,
    kubelet_version: str,
    changes: tuple[str, ...],
    svg: Path | None,
    as_json: bool,
    places: Places,
) -> None:
    """Compute the allocation of SCENARIO files, or of a kubelet's own files, and explain each decision.

    --kubelet-config and --pods show what that kubelet decides on an empty node; --capture and --kubelet begin with what
    the pods of that node hold, and --pods come beside them. --diff shows what an option would change; what pods hold
    already they keep, as far as a kubelet that is restarted with it lets them. Gates, options, quotas and state files
    are those of the kubelet's release (v1.26 to v1.37); CPUs are chosen as kubelet v1.36.2 does, and for another
    version a warning is printed on standard error.

    Exit code: 0 planned (a refused pod is a result too), 2 bad input, or a configuration with which no kubelet starts.
    """
    asked = any((kubelet_config, manifests, capture, kubelet))
    if bool(scenarios) == asked or (capture is not None and kubelet):
        raise click.UsageError("give SCENARIO files, or --kubelet-config and --pods, or --capture, or --kubelet")
    if kubelet_version and scenarios:
        raise click.UsageError("--kubelet-version goes with --kubelet-config, --capture or --kubelet")
    if drained and capture is None and not kubelet:
        raise click.UsageError("--drained goes with --capture or --kubelet")
    check_config_dir(kubelet_config, config_dir)
    if not kubelet:
        refuse_places(places)
    patch = patch_of(changes, CPU_OPTIONS, TOPOLOGY_OPTIONS)
    if asked:
        question = ask(
            config=kubelet_config,
            drop_ins=config_dir,
            pods=manifests,
            reading=_node(capture, places if kubelet else None),
            where=str(capture or f"kubelet of {places.root}"),
            version=kubelet_version,
            machine=sysroot is None,
            drained=drained,
        )
        one = _of_kubelet(question, sysroot, patch, kubelet_config or capture or places.root)
        # Of a captured machine only the topology is known.
        plans = [_examined(one, None if capture is not None and sysroot is None else sysroot or places.root)]
    else:
        plans = _of_scenarios(scenarios, sysroot or Path("/"), patch)
    sys.exit(_printed(plans, changes, svg, as_json=as_json))


def _printed(plans: Sequence[_Planned], changes: Sequence[str], svg: Path | None, *, as_json: bool) -> int:
    """Print the plans and draw them. :returns: the exit code."""
    for warning in (warning for work in plans for warning in work.warnings):
        say_line(f"pinproof: {warning}", err=True)
    code = 0
    for index, work in enumerate(plans):
        if svg is not None:
            target = svg if len(plans) == 1 else svg.with_stem(f"{svg.stem}-{index + 1}")
            drawn = work.after or work.plan
            picture = svg_drawing(work.topology, owners(drawn, work.topology.online), work.scenario.title)
            code = worse(code, attempt(partial(write_output, target, picture)))
        if not as_json:
            _show(work, changes)
    if as_json:
        print_json([_data(work, changes) for work in plans])
    return code


def _node(capture: Path | None, places: Places | None) -> NodeReading | None:
    """Read the node that is asked about: a capture, or a live kubelet's."""
    if places is None:
        return None if capture is None else read_capture(capture)
    reading = read_live(places)
    if not says_anything(reading):
        raise InputError(str(places.root), nothing(reading), "a kubelet's node")
    return reading


def _of_scenarios(scenarios: Sequence[Path], root: Path, patch: dict[str, Any]) -> list[_Planned]:
    topology = read_topology(root)
    loaded = [load_scenario(path) for path in scenarios]
    planned = [_planned(one, topology, patch, path) for path, one in zip(scenarios, loaded, strict=True)]
    return [_examined(one, root) for one in planned]


def _of_kubelet(question: Question, sysroot: Path | None, patch: dict[str, Any], path: Path) -> _Planned:
    topology = question.topology or read_topology(sysroot or Path("/"))
    if question.held is not None:
        planned = _beside(question.scenario, question.held, topology, patch, path)
    else:
        planned = _planned(question.scenario, topology, patch, path)
    return replace(planned, version=question.version, cgroup_root=question.cgroup_root, warnings=question.warnings)


def _beside(scenario: Scenario, held: Held, topology: Topology, patch: dict[str, Any], path: Path) -> _Planned:
    """Plan for a node with what its pods hold; with a change as a kubelet that is restarted with it."""
    with named(path):
        made, found = plan_from_state(scenario, held, topology)
    before = _Planned(scenario=scenario, topology=topology, plan=made, found=found, fresh=False)
    if not patch:
        return before
    changed = replace(scenario, kubelet=merge(scenario.kubelet, patch))
    try:
        after, found_after = plan_from_state(changed, replace(held, own=False), topology)
    except InputError as error:
        raise InputError("--diff", str(error)) from None
    return replace(before, changed=changed, after=after, found_after=(*found, *found_after))


def _planned(scenario: Scenario, topology: Topology, patch: dict[str, Any], path: Path) -> _Planned:
    with named(path):
        plan = plan_scenario(scenario, topology)
    if not patch:
        return _Planned(scenario=scenario, topology=topology, plan=plan)
    changed = replace(scenario, kubelet=merge(scenario.kubelet, patch))
    try:
        after = plan_scenario(changed, topology)
    except InputError as error:
        raise InputError("--diff", str(error)) from None
    return _Planned(scenario=scenario, topology=topology, plan=plan, changed=changed, after=after)


def _examined(work: _Planned, root: Path | None) -> _Planned:
    """Add the findings. :param root: where the machine's own files are, if they are known."""
    facts = None if root is None else read_isolation(SysTree(root), work.topology, work.cgroup_root)
    of_plan = examined(work.scenario, work.topology, work.plan, facts, fresh=work.fresh)
    work = replace(work, found=(*work.found, *of_plan))
    if work.changed is None or work.after is None:
        return work
    after = examined(work.changed, work.topology, work.after, facts, fresh=work.fresh)
    return replace(work, found_after=(*work.found_after, *after))


def _show(work: _Planned, changes: Sequence[str]) -> None:
    say(f"{work.scenario.name}: {printable(work.scenario.title)}\n")
    if work.after is not None:
        say(f"With {', '.join(changes)}:\n\n{difference_table(plan_difference(work.plan, work.after))}\n")
        _show_findings(work.appear, "These findings appear:")
        _show_findings(work.vanish, "These findings vanish:")
        say(paragraph(statement(work.version)))
        return
    say(f"{render(work.plan)}\n")
    # May have colours; the names in it are DNS labels.
    picture = text_drawing(work.topology, owners(work.plan, work.topology.online), colour=_coloured())
    click.echo(f"{picture}\n")
    _show_findings(work.found)
    say(paragraph(statement(work.version)))


def _coloured() -> bool:
    """Colours are for a terminal, unless NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _show_findings(found: Sequence[Finding], title: str = "") -> None:
    if found and title:
        say(f"{title}\n")
    for finding in found:
        say(f"{finding_text(finding)}\n")
    if any(finding.id == KUBELET_DEFECT for finding in found):
        say("Where a kubelet-defect is named, the kubelet decides what was found there, and not the table above.\n")


def _data(work: _Planned, changes: Sequence[str]) -> dict[str, Any]:
    data: dict[str, Any] = {"scenario": work.scenario.name, "model": MODELLED, "plan": to_data(work.plan)}
    if work.version is not None:
        data["kubelet"] = {"version": work.version or None, "answered": statement(work.version)}
    if work.warnings:
        data["warnings"] = list(work.warnings)
    if work.found:
        data["findings"] = [to_data(finding) for finding in work.found]
    if work.after is not None:
        data |= {"diff": list(changes), "after": to_data(work.after)}
        data["differences"] = plan_difference(work.plan, work.after)
        for what, found in (("findings_appear", work.appear), ("findings_vanish", work.vanish)):
            data[what] = [to_data(finding) for finding in found]
    return data
