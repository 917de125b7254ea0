"""No name of a stranger breaks or forges a line, in any rendering: as many lines as with a plain name of its length.

Names come in two ways: spelt by our readers from any bytes, and as any text in a run directory that a stranger wrote.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.toolkit.fleet.compared import compare
from tests.unit.toolkit.report.pictured_machine import machine
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, coverage, cpus, evidence, use
from toolkit import store
from toolkit.cli.report import FORMATS
from toolkit.model.conformance import ScenarioResult
from toolkit.model.evidence import Evidence, Intruder, OwnerClass, Runtime
from toolkit.model.result import Result, make_result
from toolkit.model.serde import from_json, to_json
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report import comparison_junit, conformance_junit
from toolkit.report.comparison_markdown import render_markdown
from toolkit.report.comparison_table import render_comparison
from toolkit.report.machine_drawing import svg_drawing, text_drawing
from toolkit.report.machine_owners import Owner
from toolkit.report.metrics import registry_of
from toolkit.session.windows.counters import SessionState
from toolkit.text import names
from validators.registry import judge

FORGED = b"\nFailed\n  cpuset-containment  db  \x1b[2J\r\xe2\x80\xa8\x85\xff\\n</failure>\"'&\x00"[:-1]
BYTES = st.one_of(st.binary(min_size=1, max_size=40), st.just(FORGED), st.just(bytes(range(1, 256))))
NAMES = st.one_of(
    BYTES.map(names.shown),
    # What a run directory of a stranger can hold: any text that is UTF-8.
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.sampled_from(
        [
            "\nFailed",
            "\nfailed  x",
            "a\r\nb",
            "\u2028failed",
            "\x85x",
            "\x0bfailed",
            "\x1b]0;x\x07",
            "\u202e]]>",
            "{}{0}%s",
        ]
    ),
)
OURS = re.compile(r"(Failed|Undecided|Passed|Skipped|Not seen|Worse|Better)$|failed  ")
"""Lines that a reader trusts: the titles of a report, and the first column of a table."""
WIDE = re.compile(r"[^ \-]")


def plain(name: str) -> str:
    """Return a harmless name that wraps where this one does."""
    return WIDE.sub("x", "".join(char if char.isascii() else "x" for char in names.printable(name)))


PLAIN = evidence()


def named(name: str) -> Evidence:
    """Evidence in which strangers of this name did everything that names a stranger."""
    row = replace(
        use("db", 0, switches=3, run_ns=41_200, samples=0),
        out_of_set_switches=3, out_of_set_ns=41_200, out_of_set_longest_ns=30_100,
    )  # fmt: skip
    offender = Offender(
        claim="db", tid=4711, comm=name, cpu=0, first_at_ns=1, total_ns=41_200, longest_ns=30_100, switches=3
    )
    guest = Intruder(
        cpu=2, tid=30, comm=name, owner=OwnerClass.FOREIGN_POD, cgroup=f"/{name}", switches=30, total_ns=11_200_000,
        longest_ns=1_000_000, first_at_ns=5,
    )  # fmt: skip
    masks = tuple(replace(mask, comm=name, cpus_allowed=cpus("0-3")) for mask in PLAIN.thread_masks)
    return evidence(
        cpu_use=(*PLAIN.cpu_use, row),
        offenders=(offender,),
        intruders=(guest,),
        thread_masks=masks,
        coverage=coverage(lost_events=1, blind_spots=(f"a thread {name} was not seen",)),
        environment=replace(PLAIN.environment, cmdline=name, kernel=name, sched_ext=name),
        runtime=Runtime(name=name, version=name),
    )


def result_of(name: str) -> Result:
    """Every rule's verdicts, and one about a subject of that name."""
    found = named(name)
    verdicts = judge(claim_set(claim_db(), claim_web()), found)
    own = Verdict(rule="noise", subject=name, outcome=Outcome.FAILED, reason=f"task {name} ran", measures={"of": name})
    return make_result(found, (*verdicts, own), unknown=None)


def comparison(name: str) -> str:
    return render_comparison(compare(make_result(PLAIN, (), unknown=None), result_of(name)))


def comparison_markdown(name: str) -> str:
    return render_markdown(compare(make_result(PLAIN, (), unknown=None), result_of(name)))


def comparison_junit_text(name: str) -> str:
    text = comparison_junit.render_junit(compare(make_result(PLAIN, (), unknown=None), result_of(name)))
    ElementTree.fromstring(text)
    return text


def metrics(name: str) -> str:
    claims = claim_set(claim_db(name=name), claim_web())
    found = replace(named(name), cpu_use=(use(name, 2),))
    return generate_latest(registry_of(lambda: claims, lambda: SessionState(open=found), judge)).decode()


RENDERINGS: dict[str, Callable[[str], str]] = {
    **{f"report {kind}": (lambda name, render=render: render(result_of(name))) for kind, render in FORMATS.items()},
    "compare": comparison,
    "compare --markdown": comparison_markdown,
    "compare --junit": comparison_junit_text,
    "metrics": metrics,
    "evidence.json": lambda name: to_json(named(name), indent=1),
}


@cache
def harmless(rendering: str, name: str) -> str:
    """Return what is printed with a harmless name; many wrap alike."""
    return RENDERINGS[rendering](name)


@pytest.mark.parametrize("rendering", RENDERINGS)
@given(name=NAMES)
def test_no_name_breaks_or_forges_a_line(rendering: str, name: str) -> None:
    """Each line is printable, and there are as many as with a plain name."""
    text = RENDERINGS[rendering](name)
    expected = harmless(rendering, plain(name))

    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.splitlines()) == len(text.rstrip("\n").split("\n"))
    text.encode("utf-8")
    if rendering in ("report json", "evidence.json", "report junit", "metrics"):
        assert text.count("\n") == expected.count("\n")
    # Names that are wide or combine wrap elsewhere; they never make a title or a rule's line of their own.
    assert [line for line in text.split("\n") if OURS.match(line)] == [
        line for line in expected.split("\n") if OURS.match(line)
    ]


@given(BYTES)
def test_values_come_back_through_their_files(name: bytes) -> None:
    """What was read is what is saved is what is read back, and gives back the bytes."""
    found = named(names.shown(name))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        save_run(run, claims=claim_set(), evidence=found)
        save_result(run, (), found)
        back = store.load_run(run)
        for file in run.iterdir():
            json.loads(file.read_bytes().decode("utf-8", "strict"))

    assert back.evidence == found
    assert names.raw(back.evidence.intruders[0].comm) == name
    assert names.raw(back.evidence.environment.cmdline) == name


@given(BYTES)
def test_formats_are_read_back(name: bytes) -> None:
    """JSON, JUnit XML and Prometheus text give the spelling back, and it the bytes."""
    spelt = names.shown(name)
    offenders = [row for one in json.loads(RENDERINGS["report json"](spelt))["verdicts"] for row in one["offenders"]]
    suite = ElementTree.fromstring(RENDERINGS["report junit"](spelt))
    subjects = {case.get("name") for case in suite.iter("testcase")}
    families = text_string_to_metric_families(metrics(spelt))
    labels = {sample.labels.get("claim") for family in families for sample in family.samples}

    assert name in {names.raw(row["comm"]) for row in offenders}
    assert spelt in subjects
    assert spelt in labels


def test_a_text_that_is_no_utf8_is_spelt_rather_than_lost() -> None:
    """A lone surrogate that slipped in through a reader costs its spelling, not the evidence."""
    found = replace(evidence(), environment=replace(evidence().environment, cmdline="quiet \udcff"))
    text = to_json(found)

    assert from_json(Evidence, text, "evidence").environment.cmdline == "quiet \\xff"


@given(name=NAMES)
def test_pictures(name: str) -> None:
    """Titles and owners of a picture."""
    topology, owners = machine(), (Owner(symbol="A", name=name, cpus=cpus("0-7")),)
    svg = svg_drawing(topology, owners, name)
    ElementTree.fromstring(svg)
    for text in (svg, text_drawing(topology, owners)):
        assert all(line.isprintable() for line in text.split("\n"))


@given(name=NAMES)
def test_conformance_suite(name: str) -> None:
    """One test case for each verdict, whatever its reason says."""
    verdict = Verdict(rule="noise", subject=name, outcome=Outcome.FAILED, reason=name, measures={})
    result = ScenarioResult(
        name=name, title=name, catalogue=(), outcome=Outcome.FAILED, reason=name, verdicts=(verdict,)
    )
    text = conformance_junit.render_junit([result])

    assert all(line.isprintable() for line in text.split("\n"))
    assert len(list(ElementTree.fromstring(text).iter("testcase"))) == 1
