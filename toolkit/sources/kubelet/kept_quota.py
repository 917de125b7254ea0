"""Quotas that owners of CPUs may have although none was promised: of a kubelet whose version is not known.

Before v1.33 a kubelet leaves them their quota, later ones do not, and the running one could not be asked. What would be
the quota of such a kubelet, and may be what the runtime was asked for, is a doubt; any other quota is wrong in each.

Source: docs/facts.md K-quota (``DisableCPUQuotaWithExclusiveCPUs``, on by default since v1.33).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.allocation.cgroup_values import pod_values
from toolkit.kubernetes.feature_gates import NO_QUOTA_WITH_EXCLUSIVE_CPUS
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.releases import OWNERS_WITHOUT_QUOTA
from toolkit.model.claims import NO_QUOTA, Claim, Isolation
from toolkit.sources.kubelet.asked import asked_of
from toolkit.sources.kubelet.settings import Settings
from toolkit.sources.kubelet.subjects import Subject
from toolkit.sources.kubelet.versions import Versions


def may_keep(versions: Versions, known: Settings, uid: str) -> bool:
    """Whether a pod's kubelet may be older than the gate: nothing knows its version, nor was the gate set."""
    config = known.config
    return (
        versions.unknown(OWNERS_WITHOUT_QUOTA, uid)
        and not known.problem
        and config.cpu_cfs_quota
        and config.feature_gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS]
        and NO_QUOTA_WITH_EXCLUSIVE_CPUS not in config.feature_gates.given
    )


def with_kept(claim: Claim, subject: Subject) -> Claim:
    """Return an owner's claim with the quota that its limit gives, which is as many CPUs as it owns."""
    if claim.isolation is not Isolation.CONTAINER or claim.cpus is None or claim.quota_us != NO_QUOTA:
        return claim
    quota_us = len(claim.cpus) * claim.period_us
    asked = asked_of(subject)
    told = subject.runtime is not None and subject.runtime.asked is not None
    if told and (asked.quota_us, asked.period_us or claim.period_us) != (quota_us, claim.period_us):
        return claim
    return replace(claim, kept_quota_us=quota_us)


def of_pod(claim: Claim, pod: Pod, known: Settings, inside: Iterable[Claim | None]) -> Claim:
    """Return a pod's claim with the quota that it has if its owners of CPUs keep theirs. :param inside: the pod's."""
    if claim.quota_us != NO_QUOTA or not any(one is not None and one.kept_quota_us is not None for one in inside):
        return claim
    kept_us = pod_values(pod, known.config, quota_disabled=False).quota_us
    return claim if kept_us is None or kept_us < 0 else replace(claim, kept_quota_us=kept_us)
