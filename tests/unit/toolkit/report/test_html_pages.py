"""Pages: one file that is complete, harmless, small, and states what was judged and what was not."""

from __future__ import annotations

import base64
import gzip
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.fleet.compared import compare, gate
from tests.unit.toolkit.fleet.fleet_builder import save
from tests.unit.toolkit.fleet.fleet_builder import session as recorded_session
from tests.unit.toolkit.report.pages import Page, check_page
from tests.unit.toolkit.report.results_builder import CLAIMS, broken, healthy
from tests.unit.toolkit.saved_runs import save_run
from tests.unit.validators.evidence_builder import SECOND, balanced, cpus, evidence
from toolkit.fleet.answer import ClassCount, FleetAnswer, Node, Source
from toolkit.fleet.observed import of_result
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.evidence import Evidence, UsageBin
from toolkit.model.evidence.delays import Culprit, CulpritClass, Delay, TimelineBins
from toolkit.model.node_record import NodeOutcome
from toolkit.model.session import Session
from toolkit.model.verdict import Outcome
from toolkit.report.html import fleet as fleet_module
from toolkit.report.html.comparison import comparison_page
from toolkit.report.html.fleet import fleet_page
from toolkit.report.html.page import ticked
from toolkit.report.html.run import RunView, run_page, run_view
from toolkit.report.html.session import MAX_BYTES, session_page
from toolkit.session.index import session_of
from toolkit.session.saved import judge_run, shown_of
from toolkit.store import StoredRun

PROJECT = Path(__file__).resolve().parents[4]
HOSTILE = (
    "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;{{ 7 * 7 }}\u202egnp.exe\u2028\n\x1b[2J"
)


def view(found: Evidence, claims: ClaimSet = CLAIMS, name: str = "a-run") -> RunView:
    judged = judge_run(StoredRun(path=Path("/nowhere"), claims=claims, evidence=found, digests={}))
    return run_view(judged, shown_of(judged), name)


def with_quota() -> tuple[ClaimSet, Evidence]:
    """A claim with a quota, and its use slot by slot."""
    limited = [replace(one, quota_us=50_000) if one.name == "web" else one for one in CLAIMS.claims]
    bins = [
        UsageBin(claim="web", start_at_ns=at * SECOND, length_ns=SECOND, usage_ns=at * SECOND // 20) for at in range(10)
    ]
    return replace(CLAIMS, claims=tuple(limited)), healthy(usage_bins=tuple(bins))


def scenario(name: str, outcome: Outcome, run: RunView | None = None, **changes: Any) -> ScenarioResult:
    values: dict[str, Any] = {
        "title": name,
        "catalogue": ("C1",),
        "reason": "because",
        "packed": f"{name}.tar.gz",
        "controls": (
            ControlResult(rule="applied", fault="f", subject="db", outcome=Outcome.PASSED, reason="seen", target="db"),
        ),
    }
    return ScenarioResult(name=name, outcome=outcome, **{**values, **changes})


def session(results: list[ScenarioResult]) -> Session:
    environment = healthy().environment
    return session_of("a-session", results, environment, started_at="2026-11-28", duration_s=75.0, complete=True)


def test_a_run_that_failed_states_why_and_what_to_do() -> None:
    """The answer first, then the causes with their measures, the machine, the timeline, and what was not seen."""
    page = check_page(run_page(view(broken())))

    heads = [text for tag, text in page.headings() if tag in ("h1", "h2")]
    assert heads == [
        "✘ failed Isolation did not hold",
        "What did not pass",
        "What to do next",
        "Why",
        "The machine, by owner",
        "Timeline",
        "Quota against its bound",
        "What took the time",
        "What held",
        "How much was seen",
        "What was not seen",
        "Environment",
    ]
    commands = [one.text for one in page.all("code") if one.attributes.get("class") == "command"]
    assert "pinproof explain cpuset-containment" in commands
    assert [one for one in page.all("li") if "nohz_full" in one.text]


def test_the_machine_says_where_a_claim_ran_outside() -> None:
    """By a sign and in words, not by colour alone; and each CPU has the letter of its owner."""
    page = check_page(run_page(view(broken())))

    (picture, *_) = [one for one in page.all("svg") if one.attributes.get("class") == "cpus"]
    assert "ran outside on CPUs 0" in picture.attributes["aria-label"]
    assert "CPUs 2-3 db" in picture.attributes["aria-label"]
    signs = [one.text for one in page.all("text") if one.attributes.get("class") == "sign"]
    assert {"A", "!"} <= set(signs)


def test_the_timeline_has_what_was_promised_below_what_happened() -> None:
    """A claim that ran outside comes first and is marked; what each held stands in words."""
    page = check_page(run_page(view(broken())))

    rows = [one for one in page.all("div") if one.attributes.get("class", "").startswith("row")]
    assert rows[0].attributes["class"] == "row bad"
    assert "✘ db" in rows[0].text
    assert len([one for one in page.all("g") if one.attributes.get("class") == "breach"]) >= 2, "one is the legend's"
    (promises,) = [one for one in page.all("table") if "What each claim held" in one.text]
    assert "CPUs 2-3" in promises.text


def test_a_quota_is_drawn_with_its_bound() -> None:
    """Its slots are data for the page's program, and a picture for print and where no program runs."""
    claims, found = with_quota()
    page = check_page(run_page(view(found, claims)))

    (given,) = [json.loads(one.text) for one in page.all("script", type="application/json")]
    assert (given["bound"], len(given["x"]), max(given["y"])) == (0.5, 10, 0.45)
    assert [one for one in page.all("svg") if one.attributes.get("class") == "still"]
    (program,) = [one.text for one in page.all("script") if "type" not in one.attributes]
    assert "uPlot 1.6.32" in program
    assert "Permission is hereby granted" in program, "its licence is on every page that has it"


def test_a_lane_has_the_bins_of_the_timeline() -> None:
    """Over all CPUs, where they were kept; several together where the window is long."""
    bins = [
        TimelineBins(
            claim="db",
            cpu=cpu,
            bin_ns=10_000_000,
            start_at_ns=0,
            bins=tuple(range(1000)),
            run_us=(4_000,) * 1000,
            wait_us=(0,) * 1000,
        )
        for cpu in (2, 3)
    ]
    page = check_page(run_page(view(healthy(timeline_bins=tuple(bins)))))

    (label,) = [one for one in page.all("div", **{"class": "label"}) if one.text.startswith("db")]
    assert "used 8000 ms, at most 0.80 CPUs" in label.text


def test_what_took_the_time_is_named() -> None:
    """Over all CPUs, the most of it first; where no wait was told the sum of the kernel stands alone."""
    delays = [
        Delay(claim="db", cpu=cpu, wait_ns=19_000_000, preempted_ns=19_000_000, longest_ns=4_000_000) for cpu in (2, 3)
    ]
    culprits = [
        Culprit(claim="db", cpu=cpu, owner=owner, name=name, turns=2, total_ns=ns, longest_ns=ns)
        for cpu in (2, 3)
        for owner, name, ns in (
            (CulpritClass.CLAIM, "web", 8_500_000),
            (CulpritClass.KTHREAD, "kworker/3:1", 10_500_000),
        )
    ]
    told = check_page(run_page(view(healthy(delays=tuple(delays), culprits=tuple(culprits)))))
    summed = check_page(run_page(view(healthy(run_delay_ns={"db": 38_000_000}))))

    (row,) = [one for one in told.all("tr") if "kworker/3:1" in one.text]
    assert " ".join(row.text.split()).startswith("db38 ms0.4 %-4 ms")
    assert row.text.index("kworker/3:1 (kthread) 21 ms in 4 turns") < row.text.index("web (claim) 17 ms in 4 turns")
    (row,) = [one for one in summed.all("tr") if "not told" in one.text]
    assert row.text.startswith("db38 ms0.4 %")


def test_a_page_without_curves_has_no_library() -> None:
    """It is small."""
    assert len(run_page(view(healthy(usage_bins=()))).encode()) < 60_000


def test_one_window_is_drawn_with_its_own_moments(tmp_path: Path) -> None:
    """Of several the worst: what ran outside in one window is not drawn on the clock of another."""
    done = pinproof("report", PROJECT / "tests/data/watches/escape-seen", "--html", tmp_path / "page.html")
    page = check_page((tmp_path / "page.html").read_text())

    assert done.exit_code == 1
    assert "Shown is window 1 of 3" in page.source
    (lane,) = [one for one in page.all("div") if one.attributes.get("class") == "row bad"]
    assert "ran outside 139 ms, 1 task" in lane.text


def test_names_of_strangers_are_inert() -> None:
    """Of a claim, a task, a reason, a scenario, a node: the page has the same elements as with good names."""

    def made(name: str) -> Page:
        found = broken()
        found = replace(
            found,
            offenders=tuple(replace(one, comm=name, claim=name) for one in found.offenders),
            cpu_use=tuple(replace(one, claim=name) if one.claim == "db" else one for one in found.cpu_use),
            intruders=tuple(replace(one, comm=name, cgroup=name) for one in found.intruders),
            usage_bins=(UsageBin(claim=name, start_at_ns=0, length_ns=SECOND, usage_ns=SECOND // 4),) * 2,
            coverage=replace(found.coverage, blind_spots=(name,)),
            environment=replace(found.environment, kernel=name, cmdline=f"x={name}"),
        )
        claims = [replace(one, name=name, quota_us=50_000) if one.name == "db" else one for one in CLAIMS.claims]
        run = view(found, replace(CLAIMS, claims=tuple(claims)), name)
        bad = scenario(name, Outcome.FAILED, reason=name, packed="x", verdicts=judged_of(found), repeated=(name,))
        return check_page(session_page(session([bad, scenario(name, Outcome.SKIPPED, reason=name)]), [bad], {"x": run}))

    evil, good = made(HOSTILE), made("x" * 20)
    assert "\u202e" not in evil.source
    assert "\u2028" not in evil.source
    assert [one.tag for one in evil.elements] == [one.tag for one in good.elements]
    assert "{{ 7 * 7 }}" in evil.source


def judged_of(found: Evidence) -> Any:
    return judge_run(StoredRun(path=Path("/nowhere"), claims=CLAIMS, evidence=found, digests={})).result.verdicts


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ((Outcome.PASSED, Outcome.PASSED), "✔ passed Isolation holds on"),
        ((Outcome.PASSED, Outcome.FAILED), "✘ failed Isolation does not hold on"),
        ((Outcome.PASSED, Outcome.UNDECIDED), "? undecided It is not shown that isolation holds on"),
        ((Outcome.SKIPPED,), "- skipped Nothing was judged on"),
    ],
)
def test_a_session_begins_with_its_answer(outcomes: tuple[Outcome, ...], said: str) -> None:
    """In words; undecided is not called broken, and nothing is not called good."""
    results = [scenario(f"s{at}", outcome) for at, outcome in enumerate(outcomes)]
    page = check_page(session_page(session(results), results, {}))

    assert page.headings()[0][1].startswith(said)


def test_a_session_says_in_numbers_what_was_not_seen() -> None:
    """Its index has none, so that two sessions can be compared."""
    results = [scenario("s", Outcome.PASSED, blind_spots=(f"{number} of 100 softirqs",)) for number in (3, 7)]
    made = session(results)
    page = check_page(session_page(made, results, {}))

    assert made.blind_spots == {"# of # softirqs": 2}
    (said,) = [one for one in page.all("li") if "softirqs" in one.text]
    assert " ".join(said.text.split()) == "3 of 100 softirqs in 2 scenarios, with other numbers"


def test_names_in_a_sentence_are_code() -> None:
    """Also in one that was cut off within a name; markup in it stays text."""
    assert (
        ticked("no task of `db` ran, `<b>` did, `we…")
        == "no task of <code>db</code> ran, <code>&lt;b&gt;</code> did, `we…"
    )
    assert ticked("plain") == "plain"


def test_a_session_is_small_and_says_what_is_not_drawn() -> None:
    """What did not pass is drawn first."""
    run = view(*reversed(with_quota()))
    results = [scenario(f"s{at:03}", Outcome.PASSED) for at in range(90)]
    results[77] = replace(results[77], outcome=Outcome.FAILED)
    runs = {one.packed: run for one in results}
    text = session_page(session(results), results, runs)
    page = check_page(text)

    assert len(text.encode()) <= MAX_BYTES
    sections = [one for one in page.all("details") if one.attributes.get("class") == "card scenario"]
    drawn = [one for one in sections if "The machine, by owner" in one.text]
    assert len(sections) == 90
    assert 5 < len(drawn) < 90
    assert "s077" in drawn[0].text
    assert f"{90 - len(drawn)} scenarios are listed without pictures" in text


def test_many_cpus_and_claims_stay_small() -> None:
    """256 CPUs, 60 claims with quotas, a hundred slots each."""
    online = cpus("0-255")
    claims = [
        Claim(name=f"pod-{at}/main", cgroup=f"/k/{at}", pod=f"pod-{at}", cpus=cpus(str(at)), quota_us=50_000)
        for at in range(60)
    ]
    bins = [
        UsageBin(claim=f"pod-{at}/main", start_at_ns=slot * SECOND // 10, length_ns=SECOND // 10, usage_ns=slot)
        for at in range(60)
        for slot in range(100)
    ]
    found = evidence(usage_bins=tuple(bins), environment=replace(evidence().environment, cpus_online=online))
    text = run_page(view(found, ClaimSet(claims=tuple(claims))))
    check_page(text)

    assert len(text.encode()) < MAX_BYTES
    assert "48 more claims" in text


def test_a_comparison_draws_how_far_measures_moved() -> None:
    """With the interval beside the smallest effect, and in words."""
    found = compare(judged_result(healthy()), judged_result(broken()))
    page = check_page(comparison_page(found, "c"))

    assert page.headings()[0][1] == "▼ regressed It is worse than before"
    assert [one for one in page.all("table") if "cpuset-containment" in one.text]


@pytest.mark.parametrize(
    ("base", "required", "said"),
    [
        (healthy, False, "▼ regressed It is worse than before"),
        (broken, False, "✔ passed It is no worse than before"),
        (broken, True, "✘ failed Something that has to pass did not"),
    ],
)
def test_what_was_broken_before_is_not_worse(base: Callable[[], Evidence], required: bool, said: str) -> None:
    """But it does not pass where that is required."""
    before, after = (of_result(judged_result(one), {}) for one in (base(), broken()))
    page = check_page(comparison_page(gate((before,), (after,), require_passed=required), "c"))

    assert page.headings()[0][1] == said


def judged_result(found: Evidence) -> Any:
    return judge_run(StoredRun(path=Path("/nowhere"), claims=CLAIMS, evidence=found, digests={})).result


def fleet(number: int, name: str = "node") -> FleetAnswer:
    """A fleet in which each fourth node failed."""
    nodes = tuple(
        Node(
            host=f"{name}-{at:05}",
            outcome=NodeOutcome.FAILED if at % 4 == 0 else NodeOutcome.PASSED,
            cause=f"cpuset-containment db/{at}: ran on CPU {at % 64} outside {at}: {at * 7919 % 1000} switches; {name}",
            expected=True,
            at="2026-11-28T01:02:03Z",
            hardware=name,
            software="6.18",
            not_passed={"cpuset-containment": Outcome.FAILED},
            sources=(Source(kind=name, outcome=NodeOutcome.FAILED, cause=name, at="", path=f"a/{name}"),),
        )
        for at in range(number)
    )
    counts = {NodeOutcome.FAILED: -(-number // 4), NodeOutcome.PASSED: number - -(-number // 4)}
    return FleetAnswer(
        outcome=Outcome.FAILED,
        made_at="2026-11-28T01:02:03Z",
        max_age_s=1.0,
        counts=counts,
        expected=number,
        classes=(ClassCount(hardware=name, software="6.18", counts=counts),),
        nodes=nodes,
    )


def rows_beside(page: Page) -> list[list[str]]:
    """Return the rows that a page has compressed."""
    (packed,) = page.all("script", id="packed")
    found = json.loads(gzip.decompress(base64.b64decode(packed.text)))
    assert isinstance(found, list)
    return found


def test_a_fleet_of_two_thousand_is_one_page() -> None:
    """The worst 200 nodes are drawn, all lie beside, and it states how many failed first."""
    text = fleet_page(fleet(2000))
    page = check_page(text)

    assert len(text.encode()) < fleet_module.MAX_BYTES // 5
    assert page.headings()[0][1] == "✘ failed 500 of 2,000 nodes did not pass"
    (body,) = page.all("tbody", id="rows")
    assert body.text.count("node-") == 200
    rows = rows_beside(page)
    assert len(rows) == 2000
    assert [row[1] for row in rows] == ["failed"] * 500 + ["passed"] * 1500


def test_a_small_fleet_has_nothing_beside() -> None:
    """Every node has its row."""
    page = check_page(fleet_page(fleet(200)))
    assert not page.all("script", id="packed")


def test_what_a_page_of_a_fleet_has_no_room_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst nodes stay."""
    monkeypatch.setattr(fleet_module, "MAX_PACKED", 3_000)
    page = check_page(fleet_page(fleet(1000)))

    rows = rows_beside(page)
    assert 0 < len(rows) < 1000
    assert {row[1] for row in rows[:100]} == {"failed"}
    assert f"{1000 - len(rows)} nodes have no row here" in page.source


def test_names_of_nodes_are_inert() -> None:
    """In rows that are drawn, in those beside, and in commands that a reader may copy into a shell."""
    evil, good = (check_page(fleet_page(fleet(300, name))) for name in (HOSTILE + "; rm -rf $(x) `y`", "x" * 20))

    assert [one.tag for one in evil.elements] == [one.tag for one in good.elements]
    assert "\u202e" not in evil.source
    assert not any("\u202e" in text for row in rows_beside(evil) for text in row)
    (report,) = [one.text for one in evil.all("code") if one.text.startswith("pinproof report ")]
    assert len(shlex.split(report)) == 5, "names are words of a shell, each in its quotes"


def test_fleet_writes_the_page_and_report_makes_it_again(tmp_path: Path) -> None:
    """From the answer of `fleet --json`; the exit code is that of fleet, and what it bears with stays borne with."""
    for host in ("a", "b"):
        save(tmp_path / "results", host, recorded_session(host))
    asked = ("fleet", tmp_path / "results", "--expect", "a,b,c", "--accept", "never")
    given = pinproof(*asked, "--json", "--html", tmp_path / "a.html")
    (tmp_path / "answer.json").write_text(given.stdout)
    again = pinproof("report", tmp_path / "answer.json", "--html", tmp_path / "b.html")

    assert (given.exit_code, again.exit_code) == (0, 0)
    pages = [check_page((tmp_path / name).read_text()) for name in ("a.html", "b.html")]
    assert [page.headings()[0][1] for page in pages] == ["? undecided 1 of 3 nodes did not pass"] * 2


def test_report_writes_the_page_beside_the_table(tmp_path: Path) -> None:
    """The table is printed as ever; a page that cannot be written is one line, and exit code 2."""
    run = save_run(tmp_path / "run", claims=CLAIMS, evidence=balanced(healthy()))
    plain = pinproof("report", run)
    done = pinproof("report", run, "--html", tmp_path / "page.html", "--base", run)
    nowhere = pinproof("report", run, "--html", tmp_path / "no" / "page.html")

    assert (done.exit_code, done.stdout) == (plain.exit_code, plain.stdout)
    page = check_page((tmp_path / "page.html").read_text())
    assert ("h2", "Difference to run") in page.headings()
    assert ("h2", "What is new") in page.headings()
    assert nowhere.exit_code == 2
    assert len(nowhere.stderr.splitlines()) == 1


def test_report_renders_the_answer_of_compare(tmp_path: Path) -> None:
    """A file that `compare --json` printed: as a table, as JSON, as a page; the exit code is that of the gate."""
    base = save_run(tmp_path / "base", claims=CLAIMS, evidence=balanced(healthy()))
    new = save_run(tmp_path / "new", claims=CLAIMS, evidence=balanced(broken()))
    given = pinproof("compare", base, new, "--json", "--html", tmp_path / "a.html")
    (tmp_path / "answer.json").write_text(given.stdout)
    again = pinproof("report", tmp_path / "answer.json", "--json", "--html", tmp_path / "b.html")
    tap = pinproof("report", tmp_path / "answer.json", "--format", "tap")
    trace = pinproof("report", tmp_path / "answer.json", "--perfetto", tmp_path / "trace")

    assert (again.exit_code, json.loads(again.stdout)) == (given.exit_code, json.loads(given.stdout))
    for name in ("a.html", "b.html"):
        page = check_page((tmp_path / name).read_text())
        assert page.headings()[0] == ("h1", "▼ regressed It is worse than before")
        assert [one.text for one in page.all("p") if f"Base: {base}. New: {new}." in one.text]
        commands = [one.text for one in page.all("code", **{"class": "command"})]
        assert f"pinproof compare --base {base} --new {new} --json" in commands
    assert tap.exit_code == 2
    assert "formats are table, json, junit" in tap.stderr
    assert (trace.exit_code, "`pinproof report RUN --perfetto FILE`" in trace.stderr) == (2, True)
