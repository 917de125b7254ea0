"""What programs beside the kubelet say of a node's containers: NRI policies, the DRA CPU driver, CRI-O's workloads.

They pin below the kubelet, which never reads a cgroup: with policy ``none`` theirs is the only word there is, with
``static`` they may narrow what the state file gives. A set that is none of its parts contradicts the state file, whose
word stands then.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NodeReading
from toolkit.sources import cluster_objects, dra_cpu, nri
from toolkit.sources.kubelet.files.pinners import PART
from toolkit.sources.kubelet.promises import crio
from toolkit.sources.pinned import Pinned, PinnedWords, joined


def pinned_words(reading: NodeReading) -> PinnedWords:
    """Return all that they say. Never raises for what is in the reading."""
    said = [
        nri.words(reading.nri_cache, reading.nri_cache_after),
        dra_cpu.words(reading.cdi, reading.containers or ()),
        crio.words(reading),
    ]
    unread = [PinnedWords(by_id={}, unread=one.reason) for one in reading.missing if one.part == PART]
    return cluster_objects.told(joined((*said, *unread)), reading.containers or (), reading.cluster_objects)


def in_force(pinned: Pinned | None, state: CpuSet | None, reserved: CpuSet) -> Pinned | None:
    """Return the word that holds beside what the state file gives a container; ``None``: there is none.

    :param reserved: CPUs that the kubelet has reserved.
    """
    if pinned is None or not state or not pinned.cpus:
        return pinned
    most = state | reserved if pinned.of_reserved else state
    return pinned if pinned.cpus <= most else None


def with_pinned(claim: Claim, pinned: Pinned) -> Claim:
    """Return a container's claim with what it was pinned to. What the kubelet's options promise of where its CPUs lie
    holds for the set that the kubelet gave, not for a part of it.
    """
    found = replace(
        claim,
        pinned_by=pinned.source,
        mems=pinned.mems or claim.mems,
        shares=claim.shares if pinned.shares is None else pinned.shares,
        quota_us=claim.quota_us if pinned.quota_us is None else pinned.quota_us,
        period_us=claim.period_us if pinned.period_us is None else pinned.period_us,
    )
    if pinned.cpus is None:
        return found
    own = pinned.exclusive and claim.isolation is Isolation.HOST
    narrowed = pinned.cpus != claim.cpus
    shared = claim.cpus is not None and not pinned.cpus <= claim.cpus
    return replace(
        found,
        cpus=pinned.cpus,
        isolation=Isolation.CONTAINER if own else Isolation.HOST if shared else claim.isolation,
        alignments=() if narrowed else claim.alignments,
        preferences=() if narrowed else claim.preferences,
        max_numa_nodes=None if narrowed else claim.max_numa_nodes,
    )
