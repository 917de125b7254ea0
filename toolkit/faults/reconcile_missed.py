"""A node takes CPUs from the shared pool and leaves a container that runs there as it was (F8)."""

from __future__ import annotations

from toolkit.faults.fault import Fault, Scope, When, Word

FAULT = Fault(
    id="reconcile-missed",
    scope=Scope.RUN,
    title="the shared pool shrinks, and a container that runs there does not follow",
    changes="the cpuset of the target stays what it was while CPUs of the pool become exclusive",
    field=("F8",),
    rules=("cpuset-containment", "exclusive-cpus"),
    injectable=False,
    words=(Word(word="reconcile-missed", when=When.CHANGE),),
)
