"""Whether a cgroup is that of a systemd unit: systemd marks each with an extended attribute.

Source: systemd's src/core/cgroup.c (``trusted.invocation_id``, since version 252 ``user.invocation_id`` as well);
xattr(7): ``trusted`` attributes are seen with CAP_SYS_ADMIN only.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.cgroup_manager import CgroupManager, names_unit

ATTRIBUTES = ("trusted.invocation_id", "user.invocation_id")
_OWN_HIERARCHY = "name=systemd"
_USER_MANAGER = "/user@"
"""Units below are made by a user's own systemd, which before version 252 marks none."""


def read_manager(hierarchy: Hierarchy, cgroup: str, path: str) -> CgroupManager:
    """Return which manager wrote a cgroup. :param path: where it is below the mounts, as file functions want it."""
    if not names_unit(cgroup):
        return CgroupManager.CGROUPFS
    if hierarchy.root != Path("/"):
        return CgroupManager.UNKNOWN  # a copied tree has no attributes
    mounts = [mount for name, mount in hierarchy.legacy if name == _OWN_HIERARCHY]
    mounts += [hierarchy.unified] if hierarchy.unified is not None else []
    marks = [is_marked(mount / path) for mount in mounts]
    if True in marks:
        return CgroupManager.SYSTEMD
    unmarked = set(marks) == {False} and _USER_MANAGER not in cgroup
    return CgroupManager.CGROUPFS if unmarked else CgroupManager.UNKNOWN


def is_marked(directory: Path) -> bool | None:
    """Return whether the cgroup has systemd's mark; ``None``: unknown."""
    for name in ATTRIBUTES:
        try:
            os.getxattr(directory, name)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOENT):
                return None
        else:
            return True
    return False
