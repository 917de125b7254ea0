"""What the layers of a node stated of a claim through a window: runs of readings with the same CPUs, in order of time.

Source: docs/facts.md K-kubelet-1; cri-o ``server/container_update_resources.go``, ``internal/lib/container_server.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import ThreadMask
from toolkit.model.layers import ApiCpus, Layer, LayerView
from toolkit.model.runtimes import SETUP_NS
from validators.queries import file_history
from validators.queries.life import STARTS, Life

FOLLOWS_NS = SETUP_NS + 3_000_000_000
"""So long after it wrote a cgroup a runtime may say so: its program has to return, and each layer is read by itself."""

TOGETHER_NS = 1_000_000_000
"""Within so long the layers of one reading are read, one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The same value from one reading to another: what a layer said, of which the timeline, of promises, has no row.

    :param last_ns: until the next reading, where only readings that differ are kept.
    :param sure_ns: so long it was so for sure: it may have changed at any moment after the last look at it.
    """

    cpus: CpuSet
    first_ns: int
    last_ns: int
    sure_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLayers:
    """What each layer stated about one claim, in the order of time."""

    state: list[Stretch]
    api: list[Stretch]
    plugin: list[Stretch]
    asked: list[Stretch]
    cgroup: list[Stretch]
    making: list[Stretch]
    """The cgroup's CPUs while it was being made, too: a thread may have held them as long."""
    masks: list[ThreadMask]
    api_cpus: ApiCpus | None = None
    """How pod-resources means the CPUs of a container that owns none; ``None``: a run of before this was said."""

    @property
    def always(self) -> CpuSet:
        """CPUs that the cgroup had in every reading; none where it was not read."""
        return reduce(CpuSet.__and__, (run.cpus for run in self.making)) if self.making else CpuSet()

    def kept(self, from_ns: int, until_ns: int, online: CpuSet) -> bool:
        """Return whether the cgroup had in all of this time just what the state file promised in all of it.

        A runtime that then says otherwise has an old word. CRI-O keeps what it was asked for in memory alone: when it
        restarts it says again what the container was made with. No promise is broken, and the kubelet, which compares
        with its own memory, never asks anew.
        """
        promised, had = (
            {one.cpus for one in said if one.first_ns <= until_ns and one.last_ns >= from_ns}
            for said in (self.state, self.cgroup)
        )
        return len(had) == len(promised) == 1 and all(had) and carried_out(promised.pop(), had.pop(), online)

    def is_old(self, one: Stretch, run: Stretch, limit_ns: int, online: CpuSet) -> bool:
        """Return whether the runtime's word ``one`` is such an old one: it was said while the cgroup had its promise.

        That may have changed since: the cgroup follows within ``limit_ns``. A cgroup that changed while the word stood
        was written by something.
        """
        if run.first_ns > max(0, one.first_ns):
            return False
        from_ns, until_ns = max(run.first_ns, one.first_ns), min(run.last_ns, one.last_ns)
        # It may have been promised until the reading in which it was not any more.
        ends = [*(later.first_ns for later in self.state[1:]), *(last.last_ns for last in self.state[-1:])]
        return bool(run.cpus) and any(
            carried_out(promised.cpus, run.cpus, online)
            and promised.first_ns <= from_ns + TOGETHER_NS
            and from_ns <= promised.last_ns
            and end_ns >= until_ns - limit_ns
            for promised, end_ns in zip(self.state, ends, strict=True)
            if promised.cpus != one.cpus
        )

    def wrote_itself(self, run: Stretch, one: Stretch) -> bool:
        """Return whether the runtime says next, and in time, what the cgroup became after ``one``: it wrote it.

        containerd holds its answer back until an update has returned. CRI-O says until then what was asked for before.
        """
        later = next((word for word in self.asked if word.first_ns > one.first_ns), None)
        if later is None or one.first_ns >= run.first_ns:
            return False
        return later.cpus == run.cpus and later.first_ns <= run.first_ns + FOLLOWS_NS


def carried_out(asked: CpuSet, has: CpuSet, online: CpuSet) -> bool:
    """Return whether a cgroup has the CPUs that were asked for: the kernel may grant those alone that are online."""
    return has in (asked, asked & online)


def claim_layers(life: Life) -> ClaimLayers:
    """Put together what was stated of a claim in a life."""
    made = [t.end_at_ns for t in life.transitions if t.what in STARTS]
    making = _granted(life, ())
    return ClaimLayers(
        state=_stretches(life.layers, Layer.CHECKPOINT),
        api=_stretches(life.layers, Layer.POD_RESOURCES),
        plugin=_stretches(life.layers, Layer.PLUGIN),
        asked=_stretches(life.layers, Layer.RUNTIME),
        cgroup=_granted(life, [end_ns + SETUP_NS for end_ns in made]) if made else making,
        making=making,
        # The threads of a cgroup before this one say nothing about it.
        masks=[mask for mask in life.masks if mask.first_at_ns >= max(made, default=0)],
        api_cpus=next((row.api_cpus for row in reversed(life.layers) if row.api_cpus is not None), None),
    )


def _stretches(rows: Sequence[LayerView], layer: Layer) -> list[Stretch]:
    found: list[Stretch] = []
    before: CpuSet | None = None
    for row in sorted((row for row in rows if row.layer is layer), key=lambda row: row.at_ns):
        if row.cpus is not None and row.cpus == before:
            found[-1] = replace(found[-1], last_ns=row.at_ns, sure_ns=row.at_ns)
        elif row.cpus is not None:
            found.append(Stretch(cpus=row.cpus, first_ns=row.at_ns, last_ns=row.at_ns, sure_ns=row.at_ns))
        before = row.cpus  # where it said nothing in between, the same is said anew
    return found


def _granted(life: Life, made: Iterable[int]) -> list[Stretch]:
    """The cgroup's CPUs as the kernel grants them; readings while it was being made are left out.

    :param made: when it was ready, for each time that it was made.
    """
    readings = [
        (at_ns, files.cpus if files.cpus_effective is None else files.cpus_effective)
        for at_ns, files in file_history.readings(life.evidence, life.claim.cgroup, life.end_ns)
        if all(not at_ns <= end_ns for end_ns in made)
    ]
    known = [(at_ns, cpus) for at_ns, cpus in readings if cpus is not None]
    unread_ns = file_history.unread_ns(life.evidence)
    found: list[Stretch] = []
    for index, (at_ns, cpus) in enumerate(known):
        # Only readings that differ are kept: what was read last holds until the next.
        changes = index + 1 < len(known)
        until_ns = known[index + 1][0] if changes else life.end_ns
        sure_ns = max(at_ns, until_ns - unread_ns) if changes else until_ns
        if found and found[-1].cpus == cpus:
            found[-1] = replace(found[-1], last_ns=until_ns, sure_ns=sure_ns)
        else:
            found.append(Stretch(cpus=cpus, first_ns=at_ns, last_ns=until_ns, sure_ns=sure_ns))
    return found
