"""Which claims lie inside which: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def nested(places: Iterable[tuple[int, str]]) -> dict[int, tuple[int, ...]]:
    """Return the claims inside each claim's cgroup, at any depth; claims without any inside are left out.

    :param places: ident and cgroup of each claim. Of a cgroup several claims may have had, one after the other.
    """
    claims = [(ident, cgroup.rstrip("/")) for ident, cgroup in places]
    by_cgroup: dict[str, list[int]] = {}
    for ident, cgroup in claims:
        by_cgroup.setdefault(cgroup, []).append(ident)
    inside: dict[int, tuple[int, ...]] = {}
    for ident, cgroup in claims:
        above, slash, _ = cgroup.rpartition("/")
        while slash:
            for outer in by_cgroup.get(above, ()):
                inside[outer] = (*inside.get(outer, ()), ident)
            above, slash, _ = above.rpartition("/")
    return inside


def with_nested(own_ns: Mapping[int, int], inside: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """Return each claim's CPU time, that of the claims inside it included."""
    return {ident: ns + sum(own_ns[one] for one in inside.get(ident, ())) for ident, ns in own_ns.items()}
