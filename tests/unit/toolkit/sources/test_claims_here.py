"""Claims that this machine cannot be asked about: one line with place, what was found, and what there is instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set
from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.sources.claims_file import parse_claims
from toolkit.sources.claims_here import check_cgroups, check_limits

PROJECT = Path(__file__).resolve().parents[3]
HEAD = 'apiVersion: pinproof/v1\nkind: Claims\nclaims:\n- {name: a, cgroup: /a, cpus: "0"}\n'


def deep(levels: int) -> str:
    return "/" + "/".join("abcdefgh"[level % 8] for level in range(levels))


@pytest.fixture
def hierarchy(tmp_path: Path) -> Hierarchy:
    for name in ("kubepods.slice/kubepods-poda.slice/db", "system.slice", "user.slice", "init.scope", "x", "y", "z"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "kubepods").write_text("")
    return Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)


def test_a_claim_that_is_too_deep() -> None:
    """The deepest that can be seen is allowed, one more is not."""
    check_limits(claim_set(claim_db(cgroup=deep(23))), "f", max_claims=1, max_level=23)
    with pytest.raises(InputError, match=r"claim 'db': cgroup /a/b.* lies 24 levels deep; expected at most 23 levels"):
        check_limits(claim_set(claim_db(cgroup=deep(24))), "f", max_claims=1, max_level=23)


def test_too_many_claims() -> None:
    """As many as there is room for are allowed."""
    two = claim_set()
    check_limits(two, "f", max_claims=2, max_level=23)
    with pytest.raises(InputError, match="f: 2 claims; expected at most 1"):
        check_limits(two, "f", max_claims=1, max_level=23)


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("/kubepods", r"podsRoot /kubepods does not exist below .* \(there: /kubepods.slice\)"),
        ("/kubepods.slcie", r"\(there: /kubepods.slice[,)]"),
        ("/kubepods.slice/poda", r"\(there: /kubepods.slice/kubepods-poda.slice\)"),
        ("/kubepods.slice/kubepods-poda.slice/db/c", r"\(/kubepods.slice/kubepods-poda.slice/db/ is empty\)"),
        ("/nothing/like/it", r"\(there: /init.scope, /kubepods.slice, /system.slice, /user.slice, /x and 2 more\)"),
    ],
)
def test_a_pods_root_that_is_not_there(hierarchy: Hierarchy, root: str, told: str) -> None:
    """A misspelt root, or that of the other cgroup driver: a foreign pod would be taken for a system task."""
    db = claim_db(cgroup="/kubepods.slice/kubepods-poda.slice/db")
    check_cgroups(claim_set(db, pods_root="/kubepods.slice"), hierarchy, "f")
    with pytest.raises(InputError, match=told):
        check_cgroups(claim_set(db, pods_root=root), hierarchy, "f")


def test_a_claim_that_is_not_there(hierarchy: Hierarchy) -> None:
    """The claim is named, and what is there instead."""
    claims = replace(claim_set(claim_db(cgroup="/system.slicee")), pods_root=None)
    with pytest.raises(InputError, match=r"claim 'db': cgroup /system.slicee does not exist .*\(there: /system.slice"):
        check_cgroups(claims, hierarchy, "f")


@pytest.mark.parametrize("written", ["kubepods", "/kubepods/", "/kubepods"])
def test_a_pods_root_is_written_as_one_likes(written: str) -> None:
    """Like a claim's cgroup."""
    assert parse_claims(f"podsRoot: {written}\n{HEAD}", "f").pods_root == "/kubepods"


def test_a_strict_reservation_of_nothing() -> None:
    """The rule would be skipped, and the file says that it must hold."""
    assert parse_claims(f"strictReservation: false\n{HEAD}", "f").reserved_cpus.mask == 0
    with pytest.raises(InputError, match="f: strictReservation without reservedCPUs; expected"):
        parse_claims(f"strictReservation: true\n{HEAD}", "f")
