"""Whether the files of a saved run are those of one run, and its windows those of one watch. Pure.

What was judged live is what was read back from the text that was saved, so a run is of one piece when it is saved, and
no busy host can change that. Where it is not, something put other evidence in, took some away or wrote it anew: nothing
of it passes. What a rule says now and did not say then is no such thing, as long as the evidence is what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from toolkit.model.evidence import Coverage, Environment, Evidence
from toolkit.model.evidence.controls import CLEAN, POSITIVE
from toolkit.model.result import BEFORE, Result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.store import StoredRun
from toolkit.text.wording import and_more
from validators.credibility.one_observation import misfits

RULE, SUBJECT = "evidence-health", "run"
MAX_NAMED = 3
_BAD = (Outcome.FAILED, Outcome.UNDECIDED)
_SAID = ("started_at", "duration_s", "environment")
_MACHINE = ("kernel", "cgroup", "cmdline", "hz", "virtualization", "pinproof")
"""What one boot of one machine says in every window."""


def of_one_run(run: StoredRun, now: Result) -> tuple[str, ...]:
    """Return what cannot be of one run. :param now: what the evidence gives."""
    found = [*misfits(run.claims, run.evidence)]
    if run.canaries is not None:
        found += _controls(run.evidence, run.canaries)
    if run.result is not None:
        found += _files(run.digests, run.result.digests)
        found += facts_that_differ(run.result, now)
        if not run.result.digests:
            found += _better(run.result, now)
    return tuple(found)


def facts_that_differ(saved: Result, now: Result) -> Iterator[str]:
    """Yield what a result states of its evidence, and the evidence does not: no rule has a part in it."""
    for name in _SAID:
        if getattr(saved, name) != getattr(now, name):
            yield f"{name} of result.json is not that of evidence.json"
    if _counted(saved.coverage) != _counted(now.coverage):
        yield "coverage of result.json is not that of evidence.json"
    if saved.windows is not None and now.windows is not None and saved.windows.claims != now.windows.claims:
        yield "the sums of the claims in result.json are not those of the windows"


def _counted(coverage: Coverage) -> Coverage:
    """Leave out what judging adds: the rules that a blind spot weakens."""
    return replace(coverage, blindness=(), blind_spots=(), positive_control_latency_ms=None)


def _files(here: Mapping[str, str], judged: Mapping[str, str]) -> Iterator[str]:
    """Compare the files with those that were judged; runs from before digests were kept state none."""
    stages = {stage: digest for stage, digest in judged.items() if stage != BEFORE}
    if not stages:
        return
    for stage in sorted({*stages, *(set(here) - {"result"})}):
        if stage not in here:
            yield f"{stage}.json is missing, result.json was made with it"
        elif here[stage] != stages.get(stage):
            yield f"{stage}.json is not the one that result.json was made of"


def _better(saved: Result, now: Result) -> Iterator[str]:
    """Without digests nothing can say whether the rule is another one by now, or the evidence."""
    today = {(verdict.rule, verdict.subject): verdict for verdict in now.verdicts}
    for verdict in saved.verdicts:
        found = today.get((verdict.rule, verdict.subject))
        if verdict.outcome in _BAD and found is not None and found.outcome not in _BAD:
            said = f"{verdict.rule} {verdict.subject} is saved as {verdict.outcome}"
            yield f"{said}, its evidence gives {found.outcome}"


def _controls(evidence: Evidence, canaries: Evidence) -> Iterator[str]:
    """The evidence of the controls is of the same window, and its sums are what the evidence states of them."""
    for name in ("started_at", "start_monotonic_ns", "duration_ns", "environment"):
        if getattr(evidence, name) != getattr(canaries, name):
            yield f"{name} of canaries.json is not that of evidence.json"
    for one in evidence.canaries:
        name = POSITIVE if one.positive else CLEAN
        rows = [row for row in canaries.cpu_use if row.claim == name]
        for counter in ("run_ns", "out_of_set_ns", "out_of_set_switches"):
            if getattr(one, counter) != sum(getattr(row, counter) for row in rows):
                yield f"{counter} of {name} in evidence.json is not that of canaries.json"


def not_of_one(found: Iterable[str]) -> Verdict | None:
    """Return the verdict on a run whose parts do not fit; ``None``: they do."""
    texts = tuple(dict.fromkeys(found))
    if not texts:
        return None
    more = and_more(len(texts) - MAX_NAMED, aside=True)
    return Verdict(
        rule=RULE,
        subject=SUBJECT,
        outcome=Outcome.UNDECIDED,
        reason=f"not of one run: {'; '.join(texts[:MAX_NAMED])}{more}",
        measures={"misfits_count": len(texts)},
    )


class OneWatch:
    """Windows of one watch, taken in their order: what is kept does not grow but by a number for each.

    A window ends at the moment in which the next begins, which both of them state.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int, Environment] | None = None
        """Number, end (CLOCK_MONOTONIC) and machine of the last window."""
        self._digest = ""
        self._counted: dict[int, int] = {}
        """Hash of what was counted -> the number of the window in which it was."""

    def add(self, number: int, run: StoredRun) -> tuple[str, ...]:
        """Return what does not fit to the windows before."""
        evidence = run.evidence
        start_ns = evidence.start_monotonic_ns
        found = [*self._again(number, evidence), *self._chain(number, run)]
        if self._last is not None:
            before, end_ns, machine = self._last
            if before == number - 1 and start_ns != end_ns:
                apart_s = (start_ns - end_ns) / 1e9
                found.append(f"window {number} begins {apart_s:+.3f} s from the end of window {before}")
            elif start_ns < end_ns:
                found.append(f"window {number} begins before window {before} ends")
            here = evidence.environment
            found += [
                f"{name} of window {number} is not that of window {before}"
                for name in _MACHINE
                if getattr(here, name) != getattr(machine, name)
            ]
        self._last = number, start_ns + evidence.duration_ns, evidence.environment
        self._digest = run.digests.get("result", "")
        return tuple(found)

    def _again(self, number: int, evidence: Evidence) -> Iterator[str]:
        """No window has what another had, to the nanosecond."""
        if not any(row.run_ns for row in evidence.cpu_use):
            return
        rows = hash((evidence.cpu_use, evidence.toolkit_cpu_ns, evidence.coverage.switches_judged))
        if rows in self._counted:
            yield f"window {number} has the counts of window {self._counted[rows]}"
        self._counted[rows] = number

    def _chain(self, number: int, run: StoredRun) -> Iterator[str]:
        """Each result states the digest of the one before."""
        if run.result is None or not run.result.digests:
            return
        stated = run.result.digests.get(BEFORE, "")
        if number == 1 and stated:
            yield "window 1 was not the first one"
        elif self._last is not None and self._last[0] == number - 1 and self._digest and stated != self._digest:
            yield f"window {number} was judged after another window than {number - 1}"
