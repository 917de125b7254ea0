"""What an emulated guest may not certify, and how that is said: as ``skipped`` with the reason, never as passed.

Whether a claim *holds* (where tasks ran, which used a CPU, what the kernel accepted) is as true in a guest as on metal.
How long something took, and what the cache hardware is, are properties of the emulator and of the host below it.
Source: QEMU documentation "TCG" (multi-threaded emulation gives no timing); recorded measurements in this folder's
README: wake-up latencies up to 280 ms, quota ratios down to 0.7 with a busy host.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from enum import StrEnum

import pytest

from toolkit.model.conformance import ControlResult
from toolkit.model.verdict import Outcome, Verdict


class Aspect(StrEnum):
    """A property that emulation does not have."""

    CACHE_IDS = "cache ids"
    NOISE = "noise"
    LATENCY = "latency"
    FULL_SPEED = "full speed"


REASONS = {
    Aspect.CACHE_IDS: "cache ids and sizes come from the emulator's CPUID tables, no cache exists",
    Aspect.NOISE: "interrupts, steal and kernel threads of an emulated CPU say nothing about a real one",
    Aspect.LATENCY: "the host takes the guest's CPUs away for up to hundreds of milliseconds",
    Aspect.FULL_SPEED: "an emulated CPU may be descheduled by the host, so using less than promised proves nothing",
}

RULES = {
    "noise": Aspect.NOISE,
    "transition-window": Aspect.LATENCY,
}
"""Rule -> the aspect that its verdict rests on alone."""


PARTS = (
    ("", r"the planted escape was reported after [\d.]+ ms \(stated: \d+ ms\)", Aspect.LATENCY),
    ("quota-throttling", r"used .*: the host was too busy to decide( \(.*\))?", Aspect.FULL_SPEED),
    ("quota-throttling", r"used .*: \S+ was throttled in \d+, so .* own quota was not tested", Aspect.FULL_SPEED),
    ("quota-throttling", r"throttled in \d+ of \d+ periods after .* gives at least .*", Aspect.FULL_SPEED),
    ("quota-throttling", r".*throttled in \d+ periods although .* is below the quota", Aspect.FULL_SPEED),
    ("quota-throttling", r"the observer stood still for .* how CPU time was spread .*", Aspect.LATENCY),
    ("weight-share", r"its share cannot be judged: \S+ was throttled by a quota", Aspect.FULL_SPEED),
    ("weight-share", r"\S+ used .*: too little time to distinguish half or twice of it \(.*\)", Aspect.FULL_SPEED),
)
"""Rule (empty: any), what it says, and the aspect: of rules that rest on an emulated property in part. The whole of
what the rule says has to be this: a second complaint beside it stays.

A late report of the control is a doubt that makes a rule that had passed undecided; one that never came, or escapes
that were not seen, stay. A quota is paid back by a task that the guest's clock saw run while the host had taken its CPU
away: throttled, period after period, having used next to nothing in the window. So is that of a group which wants less
than its quota: CPUs that stood still for a period and more are charged at once."""

EXPLAINED = r"(; its tasks waited [\d.]+ ms in [\d.]+ s(: [^;]*)?)?"
"""What a reason may end with: what took the claim's time. It explains and does not complain."""

CANNOT = "a virtual machine under software emulation does not certify"


def reason(aspect: Aspect) -> str:
    """Say why a guest may not certify an aspect."""
    return f"{CANNOT} {aspect}: {REASONS[aspect]}"


def skip(aspect: Aspect) -> None:
    """Skip the running test with the reason."""
    pytest.skip(reason(aspect))


def restated(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts with those that a guest may not certify turned into skipped; their measures stay.

    A rule's failure is kept unless the rule rests on an emulated property alone.
    """
    result = []
    for verdict in verdicts:
        aspect = _aspect(verdict)
        if aspect is not None:
            verdict = dataclasses.replace(verdict, outcome=Outcome.SKIPPED, reason=reason(aspect), offenders=())
        result.append(verdict)
    return tuple(result)


def restated_control(control: ControlResult) -> ControlResult:
    """Turn a control that was not caught into skipped, where its rule could not have told in a guest.

    A control that was caught stays: whatever the host did, the rule can fail.
    """
    aspect = None if control.outcome is Outcome.PASSED else _aspect(control)
    if aspect is None:
        return control
    return dataclasses.replace(control, outcome=Outcome.SKIPPED, reason=f"{reason(aspect)} (said: {control.reason})")


def _aspect(said: Verdict | ControlResult) -> Aspect | None:
    """Return the aspect that something said rests on alone, or ``None``."""
    if said.rule in RULES:
        return RULES[said.rule]
    if said.outcome is Outcome.PASSED:
        return None
    return next(
        (what for rule, text, what in PARTS if rule in ("", said.rule) and re.fullmatch(text + EXPLAINED, said.reason)),
        None,
    )
