"""`pinproof compare` as a user calls it: many sessions, exit codes, JUnit by node, Markdown, what is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.unit.toolkit.cli.command_line import Ended, pinproof
from tests.unit.toolkit.fleet.sessions_builder import PERIOD, RULE, SUBJECT, edited, measured, saved, scenario, session
from tests.unit.toolkit.report.results_builder import CLAIMS, broken, healthy
from tests.unit.toolkit.saved_runs import save_run
from toolkit.model.identity import HardwareClass, Identity
from toolkit.model.session import Session, SessionVerdict
from toolkit.model.verdict import Outcome
from toolkit.report.comparison_markdown import MAX_BYTES

BAD = scenario(
    others=(SessionVerdict(rule=RULE, subject=SUBJECT, outcome=Outcome.FAILED, reason="too <much>"),),
    passed={RULE: 1, "evidence-health": 1},
)


def compare(*arguments: object) -> Ended:
    return pinproof("compare", *arguments)


def group(folder: Path, *sessions: Session) -> Path:
    for one in sessions:
        saved(folder, one)
    return folder


def test_directories_of_sessions(tmp_path: Path) -> None:
    """By turns, seven of each: a shift is suspect (3), confirmed it is red (1); a session's index alone is said so."""
    base = group(tmp_path / "base", *(edited(session(at), {"usage_cpus": 1 + at / 5000}) for at in range(0, 14, 2)))
    new = group(tmp_path / "new", *(edited(session(at), {"usage_cpus": 0.9 + at / 5000}) for at in range(1, 15, 2)))
    again = saved(tmp_path / "again", edited(session(20), {"usage_cpus": 0.9}))

    suspect = compare(base, new)
    assert suspect.exit_code == 3, suspect.stdout + suspect.stderr
    assert "no regression, but suspect" in suspect.stdout
    assert "its index is taken as it is" in suspect.stderr
    red = compare(base, new, "--confirm", again, "--json")
    assert red.exit_code == 1
    told = json.loads(red.stdout)
    assert (told["schema"], told["regressed"], told["base_runs"], told["new_runs"]) == (
        "pinproof.comparison/2",
        True,
        7,
        7,
    )
    listed = [part for at in range(0, 14, 2) for part in ("--base", base / f"s{at}")]
    assert compare(*listed, "--new", new).exit_code == 3


def test_what_cannot_be_compared_is_exit_2(tmp_path: Path) -> None:
    """One line that says what differs; ``--across`` insists."""
    base = saved(tmp_path, session(0))
    xeon = Identity(node="node1", hardware=HardwareClass(name="xeon-8480-1s-56c-smt-nps1", hash="f" * 16))
    for other, why in (
        (session(1, identity=xeon), "hardware class: epyc-9454-2s-96c-smt-nps4 and xeon-8480"),
        (session(2, "node1", scenario(promises="other")), "promises: quota-050-over"),
        (session(3, "node1", scenario("weights")), "scenarios: quota-050-over and weights"),
    ):
        new = saved(tmp_path, other)
        done = compare(base, new)
        assert (done.exit_code, done.stdout, done.stderr.strip().count("\n")) == (2, "", 1)  # and the note
        assert why in done.stderr
        assert "--across" in done.stderr
        assert compare(base, new, "--across").exit_code in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("{base}",), "give BASE and NEW"),
        (("{base}", "{base}", "{base}"), "give BASE and NEW"),
        (("--base", "{base}"), "give BASE and NEW"),
        (("{base}", "{none}"), "none"),
        (("{base}", "{base}", "--policy", "{none}"), "none"),
        (("{base}", "{base}", "--control", "node7"), "no node of NEW"),
    ],
)
def test_wrong_usage_is_exit_2(tmp_path: Path, arguments: tuple[str, ...], found: str) -> None:
    """And says what is wrong."""
    base = saved(tmp_path, session(0))
    done = compare(*(one.format(base=base, none=tmp_path / "none") for one in arguments))
    assert done.exit_code == 2
    assert found in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_through_the_verb(tmp_path: Path) -> None:
    """A waiver makes green what it covers; what is required of measures makes one run each undecided."""
    base, new = saved(tmp_path, session(0)), saved(tmp_path, session(1, "node1", BAD))
    policy = tmp_path / "policy.yaml"
    head = "apiVersion: pinproof/v1\nkind: GatePolicy\n"
    until = datetime.now(UTC).date() + timedelta(days=30)
    policy.write_text(
        f"{head}waivers:\n- {{rule: {RULE}, reason: known, issue: I-1, owner: us, until: {until.isoformat()}}}\n"
    )

    assert compare(base, new).exit_code == 1
    waived = compare(base, new, "--policy", policy)
    assert waived.exit_code == 0
    assert "known (I-1, us" in waived.stdout
    policy.write_text(f"{head}measures: required\n")
    assert compare(base, base, "--policy", policy).exit_code == 3
    assert compare(new, new).exit_code == 0
    assert compare(new, new, "--require", "passed").exit_code == 1


def test_junit_is_a_suite_a_node_and_markdown_is_short(tmp_path: Path) -> None:
    """Names of strangers are harmless in both."""
    nodes = [f"node{at}" for at in range(3)]
    base = group(tmp_path / "base", *(session(at, node) for at, node in enumerate(nodes)))
    many = tuple(
        SessionVerdict(rule=RULE, subject=f"load/<b>{at}|`x`", outcome=Outcome.FAILED, reason="r" * 150)
        for at in range(400)
    )
    bad = replace(BAD, others=many)
    new = group(
        tmp_path / "new",
        session(10, nodes[0]),
        session(11, nodes[1], bad),
        session(12, nodes[2], measured(BAD, period_us=1)),
    )
    junit, markdown = tmp_path / "out.xml", tmp_path / "out.md"

    done = compare(base, new, "--junit", junit, "--markdown", markdown)
    assert done.exit_code == 1, done.stderr
    suites = {one.get("hostname"): one for one in ElementTree.parse(junit).getroot()}
    assert set(suites) >= set(nodes)
    assert [suites[node].get("failures") for node in nodes] == ["0", "400", "1"]
    names = [(case.get("classname"), case.get("name")) for suite in suites.values() for case in suite]
    assert len(names) == len(set(names))
    text = markdown.read_text()
    assert len(text.encode()) <= MAX_BYTES
    assert text.startswith("### ❌ pinproof: REGRESSED")
    assert "more lines" in text
    assert "<b>" not in text
    assert PERIOD in done.stdout


WITHOUT = """
import sys
sys.modules["scipy"] = sys.modules["numpy"] = None
from toolkit.__main__ import main
sys.argv = ["pinproof", "compare", *sys.argv[1:]]
main()
"""


def test_statistics_are_an_extra_that_only_repeats_need(tmp_path: Path) -> None:
    """One run each is compared without numpy and scipy; of seven the missing extra is named (exit 4)."""

    def run(*arguments: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    base = group(tmp_path / "base", *(session(at) for at in range(0, 14, 2)))
    new = group(tmp_path / "new", *(session(at) for at in range(1, 15, 2)))

    assert run(base / "s0", new / "s1").returncode == 0
    done = run(base, new)
    assert done.returncode == 4, done.stderr
    assert "pip install 'pinproof[gate]'" in done.stderr


def test_a_bundle_is_compared(tmp_path: Path) -> None:
    """What was handed on as one file is compared as what it was made of."""
    good = save_run(tmp_path / "good", claims=CLAIMS, evidence=healthy())
    bad = save_run(tmp_path / "bad", claims=CLAIMS, evidence=broken())
    bundle = tmp_path / "handed.tar.gz"
    made = pinproof("bundle", good, "-o", bundle)
    assert made.exit_code == 0, made.stderr

    same = compare(bundle, good)
    assert (same.exit_code, "no regression" in same.stdout) == (0, True), same.stderr
    assert compare(bundle, bad).exit_code == 1
