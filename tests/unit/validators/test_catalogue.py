"""The catalogue of scenarios: every id of the field survey is there, and every recorded machine plans what fits it."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

import pytest

from toolkit.faults.fault import When
from toolkit.faults.registry import word_of
from toolkit.host.topology import read_topology
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.scenario_file import load_catalogue
from toolkit.session.planning import fitting
from toolkit.session.planning.admissions import ADMISSION, admissions
from toolkit.session.planning.planned import machine_of, plan_all

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "topologies"
SHIPPED = Path(__file__).resolve().parents[2] / "data" / "topologies"
ARCHIVES = {path.name.removesuffix(".tar.xz"): path for path in sorted(SHIPPED.glob("*.tar.xz"))}
ARCHIVES |= {path.name.removesuffix(".tar.gz"): path for path in sorted(RECORDED.glob("*.tar.gz"))}
CATALOGUE = load_catalogue()
README = Path(__file__).resolve().parents[3] / "validators" / "scenarios" / "README.md"

IDS = {
    *(f"C{number}" for number in range(1, 46)),
    *(f"P{number}" for number in range(1, 25)),
    *(f"M{number}" for number in range(1, 29)),
    *(f"T{number}" for number in range(1, 40)),
    *(f"X{number}" for number in range(1, 25)),
    *(f"D{number}" for number in range(1, 6)),
    *(f"K{number}" for number in range(1, 4)),
    *(f"{letter}{number}" for letter in "GNR" for number in (1, 2)),
    *(f"S{number}" for number in range(1, 8)),
    *(f"E{number}" for number in range(1, 8)),
}
UNSTARTABLE = {("ul-x86_64-64cpu", "align-by-socket"), ("ul-x86_64-epyc_7451", "numa-closest")}
"""Where no kubelet starts with the options: more sockets than NUMA nodes; no distances between them."""


def read_machine(name: str) -> Topology:
    """Unpack a recorded machine, in memory where possible, and read it."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder, tarfile.open(ARCHIVES[name]) as archive:
        for member in archive:
            place = Path(folder, member.name)
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif member.issym():
                place.symlink_to(member.linkname)
            elif (content := archive.extractfile(member)) is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())
        roots = [Path(folder), *Path(folder).iterdir()]
        return read_topology(next(root for root in roots if (root / "sys").is_dir()))


def test_every_id_has_a_scenario_and_is_told() -> None:
    """The ids of the survey and our own are all shown by some scenario, no other id is used, the README lists each."""
    assert {name for scenario in CATALOGUE for name in scenario.catalogue} == IDS
    text = README.read_text(encoding="utf-8")
    told = {
        cell.strip() for line in text.splitlines() if line.startswith("| ") for cell in line.split("|")[1].split(",")
    }
    assert {name for name in IDS if name[0] in "DEGKMNRSTX"} - told == set()


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda scenario: scenario.name)
def test_scenarios_say_what_they_are(scenario: Scenario) -> None:
    """A title, what it shows, and a control that needs no bigger machine than the scenario itself."""
    assert scenario.title
    assert scenario.shows
    fitting = [control for control in scenario.negative_controls if control.requires == type(control.requires)()]
    assert fitting


def problems(scenario: Scenario, topology: Topology) -> list[str]:
    """Plan the scenario and what its controls change; return what is not as the scenario says."""
    work = plan_all(scenario, topology)
    found = [verdict for verdict in admissions(scenario, work) if verdict.outcome is not Outcome.PASSED]
    texts = [f"{verdict.subject}: {verdict.reason}" for verdict in found]
    for control in scenario.negative_controls:
        word = word_of(control)
        if word.when not in (When.PROMISE, When.NODE):
            continue
        varied = plan_all(word.vary(control, scenario), topology)
        noticed = {v.subject for v in admissions(scenario, varied) if v.outcome is Outcome.FAILED}
        if control.rule == ADMISSION and control.subject not in noticed:
            texts.append(f"control {control.subject}: nothing is noticed")
    return texts


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_recorded_machine_plans_what_fits_it(name: str) -> None:
    """All scenarios that fit give the stated admissions, and admission controls are noticed.

    On machines whose cores or sockets differ in size a kubelet gives away CPUs that it reserved: there the plan says
    so, and nothing else is wrong.
    """
    topology = read_machine(name)
    if topology.kubelet.error is not None:
        pytest.skip(f"the kubelet's discovery fails on this machine: {topology.kubelet.error}")
    fits, uneven, wrong = 0, 0, []
    for scenario in CATALOGUE:
        if fitting.unmet(scenario.requires, topology) or fitting.homeless(scenario, topology):
            continue
        if fitting.unstartable(scenario, topology):
            assert (name, scenario.name) in UNSTARTABLE
            continue
        if fitting.misplanned(scenario, topology):
            uneven += 1
            continue
        fits += 1
        found = problems(scenario, topology)
        if not (machine_of(topology).irregular and any("kubelet defect" in text for text in found)):
            wrong += [f"{scenario.name}: {text}" for text in found]

    assert fits > 40
    assert uneven < 10
    assert wrong == []
