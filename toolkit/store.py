"""The run directory: one JSON file per stage, written atomically, read back as if a stranger had written it.

``runs/<id>/{scenario,plan,sandbox,claims,evidence,result}.json``; each holds ``"schema": "pinproof.<stage>/1"`` beside
the fields of its value. A live run judges what it reads back from here, so another machine comes to the same verdicts.
Source: design.md sections 1 and 6.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pydantic_core

from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.plan import Plan
from toolkit.model.result import Result, make_result
from toolkit.model.sandbox import Sandbox
from toolkit.model.scenario import Scenario
from toolkit.model.serde import MAX_FILE_BYTES, from_data, to_data
from toolkit.model.verdict import Verdict

T = TypeVar("T")
VERSION = 1
STAGES: dict[str, type[Any]] = {
    "scenario": Scenario,
    "plan": Plan,
    "sandbox": Sandbox,
    "claims": ClaimSet,
    "evidence": Evidence,
    "result": Result,
}
EXPECTED = "a run directory (made by pinproof run or watch)"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run directory as it was read. Only claims and evidence are needed to judge."""

    path: Path
    claims: ClaimSet
    evidence: Evidence
    scenario: Scenario | None = None
    plan: Plan | None = None
    sandbox: Sandbox | None = None
    result: Result | None = None


def new_run_id(now: datetime | None = None) -> str:
    """Return a fresh id that sorts by time: ``20261122T010203Z-1a2b3c``."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def create_run(base: Path, run_id: str) -> Path:
    """Make ``base/run_id`` and return it.

    :raises InputError: a bad id, a directory that exists already, or one that cannot be made.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise InputError("run id", repr(run_id[:80]), "letters, digits, dots, dashes and underscores")
    run = base / run_id
    try:
        base.mkdir(parents=True, exist_ok=True)
        run.mkdir()
    except FileExistsError:
        raise InputError(str(run), "exists already", "a new run directory") from None
    except OSError as error:
        raise InputError(str(run), error.strerror or str(error), "a directory that can be written") from None
    return run


def save_scenario(run: Path, value: Scenario) -> Path:
    """Save the scenario."""
    return _save(run, "scenario", value)


def save_plan(run: Path, value: Plan) -> Path:
    """Save the plan."""
    return _save(run, "plan", value)


def save_sandbox(run: Path, value: Sandbox) -> Path:
    """Save what stood on the machine."""
    return _save(run, "sandbox", value)


def save_claims(run: Path, value: ClaimSet) -> Path:
    """Save what was promised."""
    return _save(run, "claims", value)


def save_evidence(run: Path, value: Evidence) -> Path:
    """Save what was observed."""
    return _save(run, "evidence", value)


def save_result(run: Path, verdicts: tuple[Verdict, ...], evidence: Evidence) -> Path:
    """Save the verdicts with what they rest on."""
    return _save(run, "result", make_result(evidence, verdicts))


def save_run(
    run: Path,
    *,
    claims: ClaimSet,
    evidence: Evidence,
    scenario: Scenario | None = None,
    plan: Plan | None = None,
    sandbox: Sandbox | None = None,
) -> Path:
    """Save everything up to the evidence; the directory is made if it does not exist.

    :raises InputError: it cannot be written there.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(run), error.strerror or str(error), "a directory that can be written") from None
    for stage, value in (("scenario", scenario), ("plan", plan), ("sandbox", sandbox)):
        if value is not None:
            _save(run, stage, value)
    save_claims(run, claims)
    save_evidence(run, evidence)
    return run


def load_run(path: Path) -> StoredRun:
    """Read a run directory.

    :raises InputError: one line: missing, not a directory, a stage missing or broken, another schema, a link, huge.
    """
    if not path.is_dir():
        raise InputError(str(path), "not a directory" if path.exists() else "no such directory", EXPECTED)
    return StoredRun(
        path=path,
        claims=_need(path, "claims", ClaimSet),
        evidence=_need(path, "evidence", Evidence),
        scenario=_load(path, "scenario", Scenario),
        plan=_load(path, "plan", Plan),
        sandbox=_load(path, "sandbox", Sandbox),
        result=_load(path, "result", Result),
    )


def load_result(path: Path) -> Result:
    """Read a result: from a run directory or from a ``result.json`` by itself.

    :raises InputError: as :func:`load_run`.
    """
    if path.is_dir():
        return _need(path, "result", Result)
    return _parse(_read(path, "a run directory or a result.json"), "result", Result, str(path))


def write_atomically(path: Path, text: str) -> Path:
    """Write a file so that a reader sees all of it or none, also after a power cut.

    :raises InputError: it cannot be written there.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a place that can be written") from None
    return path


def write_output(path: Path, text: str) -> Path:
    """Write a file that the user named: through links, and into devices and pipes instead of over them.

    :raises InputError: it cannot be written there.
    """
    try:
        if not path.exists() or path.is_file() or path.is_dir():
            target = path.resolve()
            if target.is_symlink():  # a loop of links: Python 3.13 and later resolve it to itself
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            return write_atomically(target, text)
        # By its own name: what /dev/stdout leads to has no path where it is a pipe.
        with path.open("w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, RuntimeError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(str(path), found, "a place that can be written") from None
    return path


def _schema(stage: str) -> str:
    return f"pinproof.{stage}/{VERSION}"


def _save(run: Path, stage: str, value: object) -> Path:
    data = to_data(value)
    assert isinstance(data, dict)
    document = {"schema": _schema(stage), **data}
    text = pydantic_core.to_json(document, indent=1).decode()
    return write_atomically(run / f"{stage}.json", text + "\n")


def _need(run: Path, stage: str, kind: type[T]) -> T:
    value = _load(run, stage, kind)
    if value is None:
        raise InputError(str(run), f"no {stage}.json", EXPECTED)
    return value


def _load(run: Path, stage: str, kind: type[T]) -> T | None:
    path = run / f"{stage}.json"
    if not os.path.lexists(path):
        return None
    return _parse(_read(path, f"the {stage} of a run"), stage, kind, str(path))


def _read(path: Path, expected: str) -> bytes:
    """Read a regular file: no link is followed (it could lead out of the run), no pipe is waited for, no flood read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        found = "a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise InputError(str(path), found, expected) from None
    try:
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(str(path), "not a regular file", expected)
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), expected) from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(str(path), f"more than {MAX_FILE_BYTES} bytes", expected)
    return content


def _parse(content: bytes, stage: str, kind: type[T], where: str) -> T:
    try:
        data = pydantic_core.from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(where, f"not JSON: {error}", f"schema {_schema(stage)}") from None
    if not isinstance(data, dict):
        raise InputError(where, f"a {type(data).__name__}", f"schema {_schema(stage)}")
    schema = data.get("schema")
    if schema != _schema(stage):
        found = "no schema" if schema is None else f"schema {str(schema)[:60]!r}"
        raise InputError(where, found, _schema(stage))
    if kind is not Result:
        del data["schema"]
    return from_data(kind, data, where)
