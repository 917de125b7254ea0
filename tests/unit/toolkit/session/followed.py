"""A source that is followed, whose readings are written down beforehand; only the kernel's maps are stood in for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from probes.observer import Observer
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from probes.switches.moving import Moving
from toolkit.errors import InputError
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.blind_spots import EVERY_WITNESS
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import FOREVER_NS, Held, Why
from toolkit.session.engine.observe import Observation
from toolkit.session.following.follower import Follower
from toolkit.sources.live_source import SourceReading

ROOM = 3
FOR_EVER = 1 << 62


def owes(claim: str, cpus: str, why: Why = Why.OWED, since_ns: int = -FOREVER_NS) -> Held:
    """Return what a reading says of a claim that must give CPUs back."""
    return Held(claim=claim, cpus=CpuSet.parse(cpus), why=why, from_ns=since_ns)


class Source:
    """A :class:`toolkit.sources.live_source.LiveSource` whose readings are written down beforehand."""

    name, every_s = "tool", 3600.0

    def __init__(self) -> None:
        self.next: deque[SourceReading] = deque()

    def read(self) -> SourceReading:
        return self.next.popleft()

    def signs(self) -> Sequence[Path]:
        return ()


class Kernel:
    """Takes everything that an observer publishes."""

    options = ObserveOptions(max_claims=ROOM)
    members_lost = 0
    threads = None
    moving = Moving(cast(Ledger, None))

    def __init__(self) -> None:
        self._idents = 0

    def new_ident(self) -> int:
        self._idents += 1
        return self._idents

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_keys: None


class Node:
    """A source, its follower, and what an observation over a tree of cgroups in a folder would be to it."""

    def __init__(self, tree: Path, source: Any = None) -> None:
        self.tree, self.source, self.lines = tree, source or Source(), list[str]()
        hierarchy = Hierarchy(root=tree, mode=Mode.V2, unified=tree)
        self.follower = Follower(self.source, hierarchy, self.lines.append)
        self.observer = Observer(ClaimSet(claims=()), Path("/"), cast(Ledger, Kernel()))
        self.observer.hierarchy = hierarchy
        self.begun = False

    def promise(self, claim: Claim) -> None:
        """Have it watched by; a window would write it down."""
        self.observer.promise(claim)

    def say(self, *claims: Claim, **more: Any) -> None:
        """Let the source say this, and the follower apply it."""
        root = more.pop("pods_root", None)
        self.source.next.append(SourceReading(claims=ClaimSet(claims=claims, pods_root=root), **more))
        self.read()

    def read(self) -> None:
        """Let the source be read, and the follower apply it."""
        if not self.begun:
            self.begun = True
            for claim in self.follower.first().claims:
                with suppress(InputError):  # as an observation begins that is lenient
                    self.observer.add_claim(claim)
        else:
            self.follower._reader.first()
        self.follower.apply_reading(cast(Observation, self))

    def claim(self, name: str, cpus: str = "0", **more: Any) -> Claim:
        """Make a cgroup, and return a claim about it."""
        (self.tree / name).mkdir(exist_ok=True, parents=True)
        return Claim(name=name, cgroup=f"/{name}", cpus=CpuSet.parse(cpus), **more)

    @property
    def watched(self) -> set[str]:
        return set(self.observer.subjects)

    def spots(self) -> list[str]:
        """Return the blind spots that concern what comes; each must be every witness's and have a beginning."""
        found = self.observer.blindness.within(FOR_EVER, FOR_EVER)
        assert all(set(spot.witnesses) == set(EVERY_WITNESS) and spot.start_at_ns is not None for spot in found)
        return [spot.text for spot in found]
