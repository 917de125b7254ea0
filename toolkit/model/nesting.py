"""Which claims lie inside which: pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def nested(places: Iterable[tuple[Key, str]]) -> dict[Key, tuple[Key, ...]]:
    """Return the claims inside each claim's cgroup, at any depth; claims without any inside are left out.

    One walk up for each claim, whatever their number.

    :param places: ident or name, and cgroup, of each claim. Of one cgroup there may have been several, one after the
        other.
    """
    claims = [(key, cgroup.rstrip("/")) for key, cgroup in places]
    by_cgroup: dict[str, list[Key]] = {}
    for key, cgroup in claims:
        by_cgroup.setdefault(cgroup, []).append(key)
    inside: dict[Key, tuple[Key, ...]] = {}
    for key, cgroup in claims:
        above, slash, _ = cgroup.rpartition("/")
        while slash:
            for outer in by_cgroup.get(above, ()):
                inside[outer] = (*inside.get(outer, ()), key)
            above, slash, _ = above.rpartition("/")
    return inside
