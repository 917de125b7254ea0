"""Measures of a node that are far from those of its class: the same scenario and promises, hardware and software."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence

from toolkit.fleet.answer import Outlier
from toolkit.fleet.exact import spread, z_limit
from toolkit.fleet.hosts import Host, label
from toolkit.fleet.reading import Key
from toolkit.model.measures import Better
from toolkit.model.node_record import NodeOutcome
from validators.registry import measure_of

SMALLEST_GROUP = 8
"""Nodes; of fewer nothing knows what is usual."""
MAX_OUTLIERS = 200


def outliers_of(hosts: Sequence[Host]) -> tuple[tuple[Outlier, ...], int]:
    """Return the farthest, and how many there are.

    Far is what one value in an answer of twenty is by chance (:func:`toolkit.fleet.exact.z_limit`) *and* more than the
    smallest difference that the rule calls one, in the direction that is worse (in both, where none is).
    """
    groups = {key: found for key, found in _groups(hosts).items() if len(found[0]) >= SMALLEST_GROUP}
    limit = z_limit(sum(len(values) for values, _ in groups.values()))
    found = []
    for (hardware, software, key), (values, owners) in groups.items():
        for place, centre, z in _far(key, values, limit):
            scenario, _, about, measure = key
            found.append(
                Outlier(
                    host=hosts[owners[place]].row.host,
                    hardware=hardware,
                    software=software,
                    scenario=scenario,
                    about=about,
                    measure=measure,
                    value=values[place],
                    median=centre,
                    z=round(z, 2),
                    of=len(values),
                )
            )
    found.sort(key=lambda one: (-abs(one.z), one.host, one.about, one.measure))
    return tuple(found[:MAX_OUTLIERS]), len(found)


Group = tuple[str, str, Key]


def _groups(hosts: Sequence[Host]) -> dict[Group, tuple[array[float], array[int]]]:
    found: dict[Group, tuple[array[float], array[int]]] = {}
    classes: dict[tuple[str, str, tuple[Key, ...]], list[tuple[array[float], array[int]]]] = {}
    for index, host in enumerate(hosts):
        if host.row.outcome is NodeOutcome.STALE:
            continue
        for report in host.reports:
            place = label(report), report.software, report.keys
            columns = classes.get(place)
            if columns is None:
                columns = classes[place] = [
                    found.setdefault((place[0], place[1], key), (array("d"), array("l"))) for key in report.keys
                ]
            for (values, owners), value in zip(columns, report.values, strict=True):
                values.append(value)
                owners.append(index)
    return found


def _far(key: Key, values: array[float], limit: float) -> list[tuple[int, float, float]]:
    """Return place, median and distance of each value that is far from the others."""
    rule, _, _ = key[2].partition(" ")
    kind = measure_of(rule, key[3])
    ordered = sorted(values)
    if kind is None or kind.relative is None or ordered[-1] - ordered[0] <= kind.absolute:
        return []
    centre, typical = spread(ordered)
    if not typical:
        return []
    smallest = max(limit * typical, kind.absolute, kind.relative * abs(centre))
    above = kind.better is not Better.MORE and ordered[-1] - centre > smallest
    below = kind.better is not Better.LESS and centre - ordered[0] > smallest
    return [
        (place, centre, (value - centre) / typical)
        for place, value in enumerate(values)
        if (above and value - centre > smallest) or (below and centre - value > smallest)
    ]


def by_host(outliers: Sequence[Outlier]) -> dict[str, list[Outlier]]:
    """Return outliers by their host, the host with the farthest first."""
    found: dict[str, list[Outlier]] = defaultdict(list)
    for one in outliers:
        found[one.host].append(one)
    return dict(found)
