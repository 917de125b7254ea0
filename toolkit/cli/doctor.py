"""``pinproof doctor``: what this host supports, and how to get what is missing."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from toolkit.cli.common import print_json, say
from toolkit.cli.kubelet_files import check_config_dir, config_dir_option
from toolkit.errors import InputError
from toolkit.host.capabilities import Capability, HostReport, read_capabilities
from toolkit.host.isolation import read_isolation
from toolkit.host.sysfs import SysTree
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.isolation import Finding
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome, exit_code, worst
from toolkit.report.isolation_text import isolation_data, isolation_text
from toolkit.report.layout import fitted, paragraph, table
from toolkit.session.engine.probe_capability import with_probes
from toolkit.session.planning.cpu_roles import roles_of_kernel, roles_of_kubelet
from toolkit.session.planning.isolation import findings
from toolkit.session.planning.kubelet_findings import kubelet_findings
from toolkit.sources.kubelet.configuration import file_names, load_configuration
from toolkit.sources.kubelet.running import MachineKubelet, machine_kubelet
from toolkit.sources.places import Places
from toolkit.verbs import VERBS

_CANNOT_RUN = 4
PATH = click.Path(path_type=Path)


@click.command("doctor", short_help=VERBS["doctor"].does)
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.option("--isolation", is_flag=True, help="Look for configuration that breaks isolation before any pod does.")
@click.option(
    "--kubelet-config",
    type=PATH,
    help="With --isolation: the KubeletConfiguration that sets reserved and shared CPUs; else the kubelet's here.",
)
@config_dir_option
@click.option(
    "--exclusive",
    metavar="CPUS",
    help="With --isolation: the CPUs that are to be exclusive; as the kernel reads a list, N is the last CPU.",
)
@click.option("--sysroot", type=PATH, help="With --isolation: the machine whose /sys, /proc and /etc were saved here.")
def command(
    as_json: bool,
    isolation: bool,
    kubelet_config: Path | None,
    config_dir: Path | None,
    exclusive: str | None,
    sysroot: Path | None,
) -> None:
    """Test what each verb needs; where something is missing, print the reason and the remedy.

    The probes are loaded, as the first observation would, and let go: seconds where they have never been compiled.
    Changes nothing.

    Exit code: 0 if `run` can work here, 4 if it cannot. With --isolation: 0 nothing was found, 1 something breaks a
    promise, 3 possible noise, which `run` can measure.
    """
    check_config_dir(kubelet_config, config_dir)
    if isolation:
        sys.exit(_isolation(sysroot or Path("/"), kubelet_config, config_dir, exclusive, as_json=as_json))
    if kubelet_config or exclusive is not None or sysroot:
        raise click.UsageError("--kubelet-config, --config-dir, --exclusive and --sysroot go with --isolation")
    report = with_probes(read_capabilities())
    if as_json:
        data = {
            "schema": "pinproof.doctor/1",
            "can_run": report.can_run,
            "watches_in_part": report.watches_in_part,
            **_plain(report),
        }
        print_json(data)
    else:
        say(render_report(report))
    if not report.can_run:
        sys.exit(_CANNOT_RUN)


def _isolation(root: Path, config: Path | None, drop_ins: Path | None, exclusive: str | None, *, as_json: bool) -> int:
    """Look at the machine below ``root``; return the exit code."""
    topology = read_topology(root)
    named = None
    if config is not None:
        named = MachineKubelet(source=file_names(config, drop_ins), configuration=load_configuration(config, drop_ins))
    kubelet = named or machine_kubelet(Places(root=root))
    given = None if kubelet is None else kubelet.configuration
    facts = read_isolation(SysTree(root), topology, "" if given is None else given.cgroup_root)
    roles = roles_of_kernel(topology)
    more: tuple[Finding, ...] = () if kubelet is None else kubelet_findings(kubelet)
    configured = False
    if kubelet is not None and given is not None and topology.kubelet.error is None:
        roles, about = roles_of_kubelet(given.node, topology, kubelet.source)
        more, configured = (*more, *about), True
    if exclusive is not None:
        cpus = CpuSet.parse_kernel(exclusive, max((cpu.cpu for cpu in topology.cpus), default=0), "--exclusive")
        if not cpus <= topology.online:
            raise InputError("--exclusive", cpus_text(cpus - topology.online), f"CPUs of {topology.online}")
        source = roles.source if configured else "--exclusive"
        roles = replace(roles, exclusive=cpus, pool=roles.pool - cpus, source=source)
    found = (*findings(facts, roles), *more)
    outcome = worst(finding.outcome for finding in found) if found else Outcome.PASSED
    version = None if kubelet is None or named is not None else kubelet.version
    if as_json:
        print_json(isolation_data(roles, found, outcome, version))
    else:
        say(isolation_text(roles, found, configured=configured, version=version))
    return exit_code(outcome)


def render_report(report: HostReport) -> str:
    """Return the two tables and, for each "no", its remedy."""
    rows = [(c.name, _state(c), c.detail) for c in report.capabilities]
    facts = fitted(rows, ("capability", "here", "found"), (2,), (1.0,))
    works = [(verb, _works(report, verb), ", ".join(missing)) for verb, missing in report.verbs.items()]
    verbs = table(works, ("verb", "works", "missing"))
    remedies = [paragraph(_remedy(c), "  ", "    ") for c in report.capabilities if not c.available]
    how = ["How to get what is missing:", *remedies] if remedies else []
    return "\n\n".join(part for part in (facts, verbs, "\n".join(how), _conclusion(report)) if part)


def _works(report: HostReport, verb: str) -> str:
    if not report.verbs[verb]:
        return "yes"
    return "in part" if verb == "watch" and report.watches_in_part else "no"


def _remedy(capability: Capability) -> str:
    lost = f"lost without it: {capability.lost}. " if capability.lost else ""
    return f"{capability.name}: {lost}{capability.remedy}"


def _state(capability: Capability) -> str:
    if capability.available:
        return "yes"
    return "NO" if "run" in capability.needed_by else "no (optional)"


def _conclusion(report: HostReport) -> str:
    if report.can_run:
        return "pinproof run works here."
    return f"pinproof run cannot work here: {', '.join(report.verbs['run'])} missing."


def _plain(report: HostReport) -> dict[str, object]:
    data = to_data(report)
    assert isinstance(data, dict)
    return data
