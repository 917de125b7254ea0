"""CPU time of claims with claims inside them: pure."""

from __future__ import annotations

from collections.abc import Mapping


def with_nested(own_ns: Mapping[int, int], inside: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """Return each claim's CPU time, that of the claims inside it included."""
    return {**own_ns, **{ident: own_ns[ident] + sum(own_ns[one] for one in inner) for ident, inner in inside.items()}}
