"""CPU time of several claims together in slots: that of a pod or a QoS class, whose own cgroup runs no tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import UsageBin
from validators.queries import view


def slots_of(claim: Claim, claims: ClaimSet, bins: Mapping[str, Sequence[UsageBin]]) -> list[UsageBin]:
    """Return the claim's own slots, or else those of the claims below it together."""
    own = bins.get(claim.name)
    if own:
        return list(own)
    below = [name for name in view.nested(claims).get(claim.name, ()) if bins.get(name)]
    # What runs below one of them is in its slots already.
    inside = {name for one in below for name in view.nested(claims).get(one, ())}
    return list(_together(claim.name, (entry for name in below if name not in inside for entry in bins[name])))


def _together(name: str, bins: Iterable[UsageBin]) -> Iterator[UsageBin]:
    """Add up slots of several claims. They are of one clock; where some overlap in part they are one longer slot:
    when in it the time was used is not known.
    """
    end_ns, group = 0, list[UsageBin]()
    for entry in sorted((entry for entry in bins if entry.usage_ns), key=lambda entry: entry.start_at_ns):
        if entry.start_at_ns >= end_ns:
            yield from _sum(name, group, end_ns, entry.start_at_ns)
            group = []
        group.append(entry)
        end_ns = max(end_ns, entry.start_at_ns + entry.length_ns)
    yield from _sum(name, group, end_ns, end_ns)


def _sum(name: str, group: list[UsageBin], end_ns: int, next_ns: int) -> Iterator[UsageBin]:
    if group:
        begin_ns = group[0].start_at_ns
        used_ns = sum(entry.usage_ns for entry in group)
        yield UsageBin(claim=name, start_at_ns=begin_ns, length_ns=end_ns - begin_ns, usage_ns=used_ns)
    if next_ns > end_ns:  # nothing ran
        yield UsageBin(claim=name, start_at_ns=end_ns, length_ns=next_ns - end_ns, usage_ns=0)
