"""Evidence is composed of parts: one more of them, one of them twice, and the same readings about other claims."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from probes.build import build
from probes.composition import WITNESSES
from probes.readings import Part, Reading, Readings, Watched
from tests.unit.probes.readings import (
    BEFORE,
    CLAIM,
    DB,
    END,
    FILES,
    FRAME,
    LOST,
    MASK,
    MASKS,
    ONLINE,
    OWN,
    QUIET,
    SWITCHES,
    but,
)
from toolkit.model import serde
from toolkit.model.blind_spots import BlindSpot, ScanGap
from toolkit.model.evidence import Evidence, Transition, UsageBin
from toolkit.model.evidence.node import HotplugEvidence


@serde.stage_value
@dataclass(frozen=True, kw_only=True)
class LoadEvidence:
    """The part of a witness that was made up here."""

    load: float | None = None


@serde.stage_value
@dataclass(frozen=True, kw_only=True)
class Wider(LoadEvidence, Evidence):
    """Evidence with one part more."""


@dataclass(frozen=True, slots=True)
class LoadReading(Reading):
    load: float

    def decode(self, readings: Readings) -> Part:
        """Return it, and compare it with another witness's reading."""
        busy = readings.of(type(SWITCHES)).rows[DB][1].ns > 0
        spots = (BlindSpot(text="the load is not known while db runs"),) if busy else ()
        return Part(evidence=LoadEvidence(load=self.load), spots=spots)


def test_a_new_witness_is_one_more_reading() -> None:
    """Its field arrives in evidence that has its part, beside all others, and its blind spot among theirs."""
    found = build(Readings(FRAME, (*QUIET, LoadReading(0.5))), kind=Wider)

    assert isinstance(found, Wider)
    assert found.load == 0.5
    assert found.coverage.blind_spots == ("the load is not known while db runs",)
    assert found.cpu_use == build(Readings(FRAME, QUIET)).cpu_use
    assert serde.from_json(Wider, serde.to_json(found), "evidence.json") == found


@dataclass(frozen=True, slots=True)
class _Twice(Reading):
    def decode(self, readings: Readings) -> Part:
        """Give what another witness gives."""
        assert readings.frame.end_ns == END
        return Part(evidence=HotplugEvidence())


def test_two_witnesses_of_one_field_are_refused() -> None:
    """Each field of the evidence has one witness."""
    with pytest.raises(ValueError, match="two witnesses give hotplug"):
        build(Readings(FRAME, (*QUIET, _Twice())))


def test_the_list_is_made_of_different_witnesses() -> None:
    """None twice, and the ledger of switches nearest to its own moment."""
    assert len(set(WITNESSES)) == len(WITNESSES)
    assert WITNESSES[-1].__module__ == "probes.switches.witness"
    assert OWN in QUIET


def two() -> Readings:
    """Return a window in which a control was watched beside the claim, with rows of both everywhere."""
    control = Watched(claim=replace(CLAIM, name="canary", cgroup="/canary"), ident=LOST, cpus=ONLINE)
    offence = dict(SWITCHES.offences)
    for key, sums in SWITCHES.offences.items():
        offence[replace(key, ident=LOST, tid=90)] = sums
    switches = replace(
        SWITCHES,
        rows={**SWITCHES.rows, LOST: SWITCHES.rows[DB]},
        offences=offence,
        bins=(*SWITCHES.bins, UsageBin(claim="canary", start_at_ns=0, length_ns=1, usage_ns=1)),
    )
    masks = replace(
        MASKS,
        masks=(MASK, replace(MASK, claim="canary")),
        gaps=(*MASKS.gaps, ScanGap(claim="canary", scans=1, longest_ns=9, at_ns=0, allowed_ns=5)),
        dropped={"canary": 1},
    )
    theirs = replace(BEFORE, cgroup="/canary")
    files = replace(
        FILES, before={**FILES.before, "/canary": theirs}, after=(*FILES.after, theirs), during=(theirs, BEFORE)
    )
    changes = tuple(Transition(claim=name, what="restart", start_at_ns=1, end_at_ns=2) for name in ("canary", "db"))
    frame = replace(
        FRAME, subjects=(*FRAME.subjects, control), names={**FRAME.names, LOST: "canary"}, transitions=changes
    )
    return Readings(frame, but(switches, masks, files))


def claims_of(evidence: Evidence) -> set[str]:
    """Return every claim that has a row, or a doubt of its own, anywhere."""
    rows = (
        *(*evidence.cpu_use, *evidence.offenders, *evidence.thread_masks, *evidence.bandwidth, *evidence.usage_bins),
        *(*evidence.transitions, *evidence.coverage.scan_gaps),
        *(spot for spot in evidence.coverage.blindness if spot.claim is not None),
    )
    return {str(row.claim) for row in rows} | set(evidence.run_delay_ns)


def test_the_controls_evidence_is_the_same_type_beside_it() -> None:
    """Of the same readings: each has the rows of its own claims, both have what the node counts.

    Tasks without a claim may be ten thousand on a node: they are saved once.
    """
    readings = two()
    ours, theirs = build(readings.without(["canary"])), build(readings.about(["canary"]))

    assert (claims_of(ours), claims_of(theirs)) == ({"db"}, {"canary"})
    assert claims_of(build(readings)) == {"db", "canary"}
    files = {row.cgroup for part in (ours.files_before, ours.files_after, ours.files_during) for row in part}
    assert files == {"/pods/db"}
    assert {row.cgroup for row in theirs.files_during} == {"/canary"}
    assert ours.coverage.blindness == ()
    assert len(theirs.coverage.blindness) == 2
    assert (len(ours.intruders), theirs.intruders) == (1, ())
    assert ours.coverage.switches_judged == theirs.coverage.switches_judged == 1_000


def test_the_controls_evidence_has_no_files_of_other_pods() -> None:
    """Of hundreds of pods those above the controls alone are theirs; the claims' evidence has what it had."""
    readings = two()
    above = tuple(replace(BEFORE, cgroup=cgroup) for cgroup in ("/pods", "/pods/gone", "/controls", "/controls/canary"))
    files = replace(FILES, before={row.cgroup: row for row in above}, after=above, during=above)
    control = replace(readings.frame.subjects[-1].claim, cgroup="/controls/canary")
    subjects = (*readings.frame.subjects[:-1], replace(readings.frame.subjects[-1], claim=control))
    readings = Readings(replace(readings.frame, subjects=subjects), but(files))

    def read(found: Evidence) -> set[tuple[str, ...]]:
        return {
            tuple(row.cgroup for row in part) for part in (found.files_before, found.files_after, found.files_during)
        }

    assert read(build(readings.about(["canary"]))) == {("/controls", "/controls/canary")}
    assert read(build(readings.without(["canary"]))) == {("/pods", "/pods/gone", "/controls")}


def test_without_controls_nothing_differs() -> None:
    """To leave out no claim is to build of everything."""
    readings = Readings(FRAME, QUIET)

    assert build(readings.without(["canary"])) == build(readings)


PROBES = Path(__file__).resolve().parents[3] / "probes"
OWN_FOLDERS = {path.parent.name for path in PROBES.glob("*/__init__.py")}
CLAIMS = {f"probes.switches.{name}" for name in ("ledger", "members", "published", "records", "trails")}
"""Where claims are published and memberships kept: what every witness stands on, and no witness."""


def test_only_the_list_names_a_witness() -> None:
    """Beside the folders of the witnesses one module imports from them: the one that says which there are."""
    found: dict[str, set[str]] = {}
    for path in PROBES.glob("*.py"):
        names = {
            node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
        }
        theirs = {name for name in names if name.split(".")[1:2] and name.split(".")[1] in OWN_FOLDERS}
        if theirs - CLAIMS:
            found[path.name] = theirs - CLAIMS

    assert found.keys() == {"composition.py"}
    assert {name.split(".")[1] for name in found["composition.py"]} == OWN_FOLDERS
