"""A scenario: a node's configuration, pods, what they do, and how each promise is broken on purpose.

``kubelet`` and ``pods`` hold the documents as users write them (a ``KubeletConfiguration``, ``v1`` Pods); the
allocation model parses them. Source: design.md section 1; ``../shared/field.md`` section 1.1 for catalogue ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolkit.model.claims import ExclusivePolicy
from toolkit.model.sandbox import Workload
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What the machine must have for the scenario to make sense: lower bounds."""

    cpus: int = 1
    numa_nodes: int = 1
    sockets: int = 1
    threads_per_core: int = 1
    l3_groups: int = 1
    """L3 groups in the smallest socket."""


class FaultKind(StrEnum):
    """Ways to break a promise, really, inside our own sandbox."""

    WIDEN_CPUSET = "widen-cpuset"
    """The target's cpuset becomes every online CPU, and a task of it runs on each in turn."""
    SET_QUOTA = "set-quota"
    """The target's bandwidth is rewritten to ``quota_us``/``period_us`` (-1: none)."""
    CANARY_ESCAPE = "canary-escape"
    """The canary that should keep its claim is let loose on another CPU."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeControl:
    """A fault, and the rule that must come out ``failed`` because of it.

    :param target: ``pod/container`` whose promise is broken.
    :param subject: whose verdict must be ``failed``; the target's if empty.
    """

    rule: str
    fault: FaultKind
    target: str = ""
    subject: str = ""
    quota_us: int | None = None
    period_us: int | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario of the catalogue, or a user's own."""

    name: str
    title: str
    shows: str = ""
    catalogue: tuple[str, ...] = ()
    requires: Requirements = field(default_factory=Requirements)
    policy: ExclusivePolicy = ExclusivePolicy.K8S
    kubelet: dict[str, Any] = field(default_factory=dict)
    pods: tuple[dict[str, Any], ...] = ()
    workloads: dict[str, tuple[Workload, ...]] = field(default_factory=dict)
    """``pod/container`` -> what it runs; containers that are not named sleep."""
    duration_s: float = 3.0
    rejected_pods: tuple[str, ...] = ()
    """Pods that the node must refuse."""
    negative_controls: tuple[NegativeControl, ...] = ()
