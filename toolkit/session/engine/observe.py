"""Claims -> evidence: open a window over cgroups that exist, with both canaries beside them, and close it again."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from probes.composition import witnesses_for
from probes.loaded import observing
from probes.observer import Observer, Violation
from probes.readings import Frame, Readings
from probes.subjects import Subject
from toolkit.errors import InputError, PinproofError
from toolkit.host.environment import read_environment
from toolkit.host.topology import read_topology
from toolkit.model.blind_spots import EVERY_WITNESS
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment, Evidence
from toolkit.model.node_evidence import NOTHING, NodeEvidence
from toolkit.session.engine import canary
from toolkit.session.engine.checked import check_claims
from toolkit.session.engine.composing import Observed, compose
from toolkit.session.engine.identity import with_identity
from toolkit.session.engine.stopping import Signals
from toolkit.session.engine.window import Ask, Window

TICK_S = 0.05
"""How often user space looks, while it waits, whether something is the case of which nothing gives notice."""
IDLE_TICK_S = 1.0
"""How often it does where nothing but time is awaited: reports, signals and what :meth:`Observation.wake` is called for
end the pause at once."""

FRESH_S = 2.0
"""So long a window that has ended waits for what the node states about its end; the next one is open meanwhile."""


class Observation:
    """One open window: read it with :meth:`snapshot`, go on to the next with :meth:`turn`, end with :meth:`close`.

    :param node_evidence, ask: as in :class:`Window`.
    :param renew: return canaries that fit the machine as it is now, and the machine: called before a window turns over
        when other CPUs are online than before, a canary is gone or not where it was put, or its CPU has got an owner.
    """

    def __init__(
        self,
        observer: Observer,
        pair: canary.CanaryPair,
        root: Path,
        environment: Environment,
        report: Callable[[Violation], None],
        stopped: Sequence[int] = (),
        renew: Callable[[], tuple[canary.CanaryPair, Environment]] | None = None,
        node_evidence: Callable[[Frame], NodeEvidence] = lambda _frame: NOTHING,
        ask: Ask = lambda: lambda: True,
    ) -> None:
        self.observer = observer
        self.stopped = stopped
        self._node_evidence, self._ask = node_evidence, ask
        self._changes: list[ClaimChange] = []
        self._pair, self._root = pair, root
        observer.environment = environment
        self._report, self._renew = report, renew
        self._escapes: dict[int, Violation] = {}
        """The first report about the positive canary, by window."""
        self._lock = threading.Lock()
        self._unfit = ""
        """Why there are no controls that can be believed, while there are none."""
        self.open()

    def open(self) -> None:
        """Open a window: the first, or one more after :meth:`close`."""
        self._fit()
        self._changes.clear()
        self._escapes.clear()
        self.observer.open_window()
        self._planted = canary.planted_switches(self._pair, self._root)

    def promise(self, claim: Claim) -> None:
        """Write down that a claim promises this from now on, or that it begins to be; by it neither its CPUs change nor
        which claims are watched (:meth:`probes.observer.Observer.changing`, ``add_claim``).
        """
        window = self.observer.window
        if window is None:
            raise RuntimeError("no window is open")
        self._changes.append(ClaimChange(at_ns=time.monotonic_ns() - window.start_ns, claim=claim))
        self.observer.promise(claim)

    @property
    def promised_anew(self) -> tuple[ClaimChange, ...]:
        """What :meth:`promise` has written down since the window opened."""
        return tuple(self._changes)

    def wake(self) -> None:
        """End the pause of what waits; may be called by any thread and by a signal's handler."""
        self.observer.wake()

    def poll(self, timeout_s: float) -> None:
        """Handle reports of violations for at most ``timeout_s``."""
        for violation in self.observer.poll(timeout_s):
            if violation.claim not in canary.NAMES:
                self._report(violation)
            elif violation.claim == canary.POSITIVE:
                self._escapes.setdefault(violation.window, violation)

    def wait(
        self,
        seconds: float | None,
        progress: Callable[[float], None] = lambda _seconds: None,
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Let time pass: ``seconds`` (``None``: no end), until something is the case, or something asks to stop.

        :param progress: called with the seconds that have passed, after each pause.
        """
        if isinstance(self.stopped, Signals):
            self.stopped.wake = self.wake
        start, tick_s = time.monotonic(), IDLE_TICK_S if until is None else TICK_S
        while not self.stopped and not (until is not None and until()):
            passed = time.monotonic() - start
            if seconds is not None and passed >= seconds:
                return
            self.poll(tick_s if seconds is None else min(tick_s, seconds - passed))
            progress(time.monotonic() - start)

    def snapshot(self) -> Evidence:
        """Return the evidence so far; the window stays open. May be called by any thread."""
        with self._lock:
            planted = self._planted_so_far()
            readings = self.observer.read_so_far()
            return self._observed(readings, self._unless_moved(planted), self._pair.cpu, self._changes).evidence

    def close(self) -> Observed:
        """Close the window and return everything observed."""
        with self._lock:
            planted = self._planted_so_far()
            readings = self.observer.end_window()
            planted = self._unless_moved(planted)
            self._hear(self._ask(), readings)
            return self._observed(readings, planted, self._pair.cpu, self._changes)

    def turn(self) -> Observed:
        """Close the window, open the next at the same moment, and return everything observed in the first."""
        with self._lock:
            # Before others may take the canaries' place: what these did is of the window that ends.
            planted, pair, cpu = self._planted_so_far(), self._pair, self._pair.cpu
            if not self._fit():
                planted = canary.unless_moved(planted, {})
            ended = self.observer.turn_window()
            heard = self._ask()
            self._planted = canary.planted_switches(self._pair, self._root)
            if self._pair is pair:
                planted = canary.unless_moved(planted, self._planted)
            changes, self._changes = self._changes, []
            readings = self.observer.read_ended(ended)
        # What was reported while it was read; the positive control may be among it. The node may take a second: what
        # wants to see the new window meanwhile does not wait.
        self._hear(heard, readings)
        with self._lock:
            done = self._observed(readings, planted, cpu, changes)
            self._escapes = {number: one for number, one in self._escapes.items() if number > ended.number}
            return done

    def _hear(self, heard: Callable[[], bool], readings: Readings) -> None:
        """Handle reports until the node has been asked once more, at most for half a window."""
        end_s = time.monotonic() + min(FRESH_S, (readings.frame.end_ns - readings.frame.start_ns) / 2e9)
        self.poll(0)
        while not heard() and (left_s := end_s - time.monotonic()) > 0:
            self.poll(min(TICK_S, left_s))

    def _fit(self) -> bool:
        """Have canaries that can be believed in the next window: this one is spoilt where they cannot be.

        :returns: whether those of the window before still run where they were put.
        """
        if self._renew is None:
            return True
        owned = CpuSet.union(one.cpus for one in self.observer.subjects.values() if one.owns)
        # On a CPU that something owns by now the canaries would be the foreign tasks that we look for.
        at_home = self._pair.cpu not in owned or self._pair.online <= owned
        fit = canary.fit(self._pair, self._root)
        if self.observer.ledger.online() == self._pair.online and at_home and fit:
            return True
        try:
            self._pair, self.observer.environment = self._renew()
            for claim in self._pair.claims:
                if claim.name in self.observer.subjects:
                    self.observer.remove_claim(claim.name)
                self.observer.add_claim(claim)
        except (PinproofError, OSError) as error:
            if not self._unfit:
                self._unfit = f"no new controls: {error}"
                self.observer.blind(self._unfit, *EVERY_WITNESS, start_ns=time.monotonic_ns())
        else:
            if self._unfit:
                self.observer.sighted(self._unfit)
            self._unfit = ""
        return fit

    def _unless_moved(self, planted: dict[str, int]) -> dict[str, int]:
        return canary.unless_moved(planted, canary.planted_switches(self._pair, self._root))

    def _planted_so_far(self) -> dict[str, int]:
        # Read before the window ends, as the first reading comes after it began: the canaries run on while evidence is
        # gathered, and what they do then cannot have been seen.
        return canary.planted_between(self._planted, canary.planted_switches(self._pair, self._root))

    def _observed(
        self, readings: Readings, planted: dict[str, int], cpu: int, changes: Sequence[ClaimChange]
    ) -> Observed:
        return compose(
            readings,
            cpu=cpu,
            planted=planted,
            reported=self._escapes.get(readings.frame.number),
            changes=tuple(changes),
            node_evidence=self._node_evidence(readings.frame),
        )


@contextmanager
def observation(
    claims: ClaimSet, window: Window, report: Callable[[Violation], None] = lambda _violation: None
) -> Iterator[Observation]:
    """Attach the probes, plant the canaries, open the window; everything is gone when the block ends. Where the window
    allows it and the kernel loads no programs, nothing is attached and planted.

    :param report: called with each violation's first details while the window is open.

    :raises HostUnsupportedError: no root, no BPF, no bcc, a pure v1 host.
    :raises InputError: claims that cannot be watched here.
    """
    if not window.lenient:
        room = window.prepared.ledger.options.max_claims if window.prepared else None
        check_claims(claims, "claims", window.root, room)
    with (
        keep_off(claims.exclusive_cpus | window.quiet),
        window.ledger(len(claims.claims)) as ledger,
        ExitStack() as controls,
    ):
        numbers = itertools.count(1)

        def renew() -> tuple[canary.CanaryPair, Environment]:
            controls.close()
            topology = window.prepared.topology() if window.prepared else read_topology(window.root)
            environment = read_environment(window.root, topology)
            environment = with_identity(environment, window.root, topology, window.session or window.run_id)
            now = replace(claims, claims=tuple(one.now for one in watched.values())) if watched else claims
            pair = window.canaries(now, environment.cpus_online, next(numbers), seen=ledger.observed)
            return controls.enter_context(pair), environment

        watched: dict[str, Subject] = {}
        pair, environment = renew()
        at_first = () if window.lenient else claims.claims
        with observing(
            replace(claims, claims=at_first + pair.claims),
            root=window.root,
            ledger=ledger,
            witnesses=witnesses_for(ledger),
            kept=window.kept,
        ) as observer:
            watched = observer.subjects
            for claim in claims.claims if window.lenient else ():
                with suppress(InputError):  # what follows says at its first reading what is not watched
                    observer.add_claim(claim)
            node = (window.node_evidence, window.ask)
            yield Observation(observer, pair, window.root, environment, report, window.stopped, renew, *node)


@contextmanager
def keep_off(cpus: CpuSet) -> Iterator[None]:
    """Keep our own threads off the exclusive CPUs while we watch, where other CPUs are left.

    The calling thread, and those that it starts meanwhile.
    """
    before = os.sched_getaffinity(0)
    wanted = before - set(cpus)
    if wanted:
        os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        # None of them may be there any more (a hotplug, a cpuset): what the block came to counts, not this.
        with suppress(OSError):
            os.sched_setaffinity(0, before)
