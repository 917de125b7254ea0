"""What is to be observed, and what is opened for it: probes' options and canaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from probes.composition import new_ledger
from probes.loaded import attached, attached_or_not
from probes.options import MAX_CLAIMS, ObserveOptions
from probes.readings import Frame
from probes.switches.ledger import Ledger
from toolkit.host.kept_files import KeptFiles
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.node_evidence import NOTHING, NodeEvidence
from toolkit.session.engine import canary
from toolkit.session.engine.prepared import Prepared

Ask = Callable[[], Callable[[], bool]]
"""Asks a node for a reading that begins from now on; what it returns says whether that is over."""


@dataclass(frozen=True, slots=True)
class Without:
    """An observation may go on without programs in the kernel, with what needs none.

    :param say: called with why it does, before it begins.
    :param why: none are to be loaded; empty: they are loaded if the kernel takes them.
    """

    say: Callable[[str], None]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What to observe and for how long. ``duration_s`` ``None`` means: until interrupted.

    :param prepared: probes and canaries that are there already; ``None``: loaded and started for this window alone.
    :param cpus: where canaries may run; ``None``: anywhere.
    :param stopped: no longer empty when something asks to stop
        (:func:`toolkit.session.engine.stopping.stop_on_signals`).
    :param node_evidence: what the node itself states, asked for when a window has ended, or a snapshot of it is taken;
        given its frame.
    :param ask: called when a window has closed, where the node is asked once more before what it says counts.
    :param lenient: a claim whose cgroup does not exist any more is left out; the others are watched.
    :param room: for how many claims at one time, where more may come.
    :param trace_syscalls: as in :class:`probes.options.ObserveOptions`; probes that are loaded already keep theirs.
    :param timeline: as in :class:`probes.options.ObserveOptions`; probes that are loaded already keep theirs.
    :param kept: as in :class:`probes.observer.Observer`.
    :param session: the session that the run belongs to; empty: it is one by itself.
    :param cut_s: length of each window, where there are several one after the other; ``None``: not known, or short.
    :param quiet, quiet_exclusive: as in :class:`probes.options.ObserveOptions`.
    :param without: ``None``: there is no observation without programs.
    """

    run_id: str
    duration_s: float | None
    root: Path = Path("/")
    canary_escape: bool = False
    prepared: Prepared | None = None
    cpus: CpuSet | None = None
    stopped: Sequence[int] = ()
    node_evidence: Callable[[Frame], NodeEvidence] = lambda _frame: NOTHING
    ask: Ask = lambda: lambda: True
    lenient: bool = False
    room: int = 0
    trace_syscalls: bool = False
    timeline: bool = False
    kept: KeptFiles | None = None
    cut_s: float | None = None
    session: str = ""
    without: Without | None = None
    quiet: CpuSet = EMPTY
    quiet_exclusive: bool = False

    def ledger(self, claims: int) -> AbstractContextManager[Ledger]:
        """Return the programs, loaded for so many claims, or what stands for them.

        :raises HostUnsupportedError: the kernel loads none, and they are needed.
        """
        if self.prepared is not None:
            return nullcontext(self.prepared.ledger)
        options = self.options(claims, len(canary.NAMES))
        if self.without is None:
            return attached(new_ledger(self.root, options))
        return attached_or_not(self.root, options, self.without.why, self.without.say)

    def options(self, claims: int, controls: int) -> ObserveOptions:
        """Return options for at least so many claims and controls: a power of two, so that few programs serve all."""
        usual = ObserveOptions(
            trace_syscalls=self.trace_syscalls,
            timeline=self.timeline,
            quiet_cpus=self.quiet,
            quiet_exclusive=self.quiet_exclusive,
        )
        needed = max(usual.max_claims, max(self.room, claims) + controls)
        return replace(usual, max_claims=min(1 << (needed - 1).bit_length(), MAX_CLAIMS))

    def canaries(
        self, claims: ClaimSet, online: CpuSet, number: int, *, seen: bool = True
    ) -> AbstractContextManager[canary.CanaryPair]:
        """Lend the canaries that run, or start some.

        :param number: of these, from 1 on. :param seen: ``False``: nothing is loaded that could see them; none run.
        """
        if not seen:
            return canary.no_canaries(claims, online, self.root, self.cpus)
        if self.prepared is not None:
            return self.prepared.canaries(claims, online, escape=self.canary_escape, cpus=self.cpus)
        run_id = self.run_id if number == 1 else f"{self.run_id}-{number}"
        pulse = canary.pulse_for(self.cut_s)
        return canary.canaries(
            claims, online, run_id, self.root, escape=self.canary_escape, cpus=self.cpus, pulse=pulse
        )
