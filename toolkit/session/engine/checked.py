"""Claims that can be watched on this machine, before anything is loaded."""

from __future__ import annotations

from pathlib import Path

from probes.options import MAX_LEVEL
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.session.engine import canary
from toolkit.sources.claims_file import MAX_CLAIMS
from toolkit.sources.claims_here import check_cgroups, check_limits


def check_claims(claims: ClaimSet, where: str, root: Path = Path("/"), max_claims: int | None = None) -> None:
    """Refuse claims that cannot be watched here: their number, their depth, cgroups that do not exist.

    :param max_claims: what the programs are loaded for, our own controls included, where they are loaded already.
    :raises InputError: one line that names the claim.
    """
    room = MAX_CLAIMS if max_claims is None else max_claims - len(canary.NAMES)
    check_limits(claims, where, max_claims=room, max_level=MAX_LEVEL)
    check_cgroups(claims, cgroupfs.detect(root), where)
