"""Containers that the kubelet must have reconciled by now with what its state file says.

A reconcile compares the state with the kubelet's own memory, a period after the last one at the latest. It comes for
containers that run, of pods that are active, never for ephemeral ones, and not while no kubelet runs. All seconds are
of the node's clock, as it dates files.
Source: docs/facts.md K-kubelet-1, K-kubelet-2, K-kubelet-12; ``cpumanager/cpu_manager.go`` (``reconcileState``).
"""

from __future__ import annotations

from toolkit.model.claims import SubjectKind
from toolkit.model.node_reading import KUBELET_STARTED, STATE_REWRITTEN, STATE_WRITTEN, NodeReading
from toolkit.sources.kubelet.claims import NodeClaims
from toolkit.sources.kubelet.subjects import Subject

SLACK_S = 5.0
"""Beyond the reconcile period: a reconcile goes through all containers, 5 ms each, and we read once in a while."""


def overdue_s(subject: Subject, reading: NodeReading, node: NodeClaims) -> float | None:
    """Return for how long a reconcile had been possible when the cgroups were read, if that is longer than one takes.

    ``None``: it is not, or nothing says. The state file is read first and the runtime's list last: where the file was
    written again in between, the list may be of the new one.
    """
    times, runtime = reading.read_at_s, subject.runtime
    written_s, read_s = times.get(STATE_WRITTEN), times.get("cgroup_read")
    if written_s is None or read_s is None or STATE_REWRITTEN in times or node.settings.problem:
        return None
    if subject.kind is not SubjectKind.CONTAINER or subject.active is False:
        return None
    if reading.pods is None and KUBELET_STARTED not in times:  # One that has just started lists none.
        return None
    if runtime is not None and runtime.state not in ("running", ""):
        return None
    began_ns = (runtime.started_at_ns or runtime.created_at_ns or 0) if runtime is not None else 0
    lasted_s = read_s - max(written_s, times.get(KUBELET_STARTED, written_s), began_ns / 1e9)
    return lasted_s if lasted_s > node.settings.reconcile_s + SLACK_S else None
