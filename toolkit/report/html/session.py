"""A conformance session as a page: what it comes to, what is new, what to do, then scenario after scenario. Pure.

A page has a size that can be mailed. What did not pass is drawn first; when the room is used up the other scenarios
keep their row, and the page states how many have no pictures and how to see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from toolkit.fleet.facts import of_session
from toolkit.fleet.values import Comparison
from toolkit.model.blind_spots import kind_of_spot
from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.session import Session
from toolkit.model.verdict import Outcome, rank
from toolkit.report.conformance_table import caught, group
from toolkit.report.html.comparison import Difference, difference
from toolkit.report.html.page import Step, cut, explained, page
from toolkit.report.html.run import RunView, Why, counts, programs_of, whys
from toolkit.text.wording import count

MAX_BYTES = 300_000
MAX_SCENARIOS = 400
"""Rows of scenarios that ran."""
MAX_NEXT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioView:
    """One scenario. :param controls: outcome, name and reason of each promise that was broken on purpose.

    :param run: what is drawn of it; ``None``: it never ran, or there was no room.
    """

    name: str
    anchor: str
    ids: str
    outcome: str
    reason: str
    counts: dict[str, int]
    caught: str
    controls: tuple[tuple[str, str, str], ...]
    repeated: tuple[str, ...]
    why: tuple[Why, ...]
    file: str
    run: RunView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """What a page shows of a session. :param undrawn: how many runs had no room. :param base: against what."""

    name: str
    outcome: str
    complete: bool
    sentence: str
    node: str
    started_at: str
    counts: dict[str, int]
    caught: str
    scenarios: tuple[ScenarioView, ...]
    more: int
    skipped: tuple[tuple[str, int, str], ...]
    unseen: tuple[tuple[str, str], ...]
    environment: tuple[tuple[str, str], ...]
    again: tuple[Step, ...]
    undrawn: int
    base: Difference | None


def session_page(
    session: Session,
    results: Sequence[ScenarioResult],
    runs: Mapping[str, RunView],
    *,
    base: Comparison | None = None,
    base_name: str = "",
) -> str:
    """Return the page. :param runs: packed run -> what is drawn of it. :param base: what differs to a session before.

    What is drawn is cut until the page has at most :data:`MAX_BYTES`.
    """
    order = sorted(
        (one for one in results if one.outcome is not Outcome.SKIPPED), key=lambda one: (rank(one.outcome), one.name)
    )
    drawn = [one.packed for one in order if one.packed in runs]
    differs = None if base is None else difference(base, base_name)
    while True:
        view = _view(session, results, order, {name: runs[name] for name in drawn}, len(runs) - len(drawn), differs)
        programs = programs_of(*(runs[name] for name in drawn))
        text = page("session.html", title=f"{view.outcome}: {view.name}", programs=programs, session=view)
        if len(text.encode()) <= MAX_BYTES or not drawn:
            return text
        # Each pass leaves at least one out; where it is far too long, in proportion.
        drawn = drawn[: min(len(drawn) - 1, len(drawn) * MAX_BYTES // len(text.encode()))]


def _view(
    session: Session,
    results: Sequence[ScenarioResult],
    order: Sequence[ScenarioResult],
    runs: Mapping[str, RunView],
    undrawn: int,
    base: Difference | None,
) -> SessionView:
    left_out = [(one.name, one.reason) for one in results if one.outcome is Outcome.SKIPPED]
    left_out = left_out or list(session.skipped.items())
    groups: dict[str, list[str]] = {}
    for name, reason in left_out:
        groups.setdefault(group(reason), []).append(name)
    every = [*results]
    known = {one.name for one in results}
    absent = sum(name not in known for name in session.skipped)
    number = Counter({str(Outcome.SKIPPED): absent}) + Counter(str(one.outcome) for one in every)
    return SessionView(
        name=session.session,
        outcome=str(min((one.outcome for one in order), key=rank, default=Outcome.SKIPPED)),
        complete=session.complete,
        sentence=_sentence(order, session),
        node=session.identity.node,
        started_at=session.started_at,
        counts={str(one): number[str(one)] for one in Outcome if number[str(one)]},
        caught=caught([control for one in order for control in one.controls]),
        scenarios=tuple(_scenario(at, one, runs.get(one.packed)) for at, one in enumerate(order[:MAX_SCENARIOS])),
        more=max(0, len(order) - MAX_SCENARIOS),
        skipped=tuple((reason, len(names), ", ".join(names[:40])) for reason, names in groups.items()),
        unseen=tuple(_unseen(session, results))[:40],
        environment=of_session(session),
        again=_again(order),
        undrawn=undrawn,
        base=base,
    )


def _unseen(session: Session, results: Sequence[ScenarioResult]) -> Iterator[tuple[str, str]]:
    """Yield what was not seen, as the first scenario says it, and in how many: an index has no numbers of it."""
    said: dict[str, dict[str, None]] = {}
    for text in (text for one in results for text in one.blind_spots):
        said.setdefault(kind_of_spot(text), {})[text] = None
    for kind, number in session.blind_spots.items():
        first, *others = said.get(kind, (kind,))
        yield first, count(number, "scenario") + (", with other numbers" if others else "")


def _sentence(order: Sequence[ScenarioResult], session: Session) -> str:
    """Say what the session comes to, for a reader that knows no word of pinproof."""
    if not order:
        return "No scenario that this machine can run was run: nothing is shown."
    number = Counter(one.outcome for one in order)
    passed = number[Outcome.PASSED]
    fit = f"{count(len(order), 'scenario')} that {'fits' if len(order) == 1 else 'fit'} this machine"
    text = f"Of {fit}, {passed} {'has' if passed == 1 else 'have'} passed"
    text += "".join(f", {number[one]} {one}" for one in (Outcome.FAILED, Outcome.UNDECIDED) if number[one]) + ". "
    broken = [one for result in order for one in result.controls if one.outcome is not Outcome.SKIPPED]
    seen = sum(one.outcome is Outcome.PASSED for one in broken)
    if broken:
        text += (
            f"{count(len(broken), 'promise')} {'was' if len(broken) == 1 else 'were'} broken on purpose, to see that "
        )
        noticed = "it" if len(broken) == 1 and seen else "all" if seen == len(broken) else seen or "none"
        text += f"it is noticed; {noticed} {'was' if noticed in ('it', 'none', 1) else 'were'} reported. "
    again = sum(len(one.repeated) for one in order)
    text += f"{count(again, 'undecided run')} {'was' if again == 1 else 'were'} repeated. " if again else ""
    minutes, rest = divmod(round(session.duration_s), 60)
    return text + f"It took {f'{minutes} min ' if minutes else ''}{rest} s."


def _scenario(at: int, one: ScenarioResult, run: RunView | None) -> ScenarioView:
    bad = [verdict for verdict in one.verdicts if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    return ScenarioView(
        name=one.name,
        anchor=f"s{at}",
        ids=", ".join(one.catalogue),
        outcome=str(one.outcome),
        reason=cut(one.reason),
        counts=counts(one.verdicts),
        caught=caught(one.controls),
        controls=tuple(map(_control, one.controls)),
        repeated=tuple(map(cut, one.repeated)),
        why=whys(bad)[:12],
        file=one.packed,
        run=run,
    )


def _control(one: ControlResult) -> tuple[str, str, str]:
    return str(one.outcome), one.name, cut(one.reason)


def _again(order: Sequence[ScenarioResult]) -> tuple[Step, ...]:
    """Return the commands that explain what did not pass, and that repeat it."""
    bad = [one for one in order if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    rules = dict.fromkeys(
        [verdict.rule for one in bad for verdict in one.verdicts
         if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
        + [control.rule for one in bad for control in one.controls
           if control.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    )  # fmt: skip
    selected = "".join(f" --select {quote(one.name)}" for one in bad[:MAX_NEXT])
    why = "repeat what did not pass" if bad else "repeat it, for instance after a change"
    if any(one.outcome is Outcome.UNDECIDED for one in bad):
        why += "; undecided is no pass: where the host was busy, let nothing else run meanwhile"
    return (*explained(rules, MAX_NEXT // 2), Step(f"sudo pinproof conformance{selected}", why))
