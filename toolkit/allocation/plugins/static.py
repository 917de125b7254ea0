"""The static policy as a plugin: proposes the set that the kubelet takes. Alone in the cycle it *is* the static policy.

Source: ``docs/specification.md`` (the present policy becomes one implementation of the plugin model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolkit.allocation.cpu.assignment import CpuShortageError, take_cpus_near
from toolkit.allocation.plugins.protocol import BasePlugin, CpuAsk
from toolkit.model.cpuset import EMPTY, CpuSet


class StaticPlugin(BasePlugin):
    """Proposes one set: the static policy's choice out of the CPUs that all filters left."""

    name = "static"

    def __init__(self, *, quirks: bool = False) -> None:
        self.quirks = quirks

    def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
        """Propose the kubelet's choice; nothing if the CPUs do not suffice."""
        foreign = ask.state.owned(but_not=ask.pod.uid) if ask.machine.irregular else EMPTY
        try:
            choice = take_cpus_near(
                ask.machine, cpus, ask.count, ask.options, ask.numa_nodes, foreign=foreign, quirks=self.quirks
            )
        except CpuShortageError:
            return ()
        return (choice,)
