"""A node says that it has resized a container, and does not touch its cpuset (F65)."""

from __future__ import annotations

from toolkit.faults.fault import Fault, Scope, When, Word

FAULT = Fault(
    id="resize-ignored",
    scope=Scope.RUN,
    title="a resize is answered and not done",
    changes="the cpuset of the target stays what it was before the resize; those of others follow",
    field=("F65",),
    rules=("applied", "cpuset-containment", "exclusive-cpus"),
    injectable=False,
    words=(Word(word="resize-ignored", when=When.CHANGE),),
)
