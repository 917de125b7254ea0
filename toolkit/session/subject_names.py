"""A name for each subject of a followed source, which stays what it was as long as its cgroup does. Pure."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet
from toolkit.sources.live_source import SourceReading


def named(present: ClaimSet, reading: SourceReading) -> dict[str, Claim]:
    """Give each claim a name of its own: a cgroup that is watched keeps the name that it has.

    :param present: the claims that are watched.
    """
    names = {claim.cgroup: claim.name for claim in present.claims if claim.kind.carries_tasks}
    rows = [claim for claim in reading.claims.claims if claim.kind.carries_tasks]
    here = {claim.cgroup for claim in rows}
    taken = {name for cgroup, name in names.items() if cgroup in here}
    found: dict[str, Claim] = {}
    for claim in rows:
        name = names.get(claim.cgroup)
        if name is None:
            name, number = claim.name, 2
            while name in taken or name in found:
                name, number = f"{claim.name}#{number}", number + 1
        found[name] = claim if claim.name == name else replace(claim, name=name)
    return found
