"""What each layer of a node says about one claim: the model, the kubelet's checkpoint, its pod-resources API, the
runtime, the cgroup, the kernel's scheduler. Facts only; rule ``layers-agree`` compares.

Source: docs/principles.md ("four layers compared, not two").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


class Layer(StrEnum):
    """The layers, in the order in which a decision travels."""

    MODEL = "model"
    """What the resource managers should have decided."""
    CHECKPOINT = "checkpoint"
    """``cpu_manager_state`` and ``memory_manager_state``."""
    POD_RESOURCES = "pod-resources"
    """The kubelet's pod-resources API."""
    PLUGIN = "plugin"
    """A program beside the kubelet that pins containers (``pinned_by`` of the claim): an NRI policy, a DRA driver."""
    RUNTIME = "cri"
    """What the kubelet asked the runtime for last, as the runtime's CRI says."""
    CLAIM = "claim"
    """What was promised (``claims.json``)."""
    CGROUP = "cgroup"
    """The control files, effective values."""
    OBSERVED = "observed"
    """Where tasks ran and may run."""


class ApiCpus(StrEnum):
    """Which CPUs the pod-resources API of this kubelet gives a container that owns none."""

    OWN = "own"
    """None."""
    POOL = "pool"
    """Those of the shared pool."""
    EITHER = "either"
    """The kubelet's version, on which that depends, is not known."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerView:
    """What one layer states about one claim at one moment; ``None``: nothing.

    :param at_ns: nanoseconds since the observation began; before it: negative.
    :param api_cpus: how the CPUs of pod-resources are meant; ``None``: of another layer, or not said.
    """

    claim: str
    layer: Layer
    at_ns: int
    cpus: CpuSet | None = None
    mems: CpuSet | None = None
    api_cpus: ApiCpus | None = None
