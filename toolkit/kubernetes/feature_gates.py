"""The feature gates of one kubelet: the defaults of its release, and what its configuration sets.

Those that matter to the resource managers are rows of :mod:`toolkit.kubernetes.releases`. The others belong to other
parts of the kubelet: they are read and kept, and change nothing here; names that no part of v1.36 knows are refused, as
a kubelet does (:mod:`toolkit.kubernetes.known_gates`).
Source: Kubernetes documentation "Feature Gates"; ``docs/facts.md`` (K-gate); the texts are those of the kubelet at
start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolkit.kubernetes.known_gates import KNOWN, LOCKED_OFF, LOCKED_ON
from toolkit.kubernetes.releases import GATE, GATES, GATES_NEED, MODEL, Series, Stage

POD_LEVEL_RESOURCES = "PodLevelResources"
POD_LEVEL_RESOURCE_MANAGERS = "PodLevelResourceManagers"
CPU_ALPHA_OPTIONS = "CPUManagerPolicyAlphaOptions"
CPU_BETA_OPTIONS = "CPUManagerPolicyBetaOptions"
TOPOLOGY_ALPHA_OPTIONS = "TopologyManagerPolicyAlphaOptions"
TOPOLOGY_BETA_OPTIONS = "TopologyManagerPolicyBetaOptions"
NO_QUOTA_WITH_EXCLUSIVE_CPUS = "DisableCPUQuotaWithExclusiveCPUs"
IN_PLACE_RESIZE_EXCLUSIVE_CPUS = "InPlacePodVerticalScalingExclusiveCPUs"
IN_PLACE_RESIZE_EXCLUSIVE_MEMORY = "InPlacePodVerticalScalingExclusiveMemory"
IN_PLACE_RESIZE_POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"
CFS_QUOTA_PERIOD = "CustomCPUCFSQuotaPeriod"
CGROUP_DRIVER_FROM_CRI = "KubeletCgroupDriverFromCRI"

GROUPS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Gates that switch all of a stage."""


class FeatureGates:
    """The gates of one kubelet: what the configuration sets over the defaults of its release.

    :param series: its release; one that no release was built for (0) is that of the model.
    """

    __slots__ = ("_on", "given", "series")

    def __init__(self, given: Mapping[str, bool] | None = None, series: Series = MODEL) -> None:
        self.given = dict(given or {})
        self.series = series if series[0] else MODEL
        known = {gate.name: step for gate in GATES if (step := gate.of(self.series)) is not None}
        on = {gate.name: False for gate in GATES} | {name: step.on for name, step in known.items()}
        for group, stage in GROUPS.items():
            if group in self.given:
                on.update({name: self.given[group] for name, step in known.items() if step.stage is stage})
        self._on = on | dict.fromkeys(GROUPS, False) | self.given

    def __getitem__(self, name: str) -> bool:
        return self._on[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and (self.given, self.series) == (other.given, other.series)

    def __hash__(self) -> int:
        return hash((frozenset(self.given.items()), self.series))

    def __repr__(self) -> str:
        return f"FeatureGates({self.given!r}, {self.series})"

    def of_series(self, series: Series) -> FeatureGates:
        """Return the same gates given to a kubelet of this series, whose defaults are its own."""
        return FeatureGates(self.given, series)

    def without(self, names: Collection[str]) -> FeatureGates:
        """Return the gates as if these had not been given."""
        return FeatureGates({name: on for name, on in self.given.items() if name not in names}, self.series)

    @property
    def on(self) -> frozenset[str]:
        """Names of the gates that are on, of those that matter here."""
        return frozenset(name for name, value in self._on.items() if value and name in GATE)

    @property
    def pod_level_managers(self) -> bool:
        """Whether the resource managers honour pod-level budgets."""
        return self._on[POD_LEVEL_RESOURCE_MANAGERS] and self._on[POD_LEVEL_RESOURCES]

    @property
    def refused(self) -> tuple[str, ...]:
        """The gates given that a kubelet does not take, whatever the others are: unknown, or locked otherwise."""
        return tuple(name for name, value in sorted(self.given.items()) if self._refusal(name, value))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The gates given that no part of Kubernetes knows: mistyped, a distribution's own, or of another release."""
        return tuple(name for name in sorted(self.given) if not _is_known(name))

    def problem(self) -> str | None:
        """Return the message with which a kubelet refuses these gates, ``None`` if it takes them."""
        errors = [text for name, value in sorted(self.given.items()) if (text := self._refusal(name, value))]
        if not errors and GATES_NEED.of(self.series):
            for gate in sorted(GATES, key=lambda gate: gate.name):
                off = [needed for needed in gate.needs if not self._on[needed]]
                if self._on[gate.name] and off:
                    errors.append(
                        f"{gate.name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
                    )
        if not errors:
            return None
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"

    def _refusal(self, name: str, value: bool) -> str:
        """Return what a kubelet says to one gate by itself; nothing if it takes it.

        Of a release that is not the model's only the gates that matter here are known for sure.
        """
        gate = GATE.get(name)
        step = gate.of(self.series) if gate is not None else None
        if not _is_known(name) or (gate is not None and step is None):
            return f"unrecognized feature gate: {name}"
        locked = step is not None and step.locked and step.on is not value
        if locked or (self.series == MODEL and name in (LOCKED_OFF if value else LOCKED_ON)):
            return f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(not value)}"
        return ""


def _is_known(name: str) -> bool:
    return name in KNOWN or name in GATE or name in GROUPS


def _go(value: bool) -> str:
    return "true" if value else "false"
