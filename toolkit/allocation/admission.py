"""Why a pod is refused, in the kubelet's words: the reason and message of the pod's Failed status.

Source: Kubernetes documentation "Control Topology Management Policies on a node" (known error reasons);
``docs/simulate-format.md`` section "expect".
"""

from __future__ import annotations

from typing import NamedTuple

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY_AFFINITY = "TopologyAffinityError"
EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"
SMT_ALIGNMENT = "SMTAlignmentError"
OUT_OF = "OutOf"
"""Begins the reason of a pod that finds too little of a resource beside the others: ``OutOfcpu``."""
INVALID = "Invalid"
"""Not a kubelet's word but the API server's (``metav1.StatusReasonInvalid``): the pod never reaches a node."""


class Admission(NamedTuple):
    """What became of a pod; ``reason`` and ``message`` are those of its Failed status."""

    admitted: bool
    reason: str = ""
    message: str = ""


class AdmissionError(Exception):
    """A manager refuses a pod. Stays inside the model: the admission turns it into a value."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


def unexpected(cause: str) -> AdmissionError:
    """Wrap an allocation failure that the kubelet has no name for."""
    return AdmissionError(UNEXPECTED, f"Allocate failed due to {cause}, which is unexpected")


def topology_affinity(*, pod_level: bool = False, scope: str = "container") -> AdmissionError:
    """Build the Topology Manager's refusal; pods with a pod-level budget get another sentence."""
    if not pod_level:
        return AdmissionError(TOPOLOGY_AFFINITY, "Resources cannot be allocated with Topology locality")
    end = "under pod-scope topology manager" if scope == "pod" else "with a container-level topology manager"
    return AdmissionError(TOPOLOGY_AFFINITY, f"Pod Scope pod with pod-level resources failed admission {end}")


def invalid(cause: str) -> AdmissionError:
    """Build the API server's refusal of a pod that its validation does not let pass."""
    return AdmissionError(INVALID, f"API validation: {cause}")


def empty_pod_shared_pool(cause: str) -> AdmissionError:
    """Build the refusal of a pod whose shared containers would get nothing (KEP-5526)."""
    return AdmissionError(EMPTY_POD_SHARED_POOL, cause)


class StartupError(Exception):
    """The kubelet does not start. ``stage`` is one of :data:`STAGES`.

    ``cpu_file``: the CPU Manager's state file, if this start has written it before it failed.
    """

    cpu_file: str | None = None

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage
        self.message = message

    def sentence(self) -> str:
        """Return it as one line."""
        return does_not_start(self.stage, self.message)


def does_not_start(stage: str, message: str) -> str:
    """Return one line: that a kubelet refuses to start, and why."""
    return f"the kubelet does not start ({stage}): {message}"


STAGES = (
    "feature-gates",
    "config-validation",
    "config-parse",
    "reserved-cpus",
    "topology-manager",
    "cpu-manager",
    "memory-manager",
    "cpu-manager-start",
    "memory-manager-start",
    "node-allocatable",
)


NIL_POINTER = "runtime error: invalid memory address or nil pointer dereference"
"""What a Go program that crashes on a missing entry says."""


class KubeletPanic(Exception):  # noqa: N818 - the kubelet's own word
    """The real component crashes here; raised only where its defects are reproduced on purpose."""
