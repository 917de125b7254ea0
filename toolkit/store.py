"""A run as text, and the run directory: one JSON file per stage, read back as if a stranger had written it.

``runs/<id>/{scenario,plan,sandbox,claims,evidence,canaries,result}.json``; each holds ``"schema":
"pinproof.<stage>/N"`` beside the fields of its value. A live run judges what it reads back from the text that it then
saves, so another machine comes to the same verdicts, and no disk is needed to come to them.
Source: docs/principles.md.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pydantic_core

from toolkit import presence
from toolkit.disk import Content, write_directory
from toolkit.disk import write_atomically as write_atomically
from toolkit.disk import write_output as write_output
from toolkit.errors import InputError
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.node_record import NodeRecord
from toolkit.model.plan import Plan
from toolkit.model.result import BEFORE, Result, make_result
from toolkit.model.sandbox import Sandbox
from toolkit.model.scenario import Scenario
from toolkit.model.serde import MAX_FILE_BYTES, from_data
from toolkit.model.session import Session
from toolkit.model.session_text import with_names
from toolkit.model.stage_text import StageText, indent_of, written
from toolkit.model.verdict import Verdict
from toolkit.regular_file import read_regular
from toolkit.text import json_text
from toolkit.text.wording import kind_of
from toolkit.timeline.saved import as_of_today

T = TypeVar("T")
VERSIONS = {"evidence": 3, "canaries": 3}
"""Of a stage's form, where it is not 1. What was saved in a form before is read as what it is today."""
MANY_CLAIMS = 100
"""The files of a run of more are written on one line: nothing reads ten thousand rows, and a watch writes them twice a
minute."""
STAGES: dict[str, type[Any]] = {
    "scenario": Scenario,
    "plan": Plan,
    "sandbox": Sandbox,
    "claims": ClaimSet,
    "evidence": Evidence,
    # Of pinproof's own controls: the same type, of the same window. No rule reads it; it says why one was missed.
    "canaries": Evidence,
    "result": Result,
}
EXPECTED = "a run directory (made by pinproof run or watch)"
WINDOW = "window-{:06d}"
"""The directory of one of several consecutive windows below the run's own, which then holds ``result.json`` alone."""
_WINDOW = re.compile(r"window-([0-9]{6,12})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run directory as it was read. Only claims and evidence are needed to judge."""

    path: Path
    claims: ClaimSet
    evidence: Evidence
    canaries: Evidence | None = None
    """What was seen of the controls; ``None`` in runs from before it was saved."""
    scenario: Scenario | None = None
    plan: Plan | None = None
    sandbox: Sandbox | None = None
    result: Result | None = None
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Stage -> SHA-256 of its file."""

    @property
    def judged_digests(self) -> dict[str, str]:
        """What a result is made of: all stages before it."""
        return {stage: digest for stage, digest in self.digests.items() if stage != "result"}


def new_run_id(name: str) -> str:
    """Return an id that sorts by time and is harmless as a file and cgroup name: ``20261122-010203-watch-1a2b3c``."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{secrets.token_hex(3)}"


def run_texts(
    *,
    claims: ClaimSet,
    evidence: Evidence,
    canaries: Evidence | None = None,
    scenario: Scenario | None = None,
    plan: Plan | None = None,
    sandbox: Sandbox | None = None,
) -> dict[str, StageText]:
    """Write everything up to the evidence as text: stage -> the content of its file."""
    stages = {
        "scenario": scenario,
        "plan": plan,
        "sandbox": sandbox,
        "claims": claims,
        "evidence": evidence,
        "canaries": canaries,
    }
    lines = _in_lines(claims)
    return {stage: _text(stage, value, lines=lines) for stage, value in stages.items() if value is not None}


def parse_run(path: Path, texts: Mapping[str, StageText]) -> StoredRun:
    """Read a run from its texts, to the same values as :func:`load_run` from the files. :param path: where it will be.

    :raises InputError: as :func:`load_run`.
    """

    def value(stage: str, kind: type[T]) -> T | None:
        if stage not in texts:
            return None
        where = path / f"{stage}.json"
        if len(texts[stage]) > MAX_FILE_BYTES:
            raise InputError(str(where), f"more than {MAX_FILE_BYTES} bytes", f"the {stage} of a run")
        return _reread(texts[stage], stage, kind, str(where))

    claims, evidence = value("claims", ClaimSet), value("evidence", Evidence)
    if claims is None or evidence is None:
        raise InputError(str(path), "no claims or no evidence", EXPECTED)
    return StoredRun(
        path=path,
        claims=claims,
        evidence=evidence,
        canaries=value("canaries", Evidence),
        scenario=value("scenario", Scenario),
        plan=value("plan", Plan),
        sandbox=value("sandbox", Sandbox),
        result=value("result", Result),
        digests={stage: digest_of(text) for stage, text in texts.items()},
    )


def digest_of(text: StageText) -> str:
    """Return the SHA-256 of what a stage's file will hold."""
    return _digest(*text.pieces())


def _digest(*pieces: bytes | memoryview) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def with_result(
    run: StoredRun,
    texts: Mapping[str, StageText],
    verdicts: tuple[Verdict, ...],
    *,
    unknown: BlindSpot | None,
    before: str = "",
) -> tuple[StoredRun, dict[str, StageText]]:
    """Add the verdicts with what they rest on, read back from their text like everything else.

    :param unknown: as for :func:`~toolkit.model.result.make_result`.
    :param before: digest of the result of the window before, where there was one.
    """
    digests = run.judged_digests | ({BEFORE: before} if before else {})
    made = make_result(run.evidence, verdicts, digests, unknown=unknown)
    text = _text("result", made, lines=_in_lines(run.claims))
    result = _reread(text, "result", Result, str(run.path / "result.json"))
    return replace(run, result=result), {**texts, "result": text}


def write_run(path: Path, texts: Mapping[str, Mapping[str, StageText]]) -> Path:
    """Save a run, whole or not at all. :param texts: folder below it ("" for itself) -> stage -> text.

    :raises InputError: it cannot be written there, or is there already.
    """
    return write_directory(path, run_files(texts))


def run_files(texts: Mapping[str, Mapping[str, StageText]]) -> dict[str, Content]:
    """Return the files of a run by name. :param texts: as :func:`write_run`."""
    return {
        f"{folder}/{stage}.json".lstrip("/"): text.pieces()
        for folder, stages in texts.items()
        for stage, text in stages.items()
    }


def load_run(path: Path) -> StoredRun:
    """Read a run directory.

    :raises InputError: one line: missing, not a directory, a stage missing or broken, another schema, a link, huge.
    """
    if not presence.is_dir(path):
        raise InputError(str(path), presence.why_no_directory(path), EXPECTED)
    digests: dict[str, str] = {}
    return StoredRun(
        path=path,
        claims=_need(path, "claims", ClaimSet, digests),
        evidence=_need(path, "evidence", Evidence, digests),
        canaries=_load(path, "canaries", Evidence, digests),
        scenario=_load(path, "scenario", Scenario, digests),
        plan=_load(path, "plan", Plan, digests),
        sandbox=_load(path, "sandbox", Sandbox, digests),
        result=_load(path, "result", Result, digests),
        digests=digests,
    )


def window_paths(path: Path) -> dict[int, Path]:
    """Return the directories of a run's windows by number, in order; none where it is a run of one window.

    :raises InputError: the directory cannot be read.
    """
    try:
        found = {int(match[1]): one for one in path.iterdir() if (match := _WINDOW.fullmatch(one.name))}
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), EXPECTED) from None
    return dict(sorted(found.items()))


def stage_paths(path: Path) -> list[Path]:
    """Return the directories of the stages before the one in ``path`` itself (init containers, before a resize).

    Windows are not among them.

    :raises InputError: the directory cannot be read.
    """
    try:
        return sorted(
            one for one in path.iterdir() if not _WINDOW.fullmatch(one.name) and os.path.lexists(one / "evidence.json")
        )
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), EXPECTED) from None


def save_windows_result(path: Path, result: Result) -> Path:
    """Save what all windows of a run come to.

    :raises InputError: it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a directory that can be written") from None
    return write_atomically(path / "result.json", bytes(_text("result", result)))


def reread(result: Result) -> Result:
    """Return a result as it is read from its file."""
    return _reread(_text("result", result), "result", Result, "result.json")


def load_result(path: Path) -> Result:
    """Read a result: from a run directory or from a ``result.json`` by itself.

    :raises InputError: as :func:`load_run`.
    """
    if presence.is_dir(path):
        return _need(path, "result", Result)
    return _parse(_read(path, "a run directory or a result.json"), "result", Result, str(path))


def load_session(path: Path) -> Session:
    """Read the index of a session. :param path: of its ``session.json``.

    :raises InputError: as :func:`load_run`.
    """
    return parse_session(_read(path, "the index of a session (session.json)"), str(path))


def parse_session(content: bytes, where: str) -> Session:
    """Read the index of a session from its bytes. :param where: what they are called in an error.

    :raises InputError: as :func:`load_run`.
    """
    return _parse(content, "session", Session, where)


def parse_result(content: bytes, where: str) -> Result:
    """Read a result from its bytes. :param where: what they are called in an error.

    :raises InputError: as :func:`load_run`.
    """
    return _parse(content, "result", Result, where)


def parse_record(content: bytes, where: str) -> NodeRecord:
    """Read a controller's record of a host from its bytes. :param where: what they are called in an error.

    :raises InputError: as :func:`load_run`.
    """
    return _parse(content, "record", NodeRecord, where)


def schema_of(stage: str, version: int | None = None) -> str:
    """Return how the form of a stage's file is called. :param version: ``None``: that of today."""
    return f"pinproof.{stage}/{VERSIONS.get(stage, 1) if version is None else version}"


def _in_lines(claims: ClaimSet) -> bool:
    return len(claims.claims) <= MANY_CLAIMS


def _text(stage: str, value: object, *, lines: bool = True) -> StageText:
    return written(value, schema_of(stage), lines=lines)


def _reread(text: StageText, stage: str, kind: type[T], where: str) -> T:
    value = text.read(kind)
    # What cannot be read back is refused in the words in which its file would be.
    return _parse(bytes(text), stage, kind, where) if value is None else value


def _need(run: Path, stage: str, kind: type[T], digests: dict[str, str] | None = None) -> T:
    value = _load(run, stage, kind, digests)
    if value is None:
        raise InputError(str(run), f"no {stage}.json", EXPECTED)
    return value


def _load(run: Path, stage: str, kind: type[T], digests: dict[str, str] | None = None) -> T | None:
    """Read a stage. :param digests: takes that of its file."""
    path = run / f"{stage}.json"
    if not os.path.lexists(path):
        return None
    content = _read(path, f"the {stage} of a run")
    if digests is not None:
        digests[stage] = _digest(content)
    return _parse(content, stage, kind, str(path))


def _read(path: Path, expected: str) -> bytes:
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), expected) from None


def _parse(content: bytes, stage: str, kind: type[T], where: str) -> T:
    try:
        data = pydantic_core.from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(where, f"not JSON: {error}", f"schema {schema_of(stage)}") from None
    # The index of a session is one line of JSON that was broken between values: no string holds a line end.
    plain = content.replace(b"\n", b"") if kind is Session else content
    if not json_text.says_itself(plain, data, None if kind is Session else indent_of(content)):
        json_text.check(content, where)
    if not isinstance(data, dict):
        raise InputError(where, kind_of(data), f"schema {schema_of(stage)}")
    schema = data.get("schema")
    version = next((n for n in range(1, VERSIONS.get(stage, 1) + 1) if schema == schema_of(stage, n)), None)
    if version is None:
        found = "no schema" if schema is None else f"schema {str(schema)[:60]!r}"
        raise InputError(where, found, schema_of(stage))
    if kind not in (Result, Session):
        del data["schema"]
    if stage in VERSIONS:
        data = as_of_today(data, version)
    return from_data(kind, with_names(data, where) if kind is Session else data, where)
