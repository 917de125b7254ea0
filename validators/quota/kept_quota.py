"""A quota that a claim may have kept although none was promised: which kubelet decided is not known."""

from __future__ import annotations

from toolkit.model.cgroup_manager import systemd_wrote
from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles
from validators.quota import bandwidth

UNKNOWN = "the kubelet's version is not known: before v1.33 owners of CPUs keep their quota"


def may_keep(claim: Claim, quota_us: int | None, period_us: int | None, *, by_systemd: bool) -> bool:
    """Return whether a quota that was read is this one."""
    kept_us = claim.kept_quota_us
    if kept_us is None or quota_us is None or quota_us < 0:
        return False
    return bandwidth.same_limit(kept_us, claim.period_us, quota_us, period_us, by_systemd=by_systemd)


def has_kept_quota(claim: Claim, files: CgroupFiles) -> bool:
    """Return whether a cgroup's files hold this one."""
    return may_keep(claim, files.quota_us, files.period_us, by_systemd=systemd_wrote(files.cgroup, files.manager))


def unread(name: str, claim: Claim, files: CgroupFiles, when: str) -> str:
    """Return why a file's value says nothing: it was not read, or is such a quota."""
    if name == "the quota" and has_kept_quota(claim, files):
        return UNKNOWN
    return f"{name} of {files.cgroup} was not read {when} the window"
