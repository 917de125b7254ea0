"""The kubelet's counters of assignments against the containers that it gave CPUs, by its state file.

``resource_manager_container_assignments`` counts containers by what they got: CPUs of the node, or of their pod's
budget. It is cumulative, begins at zero when the kubelet starts, and is absent without gate PodLevelResourceManagers:
between two readings it must have grown by the containers that came into the state file, at least; those that came and
went between two readings are in it too. So one reading alone, that of a capture, has nothing to be compared with.
Source: KEP-5526 "Monitoring Requirements"; Kubernetes documentation "Resource managers", Observability; kubernetes
``pkg/kubelet/cm/cpumanager/policy_static.go`` (a container is counted right after it is written to the state).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from toolkit.model.evidence.following import ASSIGNMENTS, KUBELET_START, Gauges

_LABEL = re.compile(r'[{,]([a-z_]+)="([^"]*)"')
KINDS: Mapping[str, tuple[str, ...]] = {"node": ("node_exclusive",), "pod": ("pod_exclusive", "pod_shared")}
"""By whose CPUs they are: what their containers are counted as."""
_KNOWN = frozenset(kind for kinds in KINDS.values() for kind in kinds)
_SAME_START_S = 2.0
"""The time at which a process started is computed anew each time, from a clock that is adjusted."""


def undercounted(rows: Sequence[Gauges]) -> list[dict[str, str]]:
    """Return for each reading what is wrong, by kind and by how much."""
    found: list[dict[str, str]] = [{} for _ in rows]
    if not counts(rows):
        return found
    first: Gauges | None = None
    entered: Mapping[str, int] | None = None
    for row, wrong in zip(rows, found, strict=True):
        if not _speaks(row):
            continue
        if first is None or not _one_life(first, row):
            # What came between this reading of the state file and of the counters is in the counters, and is seen next.
            first, entered = row, row.entered if row.until_ns > row.since_ns else None
        elif entered is None:
            entered = row.entered
        else:
            wrong |= _missing(first, entered, row)
    return found


def counts(rows: Sequence[Gauges]) -> bool:
    """Say whether there is anything to compare: counters with the documented labels, and two readings of one life."""
    kinds = {kind for row in rows for kind, _ in _assigned(row.values)}
    speaking = [row for row in rows if _speaks(row)]
    lives = any(_one_life(one, other) for one, other in pairwise(speaking))
    steady = any(row.until_ns > row.since_ns for row in speaking)
    return bool(kinds) and kinds <= _KNOWN and (lives or steady)


def _missing(first: Gauges, entered: Mapping[str, int], row: Gauges) -> dict[str, str]:
    found = {}
    for whose, kinds in KINDS.items():
        grown = round(_count(row, kinds) - _count(first, kinds))
        came = row.entered.get(whose, 0) - entered.get(whose, 0)
        if grown < came:
            found[f"{ASSIGNMENTS} {whose} {grown - came}"] = (
                f"container_assignments of CPUs ({', '.join(kinds)}) grew by {grown}, "
                f"{came} containers came into the state file"
            )
    return found


def _speaks(row: Gauges) -> bool:
    return not row.problem and bool(row.entered) and KUBELET_START in row.values


def _one_life(first: Gauges, row: Gauges) -> bool:
    """Whether the same process counted both times."""
    return abs(row.values[KUBELET_START] - first.values[KUBELET_START]) < _SAME_START_S


def _count(row: Gauges, kinds: Sequence[str]) -> float:
    return sum(value for kind, value in _assigned(row.values) if kind in kinds)


def _assigned(values: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the counters of CPUs: what the containers were counted as, and how many."""
    labels = [(dict(_LABEL.findall(name)), value) for name, value in values.items() if name.startswith(ASSIGNMENTS)]
    return [(own.get("assignment_type", ""), value) for own, value in labels if own.get("resource_name") == "cpu"]
