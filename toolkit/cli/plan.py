"""``pinproof plan``: what the kubelet would decide, in a table, as JSON, or as a picture of the machine."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from toolkit.cli.common import json_option, named, print_json, say
from toolkit.cli.ending import attempt, worse
from toolkit.host.topology import read_topology
from toolkit.model.names import printable
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.model.serde import to_data
from toolkit.pipeline.planning import plan_scenario
from toolkit.report.layout import paragraph, table
from toolkit.report.machine_owners import owners
from toolkit.report.machine_picture import svg_picture, text_picture
from toolkit.scenario_file import load_scenario
from toolkit.store import write_output


@click.command("plan", short_help="Compute an allocation and explain it.")
@click.argument("scenarios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SCENARIO...")
@click.option(
    "--sysroot",
    type=click.Path(path_type=Path),
    default=Path("/"),
    help="Plan for the machine whose sys and proc are in this directory.",
)
@click.option("--svg", type=click.Path(path_type=Path), help="Write a picture of the machine, coloured by owner.")
@json_option
def command(scenarios: tuple[Path, ...], sysroot: Path, svg: Path | None, as_json: bool) -> None:
    """Compute the allocation of SCENARIO files and explain each decision."""
    topology = read_topology(sysroot)
    loaded = [load_scenario(path) for path in scenarios]
    plans = []
    for path, scenario in zip(scenarios, loaded, strict=True):
        with named(path):
            plans.append((scenario, plan_scenario(scenario, topology)))
    code = 0
    for index, (scenario, plan) in enumerate(plans):
        if svg is not None:
            target = svg if len(plans) == 1 else svg.with_stem(f"{svg.stem}-{index + 1}")
            picture = svg_picture(topology, owners(plan, topology.online), scenario.title)
            code = worse(code, attempt(partial(write_output, target, picture)))
        if not as_json:
            say(f"{scenario.name}: {printable(scenario.title)}\n\n{render(plan)}\n")
            # Has colours; the names in it are DNS labels.
            click.echo(text_picture(topology, owners(plan, topology.online), colour=sys.stdout.isatty()) + "\n")
    if as_json:
        print_json([{"scenario": scenario.name, "plan": to_data(plan)} for scenario, plan in plans])
    sys.exit(code)


def render(plan: Plan) -> str:
    """Return the table of containers and the reasons."""
    strict = " (strict)" if plan.strict_reservation else ""
    reserved = f"reserved CPUs {plan.reserved_cpus or 'none'}{strict}"
    parts = [
        f"CPU Manager {plan.cpu_manager_policy}, {reserved}, shared pool {plan.default_cpus or 'empty'}",
        table(
            [row for pod in plan.pods for row in _rows(pod)],
            ("pod", "container", "QoS", "CPUs", "isolation", "mems", "quota ms", "shares"),
        ),
    ]
    reasons = [line for pod in plan.pods for line in _reasons(pod)]
    if reasons:
        parts.append("Why:\n" + "\n".join(paragraph(line, "  ", "    ") for line in reasons))
    parts += [paragraph(f"Warning: {warning}", "", "  ") for warning in plan.warnings]
    return "\n\n".join(parts)


def _rows(pod: PodPlan) -> list[list[str]]:
    if not pod.admitted:
        return [[pod.name, "", pod.qos_class.value, "refused", pod.reason, "", "", ""]]
    rows = [[pod.name, container.name, pod.qos_class.value, *_cells(container)] for container in pod.containers]
    return [
        *rows,
        [
            pod.name,
            "(pod)",
            "",
            str(pod.cpus or ""),
            "",
            "",
            _quota(pod.quota_us, pod.period_us),
            str(pod.shares),
        ],
    ]


def _cells(container: ContainerPlan) -> list[str]:
    quota = _quota(container.quota_us, container.period_us)
    mems = "" if container.mems is None else str(container.mems)
    return [str(container.cpus) or "any", container.isolation.value, mems, quota, str(container.shares)]


def _quota(quota_us: int, period_us: int) -> str:
    """Return ``150/100``, the quota per period in milliseconds."""
    return "none" if quota_us < 0 else f"{quota_us / 1000:g}/{period_us / 1000:g}"


def _reasons(pod: PodPlan) -> list[str]:
    lines = [f"{pod.name}: {reason}" for reason in pod.reasons]
    if not pod.admitted:
        lines.append(f"{pod.name}: refused with {pod.reason}: {pod.message}")
    lines += [f"{pod.name}/{container.name}: {reason}" for container in pod.containers for reason in container.reasons]
    return lines
