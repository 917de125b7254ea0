"""What kubelets of different releases do differently, one row a behaviour: the one place that knows release numbers.

What reads a node, plans for it or judges it asks a row, never a number: :meth:`Behaviour.of`. A release that is newer
than :data:`NEWEST` is answered as that one, and what depends on it says so (:mod:`toolkit.kubernetes.kubelet_version`).

Source: each row's own. Where a row names a pull request, the series is that of the release that it came with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

Series = tuple[int, int]
"""Major and minor. Patch releases of one series are taken to behave alike."""
MODEL: Series = (1, 36)
"""The series whose recorded answers the allocation model reproduces."""
NEWEST: Series = (1, 37)
"""The newest series that the rows below were held against."""
UPSTREAM: Series = (1, 38)
"""What upstream's main branch is to become; its rows are marked by being newer than :data:`NEWEST`."""


class Stage(StrEnum):
    """Maturity of a gate or an option."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Kind(StrEnum):
    """What a row is about."""

    GATE_TAKEN = "gate that is taken"
    """A kubelet before ``since`` does not start with it."""
    GATE_ON = "gate that is on by default"
    """One before ``since`` has it off, or does not know it."""
    FILE = "file that is written"
    METRIC = "metric that is served"
    FORMULA = "formula"
    ANSWER = "answer of an API"
    REFUSAL = "what is refused"
    DECISION = "what is decided otherwise than by the model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One behaviour of kubelets.

    :param name: of a gate its name, of a metric the beginning of its samples, else our own word.
    :param since: the first series that has it; ``None``: every one that is known.
    :param until: the first series that has it no more; ``None``: the newest has it.
    :param perhaps_since: from here to ``since`` it is not relied on either way. :param what: in words.
    :param needs: options, gates and policies (``Static memory``, ``pod scope``) without which it makes no difference.
    """

    name: str
    kind: Kind
    what: str
    source: str
    since: Series | None = None
    until: Series | None = None
    perhaps_since: Series | None = None
    needs: tuple[str, ...] = ()

    def of(self, series: Series | None) -> bool | None:
        """Return whether kubelets of a series have it; ``None``: not known, as of a series that is not known."""
        if series is None:
            return None
        if self.until is not None and series >= self.until:
            return False
        if self.since is None or series >= self.since:
            return True
        return None if self.perhaps_since is not None and series >= self.perhaps_since else False

    def at_least(self, series: Series) -> bool | None:
        """Return the same of a kubelet that is of this series or a later one."""
        if self.until is not None:
            return False if series >= self.until else None
        return True if self.since is None or series >= self.since else None


API_REPORTS_POOL = Behaviour(
    name="pod-resources reports the shared pool",
    kind=Kind.ANSWER,
    what="pod-resources List gives a container without CPUs of its own those of the shared pool as its cpu_ids",
    until=(1, 23),
    source="kubernetes pull request 97415; docs/failures.md F53",
)
API_STATES_NODE_0 = Behaviour(
    name="devices without a NUMA node are stated on node 0",
    kind=Kind.ANSWER,
    what="pod-resources and kubelet_internal_checkpoint state node 0 of a device whose plugin states none",
    until=(1, 23),
    source="kubernetes pull request 103289; pkg/kubelet/cm/devicemanager/manager.go of v1.20.2, and its answers",
)
ALLOCATED_STATE = Behaviour(
    name="allocated_pods_state",
    kind=Kind.FILE,
    what="what was allocated to containers, and what of it is in force, is written into files",
    since=(1, 33),
    source="kubernetes pkg/kubelet/allocation",
)
STATE_AS_TEXT = Behaviour(
    name="state files with their content as text",
    kind=Kind.FILE,
    what="cpu_manager_state is V4 and memory_manager_state V3, whatever the gates; a V1 of the first is refused",
    since=(1, 37),
    source="kubernetes pull requests 139102 and 139626; pkg/kubelet/cm/cpumanager/state/state_checkpoint.go of v1.37",
)
INIT_CONTAINERS_COUNT = Behaviour(
    name="init containers without a limit leave their pod without one",
    kind=Kind.FORMULA,
    what="a pod's cgroup has a quota only if its init containers have limits, too",
    since=(1, 29),
    perhaps_since=(1, 26),
    source="kubernetes pkg/kubelet/cm/helpers_linux.go (ResourceConfigForPod)",
)
HIGH_ABOVE_REQUEST = Behaviour(
    name="memory.high lies between request and limit",
    kind=Kind.FORMULA,
    what="memory.high is request + factor x (limit - request), 0.9 by default; before, factor x limit, 0.8 by default",
    since=(1, 27),
    source="KEP-2570; pkg/kubelet/kuberuntime/kuberuntime_container_linux.go of v1.22 and v1.27",
)
NO_HIGH_WITHOUT_REQUEST = Behaviour(
    name="containers without request and limit have no memory.high",
    kind=Kind.FORMULA,
    what="one that requests no memory and has no limit is taken for one of which both are equal",
    since=(1, 27),
    until=(1, 37),
    source="kubernetes issue 137685, pull request 138139",
)
NO_HIGH_BY_DEFAULT = Behaviour(
    name="memoryThrottlingFactor has no default",
    kind=Kind.FORMULA,
    what="without memoryThrottlingFactor no container has a memory.high",
    since=(1, 37),
    source="KEP-2570; Kubernetes blog, 2026-09-14, Memory QoS Graduates to Beta",
)


@dataclass(frozen=True, slots=True)
class Step:
    """A gate as of one series. :param locked: nothing can set it otherwise."""

    since: Series
    stage: Stage
    on: bool
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One feature gate with its history. :param steps: in the order of series. :param needs: gates that it needs."""

    name: str
    what: str
    source: str = "Kubernetes documentation, Feature Gates; test/compatibility_lifecycle/reference/feature_list.md"
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()

    def of(self, series: Series) -> Step | None:
        """Return what it is in a series; ``None``: that series does not know it yet."""
        return next((step for step in reversed(self.steps) if series >= step.since), None)

    @property
    def taken(self) -> Behaviour:
        """The row of the releases that take it."""
        return self._row(Kind.GATE_TAKEN, self.steps[0].since)

    @property
    def by_default(self) -> Behaviour:
        """The row of the releases that have it on by default."""
        return self._row(Kind.GATE_ON, next((step.since for step in self.steps if step.on), (99, 0)))

    def _row(self, kind: Kind, since: Series) -> Behaviour:
        return Behaviour(name=self.name, kind=kind, what=self.what, source=self.source, since=since)


_A, _B, _GA, _OLD = Stage.ALPHA, Stage.BETA, Stage.GA, Stage.DEPRECATED
GATES: tuple[Gate, ...] = (
    Gate(
        name="PodLevelResources",
        what="a pod's own requests and limits count",
        steps=(Step((1, 32), _A, False), Step((1, 34), _B, True)),
        source="KEP-2837; Kubernetes documentation, Feature Gates",
    ),
    Gate(
        name="PodLevelResourceManagers",
        what="the resource managers know pods' own resources",
        steps=(Step((1, 36), _A, False), Step((1, 37), _B, False)),
        needs=("PodLevelResources",),
        source="KEP-5526; kubernetes pull request 141209; Kubernetes documentation, Feature Gates",
    ),
    Gate(
        name="CPUManagerPolicyAlphaOptions",
        what="options of the static policy that are alpha are taken",
        steps=(Step((1, 23), _A, False),),
    ),
    Gate(
        name="CPUManagerPolicyBetaOptions",
        what="options of the static policy that are beta are taken",
        steps=(Step((1, 23), _B, True),),
    ),
    Gate(
        name="TopologyManagerPolicyAlphaOptions",
        what="options of the Topology Manager that are alpha are taken",
        steps=(Step((1, 26), _A, False),),
    ),
    Gate(
        name="TopologyManagerPolicyBetaOptions",
        what="options of the Topology Manager that are beta are taken",
        steps=(Step((1, 26), _B, False), Step((1, 28), _B, True)),
    ),
    Gate(
        name="DisableCPUQuotaWithExclusiveCPUs",
        what="containers that own CPUs have no quota",
        steps=(Step((1, 33), _B, True), Step((1, 36), _OLD, True)),
        source="docs/facts.md K-quota; Kubernetes documentation, Feature Gates",
    ),
    Gate(
        name="InPlacePodVerticalScaling",
        what="containers can be resized while they run",
        steps=(Step((1, 27), _A, False), Step((1, 33), _B, True), Step((1, 35), _GA, True, locked=True)),
    ),
    Gate(
        name="InPlacePodVerticalScalingExclusiveCPUs",
        what="containers that own CPUs can be resized",
        steps=(Step((1, 32), _A, False),),
        needs=("InPlacePodVerticalScaling",),
    ),
    Gate(
        name="InPlacePodVerticalScalingExclusiveMemory",
        what="containers that own memory can be resized",
        steps=(Step((1, 34), _A, False),),
        needs=("InPlacePodVerticalScaling",),
    ),
    Gate(
        name="InPlacePodLevelResourcesVerticalScaling",
        what="a pod's own requests and limits can be resized",
        steps=(Step((1, 35), _A, False), Step((1, 36), _B, True)),
        needs=("InPlacePodVerticalScaling", "PodLevelResources", "NodeDeclaredFeatures"),
    ),
    Gate(
        name="NodeDeclaredFeatures",
        what="a node states which features it has",
        steps=(Step((1, 35), _A, False), Step((1, 36), _B, True)),
        source="KEP-5328; Kubernetes documentation, Feature Gates",
    ),
    Gate(
        name="CustomCPUCFSQuotaPeriod",
        what="the period of quotas can be set",
        steps=(Step((1, 12), _A, False), Step((1, 36), _GA, True)),
    ),
    Gate(
        name="DynamicResourceAllocation",
        what="pods can claim devices",
        steps=(Step((1, 26), _A, False), Step((1, 32), _B, False), Step((1, 34), _GA, True)),
    ),
    Gate(
        name="KubeletCgroupDriverFromCRI",
        what="the cgroup driver is the one that the runtime reports",
        steps=(Step((1, 28), _A, False), Step((1, 31), _B, True), Step((1, 34), _GA, True, locked=True)),
        source="KEP-4033; Kubernetes documentation, Feature Gates",
    ),
    Gate(
        name="SidecarContainers",
        what="init containers with restartPolicy Always go on beside the others",
        steps=(Step((1, 28), _A, False), Step((1, 29), _B, True), Step((1, 33), _GA, True, locked=True)),
        source="KEP-753; Kubernetes documentation, Feature Gates",
    ),
    Gate(
        name="NodeSystemPartition",
        what="pods of the system have CPUs, a limit of memory and cgroups of their own (systemPartition)",
        steps=(Step((1, 37), _A, False),),
        source="KEP-5894",
    ),
    Gate(
        name="MemoryQoS",
        what="cgroups have memory.min, memory.low and memory.high by requests and limits",
        steps=(Step((1, 22), _A, False), Step((1, 37), _B, True)),
        source="KEP-2570; Kubernetes documentation, Feature Gates",
    ),
)
GATE: dict[str, Gate] = {gate.name: gate for gate in GATES}
"""By name."""
POD_BUDGETS = GATE["PodLevelResources"].by_default
OWNERS_WITHOUT_QUOTA = GATE["DisableCPUQuotaWithExclusiveCPUs"].by_default
SIDECARS = GATE["SidecarContainers"].by_default
GATES_NEED = Behaviour(
    name="gates that others need",
    kind=Kind.REFUSAL,
    what="a gate that is on is refused where one that it needs is off",
    since=(1, 35),
    source="k8s.io/component-base, featuregate (AddDependencies)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOption:
    """One option of a manager's policy with its history: the series that each stage came with.

    :param field: of KubeletConfiguration.
    """

    name: str
    field: str
    source: str
    alpha: Series | None = None
    beta: Series | None = None
    stable: Series | None = None

    def of(self, series: Series) -> Stage | None:
        """Return how mature it is in a series; ``None``: that series does not know it."""
        stages = ((self.stable, _GA), (self.beta, _B), (self.alpha, _A))
        return next((stage for since, stage in stages if since is not None and series >= since), None)


_CPU, _TOPOLOGY = "cpuManagerPolicyOptions", "topologyManagerPolicyOptions"
OPTIONS: dict[str, PolicyOption] = {
    option.name: option
    for option in (
        PolicyOption(
            name="full-pcpus-only", field=_CPU, alpha=(1, 22), beta=(1, 23), stable=(1, 33), source="KEP-2625"
        ),
        PolicyOption(name="distribute-cpus-across-numa", field=_CPU, alpha=(1, 23), beta=(1, 33), source="KEP-2902"),
        PolicyOption(name="align-by-socket", field=_CPU, alpha=(1, 25), source="KEP-3327"),
        PolicyOption(name="distribute-cpus-across-cores", field=_CPU, alpha=(1, 31), source="KEP-4176"),
        PolicyOption(
            name="strict-cpu-reservation", field=_CPU, alpha=(1, 32), beta=(1, 33), stable=(1, 35), source="KEP-4540"
        ),
        PolicyOption(
            name="prefer-align-cpus-by-uncorecache",
            field=_CPU,
            alpha=(1, 32),
            beta=(1, 34),
            stable=(1, 36),
            source="KEP-4800",
        ),
        PolicyOption(
            name="prefer-closest-numa-nodes",
            field=_TOPOLOGY,
            alpha=(1, 26),
            beta=(1, 28),
            stable=(1, 32),
            source="KEP-3545",
        ),
        PolicyOption(name="max-allowable-numa-nodes", field=_TOPOLOGY, beta=(1, 31), stable=(1, 35), source="KEP-4622"),
    )
}
"""By name: the options of the managers' policies."""


def _decides(needs: tuple[str, ...], what: str, pull: int) -> Behaviour:
    return Behaviour(
        name=f"{' and '.join(needs)}: {what}",
        kind=Kind.DECISION,
        what=what,
        needs=needs,
        since=UPSTREAM,
        source=f"kubernetes pull request {pull}, CHANGELOG-1.38 (v1.38.0-alpha.1)",
    )


DECISIONS: tuple[Behaviour, ...] = (
    _decides(("distribute-cpus-across-cores",), "CPUs are taken by topology, not by number", 140766),
    _decides(("distribute-cpus-across-cores", "align-by-socket"), "CPUs are taken by topology, not by number", 141238),
    _decides(
        ("distribute-cpus-across-numa",), "the Topology Manager's affinity is kept where it has several nodes", 139456
    ),
    _decides(("full-pcpus-only", "distribute-cpus-across-numa"), "some requests no longer hang the kubelet", 140730),
    _decides(
        ("PodLevelResourceManagers",),
        "what a pod has as a whole is restored after a restart, not allocated anew",
        141041,
    ),
    _decides(("Static memory", "pod scope"), "hints of the Memory Manager are restored after a restart", 141070),
)
"""What is decided otherwise after v1.37; which of it was picked into older series is not known."""
METRICS: tuple[Behaviour, ...] = (
    Behaviour(
        name="kubelet_cpu_manager_allocation_per_numa{",
        kind=Kind.METRIC,
        what="exclusive CPUs by NUMA node are counted",
        since=(1, 33),
        source="kubernetes pull request 130491",
    ),
)
BEHAVIOURS: tuple[Behaviour, ...] = (
    API_REPORTS_POOL,
    API_STATES_NODE_0,
    ALLOCATED_STATE,
    STATE_AS_TEXT,
    INIT_CONTAINERS_COUNT,
    HIGH_ABOVE_REQUEST,
    NO_HIGH_WITHOUT_REQUEST,
    NO_HIGH_BY_DEFAULT,
    GATES_NEED,
    *(gate.taken for gate in GATES),
    *(gate.by_default for gate in GATES if any(step.on for step in gate.steps)),
    *METRICS,
    *DECISIONS,
)
"""Every row but the options'."""


def unlike(series: Series, than: Series) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the gates that a series has off by default and another has on, and those that are the other way round."""
    here, there = ({gate.name for gate in GATES if (step := gate.of(one)) and step.on} for one in (series, than))
    names = [gate.name for gate in GATES]
    return tuple(n for n in names if n in there - here), tuple(n for n in names if n in here - there)


def least(gates: Iterable[str], samples: str) -> Series:
    """Return the oldest series that takes these gates and serves these samples of metrics."""
    shown: list[Series | None] = [GATE[name].steps[0].since for name in gates if name in GATE]
    shown += [row.since for row in METRICS if f"\n{row.name}" in f"\n{samples}"]
    return max((since for since in shown if since is not None), default=(0, 0))


def series_text(series: Series) -> str:
    """Return ``v1.36``."""
    return f"v{series[0]}.{series[1]}"
