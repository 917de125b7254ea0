"""The scheduling cycle: the static plugin is the static policy, core classes on a hybrid machine, bad plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from toolkit.allocation.cpu.manager import CpuAdmissionError, CpuState, StaticPolicy, make_policy
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.allocation.plugins import registry
from toolkit.allocation.plugins.core_classes import CoreClassPlugin, classes_by_kernel, classes_by_threads
from toolkit.allocation.plugins.policy import PluginPolicy
from toolkit.allocation.plugins.protocol import BasePlugin, CpuAsk, CpuPlugin, Holding
from toolkit.allocation.plugins.registry import load_plugin, plugin_names
from toolkit.allocation.plugins.static import StaticPlugin
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Container, Pod, Resources
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import CoreType

HYBRID = Machine.from_vector(
    {"cpus": [[c, c // 2, 0, 0, None] for c in range(8)] + [[c, c, 0, 0, None] for c in range(8, 16)], "numa": []}
)
"""Four cores of two threads (0-7), eight of one (8-15)."""
SMT8 = Machine.from_vector({"cpus": [[c, c % 4, c // 4, c // 4, None] for c in (0, 1, 2, 3)], "numa": []})


def pod(uid: str, cpu: str) -> Pod:
    """Build a guaranteed pod with one container."""
    amounts = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse("1Gi")}
    return Pod(
        uid=uid, name=uid, containers=(Container(name="c", resources=Resources(requests=amounts, limits=amounts)),)
    )


def policy(on: Machine, *plugins: CpuPlugin) -> PluginPolicy:
    """Build a static policy with plugins; CPU 15 (or the last one) is reserved."""
    reserved = CpuSet.of([max(on.cpus)])
    static = make_policy("static", {}, on, reserved_milli=1000, reserved_list=reserved)
    assert isinstance(static, StaticPolicy)
    return PluginPolicy.around(static, plugins or (StaticPlugin(),))


def admit(policy: StaticPolicy, state: CpuState, *pods: Pod) -> CpuState:
    """Allocate the pods' containers in order."""
    for item in pods:
        state = policy.allocate(state, item, item.containers[0], None)
    return state


@pytest.mark.parametrize("machine", [HYBRID, SMT8])
def test_the_static_plugin_is_the_static_policy(machine: Machine) -> None:
    """With the static plugin alone every decision is the static policy's."""
    plugged = policy(machine)
    static = make_policy("static", {}, machine, reserved_milli=1000, reserved_list=CpuSet.of([max(machine.cpus)]))
    pods = [pod(f"p{i}", cpu) for i, cpu in enumerate("112")]
    for a, b in ((plugged, static), (static, plugged)):
        left, right = a.start(None), b.start(None)
        for item in pods:
            assert a.hints(left, item, item.containers[0]) == b.hints(right, item, item.containers[0])
            left = a.allocate(left, item, item.containers[0], None) if len(left.default) > 2 else left
            right = b.allocate(right, item, item.containers[0], None) if len(right.default) > 2 else right
            assert left == right


def test_classes_are_found() -> None:
    """By threads where the kernel does not tell, else by the kernel's names."""
    assert {name: str(cpus) for name, cpus in classes_by_threads(HYBRID).items()} == {
        "performance": "0-7",
        "efficiency": "8-15",
    }
    assert set(classes_by_threads(SMT8)) == {"performance"}
    kernel = (CoreType(name="core", cpus=CpuSet.parse("0-3")), CoreType(name="atom", cpus=CpuSet.parse("4-5")))
    assert {name: str(cpus) for name, cpus in classes_by_kernel(kernel).items()} == {
        "performance": "0-3",
        "efficiency": "4-5",
    }


def test_a_containers_wish_goes_before_its_pods() -> None:
    """The pod requires efficiency cores, this container of it a performance core."""
    wish = CoreClassPlugin(classes_by_threads(HYBRID), required={"a": "efficiency", "a/c": "performance"})
    plugged = policy(HYBRID, wish, StaticPlugin())

    assert str(admit(plugged, plugged.start(None), pod("a", "2")).cpus_of("a", "c")) == "0-1"


def test_a_class_is_taken_near_the_hint() -> None:
    """Of two nodes with performance cores, the one that the Topology Manager chose."""
    rows = [[cpu, cpu // 2 if cpu < 8 else cpu, 0, cpu % 8 // 4 if cpu < 8 else cpu % 2, None] for cpu in range(12)]
    on = Machine.from_vector({"cpus": rows, "numa": []})
    plugged = policy(on, CoreClassPlugin(classes_by_threads(on), preferred={"a": "performance"}))
    subject = pod("a", "2")
    state = plugged.allocate(plugged.start(None), subject, subject.containers[0], 0b10)

    assert str(state.cpus_of("a", "c")) == "4-5"


class Wish(BasePlugin):
    """Proposes CPU 4 and CPU 9, and rates 9."""

    def __init__(self, name: str, rate: float | None) -> None:
        self.name, self.rate, self.heard = name, rate, list[str]()

    def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
        return [CpuSet.of([cpu]) for cpu in (4, 9)]

    def score(self, ask: CpuAsk, choice: CpuSet) -> float | None:
        return self.rate if 9 in choice else 0.0

    def allocate(self, ask: CpuAsk, choice: CpuSet) -> None:
        self.heard.append(str(choice))


def test_one_plugin_forbids_what_another_loves() -> None:
    """``None`` is no low score; and every plugin hears what was taken."""
    forbids, loves = Wish("forbids", None), Wish("loves", 5.0)
    plugged = policy(HYBRID, forbids, loves)

    assert str(admit(plugged, plugged.start(None), pod("a", "1")).cpus_of("a", "c")) == "4"
    assert forbids.heard == loves.heard == ["4"]


def test_required_class() -> None:
    """A pod gets CPUs of the required class only, whole cores first, and is refused when they run out."""
    plugin = CoreClassPlugin(classes_by_threads(HYBRID), required={"fast": "performance", "slow/c": "efficiency"})
    plugged = policy(HYBRID, plugin, StaticPlugin())
    state = admit(plugged, plugged.start(None), pod("fast", "3"), pod("slow", "4"))
    assert str(state.cpus_of("fast", "c")) == "0-2"
    assert str(state.cpus_of("slow", "c")) == "8-11"
    with pytest.raises(CpuAdmissionError, match="requested=6, available=5"):
        admit(plugged, state, Pod(uid="x", name="fast", containers=pod("x", "6").containers))


def test_the_static_policy_splits_cores_that_the_plugin_gives_whole() -> None:
    """Two CPUs on a hybrid machine: the kubelet's average takes single-thread cores, a wish gets one whole core."""
    assert str(admit(policy(HYBRID), policy(HYBRID).start(None), pod("a", "2")).cpus_of("a", "c")) == "8-9"
    wish = CoreClassPlugin(classes_by_threads(HYBRID), preferred={"a": "performance"})
    plugged = policy(HYBRID, StaticPlugin(), wish)
    assert str(admit(plugged, plugged.start(None), pod("a", "2")).cpus_of("a", "c")) == "0-1"


def test_preferred_class_is_no_condition() -> None:
    """A wish is fulfilled as far as possible; what is missing comes from other classes."""
    wish = CoreClassPlugin(classes_by_threads(HYBRID), preferred={"a": "performance"})
    plugged = policy(HYBRID, wish, StaticPlugin())
    assert str(admit(plugged, plugged.start(None), pod("a", "10")).cpus_of("a", "c")) == "0-9"


def test_hints_follow_the_filter() -> None:
    """No node is recommended where the filter excludes every CPU."""

    class NotNodeZero(BasePlugin):
        name = "not-node-0"

        def filter(self, ask: CpuAsk, cpus: CpuSet) -> CpuSet:
            return cpus - ask.machine.cpus_in_numa([0])

    two = Machine.from_vector({"cpus": [[c, c, c // 4, c // 4, None] for c in range(8)], "numa": []})
    plugged = policy(two, NotNodeZero(), StaticPlugin())
    item = pod("a", "2")
    hints = plugged.hints(plugged.start(None), item, item.containers[0])["cpu"]
    assert hints is not None
    assert [hint.numa for hint in hints] == [0b10, 0b11]


def test_post_filter_makes_room_once() -> None:
    """Named holders give up, the plugin hears of it, and the pod is tried again; in vain means: nothing changes."""
    heard: list[tuple[str, str]] = []

    class Evict(StaticPlugin):
        name = "evict"

        def post_filter(self, ask: CpuAsk, cpus: CpuSet) -> Sequence[Holding]:
            return [Holding("low", "c"), Holding("never", "c")]

        def deallocate(self, holding: Holding, cpus: CpuSet) -> None:
            heard.append((holding.pod_uid, str(cpus)))

        def allocate(self, ask: CpuAsk, choice: CpuSet) -> None:
            heard.append((ask.pod.uid, str(choice)))

    plugged = policy(HYBRID, Evict())
    state = admit(plugged, plugged.start(None), pod("low", "10"))
    after = admit(plugged, state, pod("high", "12"))
    assert after.assigned("low", "c") is None
    assert len(after.cpus_of("high", "c")) == 12
    assert [name for name, _ in heard] == ["low", "low", "high"]
    with pytest.raises(CpuAdmissionError, match="requested=20") as error:
        admit(plugged, state, pod("huge", "20"))
    assert error.value.state == state


def test_sort_and_scores() -> None:
    """The first plugin orders last; the proposal with the best sum wins, None forbids."""

    class Order(BasePlugin):
        def __init__(self, name: str, reverse: bool) -> None:
            self.name = name
            self.reverse = reverse

        def sort(self, pods: Sequence[Pod]) -> Sequence[Pod]:
            return sorted(pods, key=lambda item: item.name, reverse=self.reverse)

        def pre_score(self, ask: CpuAsk, cpus: CpuSet) -> Mapping[int, float]:
            return dict.fromkeys(cpus, 1.0)

        def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
            assert set(scores.values()) == {2.0}
            return [CpuSet.of([cpu]) for cpu in cpus]

        def score(self, ask: CpuAsk, choice: CpuSet) -> float | None:
            return None if 9 in choice else float(choice.first() in (9, 4))

    plugged = policy(HYBRID, Order("up", False), Order("down", True))
    assert [item.name for item in plugged.sorted([pod("b", "1"), pod("a", "1")])] == ["a", "b"]
    assert str(admit(plugged, plugged.start(None), pod("a", "1")).cpus_of("a", "c")) == "4"


def test_a_plugin_cannot_break_exclusiveness() -> None:
    """Proposing CPUs that were not offered, or too many, is an error and never an allocation."""

    class Greedy(BasePlugin):
        name = "greedy"

        def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
            return [CpuSet.of([3])]

    plugged = policy(SMT8, Greedy())
    with pytest.raises(InputError, match="greedy: proposes CPUs 3; expected 1 out of 0-2"):
        admit(plugged, plugged.start(None), pod("a", "1"))


def test_a_node_with_plugins() -> None:
    """A node with core classes plans whole pods: managers, checkpoints and refusals go on as before."""
    config = NodeConfig(cpu_manager_policy="static", reserved_system_cpus="15", topology_manager_policy="best-effort")
    node = Node(config, HYBRID)
    assert isinstance(node.cpu_policy, StaticPolicy)
    wishes = {"db": "performance", "logs": "efficiency"}
    classes = load_plugin("core-classes", HYBRID, {"required": wishes})
    node.cpu_policy = PluginPolicy.around(node.cpu_policy, [classes, load_plugin("static", HYBRID)])
    wanted = (pod("db", "4"), pod("logs", "3"), pod("free", "1"))
    results = [(item, node.admit(item), node.cpu_state.default) for item in wanted]
    planned = {item.name: item.containers[0] for item in plan_of(node, results).pods}
    assert {name: str(item.assigned) for name, item in planned.items()} == {"db": "0-3", "logs": "8-10", "free": "11"}
    twin = Pod(uid="db2", name="db", containers=pod("db2", "6").containers)
    assert not node.admit(twin).admitted
    assert node.cpu_policy.defects(node.cpu_state) == ()
    assert Node(config, HYBRID, checkpoints=node.checkpoints()).cpu_state.entries == node.cpu_state.entries


def test_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built-in plugins and announced ones are found by name; what is broken is told in one line."""
    entries = EntryPoints(
        (
            EntryPoint("lazy", "toolkit.allocation.plugins.registry:static_plugin", registry.GROUP),
            EntryPoint("broken", "no_such_module_anywhere:thing", registry.GROUP),
            EntryPoint("number", "toolkit.allocation.plugins.registry:GROUP", registry.GROUP),
        )
    )

    def fake(**params: Any) -> EntryPoints:
        return entries.select(**params)

    monkeypatch.setattr(registry, "entry_points", fake)
    assert plugin_names() == ("broken", "core-classes", "lazy", "number", "static")
    assert load_plugin("lazy", HYBRID).name == "static"
    settings = {"classes": {"big": "0-7"}, "required": {"db": "big"}}
    assert load_plugin("core-classes", HYBRID, settings).name == "core-classes"
    for name, given, message in (
        ("absent", {}, "expected one of broken, core-classes"),
        ("broken", {}, "ModuleNotFoundError"),
        ("number", {}, "is not callable"),
        ("static", {"speed": 1}, "unknown setting 'speed'"),
        ("core-classes", {"required": {"db": "huge"}}, "expected one of efficiency, performance"),
        ("core-classes", {"required": ["db"]}, "a mapping of texts"),
        ("core-classes", {"classes": {"x": "1-"}}, "core class x"),
    ):
        with pytest.raises(InputError, match=message):
            load_plugin(name, HYBRID, given)
