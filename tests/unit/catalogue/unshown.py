"""Settings of scenarios that change no decision when they are turned round.

``CONTEXT``: the setting is where the scenario takes place; that nothing depends on it is what it shows, or no matter.
``UNSHOWN``: the scenario claims to show it, and its node decides the same without: it must be rewritten. Nothing is
left there, and nothing may come back.
"""

from __future__ import annotations

GATES_OFF = (
    "gates-off-four-and-two",
    "gates-off-one",
    "gates-off-one-and-two",
    "gates-off-pods",
    "gates-off-three",
    "gates-off-three-and-two",
    "gates-off-two",
)
CONTEXT: dict[str, tuple[str, ...]] = {
    # Pods that own nothing, whatever the node would give to others: gates, policies and scopes do not reach them.
    "PodLevelResourceManagers=True": (
        "container-scope-burstable",
        "container-scope-shared",
        "memory-container-scope-burstable",
        "memory-container-scope-shared",
        "memory-pod-level-burstable",
        "pod-level-burstable",
    ),
    "topologyManagerScope=container": ("container-scope-burstable", "memory-container-scope-burstable"),
    "topologyManagerScope=pod": ("memory-pod-level-burstable", "pod-level-burstable"),
    # No pod gets memory there: refused, not Guaranteed, or the gate is off.
    "memoryManagerPolicy=Static": (
        "memory-container-scope-burstable",
        "memory-container-scope-shared",
        "memory-pod-level-burstable",
        "memory-pod-level-empty-pool",
        "memory-pod-level-empty-pool-restricted",
        "memory-pod-level-gate-off",
        "memory-pod-level-gate-off-reserved",
    ),
    # Pod-level managers need some policy other than none; which one is another scenario's matter.
    "topologyManagerPolicy=best-effort": (
        "container-scope-burstable",
        "container-scope-exclusive",
        "container-scope-full-budget",
        "container-scope-init",
        "container-scope-mixed",
        "container-scope-shared",
        "example-container-scope",
        "memory-container-scope-burstable",
        "memory-container-scope-exclusive",
        "memory-container-scope-refused",
        "memory-pod-level-burstable",
        "pod-level-burstable",
        # Without a policy the CPU Manager may take the socket that is free: it is the policy's choice of nodes
        # that the option corrects.
        "align-by-socket",
    ),
    # Shows memory; of the host's own devices QEMU names no node, so they pull no CPU to one.
    "topologyManagerPolicy=single-numa-node": (
        "device-udev",
        "hugepages-1gi-touched",
        "hugepages-touched",
        "memory-app",
        "memory-init-and-app",
        "memory-pods",
    ),
    # The gates hide options; that pods get the same without them is what is shown.
    "CPUManagerPolicyAlphaOptions=False": GATES_OFF,
    "CPUManagerPolicyBetaOptions=False": GATES_OFF,
    # No CPU is owned there, and those that share have every CPU, the reserved ones too: a static policy needs some
    # reservation to start, and which is no matter. That is what non-strict-reservation and those by amount show.
    "reservedSystemCPUs=0": (
        "adjuster-clearcfs",
        "adjuster-other-class",
        "burstable-two-containers",
        "device-apart",
        "example-burstable",
        "example-empty-memory",
        "example-empty-pool",
        "example-memory-only",
        "memory-container-scope-refused",
        "memory-pod-level-gate-off-reserved",
        "memory-pods",
        "memory-reject",
        "non-strict-reservation",
        "numa-pod-scope-reject",
        "pod-level-gate-off-reserved",
        "pod-level-smt-reject",
        "qos-best-effort",
        "qos-burstable-limits",
        "qos-guaranteed-fractional",
        "smt-reject",
    ),
    "kubeReserved.cpu": (
        "memory-pod-level-empty-pool",
        "memory-pod-level-empty-pool-restricted",
        "numa-pod-scope-reject-sidecars",
        "numa-reject",
        "numa-reject-second-sidecar",
        "numa-reject-sidecar-demand",
        "pod-level-empty-pool",
        "shared-reserved-by-amount",
        "strict-option-off",
    ),
    # No pod gets memory of the node: refused, not Guaranteed, the gate is off; or what is asked for is as much more
    # than is left (memory-group, memory-reject), or of another kind (huge pages).
    "reservedMemory of node 0": (
        "example-empty-memory",
        "hugepages-1gi-touched",
        "hugepages-touched",
        "memory-container-scope-refused",
        "memory-group",
        "memory-reject",
    ),
    # That a pool is kept though one of its two containers departs is what is shown; in pool-released both depart.
    "departure of first/a": ("memory-pod-level-pool-kept", "pod-level-pool-kept"),
}

UNSHOWN: dict[str, tuple[str, ...]] = {}
