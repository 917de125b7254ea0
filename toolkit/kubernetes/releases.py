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
NEWEST: Series = (1, 37)
"""The newest series that the rows below were held against."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One behaviour of kubelets.

    :param name: of a gate its name, of a metric the beginning of its samples, else our own word.
    :param since: the first series that has it; ``None``: every one that is known.
    :param until: the first series that has it no more; ``None``: the newest has it.
    :param perhaps_since: from here to ``since`` it is not relied on either way. :param what: in words.
    """

    name: str
    kind: Kind
    what: str
    source: str
    since: Series | None = None
    until: Series | None = None
    perhaps_since: Series | None = None

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
POD_BUDGETS = Behaviour(
    name="PodLevelResources",
    kind=Kind.GATE_ON,
    what="a pod's own requests and limits count",
    since=(1, 34),
    source="KEP-2837; Kubernetes documentation, Feature Gates",
)
OWNERS_WITHOUT_QUOTA = Behaviour(
    name="DisableCPUQuotaWithExclusiveCPUs",
    kind=Kind.GATE_ON,
    what="containers that own CPUs have no quota",
    since=(1, 33),
    source="docs/facts.md K-quota; Kubernetes documentation, Feature Gates",
)
GATES: tuple[Behaviour, ...] = (
    POD_BUDGETS,
    OWNERS_WITHOUT_QUOTA,
    Behaviour(
        name="InPlacePodLevelResourcesVerticalScaling",
        kind=Kind.GATE_ON,
        what="a pod's own requests and limits can be resized",
        since=(1, 36),
        source="Kubernetes documentation, Feature Gates",
    ),
    Behaviour(
        name="KubeletCgroupDriverFromCRI",
        kind=Kind.GATE_ON,
        what="the cgroup driver is the one that the runtime reports",
        since=(1, 31),
        source="KEP-4033; Kubernetes documentation, Feature Gates",
    ),
    Behaviour(
        name="PodLevelResourceManagers",
        kind=Kind.GATE_TAKEN,
        what="the resource managers know pods' own resources",
        since=(1, 36),
        source="KEP-5526; Kubernetes documentation, Feature Gates",
    ),
    Behaviour(
        name="InPlacePodLevelResourcesVerticalScaling",
        kind=Kind.GATE_TAKEN,
        what="a pod's own requests and limits can be resized, where it is switched on",
        since=(1, 35),
        source="Kubernetes documentation, Feature Gates",
    ),
    Behaviour(
        name="NodeDeclaredFeatures",
        kind=Kind.GATE_TAKEN,
        what="a node states which features it has",
        since=(1, 35),
        source="KEP-5328; Kubernetes documentation, Feature Gates",
    ),
)
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
    ALLOCATED_STATE,
    STATE_AS_TEXT,
    INIT_CONTAINERS_COUNT,
    *GATES,
    *METRICS,
)


def off_by_default(series: Series) -> tuple[str, ...]:
    """Return the gates that are on by default in the newest series and are not in this one."""
    return tuple(row.name for row in GATES if row.kind is Kind.GATE_ON and row.of(series) is False)


def least(gates: Iterable[str], samples: str) -> Series:
    """Return the oldest series that takes these gates and serves these samples of metrics."""
    names = set(gates)
    shown = [row.since for row in GATES if row.kind is Kind.GATE_TAKEN and row.name in names]
    shown += [row.since for row in METRICS if f"\n{row.name}" in f"\n{samples}"]
    return max((since for since in shown if since is not None), default=(0, 0))


def series_text(series: Series) -> str:
    """Return ``v1.36``."""
    return f"v{series[0]}.{series[1]}"
