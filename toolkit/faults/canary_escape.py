"""The observer's own control fails: the canary that should keep its claim is let loose on another CPU."""

from __future__ import annotations

from toolkit.faults.fault import Fault, Scope, When, Word

FAULT = Fault(
    id="canary-escape",
    scope=Scope.RUN,
    title="the clean canary escapes",
    changes="the affinity of the clean canary becomes every CPU but its own; its claim stays",
    field=(),
    rules=("evidence-health",),
    injectable=False,
    words=(Word(word="canary-escape", when=When.CANARIES),),
)
