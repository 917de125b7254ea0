"""Arbitrary changes of a valid run: refused in one line, or judged and shown. Nothing else is ever raised."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from tests.unit.toolkit.fleet.compared import compare
from tests.unit.toolkit.input_mutation import NASTY, expect_input_error_or_nothing, mutate, places
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit import store
from toolkit.errors import InputError
from toolkit.model.result import make_result
from toolkit.report.comparison_table import render_comparison
from toolkit.report.junit import render_junit
from toolkit.report.metrics import families
from toolkit.report.table import render_table
from toolkit.session.saved import disagreements
from toolkit.session.windows.counters import Counters, SessionState
from validators.registry import judge

PROJECT = Path(__file__).resolve().parents[3]
RECORDED = PROJECT / "tests" / "data" / "runs" / "quota-half-busy-host"
EXAMPLES = settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=["made", "recorded"])
def stages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the stage files of a valid run: one made here, one from a machine."""
    folder = RECORDED
    if request.param == "made":
        folder = save_run(tmp_path_factory.mktemp("made"), claims=claim_set(), evidence=evidence())
        save_result(folder, judge(claim_set(), evidence()), evidence())
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def use_everything(run: Path) -> None:
    """Read a run, judge it, and render it in every way."""
    saved = store.load_run(run)
    result = make_result(saved.evidence, judge(saved.claims, saved.evidence), unknown=None)
    if saved.result is not None:
        disagreements(saved.result, result)
        render_comparison(compare(saved.result, result))
        render_table(saved.result)
    render_table(result)
    render_junit(result)
    list(families(SessionState(counters=Counters(), open=saved.evidence, last=None), result.verdicts))


@EXAMPLES
@given(data=st.data())
def test_any_change_of_a_value(
    stages: dict[str, Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A value of another type, sign or size, one that is gone or one too many: one line, or a verdict."""
    stage = data.draw(st.sampled_from(["evidence", "evidence", "evidence", "claims", *stages]))
    path = data.draw(st.sampled_from(list(places(stages[stage]))))
    how = data.draw(st.sampled_from(["set", "set", "set", "drop", "add"]))
    changed = mutate(stages[stage], path, how, data.draw(st.sampled_from(NASTY)))
    run = tmp_path_factory.mktemp("run")
    for name, document in stages.items():
        (run / f"{name}.json").write_text(json.dumps(changed if name == stage else document))
    expect_input_error_or_nothing(lambda: use_everything(run))
    shutil.rmtree(run)


@pytest.mark.parametrize(
    ("stage", "path", "value"),
    [
        ("claims", ("claims", 0, "period_us"), 0),
        ("evidence", ("cpu_use", 0, "cpu"), -1),
        ("evidence", ("cpu_use", 0, "cpu"), 2**63),
    ],
)
def test_what_was_found(stages: dict[str, Any], tmp_path: Path, stage: str, path: tuple[Any, ...], value: Any) -> None:
    """Changes that once ended in a traceback are refused."""
    for name, document in stages.items():
        changed = mutate(document, path, "set", value) if name == stage else document
        (tmp_path / f"{name}.json").write_text(json.dumps(changed))

    with pytest.raises(InputError, match=rf"{stage}.json: .*{path[-1]}"):
        store.load_run(tmp_path)


@EXAMPLES
@given(data=st.data())
def test_any_change_of_bytes(
    stages: dict[str, Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A file that is cut, overwritten or doubled: the readers never raise anything else."""
    run = tmp_path_factory.mktemp("run")
    for name, document in stages.items():
        (run / f"{name}.json").write_text(json.dumps(document))
    path = run / data.draw(st.sampled_from([f"{stage}.json" for stage in stages]))
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    middle = data.draw(st.one_of(st.binary(max_size=8), st.just(content[:at])))
    path.write_bytes(content[:at] + middle + content[data.draw(st.integers(at, len(content))) :])
    expect_input_error_or_nothing(lambda: use_everything(run))
    shutil.rmtree(run)
