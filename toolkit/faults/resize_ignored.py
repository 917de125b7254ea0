"""A node says that it has resized a container, and does not touch its files (F65)."""

from __future__ import annotations

from toolkit.faults.fault import Fault, Scope, When, Word

FAULT = Fault(
    id="resize-ignored",
    scope=Scope.RUN,
    title="a resize is answered and not done",
    changes="cpuset and CFS quota of the target stay what they were before the resize; those of others follow",
    field=("F65",),
    rules=("applied", "cpuset-containment", "exclusive-cpus", "quota-throttling"),
    injectable=False,
    words=(Word(word="resize-ignored", when=When.CHANGE),),
)
