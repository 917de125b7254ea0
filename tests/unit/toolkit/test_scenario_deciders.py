"""What decides beside the kubelet, through scenario file and ``pinproof plan``: devices, plugins, adjusters, DRA."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.lab.harness.catalogue import machine, scenarios
from toolkit.cli.plan import command
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan
from toolkit.model.sandbox import Sandbox, SandboxContainer
from toolkit.model.scenario import Requirements, Scenario
from toolkit.model.topology import CoreType, PciDevice, Topology
from toolkit.scenario_file import parse_scenario
from toolkit.session.planning.deciders import homeless
from toolkit.session.planning.from_plan import claim_set
from toolkit.session.planning.planned import plan_scenario

PLACE = "small"


def pod(name: str, **amounts: str) -> dict[str, Any]:
    """Return a Guaranteed pod of one container."""
    resources = {"memory": "64Mi", **amounts}
    containers = [{"name": "main", "resources": {"requests": resources, "limits": resources}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


def document(**parts: Any) -> str:
    """Return a scenario file."""
    head = {"apiVersion": "pinproof/v1", "kind": "Scenario", "name": "one", "title": "One"}
    kubelet = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "topologyManagerPolicy": "single-numa-node",
    }
    return json.dumps({**head, "kubelet": kubelet, "pods": [pod("db", cpu="1")], **parts})


def read(**parts: Any) -> Scenario:
    """Return the scenario of such a file."""
    return parse_scenario(document(**parts), "one.yaml")


def two_nodes() -> Topology:
    """Return the machine of the lab with two NUMA nodes and eight CPUs."""
    return machine(PLACE)


def main(scenario: Scenario, topology: Topology, name: str = "db") -> ContainerPlan:
    """Return the container of a pod's plan."""
    (found,) = (one for one in plan_scenario(scenario, topology).pods if one.name == name)
    assert found.admitted, found.message
    return found.containers[0]


def claims(scenario: Scenario, topology: Topology) -> ClaimSet:
    """Return what is promised once the plan stands."""
    made = Sandbox(
        run_id="x", root="/x", runtime="cgroupfs", containers=(SandboxContainer(claim="db/main", cgroup="/x", pids=()),)
    )
    return claim_set(plan_scenario(scenario, topology), scenario, made)


NIC = "0000:41:00.0"


def host(node: int) -> Topology:
    """Return the machine with one Ethernet controller on a node."""
    return replace(two_nodes(), pci=(PciDevice(bdf=NIC, pci_class="0x020000", numa_node=node),))


@pytest.mark.parametrize("node", [0, 1])
def test_the_hosts_own_device_takes_the_cpus_to_its_node(node: int) -> None:
    """``devices: udev``: the CPUs are on the controller's node, and the claim names it for rule device-numa."""
    scenario = read(devices="udev", pods=[pod("db", cpu="1", **{"pci/0200": "1"})])
    topology = host(node)

    cpus = main(scenario, topology).cpus

    assert cpus <= next(one.cpus for one in topology.kubelet.nodes if one.id == node)
    (claim,) = (one for one in claims(scenario, topology).claims if one.name == "db/main")
    assert claim.devices == (NIC,)


def test_nothing_is_promised_of_a_device_without_a_node_or_without_the_policy() -> None:
    """The firmware says -1, or no policy asks for one node: no promise about the device."""
    asked = [pod("db", cpu="1", **{"pci/0200": "1"})]
    free = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}

    assert main(read(devices="udev", pods=asked), host(-1)).devices == ()
    assert main(read(devices="udev", pods=asked, kubelet=free), host(1)).devices == ()


def test_a_machine_without_the_devices_is_no_place_for_the_scenario() -> None:
    """As many are needed as admitted pods ask for; what is to be refused may ask for more."""
    two = read(devices="udev", pods=[pod("db", cpu="1", **{"pci/0200": "1"}), pod("web", cpu="1", **{"pci/0200": "1"})])
    refused = replace(two, rejected_pods={"web": ""})

    assert homeless(two, host(0)) == "needs 2 PCI devices pci/0200 (this machine has 1)"
    assert homeless(refused, host(0)) is None


def test_a_device_without_a_node_can_show_nothing_of_nodes() -> None:
    """``deviceNodes``: of two controllers the kubelet may give the one that the firmware says nothing of."""
    asked = replace(
        read(devices="udev", pods=[pod("db", cpu="1", **{"pci/0200": "1"})]), requires=Requirements(device_nodes=True)
    )
    known = host(1)
    more = replace(known, pci=(*known.pci, PciDevice(bdf="0000:42:00.0", pci_class="0x020000", numa_node=-1)))

    assert homeless(asked, known) is None
    assert homeless(asked, more) == "needs the NUMA node of every PCI device pci/0200 (the firmware does not name it)"
    assert homeless(asked, replace(known, pci=())) == "needs 1 PCI devices pci/0200 (this machine has 0)"


def test_devices_of_the_file_that_are_no_pci_devices_are_not_looked_up() -> None:
    """An invented device pulls CPUs; no claim names what the kernel cannot know."""
    device = {"resource": "example.com/nic", "id": "nic-1", "numa": 1}
    scenario = read(devices=[device], pods=[pod("db", cpu="1", **{"example.com/nic": "1"})])

    assert main(scenario, two_nodes()).devices == ("nic-1",)
    assert all(claim.devices == () for claim in claims(scenario, two_nodes()).claims)


def test_what_refuses_for_want_of_devices_is_the_device_manager() -> None:
    """The CPU Manager has CPUs enough; the plan says which manager says no."""
    asked = [pod("db", cpu="1", **{"example.com/nic": "2"})]
    scenario = read(devices=[{"resource": "example.com/nic", "id": "nic-1"}], pods=asked)

    (refused,) = plan_scenario(scenario, two_nodes()).pods

    assert not refused.admitted
    assert refused.reasons[-1].startswith("refused by the Device Manager: Allocate failed due to requested number")


NONE = {"cpuManagerPolicy": "none"}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"devices": [{"resource": "nic", "id": "a"}]}, "extended resource"),
        ({"devices": [{"resource": "a/b", "id": "a", "numa": 77}]}, "on NUMA node 77"),
        ({"devices": [{"resource": "a/b", "id": "a", "slot": 1}]}, "{resource, id, numa}"),
        ({"devices": "pci"}, "devices"),
        ({"cpuPlugins": {"nosuch": {}}}, "one of core-classes, static"),
        ({"cpuPlugins": {"static": {"speed": 1}}}, "unknown setting 'speed'"),
        ({"cpuPlugins": {"core-classes": {}}, "kubelet": NONE}, "cpuManagerPolicy static"),
        ({"adjusters": [{"name": "\x1b[31m"}]}, "adjusters"),
        ({"adjusters": [{"name": "clearcfs", "qosClasses": ["Gold"]}]}, "qosClasses"),
        ({"draClaims": {"web/main": {"a": "1"}}, "kubelet": NONE}, "draClaims: container 'web/main'"),
        ({"draClaims": {"db/main": {"a": "1", "b": "1-2"}}, "kubelet": NONE}, "share CPUs 1"),
        ({"draClaims": {"db/main": {"a": "9999"}}, "kubelet": NONE}, "not free"),
        ({"draClaims": {"db/main": {"a": ""}}, "kubelet": NONE}, "no CPU"),
        ({"draClaims": {"db/main": {"a": "x"}}, "kubelet": NONE}, "DRA_CPUSET_a"),
        ({"draClaims": {"db/main": {"a=b": "1"}}, "kubelet": NONE}, "draClaims"),
        ({"draClaims": {"db/main": {"a": "2"}}}, "one source of exclusive CPUs"),
        ({"draClaims": {"db/main": {"a": "1"}}, "kubelet": NONE, "departures": ["db"]}, "departures and draClaims"),
    ],
)
def test_wrong_keys_are_refused_in_one_line(parts: dict[str, Any], words: str) -> None:
    """Whatever a stranger writes there: one line that says what is expected."""
    with pytest.raises(InputError) as refused:
        plan_scenario(read(**parts), two_nodes())

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_plan_answers_for_such_a_file(tmp_path: Path) -> None:
    """The verb plans with the DRA driver's CPUs, and says where they come from; a wrong file ends with 2."""
    path = tmp_path / "one.yaml"
    path.write_text(document(draClaims={"db/main": {"a": "0"}}, kubelet=NONE))

    done = CliRunner().invoke(command, [str(path), "--json"])

    assert done.exit_code == 0, done.output
    (container,) = json.loads(done.stdout)[0]["plan"]["pods"][0]["containers"]
    assert container["cpus"] == "0"
    assert container["isolation"] == "container"
    assert container["reasons"][-1] == "CPUs 0: exclusive, claimed through DRA"


@pytest.mark.parametrize(
    ("name", "container", "quota_us"),
    [("adjuster-clearcfs", "web", -1), ("adjuster-other-class", "steady", 25_000), ("adjuster-other-class", "web", -1)],
)
def test_clearcfs_clears_only_its_classes(name: str, container: str, quota_us: int) -> None:
    """The catalogue's adjusters: what each container starts with."""
    assert main(scenarios()[name], two_nodes(), container).quota_us == quota_us


def test_core_classes_that_a_scenario_does_not_list_are_the_kernels() -> None:
    """The kernel calls CPUs 2 and 3 "core" and the others "atom"; without its word all of them are of one class."""
    named = {"core-classes": {"required": {"db": "performance"}}}
    kinds = (CoreType(name="core", cpus=CpuSet.parse("2-3")), CoreType(name="atom", cpus=CpuSet.parse("0-1,4-7")))
    wanted = read(cpuPlugins=named)

    assert str(main(wanted, replace(two_nodes(), core_types=kinds)).cpus) == "2"
    assert str(main(wanted, two_nodes()).cpus) == "1"
