"""What manages a cgroup: a unit's name is not enough where systemd's mark can be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.host.systemd_units import ATTRIBUTES, is_marked, read_manager
from toolkit.model.cgroup_manager import CgroupManager

SCOPE = "/kubepods.slice/kubepods-poda.slice/cri-containerd-1.scope"


def hierarchy(tmp_path: Path, root: str = "/") -> Hierarchy:
    """A v2 hierarchy in a folder, with one scope."""
    (tmp_path / SCOPE[1:]).mkdir(parents=True, exist_ok=True)
    return Hierarchy(root=Path(root), mode=Mode.V2, unified=tmp_path)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_a_marked_scope_is_systemds(tmp_path: Path, attribute: str) -> None:
    """The attribute that systemd writes makes it systemd's; without it a directory only looks like a scope."""
    found = hierarchy(tmp_path)
    if is_marked(tmp_path) is None:
        pytest.skip("no extended attributes on this file system")
    assert read_manager(found, SCOPE, SCOPE[1:]) is CgroupManager.CGROUPFS
    try:
        os.setxattr(tmp_path / SCOPE[1:], attribute, b"0123456789abcdef")
    except OSError as error:
        pytest.skip(f"{attribute} cannot be written here ({error.strerror})")

    assert read_manager(found, SCOPE, SCOPE[1:]) is CgroupManager.SYSTEMD


def test_other_names_are_no_units(tmp_path: Path) -> None:
    """A plain directory is its writer's; a child of a scope is not the scope."""
    for cgroup in ("/kubepods/poda/db", f"{SCOPE}/container", "/a.scopes"):
        assert read_manager(hierarchy(tmp_path), cgroup, cgroup[1:]) is CgroupManager.CGROUPFS


def test_what_cannot_be_told_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copied tree, a file system without attributes, a user's own systemd before version 252."""
    assert read_manager(hierarchy(tmp_path, str(tmp_path)), SCOPE, SCOPE[1:]) is CgroupManager.UNKNOWN
    user = "/user.slice/user-1.slice/user@1.service/app.slice/x.scope"
    (tmp_path / user[1:]).mkdir(parents=True)
    assert read_manager(hierarchy(tmp_path), user, user[1:]) is CgroupManager.UNKNOWN

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "getxattr", refuse)
    assert read_manager(hierarchy(tmp_path), SCOPE, SCOPE[1:]) is CgroupManager.UNKNOWN
