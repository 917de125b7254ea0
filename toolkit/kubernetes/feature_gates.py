"""Kubelet feature gates that matter to the resource managers, with their maturity in v1.36.

Gates that are not in the table belong to other parts of the kubelet: they are read and kept, and change nothing here;
names that no part of v1.36 knows are refused, as a kubelet does (:mod:`toolkit.kubernetes.known_gates`).
Source: Kubernetes v1.36 documentation "Feature Gates"; ``docs/facts.md`` (K-gate); the texts are
those of the kubelet at start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from toolkit.kubernetes.known_gates import KNOWN, LOCKED_OFF, LOCKED_ON
from toolkit.kubernetes.releases import off_by_default


class Stage(StrEnum):
    """Maturity of a gate."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate. :param needs: gates without which it must not be on."""

    stage: Stage
    default: bool
    needs: tuple[str, ...] = ()


POD_LEVEL_RESOURCES = "PodLevelResources"
POD_LEVEL_RESOURCE_MANAGERS = "PodLevelResourceManagers"
CPU_ALPHA_OPTIONS = "CPUManagerPolicyAlphaOptions"
CPU_BETA_OPTIONS = "CPUManagerPolicyBetaOptions"
TOPOLOGY_ALPHA_OPTIONS = "TopologyManagerPolicyAlphaOptions"
TOPOLOGY_BETA_OPTIONS = "TopologyManagerPolicyBetaOptions"
NO_QUOTA_WITH_EXCLUSIVE_CPUS = "DisableCPUQuotaWithExclusiveCPUs"
IN_PLACE_RESIZE = "InPlacePodVerticalScaling"
IN_PLACE_RESIZE_EXCLUSIVE_CPUS = "InPlacePodVerticalScalingExclusiveCPUs"
IN_PLACE_RESIZE_EXCLUSIVE_MEMORY = "InPlacePodVerticalScalingExclusiveMemory"
IN_PLACE_RESIZE_POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"
CFS_QUOTA_PERIOD = "CustomCPUCFSQuotaPeriod"
NODE_DECLARED_FEATURES = "NodeDeclaredFeatures"
DYNAMIC_RESOURCE_ALLOCATION = "DynamicResourceAllocation"
CGROUP_DRIVER_FROM_CRI = "KubeletCgroupDriverFromCRI"

GATES: Mapping[str, Gate] = {
    POD_LEVEL_RESOURCES: Gate(Stage.BETA, True),
    POD_LEVEL_RESOURCE_MANAGERS: Gate(Stage.ALPHA, False, needs=(POD_LEVEL_RESOURCES,)),
    CPU_ALPHA_OPTIONS: Gate(Stage.ALPHA, False),
    CPU_BETA_OPTIONS: Gate(Stage.BETA, True),
    TOPOLOGY_ALPHA_OPTIONS: Gate(Stage.ALPHA, False),
    TOPOLOGY_BETA_OPTIONS: Gate(Stage.BETA, True),
    NO_QUOTA_WITH_EXCLUSIVE_CPUS: Gate(Stage.DEPRECATED, True),
    IN_PLACE_RESIZE: Gate(Stage.GA, True),
    IN_PLACE_RESIZE_EXCLUSIVE_CPUS: Gate(Stage.ALPHA, False, needs=(IN_PLACE_RESIZE,)),
    IN_PLACE_RESIZE_EXCLUSIVE_MEMORY: Gate(Stage.ALPHA, False, needs=(IN_PLACE_RESIZE,)),
    IN_PLACE_RESIZE_POD_LEVEL: Gate(
        Stage.BETA, True, needs=(IN_PLACE_RESIZE, POD_LEVEL_RESOURCES, NODE_DECLARED_FEATURES)
    ),
    NODE_DECLARED_FEATURES: Gate(Stage.BETA, True),
    CFS_QUOTA_PERIOD: Gate(Stage.GA, True),
    DYNAMIC_RESOURCE_ALLOCATION: Gate(Stage.GA, True),
    CGROUP_DRIVER_FROM_CRI: Gate(Stage.GA, True),
    "AllAlpha": Gate(Stage.ALPHA, False),
    "AllBeta": Gate(Stage.BETA, False),
}


class FeatureGates:
    """The gates of one kubelet: what the configuration sets over the defaults."""

    __slots__ = ("_on", "given")

    def __init__(self, given: Mapping[str, bool] | None = None) -> None:
        self.given = dict(given or {})
        on = {name: gate.default for name, gate in GATES.items()}
        for group, stage in (("AllAlpha", Stage.ALPHA), ("AllBeta", Stage.BETA)):
            if group in self.given:
                on.update(
                    {n: self.given[group] for n, g in GATES.items() if g.stage is stage and not n.startswith("All")}
                )
        self._on = on | self.given

    def __getitem__(self, name: str) -> bool:
        return self._on[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self.given == other.given

    def __hash__(self) -> int:
        return hash(frozenset(self.given.items()))

    def __repr__(self) -> str:
        return f"FeatureGates({self.given!r})"

    def of_series(self, series: tuple[int, int]) -> FeatureGates:
        """Return the gates of a kubelet of this series: what was not on by default yet is off, unless it is given."""
        return FeatureGates(dict.fromkeys(off_by_default(series), False) | self.given)

    @property
    def pod_level_managers(self) -> bool:
        """Whether the resource managers honour pod-level budgets."""
        return self._on[POD_LEVEL_RESOURCE_MANAGERS] and self._on[POD_LEVEL_RESOURCES]

    @property
    def refused(self) -> tuple[str, ...]:
        """The gates given that a kubelet does not take, whatever the others are: unknown, or locked otherwise."""
        return tuple(name for name, value in sorted(self.given.items()) if _refusal(name, value))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The gates given that no part of Kubernetes knows: mistyped, or a distribution's own."""
        return tuple(name for name in sorted(self.given) if not _is_known(name))

    def problem(self) -> str | None:
        """Return the message with which a kubelet refuses these gates, ``None`` if it takes them."""
        errors = [text for name, value in sorted(self.given.items()) if (text := _refusal(name, value))]
        if not errors:
            for name, gate in sorted(GATES.items()):
                off = [needed for needed in gate.needs if not self._on[needed]]
                if self._on[name] and off:
                    errors.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]")
        if not errors:
            return None
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _is_known(name: str) -> bool:
    return name in KNOWN or name in GATES


def _refusal(name: str, value: bool) -> str:
    """Return what a kubelet says to one gate by itself; nothing if it takes it."""
    if not _is_known(name):
        return f"unrecognized feature gate: {name}"
    if name in (LOCKED_OFF if value else LOCKED_ON):
        return f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(not value)}"
    return ""


def _go(value: bool) -> str:
    return "true" if value else "false"
