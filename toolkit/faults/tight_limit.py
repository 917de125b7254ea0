"""A limit that no machine keeps is promised: for the time that a change may take, or for what others may take."""

from __future__ import annotations

from dataclasses import replace

from toolkit.faults.fault import Fault, Scope, When, Word
from toolkit.model.claims import ClaimSet
from toolkit.model.scenario import NegativeControl


def _promise(control: NegativeControl, claims: ClaimSet) -> ClaimSet:
    return replace(
        claims,
        transition_limit_ms=control.transition_limit_ms,
        noise_budget_ns_per_s=control.noise_budget_ns_per_s,
    )


FAULT = Fault(
    id="tight-limit",
    scope=Scope.RUN,
    title="a limit is less than any machine needs",
    changes="a change may take transitionLimitMs, others may take noiseBudgetNsPerS of each exclusive CPU",
    field=(),
    rules=("noise", "transition-window"),
    injectable=False,
    words=(Word(word="tight-limit", when=When.CLAIMS, promise=_promise),),
)
