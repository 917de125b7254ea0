"""A node is set up with other settings than its promises rest on."""

from __future__ import annotations

from toolkit.faults.fault import Fault, Scope, When, Word
from toolkit.faults.node_changed import vary

FAULT = Fault(
    id="node-misconfigured",
    scope=Scope.RUN,
    title="the node is set up differently from its configuration",
    changes="kubelet settings of the control come on top of the scenario's; the promises stay the scenario's",
    field=(),
    rules=("applied", "cpuset-containment", "numa-alignment", "reserved-cpus", "smt-alignment", "socket-alignment"),
    injectable=False,
    words=(Word(word="misconfigure-node", when=When.NODE, vary=vary),),
)
