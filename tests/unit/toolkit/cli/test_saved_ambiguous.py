"""Saved files that readers read differently: every verb refuses them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolkit.apply.journal import Record
from toolkit.cli.main import cli
from toolkit.errors import InputError
from toolkit.model.serde import from_json, to_json

DATA = Path(__file__).resolve().parents[3] / "data"
RECORDED = DATA / "runs" / "quota-half-busy-host"
STAGES = ("claims", "evidence", "canaries", "result")
HUGE = "9" * 400


def verbs(run: Path) -> list[list[str]]:
    return [["judge", str(run)], ["report", str(run)], ["compare", str(RECORDED), str(run)]]


def refused(arguments: list[str]) -> str:
    """Run a verb that must end with code 2 and one line."""
    done = CliRunner().invoke(cli, arguments)
    assert isinstance(done.exception, InputError), done.output
    assert (done.exception.exit_code, done.stdout) == (2, "")
    (line,) = str(done.exception).splitlines()
    return line


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A recorded run with evidence of controls."""
    made = tmp_path / "run"
    shutil.copytree(RECORDED, made)
    evidence = (made / "evidence.json").read_text()
    (made / "canaries.json").write_text(evidence.replace("pinproof.evidence/", "pinproof.canaries/"))
    assert CliRunner().invoke(cli, ["judge", str(made)]).exit_code == 1
    return made


@pytest.mark.parametrize("stage", STAGES)
def test_a_key_twice(run: Path, stage: str) -> None:
    """Of the same key twice people may read the first, and most programs read the last."""
    path = run / f"{stage}.json"
    path.write_text(re.sub(r"\{", '{"schema": "x",', path.read_text(), count=1))

    for arguments in verbs(run):
        line = refused(arguments)
        assert f"{path}: key 'schema' twice in one object; expected every key once" in line


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", ["1e400", "-1e400", "Infinity", "NaN", HUGE, f'1.0, "y": {HUGE}'])
def test_a_number_that_is_none(run: Path, stage: str, number: str) -> None:
    """Wherever it is: also where no field is read yet."""
    path = run / f"{stage}.json"
    path.write_text(re.sub(r"\{", f'{{"x": {number},', path.read_text(), count=1))

    for arguments in verbs(run):
        assert f"{path}: " in refused(arguments)


@pytest.mark.parametrize("number", ["1e400", '"inf"', '"NaN"', HUGE])
@pytest.mark.parametrize("key", ["duration_s", "positive_control_latency_ms"])
def test_a_field_that_is_not_finite(run: Path, key: str, number: str) -> None:
    """Also a text that a lenient reader makes a number of."""
    path = run / "result.json"
    text, count = re.subn(rf'"{key}": [\d.]+', f'"{key}": {number}', path.read_text())
    assert count
    path.write_text(text)

    assert "finite number" in refused(["judge", str(run)])


def test_a_measure_that_is_not_finite(run: Path) -> None:
    """A result by itself, too, where no evidence could tell that it is wrong."""
    lone = run.parent / "lone.json"
    lone.write_text((run / "result.json").read_text().replace('"measures": {', '"measures": {"x": 1e400, ', 1))

    assert f"{lone}: the number 1e400; expected a finite number" in refused(["compare", str(lone), str(run)])


@pytest.mark.parametrize("name", ["node.json", "pods.json", "cgroup.json"])
@pytest.mark.parametrize("wrong", ['"a": 1, "a": 2', '"a": 1e400', '"a": NaN'])
def test_a_part_of_a_capture(tmp_path: Path, name: str, wrong: str) -> None:
    """A capture is refused as a run is, by the verbs that read one."""
    (tmp_path / name).write_text(f"{{{wrong}}}")
    (tmp_path / "containers.json").write_text("{}")

    for arguments in (["judge", "--capture"], ["claims", "--capture"], ["plan", "--capture"]):
        assert f"{tmp_path}: {name}: " in refused([*arguments, str(tmp_path)])


def test_vectors(tmp_path: Path) -> None:
    """Scenarios of `simulate` are files of people as well."""
    path = tmp_path / "v.json"
    path.write_text('{"format": "kubelet-resource-manager-vectors/1", "scenarios": [], "scenarios": []}')

    assert f"{path}: key 'scenarios' twice" in refused(["simulate", str(path)])


def test_the_journal() -> None:
    """What is undone is what was written, once."""
    text = to_json(Record(what="run", run_id="x"))
    twice = text.replace("{", '{"what": "run", ', 1)

    with pytest.raises(InputError, match="line 1: key 'what' twice"):
        from_json(Record, twice, "line 1")
    assert json.loads(text) == json.loads(twice)
