"""The pictures of a machine: every CPU is drawn once, for its owner."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tests.unit.toolkit.report.pictured_machine import machine
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, ContainerRole, Plan, PodPlan, QosClass
from toolkit.report.machine_drawing import svg_drawing, text_drawing
from toolkit.report.machine_owners import owners


def plan() -> Plan:
    """Return a plan with CPU 0 reserved and core 2 exclusive to ``db/main``."""
    container = ContainerPlan(
        name="main",
        role=ContainerRole.APP,
        cpus=CpuSet.parse("2,6"),
        assigned=CpuSet.parse("2,6"),
        isolation=Isolation.CONTAINER,
        mems=None,
        quota_us=-1,
        period_us=100_000,
        shares=2048,
    )
    pod = PodPlan(uid="1", name="db", qos_class=QosClass.GUARANTEED, admitted=True, containers=(container,))
    return Plan(
        cpu_manager_policy="static",
        reserved_cpus=CpuSet.parse("0"),
        strict_reservation=False,
        default_cpus=CpuSet.parse("0-1,3-5,7"),
        pods=(pod,),
    )


def test_owners_cover_every_cpu_once() -> None:
    """Each online CPU has exactly one owner."""
    found = owners(plan(), machine().online)

    assert sorted(machine().online) == sorted(cpu for owner in found for cpu in owner.cpus)
    assert {owner.name: str(owner.cpus) for owner in found} == {
        "db/main": "2,6",
        "shared pool": "1,3-5,7",
        "reserved, in the shared pool": "0",
    }


def test_text_shows_cores_of_each_socket() -> None:
    """Threads of a core stand together in brackets, one symbol for each owner."""
    text = text_drawing(machine(), owners(plan(), machine().online))

    assert "NUMA 0   L3 0    [+.][..]" in text
    assert "NUMA 1   L3 1    [AA][..]" in text


def test_svg_is_xml_with_one_titled_box_for_each_cpu() -> None:
    """The drawing parses, its texts are escaped, and each CPU says whose it is."""
    root = ET.fromstring(svg_drawing(machine(), owners(plan(), machine().online), "a <b> & c"))

    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(titles) == sorted(
        f"CPU {cpu}: {owner.name}" for owner in owners(plan(), machine().online) for cpu in owner.cpus
    )
