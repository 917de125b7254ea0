"""What a kubelet would state, where there is none: the state files that it would have written, and what they and the
model say about each claim's CPUs (rules ``checkpoint`` and ``layers-agree``). Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from probes.readings import Frame
from toolkit.allocation.checkpoint.state_files import cpu_state_file, memory_state_file
from toolkit.errors import InputError
from toolkit.host.runtimes import read_runtime
from toolkit.kubernetes.node_config import read_settings
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_evidence import NodeEvidence
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.model.state_files import CpuStateFile, KnownContainer, StateReading
from toolkit.session.planning.from_plan import Stage, claim_name, running
from toolkit.session.planning.planned import Planned
from toolkit.session.planning.restarting import settings_after

STATIC = "static"
"""The policy whose state file holds every container's CPUs; that of ``none`` holds none."""


def state_reading(work: Planned, stage: Stage, rewrite: Callable[[str], str] = str) -> StateReading:
    """Return the state files that the kubelet would have written for a stage.

    What they are held against is the scenario's and the machine's, not the plan's that made them.

    :param rewrite: what becomes of the text of ``cpu_manager_state``.
    """
    scenario = work.scenario
    # Where a new kubelet does not start the files are those of the one before.
    started = work.restarted is not None and not work.restarted.refusal
    settings = settings_after(scenario) if started else scenario.kubelet
    config = read_settings(settings, f"scenario {scenario.name}: kubelet")
    cpu, memory = rewrite(stage.plan.states["cpu_manager_state"]), stage.plan.states["memory_manager_state"]
    return StateReading(
        at_ns=0,
        cpus_online=work.online,
        cpu=cpu_state_file(cpu),
        memory=memory_state_file(memory) if memory else None,
        cpu_policy=config.cpu_manager_policy,
        memory_policy=config.memory_manager_policy,
        node_bytes={node.id: node.memory for node in work.topology.kubelet.nodes} or None,
        modelled=True,
        containers=tuple(
            KnownContainer(
                pod_uid=pod.uid,
                container=container.name,
                running=claim_name(pod, container) in stage.containers,
            )
            for pod in stage.plan.pods
            if pod.admitted
            for container in pod.containers
        ),
    )


def node_evidence(
    work: Planned, stage: Stage, runtime: str, _frame: Frame | None = None, *, rewrite: Callable[[str], str] = str
) -> NodeEvidence:
    """Return what a node says at the end of a window about what runs in a stage.

    :param runtime: what made it. :param rewrite: as :func:`state_reading`.
    """
    made_by = read_runtime(runtime)
    if not work.scenario.state_files:
        return NodeEvidence(runtime=made_by)
    reading = state_reading(work, stage, rewrite)
    views = layer_views(stage.plan, stage.containers, reading.cpu) if reading.cpu else ()
    return NodeEvidence(runtime=made_by, state_files=(reading,), layers=views)


def layer_views(plan: Plan, names: frozenset[str], cpu: CpuStateFile, at_ns: int = 0) -> tuple[LayerView, ...]:
    """Return what the plan and the state file say about the containers that run.

    :param names: the containers. :param at_ns: since when they say so.
    """
    found = []
    for pod, container in running(plan, names):
        name = claim_name(pod, container)
        stated = ((Layer.MODEL, container.cpus or None), (Layer.CHECKPOINT, _recorded(pod, container, cpu)))
        found += [
            LayerView(claim=name, layer=layer, at_ns=at_ns, cpus=cpus) for layer, cpus in stated if cpus is not None
        ]
    return tuple(found)


def _recorded(pod: PodPlan, container: ContainerPlan, cpu: CpuStateFile) -> CpuSet | None:
    """Return a container's CPUs by the state file: its own, else the shared pool; ``None`` where it does not say."""
    if cpu.problem or cpu.policy != STATIC:
        return None
    own = [entry.cpus for entry in cpu.entries if (entry.pod_uid, entry.container) == (pod.uid, container.name)]
    if not own and container.isolation is not Isolation.HOST:
        return None
    try:
        return CpuSet.parse(own[0] if own else cpu.default) or None
    except InputError:
        return None
