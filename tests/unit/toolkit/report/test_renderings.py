"""JSON, JUnit XML, the sentence, and the shipped schemas."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.unit.toolkit.report.results_builder import CLAIMS, broken, healthy, result_of
from tests.unit.toolkit.saved_runs import save_result, save_run
from toolkit.model.evidence import Evidence
from toolkit.model.node_record import NodeOutcome, NodeRecord
from toolkit.model.serde import from_data
from toolkit.model.verdict import Outcome
from toolkit.report.junit import render_junit
from toolkit.report.result import load_result_data
from toolkit.report.summary import summary
from tools import schemas
from validators.registry import judge


def test_the_sentence() -> None:
    """A healthy run says what no other tool can: how complete, what stayed where, what was throttled to what."""
    assert summary(result_of(healthy())) == (
        "For 10.0 s, 1,204,331 of the kernel's 1,204,331 context switches were judged, 0 were lost. "
        "No task of `db` ran outside CPUs 2-3, no task of `web` ran outside CPU 1, "
        "no workload ran on reserved CPU 0, "
        "exclusive CPUs 2-3 hosted only `db` and 11.2 ms of kernel threads. "
        "`web` was throttled to 0.500 CPUs (quota 50 ms / 100 ms; measured 0.4996). "
        "Own noise: pinproof ran 0 us on 2 exclusive CPUs. "
        "A planted escape was seen 2.1 ms after it began. Verdicts: 15 passed, 12 skipped."
    )


def test_the_sentence_never_says_more_than_passed() -> None:
    """What failed or is undecided is not told as a fact."""
    text = summary(result_of(broken()))

    assert "No task of" not in text
    assert "throttled to" not in text
    assert "3 failed" in text


def test_result_json_is_the_contract(tmp_path: Path) -> None:
    """The JSON has the fields of the design under their names, and is valid by the shipped schema."""
    save_run(tmp_path, claims=CLAIMS, evidence=healthy())
    save_result(tmp_path, judge(CLAIMS, healthy()), healthy())
    data = json.loads((tmp_path / "result.json").read_text())

    assert data == load_result_data(tmp_path)
    assert data["schema"] == "pinproof.result/1"
    assert {"outcome", "started_at", "duration_s", "verdicts", "coverage", "environment"} <= set(data)
    assert {"rule", "subject", "outcome", "reason", "measures", "offenders"} <= set(data["verdicts"][0])
    assert {"kernel", "cgroup", "cmdline", "topology"} <= set(data["environment"])
    assert {
        "switches_judged",
        "switches_kernel",
        "lost_events",
        "map_full",
        "cpus_seen",
        "positive_control_latency_ms",
        "blind_spots",
    } <= set(data["coverage"])
    assert data["coverage"]["cpus_seen"] == "0-3"


@pytest.mark.parametrize("name", schemas.NAMES)
def test_schemas_are_current(name: str) -> None:
    """The shipped schema is what the dataclasses give today (else: python -m tools.schemas)."""
    assert schemas.shipped(name) == json.loads(json.dumps(schemas.generate(name)))
    jsonschema.Draft202012Validator.check_schema(schemas.shipped(name))


def test_saved_files_are_valid_by_the_shipped_schemas(tmp_path: Path) -> None:
    """Claims, evidence, result and comparison validate; with a field of the wrong type they do not."""
    save_run(tmp_path, claims=CLAIMS, evidence=healthy())
    save_result(tmp_path, judge(CLAIMS, healthy()), healthy())
    for name in ("claims", "evidence", "result"):
        validator = jsonschema.Draft202012Validator(schemas.shipped(name))
        data = json.loads((tmp_path / f"{name}.json").read_text())
        validator.validate(data)
        assert not validator.is_valid({**data, "schema": "pinproof.other/1"})
        assert not validator.is_valid({**data, "surprise": 1})
        field = "claims" if name == "claims" else "started_at"
        assert not validator.is_valid({**data, field: 7})


def test_the_record_of_a_host_that_the_readme_shows_is_valid() -> None:
    """ansible/README.md's own example: by the schema, and as the value that it describes."""
    readme = Path(__file__).resolve().parents[4] / "ansible/README.md"
    (text,) = re.findall(r"```json\n(\{\"schema\": \"pinproof.record/1\".*?)```", readme.read_text(), re.DOTALL)
    data = json.loads(text)

    jsonschema.Draft202012Validator(schemas.shipped("record")).validate(data)
    record = from_data(NodeRecord, {key: value for key, value in data.items() if key != "schema"}, "README")
    assert record.outcome is NodeOutcome.NO_SPACE
    assert set(data) == {"schema", *NodeRecord.__dataclass_fields__}


def junit(found: Evidence) -> ElementTree.Element:
    return ElementTree.fromstring(render_junit(result_of(found)))


def test_junit_shape() -> None:
    """Counts agree with the cases; each case has at most one outcome child, of the right kind."""
    root = junit(broken())
    (suite,) = root
    cases = suite.findall("testcase")
    outcomes = [verdict.outcome for verdict in result_of(broken()).verdicts]
    kinds = {
        "failure": Outcome.FAILED,
        "error": Outcome.UNDECIDED,
        "skipped": Outcome.SKIPPED,
        "system-out": Outcome.PASSED,
    }

    assert root.tag == "testsuites"
    assert [child.tag for child in suite] == ["properties"] + ["testcase"] * len(cases)
    assert [kinds[case[0].tag] for case in cases] == outcomes
    assert all(len(case) == 1 and case.get("classname") and case.get("name") and case.get("time") for case in cases)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == tuple(
        str(n)
        for n in (
            len(outcomes),
            outcomes.count(Outcome.FAILED),
            outcomes.count(Outcome.UNDECIDED),
            outcomes.count(Outcome.SKIPPED),
        )
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp") or "")


def test_junit_survives_hostile_strings() -> None:
    """Control characters, lone surrogates and markup in names give valid XML that still names the thread."""
    text = render_junit(result_of(broken()))
    text.encode("utf-8")

    assert "4711" in text
    assert "\x1b" not in text
    assert "&lt;/failure&gt;" in text
