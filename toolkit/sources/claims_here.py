"""Claims against this machine's cgroups: what they name must be here, and within what the ledger can see.

Every observer checks it first: a wrong path would otherwise be missed silently.
"""

from __future__ import annotations

from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.text import names

MAX_NAMES = 5
"""How many names of what exists instead are given."""


def check_limits(claims: ClaimSet, where: str, *, max_claims: int, max_level: int) -> None:
    """Refuse more claims, or deeper ones, than the ledger can distinguish. Pure.

    :param max_level: levels below the cgroup root in which a claim may sit; what is below a claim may be deeper.
    :raises InputError: names the claim, what was found and the limit.
    """
    if len(claims.claims) > max_claims:
        raise InputError(where, f"{len(claims.claims)} claims", f"at most {max_claims}")
    for claim in claims.claims:
        level = claim.cgroup.strip("/").count("/") + 1
        if level > max_level:
            found = f"claim {claim.name!r}: cgroup {claim.cgroup[:120]} lies {level} levels deep"
            raise InputError(
                where, found, f"at most {max_level} levels below the cgroup root: deeper ones are not seen"
            )


def check_cgroups(claims: ClaimSet, hierarchy: cgroupfs.Hierarchy, where: str) -> None:
    """Refuse cgroups that do not exist: those of claims, and the root of all pods.

    :raises InputError: names the claim, the path, and what is there instead.
    """
    if claims.pods_root is not None:
        _require(claims.pods_root, hierarchy, where, "podsRoot", "the cgroup that all pods are in")
    for claim in claims.claims:
        _require(claim.cgroup, hierarchy, where, f"claim {claim.name!r}: cgroup", "a cgroup that exists")


def _require(cgroup: str, hierarchy: cgroupfs.Hierarchy, where: str, what: str, expected: str) -> None:
    directory = cgroupfs.identity_dir(hierarchy, cgroup)
    if presence.is_dir(directory):
        return
    assert hierarchy.unified is not None
    if presence.is_hidden(directory):
        raise InputError(where, f"{what} {cgroup}: {presence.why_no_directory(directory)}", expected)
    near = nearest(directory, hierarchy.unified)
    raise InputError(where, f"{what} {cgroup} does not exist below {hierarchy.unified}{near}", expected)


def nearest(missing: Path, top: Path) -> str:
    """Return what exists instead of a missing directory: the names most like it, where its path still exists."""
    while missing.parent != top and not presence.is_dir(missing.parent):
        missing = missing.parent
    try:
        found = sorted(entry.name for entry in missing.parent.iterdir() if entry.is_dir())
    except OSError:
        return ""
    place = f"/{missing.parent.relative_to(top)}".removesuffix("/.").rstrip("/") + "/"
    import difflib  # not at the top: a refusal alone needs it

    close = difflib.get_close_matches(missing.name, found, n=MAX_NAMES, cutoff=0.6)
    close = close or [name for name in found if missing.name in name or name in missing.name][:MAX_NAMES]
    named = close or found[:MAX_NAMES]
    more = f" and {len(found) - len(named)} more" if not close and len(found) > len(named) else ""
    return (
        f" (there: {', '.join(names.from_path(place + name) for name in named)}{more})"
        if named
        else f" ({names.from_path(place)} is empty)"
    )
