"""A statement: what a run or a session shows and what it does not, in words for somebody who was not there (Markdown).

It is made of what was judged again, and says nothing that no verdict says. The same evidence gives the same text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.evidence import Environment
from toolkit.model.identity import Identity, software_class
from toolkit.model.result import Result
from toolkit.model.session import Session
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.causes import causes
from toolkit.report.text import printable
from toolkit.text.wording import and_more
from validators.registry import RULES

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")
MAX_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One run that was judged, or one scenario with its controls."""

    name: str
    outcome: Outcome
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    controls: tuple[ControlResult, ...] = ()
    blind_spots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a statement is made of.

    :param skipped: scenario that was not run -> why. :param unnamed: how many more were not, of which that is not kept.
    :param waived: what somebody accepts -> by whom and why.
    """

    name: str
    kind: str
    outcome: Outcome
    started_at: str
    duration_s: float
    pinproof: str
    kernel: str
    identity: Identity
    cgroup: str = ""
    judged: tuple[int, int] | None = None
    parts: tuple[Part, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    unnamed: int = 0
    complete: bool = True
    redacted: bool = False
    waived: Mapping[str, str] = field(default_factory=dict)

    @property
    def bad(self) -> Iterator[tuple[str, str, str]]:
        """Scenario (empty: a run), rule and subject of what failed or is undecided."""
        for part in self.parts:
            scenario = part.name if self.kind == "session" else ""
            for verdict in part.verdicts:
                if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
                    yield scenario, verdict.rule, verdict.subject


def of_run(result: Result, name: str, *, redacted: bool) -> Statement:
    """Return what the statement about a run is made of."""
    environment: Environment = result.environment
    return Statement(
        name=name,
        kind="run",
        outcome=result.outcome,
        started_at=result.started_at,
        duration_s=result.duration_s,
        pinproof=environment.pinproof,
        kernel=environment.kernel,
        cgroup=environment.cgroup,
        identity=environment.identity or Identity(),
        judged=(result.coverage.switches_judged, result.coverage.switches_kernel),
        parts=(
            Part(name=name, outcome=result.outcome, verdicts=result.verdicts, blind_spots=result.coverage.blind_spots),
        ),
        redacted=redacted,
    )


def of_session(session: Session, results: Sequence[ScenarioResult], outcome: Outcome, *, redacted: bool) -> Statement:
    """Return what the statement about a session is made of. :param results: of its scenarios, judged again."""
    return Statement(
        name=session.session,
        kind="session",
        outcome=outcome,
        started_at=session.started_at,
        duration_s=session.duration_s,
        pinproof=session.pinproof,
        kernel=session.kernel,
        identity=session.identity,
        parts=tuple(
            Part(
                name=one.name,
                outcome=one.outcome,
                reason=one.reason,
                verdicts=one.verdicts,
                controls=one.controls,
                blind_spots=one.blind_spots,
            )
            for one in results
        ),
        skipped=session.skipped,
        unnamed=max(0, session.counts.get(str(Outcome.SKIPPED), 0) - len(session.skipped)),
        complete=session.complete,
        redacted=redacted,
    )


def render_statement(found: Statement) -> str:
    """Return the Markdown."""
    lines = [
        f"# Statement about {found.kind} {_md(found.name)}",
        "",
        f"**{found.outcome}**, judged from the evidence. {_md(found.started_at)}, {found.duration_s:.1f} s.",
        "",
        *_facts("Machine", _machine(found)),
        *_facts("Software", _software(found)),
        *_section("Shown", _shown(found)),
        *_section("Broken", _with(found, Outcome.FAILED)),
        *_section("Not shown", _not_shown(found)),
        *_section("Waived", [f"{_md(what)}: {_md(why)}" for what, why in found.waived.items()]),
        *_section("By whom", _by_whom(found)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _facts(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield from (f"## {title}", "", "| | |", "|---|---|")
    yield from (f"| {name} | {_md(value) or 'not known'} |" for name, value in rows)
    yield ""


def _section(title: str, rows: Sequence[str]) -> Iterator[str]:
    yield from (f"## {title}", "")
    yield from (f"- {row}" for row in rows[:MAX_ROWS])
    if more := and_more(len(rows) - MAX_ROWS):
        yield f"-{more}, in the evidence"
    if not rows:
        yield "Nothing."
    yield ""


def _machine(found: Statement) -> Iterator[tuple[str, str]]:
    hardware = found.identity.hardware
    yield "node", found.identity.node
    yield "hardware class", "" if hardware is None else f"{hardware.name} ({hardware.hash})"
    yield "machine, boot", ", ".join(filter(None, (found.identity.machine, found.identity.boot_id)))
    yield "microcode", found.identity.microcode


def _software(found: Statement) -> Iterator[tuple[str, str]]:
    yield "class", software_class(found.kernel, found.identity)
    yield "kernel build", found.identity.kernel_build
    if found.cgroup:
        yield "cgroups", found.cgroup
    yield "container runtime", ", ".join(filter(None, (found.identity.runtime, found.identity.oci_runtime)))
    yield "pinproof", f"{found.pinproof}, BPF programs {found.identity.programs or 'not known'}"


def _shown(found: Statement) -> list[str]:
    rows = []
    if found.judged is not None:
        rows.append(f"{found.judged[0]:,} of the kernel's {found.judged[1]:,} context switches were judged")
    passed = Counter(v.rule for part in found.parts for v in part.verdicts if v.outcome is Outcome.PASSED)
    for rule in RULES:
        if passed[rule.doc.id]:
            subjects = "subject" if passed[rule.doc.id] == 1 else "subjects"
            rows.append(f"`{rule.doc.id}`: {_md(rule.doc.claim)} ({passed[rule.doc.id]} {subjects})")
    caught = [one for part in found.parts for one in part.controls if one.outcome is Outcome.PASSED]
    if caught:
        rows.append(f"{len(caught)} promises were broken on purpose, and each was reported by its rule")
    return rows


def _with(found: Statement, outcome: Outcome) -> list[str]:
    rows = []
    for part in found.parts:
        where = f"{_md(part.name)}: " if found.kind == "session" else ""
        about = [
            (f"`{one.head.rule}` {_md(one.head.subject)}", f"{one.head.reason}{one.behind and ' '}{one.behind}")
            for one in causes(v for v in part.verdicts if v.outcome is outcome)
        ]
        about += [(f"negative control {_md(c.name)}", c.reason) for c in part.controls if c.outcome is outcome]
        if not about and part.outcome is outcome and found.kind == "session":
            about = [("the scenario itself", part.reason)]
        rows += [f"{where}{what}: {_md(reason)}" for what, reason in about]
    return rows


def _not_shown(found: Statement) -> list[str]:
    rows = [f"undecided: {row}" for row in _with(found, Outcome.UNDECIDED)]
    if not found.complete:
        rows.append("the session was cut short: not every scenario that fits this machine was run")
    spots = Counter(spot for part in found.parts for spot in part.blind_spots)
    rows += [f"not seen: {_md(spot)}" for spot in spots]
    skipped = {(v.rule, v.reason) for part in found.parts for v in part.verdicts if v.outcome is Outcome.SKIPPED}
    rows += [f"rule `{rule}` skipped: {_md(reason)}" for rule, reason in sorted(skipped)]
    judged = {v.rule for part in found.parts for v in part.verdicts}
    silent = [rule.doc.id for rule in RULES if rule.doc.id not in judged]
    rows += [f"rule `{rule}` had nothing to judge: no claim promises what it judges" for rule in silent]
    rows += [f"scenario {_md(name)} was not run: {_md(reason)}" for name, reason in sorted(found.skipped.items())]
    if found.unnamed:
        rows.append(f"{found.unnamed} scenarios do not fit this machine and were not run; which ones is not kept")
    rows.append("any time but that of the windows, and any machine but this one")
    return rows


def _by_whom(found: Statement) -> list[str]:
    verify = "`pinproof judge BUNDLE --allowed-signers FILE` says who, and judges the evidence again"
    rows = [f"whoever signed `manifest.json` of the bundle, if anybody did: {verify}"]
    if found.identity.job:
        rows.append(f"asked for by job {_md(found.identity.job)}")
    if found.redacted:
        rows.append("names of the machine, of pods and of cgroups are replaced by tokens")
    return rows


def _md(text: str) -> str:
    """Make one harmless line of a stranger's text."""
    return _MARKUP.sub(r"\\\1", printable(" ".join(text.split())))
