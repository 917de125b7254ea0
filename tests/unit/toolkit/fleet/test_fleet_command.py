"""``pinproof fleet`` through its door: what it reads, what it says of each node, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.benchmarks import bench_fleet
from tests.unit.toolkit.cli.command_line import Ended, pinproof
from tests.unit.toolkit.fleet.fleet_builder import DAY_S, LARGE, at, record, recorded, save, session
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import balanced, claim_set, evidence, use
from toolkit.model.node_record import NodeOutcome
from toolkit.model.verdict import Outcome
from toolkit.packed import archive, read_packed
from toolkit.report.fleet_formats import MARKDOWN_BYTES
from validators.registry import judge


def asked(*arguments: object) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the answer."""
    ended = pinproof("fleet", *arguments, "--json")
    assert "Traceback" not in ended.stderr
    return ended.exit_code, json.loads(ended.stdout)


def rows(answer: dict[str, Any]) -> dict[str, str]:
    """Return host -> outcome."""
    return {row["host"]: row["outcome"] for row in answer["nodes"]}


def why(answer: dict[str, Any], host: str) -> str:
    """Return the cause of a host's outcome."""
    (row,) = (row for row in answer["nodes"] if row["host"] == host)
    return str(row["cause"])


def table(*arguments: object) -> Ended:
    """Return what a user reads."""
    ended = pinproof("fleet", *arguments)
    assert "Traceback" not in ended.stderr
    return ended


def test_green_is_green(tmp_path: Path) -> None:
    """All expected nodes passed: exit code 0, and every node has a row."""
    for name in ("a", "b"):
        save(tmp_path, name, session(name))

    ended = table(tmp_path, "--expect", "a,b")

    assert ended.exit_code == 0
    assert "2 nodes: 2 passed; 2 expected, 0 of them never reported." in ended.stdout
    assert "a     passed" in ended.stdout


@pytest.mark.parametrize("outcome", [one for one in NodeOutcome if one not in ("waived", "passed", "stale", "never")])
def test_each_word_of_a_record(tmp_path: Path, outcome: NodeOutcome) -> None:
    """A host of which the controller has nothing but a record has its word; only ``failed`` ends with 1."""
    save(tmp_path, "good", session("good"))
    record(tmp_path, "bad", outcome)

    code, answer = asked(tmp_path)

    assert rows(answer) == {"bad": outcome.value, "good": "passed"}
    assert code == (1 if outcome is NodeOutcome.FAILED else 3)
    assert why(answer, "bad") == "the cause"


def test_a_record_that_says_passed_needs_its_evidence(tmp_path: Path) -> None:
    """Without a file, with another file, or with one that says otherwise it is not green."""
    save(tmp_path, "good", session("good"))
    brought = save(tmp_path, "good", session("good"))
    record(tmp_path, "good", NodeOutcome.PASSED, brought)
    record(tmp_path, "nothing", NodeOutcome.PASSED)
    record(tmp_path, "gone", NodeOutcome.PASSED, path="job/session.json", sha256="00")
    other = save(tmp_path, "other", session("other"))
    record(tmp_path, "other", NodeOutcome.PASSED, other, sha256="00" * 32)
    worse = save(tmp_path, "worse", session("worse", fails="cpuset-containment"))
    record(tmp_path, "worse", NodeOutcome.PASSED, worse)

    code, answer = asked(tmp_path)

    assert code == 1
    assert rows(answer) == {
        "good": "passed", "nothing": "undecided", "gone": "undecided", "other": "undecided", "worse": "failed",
    }  # fmt: skip
    assert "SHA-256" in why(answer, "other")
    # Where the record and the evidence say the same, the evidence says why.
    record(tmp_path, "worse", NodeOutcome.FAILED, worse)
    assert why(asked(tmp_path)[1], "worse") == "burst-create: cpuset-containment db/main: ran outside CPU 1"


def test_a_folder_of_a_hosts_name_is_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user in the folder of the results may name one host."""
    save(tmp_path, "a", session("a"))
    monkeypatch.chdir(tmp_path)

    assert asked(".", "--expect", "a")[0] == 0


def test_missing_stale_and_unexpected(tmp_path: Path) -> None:
    """Each is named, and red; the list of names may be a file."""
    save(tmp_path, "fresh", session("fresh"))
    save(tmp_path, "old", session("old", age_s=8 * DAY_S))
    save(tmp_path, "guest", session("guest"))
    names = tmp_path / "hosts.txt"
    names.write_text("# the fleet\nfresh\nold  # since spring\n\nsilent\n")

    code, answer = asked(tmp_path, "--expect", names)

    assert code == 3
    assert rows(answer) == {"fresh": "passed", "guest": "passed", "old": "stale", "silent": "never"}
    assert answer["counts"] == {"stale": 1, "never": 1, "passed": 2}
    assert [row["host"] for row in answer["nodes"] if not row["expected"]] == ["guest"]
    assert rows(asked(tmp_path, "--max-age", "30")[1])["old"] == "passed"


def test_an_accepted_outcome_stays_what_it_is(tmp_path: Path) -> None:
    """It does not change the exit code, and is said; ``failed`` cannot be accepted."""
    save(tmp_path, "good", session("good"))
    record(tmp_path, "unclear", NodeOutcome.UNDECIDED)
    record(tmp_path, "gone", NodeOutcome.DIED)

    code, answer = asked(tmp_path, "--accept", "undecided")
    both = table(tmp_path, "--accept", "undecided", "--accept", "died")

    assert (code, answer["outcome"], answer["accepted"]) == (3, "undecided", ["undecided"])
    assert both.exit_code == 0
    assert "3 nodes: 1 died, 1 undecided, 1 passed; accepted: died, undecided." in both.stdout
    assert pinproof("fleet", tmp_path, "--accept", "failed").exit_code == 2
    save(tmp_path, "bad", session("bad", fails="cpuset-containment"))
    assert asked(tmp_path, "--accept", "undecided", "--accept", "died")[0] == 1
    assert asked(tmp_path / "bad", "--expect", "absent", "--accept", "never")[0] == 1


@pytest.mark.parametrize("inventory", ["worker-1", "worker-1.example.com"])
def test_a_host_with_and_without_its_domain_is_one(tmp_path: Path, inventory: str) -> None:
    """One host of the inventory has that first label, so both names are of it: by --expect, and by a record."""
    other = ({"worker-1", "worker-1.example.com"} - {inventory}).pop()
    save(tmp_path / "r", "job", session(other))

    code, answer = asked(tmp_path / "r", "--expect", f"{inventory},worker-2", "--accept", "never")

    assert (code, rows(answer)) == (0, {inventory: "passed", "worker-2": "never"})
    assert answer["counts"] == {"never": 1, "passed": 1}
    record(tmp_path / "r", inventory, NodeOutcome.UNREACHABLE)
    assert rows(asked(tmp_path / "r")[1]) == {inventory: "unreachable"}
    record(tmp_path / "r", other, NodeOutcome.FAILED, age_s=10)
    assert rows(asked(tmp_path / "r", "--expect", inventory)[1]) == {inventory: "failed"}


@pytest.mark.parametrize(
    ("inventory", "names", "said"),
    [
        ("w.a,w.b", ["w"], "it may be w.a or w.b"),
        ("w", ["w.a", "w.b"], "it may be w, and so may w.b"),
        ("w.a", ["w", "w.b"], "it may be w.a or w.b"),
        ("w,w.a", ["w.b"], "it may be w"),
        ("10.77.0.1", ["10"], None),
        ("w.a", ["w.b"], None),
    ],
)
def test_a_name_that_may_be_two_hosts_is_not_guessed(
    tmp_path: Path, inventory: str, names: list[str], said: str | None
) -> None:
    """It has a row of its own, which says so; no other's result makes an expected host green."""
    for name in names:
        save(tmp_path, f"job-{name}", session(name))

    code, answer = asked(tmp_path, "--expect", inventory)

    assert code == 3
    assert rows(answer) == dict.fromkeys(inventory.split(","), "never") | dict.fromkeys(names, "passed")
    notes = {row["host"]: " ".join(row["notes"]) for row in answer["nodes"]}
    assert notes[names[0]].startswith(f"{said}") if said else not any(notes.values())


def bundled(run: Path, output: Path) -> Path:
    """Make a bundle of a run or session."""
    output.parent.mkdir(parents=True, exist_ok=True)
    assert pinproof("bundle", run, "-o", output).exit_code == 0
    return output


def test_a_bundle_is_one_more_form(tmp_path: Path) -> None:
    """Of a session and of a run, in folders by any name and named itself; judged again it is as its run, once."""
    made = of_now(True)
    run = save_run(tmp_path / "20261128-010203-watch-1a2b3c", claims=claim_set(), evidence=made)
    save_result(run, tuple(replace(one, outcome=Outcome.PASSED) for one in judge(claim_set(), made)), made)
    results = tmp_path / "r"
    whole = bundled(save(tmp_path / "s", "a", session("a")).parent, results / "a/conformance.tar.gz")
    part = bundled(run, results / "b/run.bundle.tar.gz")

    code, answer = asked(results)
    plain = asked(run)[1]["nodes"][0]

    assert (code, rows(answer)) == (0, {"a": "passed", "b": "passed"})
    (of_b,) = (row for row in answer["nodes"] if row["host"] == "b")
    assert [(one["kind"], one["path"]) for one in of_b["sources"]] == [("watch", str(part))]
    assert of_b["sources"][0]["at"] == plain["sources"][0]["at"]
    assert rows(asked(whole)[1]) == {"a": "passed"}
    cache = tmp_path / "cache"
    code, answer = asked(results, "--judge", "--cache", cache)
    assert (code, rows(answer)) == (1, {"a": "undecided", "b": "failed"})
    (note,) = (row["notes"] for row in answer["nodes"] if row["host"] == "b")
    assert note[0].startswith(f"{part}/result.json: cpuset-containment db is saved as passed")
    assert "/pinproof-" not in str(answer)
    kept = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert asked(results, "--judge", "--cache", cache)[1]["nodes"] == answer["nodes"]
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == kept


@pytest.mark.parametrize("name", ["cut", "empty", "link", "pipe", "changed", "no-archive"])
@pytest.mark.parametrize("again", [(), ("--judge",)])
def test_hostile_bundles_are_rows_with_their_error(tmp_path: Path, name: str, again: tuple[str, ...]) -> None:
    """As `judge` refuses them; a packed run, which a session's folder has many of, is no bundle."""
    results = tmp_path / "r"
    good = bundled(save(tmp_path / "s", "good", session("good")).parent, results / "good/x.bundle.tar.gz")
    bad = results / "bad/x.bundle.tar.gz"
    bad.parent.mkdir()
    content = good.read_bytes()
    if name == "link":
        bad.symlink_to(good)
    elif name == "pipe":
        os.mkfifo(bad)
    else:
        files = read_packed(good, depth=5)
        ways = {
            "cut": content[:-20],
            "empty": b"",
            "changed": archive({**files, "run/session.json": files["run/session.json"] + b"\n"}),
            "no-archive": b"no gzip at all",
        }
        bad.write_bytes(ways[name])
    (results / "runs").mkdir()
    (results / "runs/packed.tar.gz").write_bytes(archive({"claims.json": b"{}"}))

    code, answer = asked(results, *again, "--cache", tmp_path / "cache")

    assert code == 3
    assert rows(answer)["bad"] == "undecided"
    assert set(rows(answer)) == {"bad", "good"}
    assert str(bad) in why(answer, "bad")
    assert "/pinproof-" not in why(answer, "bad")
    refused = pinproof("judge", bad)
    assert refused.exit_code == 2
    assert why(answer, "bad").split(": ", 1)[1].strip()[:20] in refused.stderr


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"schema": "pinproof.session/9"}', b"\xff\xfe", b'{"a":1,"a":2}']
)
@pytest.mark.parametrize("name", ["session.json", "result.json", "record.json"])
def test_hostile_files_are_rows_with_their_error(tmp_path: Path, name: str, content: bytes) -> None:
    """Never a traceback, never lost, never in another's way."""
    save(tmp_path, "good", session("good"))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / name).write_bytes(content)

    code, answer = asked(tmp_path)

    assert code == 3
    assert rows(answer) == {"bad": "undecided", "good": "passed"}
    assert f"bad/{name}: " in why(answer, "bad")


def test_a_link_a_pipe_and_a_hidden_folder(tmp_path: Path) -> None:
    """A link is not followed, a pipe not waited for; each is named."""
    good = save(tmp_path, "good", session("good"))
    for name in ("link", "pipe"):
        (tmp_path / name).mkdir()
    (tmp_path / "link/session.json").symlink_to(good)
    os.mkfifo(tmp_path / "pipe/session.json")

    code, answer = asked(tmp_path)

    assert code == 3
    assert rows(answer) == {"good": "passed", "link": "undecided", "pipe": "undecided"}


def test_a_session_cut_short_or_empty_is_not_green(tmp_path: Path) -> None:
    """No verdict without evidence; an edited outcome is noted, and the worse counts."""
    save(tmp_path, "cut", replace(session("cut"), complete=False))
    save(tmp_path, "empty", replace(session("empty"), scenarios=(), counts={}))
    save(tmp_path, "edited", replace(session("edited", fails="cpuset-containment"), outcome=recorded().outcome))

    _, answer = asked(tmp_path)

    assert rows(answer) == {"cut": "undecided", "edited": "failed", "empty": "undecided"}


def test_times_that_say_nothing(tmp_path: Path) -> None:
    """A clock ahead by hours, or no time at all: nothing says how old it is."""
    save(tmp_path, "ahead", session("ahead", age_s=-5 * 3600))
    save(tmp_path, "never", replace(session("never"), started_at="soon"))

    code, answer = asked(tmp_path)

    assert code == 3
    assert set(rows(answer).values()) == {"undecided"}
    # The controller's own clock says how old that is which it brought home.
    brought = save(tmp_path, "ahead", session("ahead", age_s=-5 * 3600))
    record(tmp_path, "ahead", NodeOutcome.PASSED, brought)
    assert rows(asked(tmp_path)[1])["ahead"] == "passed"


POLICY = """apiVersion: pinproof/v1
kind: GatePolicy
waivers:
- {{rule: {rule}, node: "{node}", reason: known, issue: "#1", owner: us, until: {until}}}
"""


def test_waivers_of_a_policy(tmp_path: Path) -> None:
    """What is waived is green, visible, and said; another rule, another node, a cut session and yesterday's are not."""
    results, policy = tmp_path / "r", tmp_path / "policy.yaml"
    rule = "cpuset-containment"
    for host in ("a", "b"):
        brought = save(results, host, session(host, fails=rule))
        record(results, host, NodeOutcome.FAILED, brought)
    save(results, "c", replace(session("c", fails=rule), complete=False))
    until = at(-5 * DAY_S)[:10]

    policy.write_text(POLICY.format(rule=rule, node="[ac]", until=until))
    code, answer = asked(results, "--policy", policy)

    assert code == 1
    assert rows(answer) == {"a": "waived", "b": "failed", "c": "failed"}
    assert "known (#1, us, until" in why(answer, "a")
    assert [(one["state"], one["used"]) for one in answer["waivers"]] == [("used", 1)]
    assert answer["rules"][0]["nodes"] == 3  # It stays visible.
    shutil.rmtree(results / "b"), shutil.rmtree(results / "c")
    assert asked(results, "--policy", policy, "--junit", tmp_path / "x.xml")[0] == 0
    (suite,) = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "2")
    for wrong in ({"rule": "quota-free", "until": until}, {"rule": rule, "until": at(2 * DAY_S)[:10]}):
        policy.write_text(POLICY.format(node="*", **wrong))
        code, answer = asked(results, "--policy", policy)
        assert (code, rows(answer)) == (1, {"a": "failed"})
        assert answer["waivers"][0]["state"] in ("unused", "expired")


def test_of_each_kind_the_newest_counts(tmp_path: Path) -> None:
    """A session that failed an hour ago and passed now; a watch that failed beside it stays."""
    save(tmp_path, "a", session("a", age_s=7200, fails="cpuset-containment"), job="conformance-1")
    save(tmp_path, "a", session("a", age_s=60), job="conformance-2")
    assert rows(asked(tmp_path)[1]) == {"a": "passed"}

    watch = save_run(
        tmp_path / "a/check-1/runs/20261128-010203-watch-1a2b3c", claims=claim_set(), evidence=of_now(True)
    )
    from validators.registry import judge

    save_result(watch, judge(claim_set(), of_now(True)), of_now(True))
    code, answer = asked(tmp_path)

    assert code == 1
    assert "cpuset-containment" in why(answer, "a")
    assert {source["kind"] for source in answer["nodes"][0]["sources"]} == {"conformance", "watch"}


def test_a_file_that_cannot_be_read_hides_no_older_one(tmp_path: Path) -> None:
    """The broken one is the newest by the record, by its name, or by nothing: what the older one says stays; both are
    named. One that is older by its name is left aside, and named."""
    older = replace(session("a", fails="cpuset-containment"), session="20261128-010203-conformance-1a2b3c")
    save(tmp_path, "a", older, job="conformance-1")
    newer = save(tmp_path, "a", replace(session("a"), session="20261128-020304-conformance-1a2b3d"))
    newer.write_text("{")
    for recorded_too in (False, True):
        if recorded_too:
            record(tmp_path, "a", NodeOutcome.UNDECIDED, newer)
        code, answer = asked(tmp_path)
        assert (code, rows(answer)) == (1, {"a": "failed"})
        assert "cpuset-containment" in why(answer, "a")
        assert str(newer) in {source["path"] for source in answer["nodes"][0]["sources"]}

    (tmp_path / "a/record.json").unlink()
    save(tmp_path, "a", replace(older, outcome=recorded().outcome, scenarios=recorded().scenarios), job="conformance-1")
    assert rows(asked(tmp_path)[1]) == {"a": "undecided"}

    save(tmp_path, "a", replace(session("a"), session="20261128-030405-conformance-1a2b3e"), job="conformance-3")
    code, answer = asked(tmp_path)
    assert (code, rows(answer)) == (0, {"a": "passed"})
    assert any(str(newer) in note and "left aside" in note for note in answer["nodes"][0]["notes"])


def of_now(escaped: bool) -> Any:
    """Evidence of this hour; ``db`` ran outside."""
    made = replace(evidence(), started_at=at(3600))
    if not escaped:
        return made
    row = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
    return balanced(replace(made, cpu_use=(*made.cpu_use, row)))


def test_a_run_that_did_not_end(tmp_path: Path) -> None:
    """Evidence without a result is undecided; judged again it says what it shows."""
    save_run(tmp_path / "a/job/20261128-010203-watch-1a2b3c", claims=claim_set(), evidence=of_now(True))

    assert rows(asked(tmp_path)[1]) == {"a": "undecided"}
    code, answer = asked(tmp_path, "--judge", "--cache", tmp_path / "cache")
    assert (code, set(rows(answer).values())) == (1, {"failed"})


def test_judging_again_does_not_trust_a_result(tmp_path: Path) -> None:
    """A result that was made green by hand is red by its evidence, is said, and is judged once: by hash."""
    made = of_now(True)
    run = save_run(tmp_path / "r/a/20261128-010203-watch-1a2b3c", claims=claim_set(), evidence=made)
    save_result(run, tuple(replace(one, outcome=Outcome.PASSED) for one in judge(claim_set(), made)), made)
    assert asked(tmp_path / "r")[0] == 0
    cache = tmp_path / "cache"

    code, answer = asked(tmp_path / "r", "--judge", "--cache", cache)
    kept = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    again = asked(tmp_path / "r", "--judge", "--cache", cache)

    assert code == 1
    assert "cpuset-containment db is saved as passed, its evidence gives failed" in str(answer["nodes"][0]["notes"])
    assert again[1]["nodes"] == answer["nodes"]
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == kept
    assert len(kept) == 1
    # What was written into the cache is judged anew; so is evidence that changed by a byte.
    next(iter(kept)).write_text("[]\n{}")
    assert asked(tmp_path / "r", "--judge", "--cache", cache)[1]["nodes"] == answer["nodes"]
    with (run / "claims.json").open("a") as file:
        file.write("\n")
    assert asked(tmp_path / "r", "--judge", "--cache", cache)[0] == 1
    assert len(list(cache.iterdir())) == 2


def test_a_session_whose_runs_are_gone_is_not_green_when_judged(tmp_path: Path) -> None:
    """Its index names files by hash, and they are not there."""
    save(tmp_path, "a", session("a"))

    assert asked(tmp_path)[0] == 0
    code, answer = asked(tmp_path, "--judge", "--cache", tmp_path / "cache")
    assert (code, rows(answer)) == (3, {"a": "undecided"})


def test_what_is_new_since_the_last_answer(tmp_path: Path) -> None:
    """Which node became worse and better, which rule on which class, which is new and which is gone."""
    for name in ("same", "breaks", "gone"):
        save(tmp_path, name, session(name))
    save(tmp_path, "heals", session("heals", fails="quota-free"))
    last = tmp_path / "last.json"
    last.write_text(pinproof("fleet", tmp_path, "--json").stdout)
    for name in ("breaks", "heals", "gone"):
        shutil.rmtree(tmp_path / name)
    save(tmp_path, "breaks", session("breaks", fails="cpuset-containment"))
    save(tmp_path, "heals", session("heals"))
    save(tmp_path, "comes", session("comes"))

    _, answer = asked(tmp_path, "--against", last)
    ended = table(tmp_path, "--against", last)

    changes = answer["changes"]
    assert [(one["host"], one["before"], one["after"]) for one in changes["worse"]] == [("breaks", "passed", "failed")]
    assert [one["host"] for one in changes["better"]] == ["heals"]
    assert [(one["host"], one["after"]) for one in changes["others"]] == [("comes", "passed"), ("gone", None)]
    assert [one["rule"] for one in changes["rules"]] == ["cpuset-containment"]
    assert "- worse, passed to failed: breaks" in ended.stdout


def test_which_rule_on_which_class_and_what_separates_bad_from_good(tmp_path: Path) -> None:
    """Twelve of each class; the new microcode breaks containment on the large machines."""
    for number in range(12):
        save(tmp_path, f"small-{number:02}", session(f"small-{number:02}", microcode="0x1"))
        bad = number % 2
        save(
            tmp_path,
            f"large-{number:02}",
            session(
                f"large-{number:02}",
                hardware=LARGE,
                fails="cpuset-containment" if bad else "",
                microcode="0x2b000620" if bad else "0x1",
                cmdline=f"ro root=UUID={number} {'nohz_full=2-5' if bad else 'quiet'}",
            ),
        )

    code, answer = asked(tmp_path)

    assert code == 1
    (found,) = answer["rules"]
    assert (found["rule"], found["nodes"], found["of"]) == ("cpuset-containment", 6, 12)
    assert found["hardware"].startswith(LARGE.name)
    (contrast,) = [one for one in answer["contrasts"] if one["question"] == "failed"]
    first = contrast["facts"][0]
    said = {f"{first['fact']} {first['value']}", *first["same"]}
    assert {"microcode 0x2b000620", "cmdline nohz_full=2-5 present"} <= said
    assert (first["bad_with"], first["bad"], first["good_with"], first["good"]) == (6, 6, 0, 18)
    assert not any("UUID" in str(one) for one in contrast["facts"])


def test_a_fact_that_says_nothing_is_not_named(tmp_path: Path) -> None:
    """Failures that fall on all kernels alike."""
    for number in range(24):
        fails = "cpuset-containment" if number % 4 == 0 else ""
        name = f"n{number:02}"
        save(tmp_path, name, session(name, fails=fails, kernel="6.12" if number % 8 < 4 else "6.18"))

    assert asked(tmp_path)[1]["contrasts"] == []


def test_outliers_within_a_class(tmp_path: Path) -> None:
    """One node of twelve has much more noise; seven nodes of another class are too few to say what is usual."""
    for number in range(12):
        save(
            tmp_path, f"n{number:02}", session(f"n{number:02}", measured=lambda value, n=number: value * (1 + n / 500))
        )
    save(tmp_path, "noisy", session("noisy", measured=lambda value: value * 5))
    for number in range(7):
        name = f"large-{number}"
        save(
            tmp_path, name, session(name, hardware=LARGE, measured=lambda value, n=number: value * (9 if n == 3 else 1))
        )

    code, answer = asked(tmp_path)

    assert code == 0
    assert [(one["host"], one["measure"]) for one in answer["outliers"]] == [("noisy", "system_ns")]
    assert answer["outliers"][0]["of"] == 13


def test_holes_of_a_class(tmp_path: Path) -> None:
    """Scenarios that only other classes ran, and rules that were never judged."""
    save(tmp_path, "a", session("a"))
    save(tmp_path, "b", session("b", hardware=LARGE, scenarios=3))

    holes = {(one["hardware"][:4], one["what"], one["anywhere"]): one["names"] for one in asked(tmp_path)[1]["holes"]}

    assert len(holes["epyc", "scenarios", True]) == len(recorded().scenarios) - 3
    assert "smt-alignment" in holes["epyc", "rules", False]


def test_one_machine_twice_and_two_machines_of_one_name(tmp_path: Path) -> None:
    """Both are said; a copied machine id is told from one machine by the boot."""
    save(tmp_path, "a", session("a", machine="1" * 16, boot_id="x"))
    save(tmp_path, "b", session("b", machine="1" * 16, boot_id="x"))
    save(tmp_path, "c", session("c", machine="2" * 16, boot_id="y"))
    save(tmp_path, "d", session("d", machine="2" * 16, boot_id="z"))

    texts = [one["text"] for one in asked(tmp_path)[1]["twice"]]

    assert texts[0].startswith("a and b have one machine id and were booted once")
    assert "copied /etc/machine-id" in texts[1]


def test_a_new_blind_spot_is_named(tmp_path: Path) -> None:
    """One that the last answer had not."""
    save(tmp_path, "a", session("a"))
    last = tmp_path / "last.json"
    last.write_text(pinproof("fleet", tmp_path, "--json").stdout)
    shutil.rmtree(tmp_path / "a")
    save(tmp_path, "a", replace(session("a"), blind_spots={**recorded().blind_spots, "# CPUs were never seen": 3}))

    _, answer = asked(tmp_path, "--against", last)

    assert [one["text"] for one in answer["blind_spots"] if one["new"]] == ["# CPUs were never seen"]


def test_names_of_strangers_break_no_format(tmp_path: Path) -> None:
    """Escape sequences and markup in names and reasons."""
    nasty = "x\x1b[2Jy|<b>`"
    save(tmp_path, "a", session(nasty, fails="cpuset-containment\n"))
    out = {name: tmp_path / f"out.{name}" for name in ("junit", "markdown", "textfile")}

    ended = table(tmp_path, *(part for name, path in out.items() for part in (f"--{name}", path)))

    assert "\x1b" not in ended.stdout
    assert all("\x1b" not in path.read_text() for path in out.values())
    assert ElementTree.parse(out["junit"]).getroot().tag == "testsuites"
    assert "<b>" not in out["markdown"].read_text()


def test_junit_has_a_suite_for_each_node(tmp_path: Path) -> None:
    """With its own name and hostname, so that files of two fleets can be merged."""
    save(tmp_path, "a", session("a"))
    save(tmp_path, "b", session("b", fails="cpuset-containment"))
    record(tmp_path, "c", NodeOutcome.UNREACHABLE)

    ended = table(tmp_path, "--junit", tmp_path / "fleet.xml")

    suites = {one.get("hostname"): one for one in ElementTree.parse(tmp_path / "fleet.xml").getroot()}
    assert ended.exit_code == 1
    assert {name: (one.get("failures"), one.get("errors")) for name, one in suites.items()} == {
        "a": ("0", "0"), "b": ("2", "0"), "c": ("0", "1"),
    }  # fmt: skip
    names = [(case.get("classname"), case.get("name")) for suite in suites.values() for case in suite.iter("testcase")]
    assert len(names) == len(set(names))


def test_markdown_fits_a_pull_request(tmp_path: Path) -> None:
    """At most 60 KB, and what does not fit is counted."""
    for number in range(900):
        record(tmp_path, f"node-{number:04}", NodeOutcome.DIED, cause="the job ended in a way that is no outcome" * 3)

    table(tmp_path, "--markdown", tmp_path / "fleet.md")

    text = (tmp_path / "fleet.md").read_text()
    assert len(text.encode()) <= MARKDOWN_BYTES
    assert text.rstrip().endswith("more")


def test_the_textfile_counts_by_outcome_and_class(tmp_path: Path) -> None:
    """And says which nodes are expected, and missing."""
    save(tmp_path, "a", session("a"))
    save(tmp_path, "b", session("b", hardware=LARGE, fails="cpuset-containment"))

    table(tmp_path, "--expect", "a,b,c", "--textfile", tmp_path / "fleet.prom")

    text = (tmp_path / "fleet.prom").read_text()
    assert "pinproof_fleet_expected_nodes 3.0" in text
    assert "pinproof_fleet_missing_nodes 1.0" in text
    assert 'pinproof_fleet_nodes{hardware="epyc-9454-2s-96c-smt-nps4 ababab",outcome="failed"' in text
    assert 'pinproof_fleet_node_not_green{node="c",outcome="never"} 1.0' in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere: no such file or directory"),
        (["."], "nothing to read"),
        ([".", "--expect", ","], "no host"),
        ([".", "--expect", "no/such/file"], "no such file"),
        ([".", "--expect", "a", "--against", "nowhere"], "nowhere: no such file"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """Exit code 2; a fleet of which nothing can be read is never green."""
    monkeypatch.chdir(tmp_path)

    ended = pinproof("fleet", *arguments)

    assert ended.exit_code == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_many_files_are_read_by_several_processes(tmp_path: Path) -> None:
    """More than one process reads alone; the answer is that of one."""
    for number in range(250):
        (tmp_path / f"n{number:03}").mkdir()
        (tmp_path / f"n{number:03}/session.json").write_text("{" if number % 50 == 0 else "[]")
    save(tmp_path, "good", session("good"))

    two, one = asked(tmp_path, "--jobs", 2)[1], asked(tmp_path, "--jobs", 1)[1]

    assert one["nodes"] == two["nodes"]
    assert two["counts"] == {"undecided": 250, "passed": 1}


def test_the_folders_of_the_benchmark_are_an_answer(tmp_path: Path) -> None:
    """Small counts of what `tests/benchmarks/bench_fleet.py` measures with thousands."""
    bench_fleet.summaries(tmp_path, 41)

    code, answer = asked(tmp_path)

    assert (code, answer["counts"]) == (1, {"failed": 2, "passed": 39})
    assert len(answer["classes"]) == 4


def test_a_row_for_each_verdict_in_parquet(tmp_path: Path) -> None:
    """Node, scenario, rule and subject; a node without evidence has a row, too."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow (pip install 'pinproof[fleet]')")
    save(tmp_path, "a", session("a", fails="cpuset-containment"))
    record(tmp_path, "b", NodeOutcome.UNREACHABLE)

    table(tmp_path, "--parquet", tmp_path / "fleet.parquet")

    found = parquet.read_table(tmp_path / "fleet.parquet").to_pylist()
    assert {(row["host"], row["outcome"]) for row in found if row["host"] == "b"} == {("b", "unreachable")}
    (bad,) = [row for row in found if row["outcome"] == "failed"]
    assert (bad["host"], bad["rule"], bad["subject"]) == ("a", "cpuset-containment", "db/main")
    passed = sum(row["count"] for row in found if row["outcome"] == "passed" and row["rule"] and not row["control"])
    assert passed == sum(number for one in recorded().scenarios for number in one.passed.values())
