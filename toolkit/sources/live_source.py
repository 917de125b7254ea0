"""What a source of claims gives to something that follows it while the machine works: a reading, and where to look for
changes. ``watch`` follows any source of this shape (:mod:`toolkit.session.following.follower`).

A source holds no claim back and judges nothing. What it keeps between readings is its own (the kubelet's state file may
be absent for a while); what is watched, since when, and what ended is the follower's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolkit.model.claims import ClaimSet
from toolkit.model.cpu_tuning import CpuSettings
from toolkit.model.evidence import Runtime
from toolkit.model.evidence.following import Gauges
from toolkit.model.held import Held
from toolkit.model.layers import LayerView
from toolkit.model.node_reading import MissingPart
from toolkit.model.state_files import StateReading

EVERY_S = 2.0
"""From one reading to the next where nothing asked for another time. Asking a tool costs the start of a program, some
tens of milliseconds; what is written to a cgroup is read at once.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """What a source says at one moment.

    :param claims: of everything that runs now. A claim's name is its subject (pod and container, unit, job), the same
        after a restart in another cgroup. Two claims of one name: the follower distinguishes them by their cgroups.
    :param held: what of the timeline is so now, without end: CPUs of a claim's set that it must give back (the set
        holds them until then), what is being made, what was forgotten. ``from_ns`` where it is known better than by
        when it was read.
    :param give_back_s: how long giving back may take, from then on; else from the reading in which it was seen first.
    :param said_after_s: so long after it has written a cgroup the source may still say what was promised before.
    :param layers: what each layer says about each claim; ``at_ns`` is CLOCK_MONOTONIC, and is when the layer was read.
    :param state_folder: where a kubelet keeps its state files; ``None``: there are none.
    :param gauges: what the kubelet's own metrics say, where they were just read; its times mean nothing yet.
    :param cpu_settings: interrupts, idle states and frequencies, where they were just read.
    :param runtime: what made the containers; ``None``: not known.
    :param missing: what could not be read, and why.
    :param left_out: what runs, or may run, and has no claim, and why: nothing judges it.
    :param unpromised: cgroups of what is listed, runs, and is promised nothing (any more).
    :param unlisted: names among the claims that the source did not list and that go on by the kernel's word; the
        follower says so, no source.
    :param complete: whether a subject that is not listed and has no tasks is gone. ``False``: the source could not ask;
        only a cgroup that does not exist ends a claim, and what rests on its word is in doubt until it answers again.
    """

    claims: ClaimSet
    held: tuple[Held, ...] = ()
    give_back_s: float = 0.0
    said_after_s: float = 0.0
    layers: tuple[LayerView, ...] = ()
    state_files: tuple[StateReading, ...] = ()
    state_folder: Path | None = None
    gauges: Gauges | None = None
    cpu_settings: CpuSettings | None = None
    runtime: Runtime | None = None
    missing: tuple[MissingPart, ...] = ()
    left_out: tuple[MissingPart, ...] = ()
    unpromised: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()
    complete: bool = True


class LiveSource(Protocol):
    """A source that can be read again and again, from one thread at a time."""

    @property
    def name(self) -> str:
        """What is followed, one word (``kubelet``)."""

    @property
    def every_s(self) -> float:
        """Seconds after which it is read even if nothing was seen to change."""

    def read(self) -> SourceReading:
        """Read it now. What cannot be read is missing, with its reason: nothing on the machine makes this raise.

        :raises InputError: this is no machine of that kind at all. Not after the first reading.
        """

    def signs(self) -> Sequence[Path]:
        """Return files and directories, as of the last reading: when one is written, or an entry of one is made or
        removed, a new reading is worth its cost. Those that do not exist are left out.
        """
