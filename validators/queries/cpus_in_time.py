"""Which CPU set a control file may hold at a moment: that of the epoch, or one that was just being replaced.

Whatever is followed (podman, docker, systemd, Slurm) writes the file some time before its new word is known here.
"""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Transition
from toolkit.model.evidence.following import UNREAD_NS
from toolkit.model.runtimes import SETUP_NS
from validators.queries import view
from validators.queries.life import Life


def promised(
    life: Life, changes: tuple[Transition, ...], epoch: int, at_ns: int, files: CgroupFiles | None
) -> CpuSet | None:
    """Return the set that a reading must have: that of its epoch, or another one that it has and may have.

    :param changes: the planned ones of the claim's set, in order. :param epoch: how many were complete then.
    """
    of_epoch = view.set_at_epoch(life.claim, changes, epoch)
    if life.evidence.following is None or files is None:
        return of_epoch
    good = [one.cpus_before for one in changes if one.start_at_ns <= at_ns <= one.end_at_ns + SETUP_NS]
    good += [one.cpus_after for one in changes if one.start_at_ns - UNREAD_NS <= at_ns <= one.end_at_ns]
    good += [one.claim.cpus for one in life.renewed if one.at_ns - UNREAD_NS <= at_ns]
    held = [cpus for cpus in good if cpus is not None and cpus in (files.cpus, files.cpus_effective)]
    return held[0] if held else of_epoch
