"""The run directory: what is saved comes back, atomically, and a hostile one ends in one clear line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit import store
from toolkit.errors import InputError
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.result import make_result
from toolkit.model.sandbox import Sandbox
from toolkit.model.scenario import Scenario
from toolkit.model.verdict import Outcome
from toolkit.text import json_text
from validators.registry import judge


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = save_run(
        tmp_path / "runs" / "one",
        claims=claim_set(),
        evidence=evidence(),
        canaries=evidence(cpu_use=()),
        scenario=Scenario(name="s", title="t"),
        plan=Plan(
            cpu_manager_policy="static",
            reserved_cpus=CpuSet.parse("0"),
            strict_reservation=False,
            default_cpus=CpuSet.parse("0-1"),
        ),
        sandbox=Sandbox(run_id="one", root="/pinproof-one", runtime="cgroupfs"),
    )
    save_result(path, judge(claim_set(), evidence()), evidence())
    return path


def message(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        store.load_run(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def test_what_is_saved_comes_back(run: Path) -> None:
    """Every stage is read back equal, and the verdicts of the read-back are those of the original."""
    saved = store.load_run(run)

    assert (saved.claims, saved.evidence) == (claim_set(), evidence())
    assert saved.canaries == evidence(cpu_use=())
    assert saved.plan is not None
    assert saved.plan.default_cpus == CpuSet.parse("0-1")
    assert saved.sandbox == Sandbox(run_id="one", root="/pinproof-one", runtime="cgroupfs")
    assert saved.scenario == Scenario(name="s", title="t")
    assert saved.result == make_result(evidence(), judge(claim_set(), evidence()), unknown=None)
    assert judge(saved.claims, saved.evidence) == judge(claim_set(), evidence())


def test_each_file_names_its_schema(run: Path) -> None:
    """Every stage file carries ``pinproof.<stage>/N``, and nothing else lies in the directory."""
    files = {path.name: json.loads(path.read_text())["schema"] for path in run.iterdir()}

    forms = {stage: 3 if stage in ("evidence", "canaries") else 1 for stage in store.STAGES}
    assert files == {f"{stage}.json": f"pinproof.{stage}/{form}" for stage, form in forms.items()}


def test_claims_and_evidence_are_enough(tmp_path: Path) -> None:
    """A run of ``watch`` has no plan, one without verdicts no result, one of before no evidence of the canaries."""
    saved = store.load_run(save_run(tmp_path / "w", claims=claim_set(), evidence=evidence()))

    assert (saved.plan, saved.sandbox, saved.scenario, saved.result) == (None, None, None, None)
    assert saved.canaries is None


@pytest.mark.parametrize("stage", ["claims", "evidence"])
def test_a_missing_stage_is_told(run: Path, stage: str) -> None:
    """Without claims or evidence nothing can be judged."""
    (run / f"{stage}.json").unlink()

    assert f"no {stage}.json" in message(run)


def test_not_a_directory(run: Path, tmp_path: Path) -> None:
    """A missing path and a file are told apart."""
    assert "no such directory" in message(tmp_path / "nothing")
    assert "not a directory" in message(run / "claims.json")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "a list"),
        (b"{}", "no schema"),
        (b'{"schema": "pinproof.claims/2", "claims": []}', "pinproof.claims/2"),
        (b'{"schema": 7, "claims": []}', "schema '7'"),
        (b'{"schema": "pinproof.claims/1", "claims": 7}', "claims"),
        (b'{"schema": "pinproof.claims/1", "claims": [], "extra": 1}', "extra"),
        (
            b'{"schema": "pinproof.claims/1", "claims": [{"name": "a", "cgroup": "/a", "cpus": "9-1"}]}',
            "reversed range",
        ),
        (b"[" * 100_000, "not JSON"),
        (b'{"schema": "pinproof.claims/1", "claims": [], "x": ' + b"[" * 100_000, "not JSON"),
        (b'{"schema": "pinproof.claims/1", "claims": [], "strict_reservation": NaN}', "not JSON"),
        (b"9" * 10_000, "out of range"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_hostile_content(run: Path, content: bytes, told: str) -> None:
    """Whatever is in a stage file: one line that names the file and the problem."""
    (run / "claims.json").write_bytes(content)

    text = message(run)

    assert told in text
    assert "claims.json" in text


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    """A stage that is a link could lead out of the run directory."""
    (tmp_path / "secret").write_text("{}")
    (run / "claims.json").unlink()
    (run / "claims.json").symlink_to(tmp_path / "secret")

    assert "symbolic link" in message(run)


def test_a_dangling_link_is_not_a_missing_stage(run: Path, tmp_path: Path) -> None:
    """Also an optional stage that is a broken link is refused, not taken as absent."""
    (run / "plan.json").unlink()
    (run / "plan.json").symlink_to(tmp_path / "nowhere")

    assert "symbolic link" in message(run)


def test_pipes_do_not_block(run: Path) -> None:
    """A named pipe is refused at once."""
    (run / "claims.json").unlink()
    os.mkfifo(run / "claims.json")

    assert "not a regular file" in message(run)


def test_huge_files_are_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size limit holds whatever the file says its size is."""
    monkeypatch.setattr(store, "MAX_FILE_BYTES", 100)

    assert "more than 100 bytes" in message(run)


def test_writing_is_atomic(tmp_path: Path) -> None:
    """A write that cannot be completed leaves the old file and no temporary one."""
    path = store.write_atomically(tmp_path / "a.json", "old")
    with pytest.raises(UnicodeEncodeError):
        store.write_atomically(path, "lone surrogate \ud800")

    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A run below a file is an input error, not a traceback."""
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="is not a directory"):
        store.write_run(tmp_path / "file" / "run", {"": store.run_texts(claims=claim_set(), evidence=evidence())})
    with pytest.raises(InputError):
        store.write_atomically(tmp_path / "none" / "x", "text")


def test_run_directories_are_new(tmp_path: Path) -> None:
    """Two runs never share a directory."""
    texts = store.run_texts(claims=claim_set(), evidence=evidence())
    store.write_run(tmp_path / "runs" / "one", {"": texts})

    with pytest.raises(InputError, match="new"):
        store.write_run(tmp_path / "runs" / "one", {"": texts})
    assert store.new_run_id("watch") != store.new_run_id("watch")


def named(count: int) -> ClaimSet:
    return ClaimSet(claims=tuple(Claim(name=f"c{number}", cgroup=f"/c{number}") for number in range(count)))


@pytest.mark.parametrize(("count", "lines"), [(store.MANY_CLAIMS, True), (store.MANY_CLAIMS + 1, False)])
def test_runs_of_many_claims_are_written_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, lines: bool
) -> None:
    """Both ways are read alike, and as fast: keys that come twice are not looked for in what says itself."""
    claims, verdicts = named(count), judge(named(count), evidence())
    texts = store.run_texts(claims=claims, evidence=evidence(), canaries=evidence(cpu_use=()))
    read, texts = store.with_result(store.parse_run(tmp_path / "run", texts), texts, verdicts, unknown=None)
    path = store.write_run(tmp_path / "run", {"": texts})

    assert {file.name: (file.read_bytes().count(b"\n") > 1) for file in path.iterdir()} == {
        f"{stage}.json": lines for stage in ("claims", "evidence", "canaries", "result")
    }
    monkeypatch.setattr(json_text, "check", lambda _content, where: pytest.fail(where))
    assert store.load_run(path) == read
    assert (read.claims, read.evidence, read.result) == (
        claims,
        evidence(),
        make_result(evidence(), verdicts, read.judged_digests, unknown=None),
    )


@pytest.mark.parametrize("lines", [True, False])
def test_a_key_that_is_there_twice_is_refused_however_it_is_written(tmp_path: Path, lines: bool) -> None:
    """Also where all the rest is as this program writes it."""
    path = save_run(tmp_path / "run", claims=named(1 if lines else store.MANY_CLAIMS + 1), evidence=evidence())
    text = (path / "claims.json").read_text()
    key = '\n "strict_reservation": true,' if lines else '"strict_reservation":true,'
    (path / "claims.json").write_text(text.replace(key.replace("true", "false"), key + key.replace("true", "false")))

    assert "key 'strict_reservation' twice" in message(path)


def test_a_result_is_read_from_directory_or_file(run: Path) -> None:
    """``compare`` takes both."""
    assert store.load_result(run) == store.load_result(run / "result.json")
    assert store.load_result(run).outcome is Outcome.PASSED


def test_a_device_is_written_to_not_over(tmp_path: Path) -> None:
    """What a user names may be a device, a link or a pipe: it stays what it is."""
    target = tmp_path / "target"
    target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    null = tmp_path / "null"
    null.symlink_to("/dev/null")

    store.write_output(link, "new")
    store.write_output(null, "gone")

    assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert (null.is_symlink(), Path("/dev/null").is_char_device()) == (True, True)
    with pytest.raises(InputError, match="No space left"):
        store.write_output(Path("/dev/full"), "text")
    assert Path("/dev/full").is_char_device()
    with pytest.raises(InputError, match="directory"):
        store.write_output(tmp_path, "text")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError):
        store.write_output(loop, "text")
