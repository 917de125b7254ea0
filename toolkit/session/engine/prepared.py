"""What stays while one observation follows the other: the loaded probes, and canaries that run already.

Each observation has its own observer, its own windows, and canaries that it counts from its own first moment to its
last; what is saved is compiling (most of a second, many in an emulator) and starting processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from probes.loaded import loaded
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from toolkit.host.topology import read_topology
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Topology
from toolkit.session.engine import canary
from toolkit.session.engine.canary import CanaryPair


class Prepared:
    """Use :func:`prepared`. Not for two observations at the same time."""

    def __init__(self, ledger: Ledger, run_id: str, root: Path) -> None:
        self.ledger = ledger
        self._run_id, self._root = run_id, root
        self._pair: CanaryPair | None = None
        self._started = 0
        self._stack = ExitStack()
        self._topology: tuple[str, Topology] | None = None

    def topology(self) -> Topology:
        """Return the machine, read again where other CPUs are online than the last time."""
        online = (self._root / "sys/devices/system/cpu/online").read_text(encoding="ascii")
        if self._topology is None or self._topology[0] != online:
            self._topology = (online, read_topology(self._root))
        return self._topology[1]

    def canaries(
        self, claims: ClaimSet, online: CpuSet, *, escape: bool, cpus: CpuSet | None = None
    ) -> AbstractContextManager[CanaryPair]:
        """Lend the canaries that run, where they fit; start others where they do not. One that shall escape is new."""
        return self._new(claims, online, escape=True, cpus=cpus) if escape else self._lent(claims, online, cpus)

    def _new(
        self, claims: ClaimSet, online: CpuSet, *, escape: bool = False, cpus: CpuSet | None = None
    ) -> AbstractContextManager[CanaryPair]:
        self._started += 1
        run_id = f"{self._run_id}-{self._started}"
        return canary.canaries(claims, online, run_id, self._root, escape=escape, cpus=cpus)

    @contextmanager
    def _lent(self, claims: ClaimSet, online: CpuSet, cpus: CpuSet | None) -> Iterator[CanaryPair]:
        cpu = canary.housekeeping_cpu(claims, online, cpus)
        pair = self._pair
        if pair is None or (pair.cpu, pair.online) != (cpu, online) or not canary.fit(pair, self._root):
            self.close()
            pair = self._pair = self._stack.enter_context(self._new(claims, online, cpus=cpus))
        yield pair

    def close(self) -> None:
        """End the canaries."""
        self._pair = None
        self._stack.close()


@contextmanager
def prepared(run_id: str, root: Path = Path("/")) -> Iterator[Prepared]:
    """Load the probes for many observations; canaries are started by the first that needs them.

    :raises HostUnsupportedError: no root, no BPF, no bcc, a pure v1 host.
    """
    with loaded(root, ObserveOptions(timeline=True)) as ledger:
        kept = Prepared(ledger, run_id, root)
        try:
            yield kept
        finally:
            kept.close()
