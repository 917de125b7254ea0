"""``pinproof bundle``: a run or session as one file that is handed on, with its statement, and signed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import click

import toolkit
from toolkit import presence
from toolkit.bundle import made
from toolkit.cli.bundles import handed_on
from toolkit.cli.common import called, say
from toolkit.cli.ending import write_or_print
from toolkit.cli.saved import judged_again
from toolkit.cli.sessions import is_session, judged_session, located, opened
from toolkit.disk import write_output
from toolkit.errors import InputError
from toolkit.fleet.policy import parse_policy
from toolkit.model.serde import read_text
from toolkit.model.session import FILE
from toolkit.model.session_text import session_text
from toolkit.packed import MAX_PACKED_BYTES, SUFFIX, archive, directory_files, is_packed, lay_out, read_packed
from toolkit.regular_file import read_regular
from toolkit.report.statement import Statement, of_run, of_session, render_statement
from toolkit.session.redaction import Names, collect, collect_session, redacted_run, redacted_session, refuse_left
from toolkit.store import STAGES, load_session
from toolkit.text import names
from toolkit.verbs import VERBS
from validators.registry import measure_of

MAX_POLICY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What goes into a bundle. :param files: as below the directory of the run or session."""

    name: str
    kind: Literal["run", "session"]
    files: Mapping[str, bytes]


@click.command("bundle", short_help=VERBS["bundle"].does)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help=f"The bundle; its name ends in {SUFFIX}."
)
@click.option("--sign", "key", type=click.Path(path_type=Path), metavar="KEY", help="Sign it: a key of ssh-keygen.")
@click.option("--redact", is_flag=True, help="Replace names of the machine, of pods and of cgroups by tokens.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A gate's policy (docs/gate.md): the statement names what it waived at the time of the evidence, and by whom.",
)
@click.option("--statement", "only_words", is_flag=True, help="Print (or write) the statement alone.")
def command(
    run: Path, output: Path | None, key: Path | None, redact: bool, policy: Path | None, only_words: bool
) -> None:
    """Put RUN (a run, a packed run, a session, or another bundle) into one file: the evidence, a manifest of SHA-256,
    and a statement in words. It is judged again first. The same evidence gives the same bytes.

    With --sign the manifest is signed as `ssh-keygen -Y sign` does, in the namespace pinproof, and `pinproof judge
    BUNDLE --allowed-signers FILE` verifies it. With --redact the host's name, the machine's id, names of pods and
    containers, paths of cgroups and the kernel's command line become tokens, the same ones everywhere; verdicts stay
    what they are.

    Exit code: 0 if it was written, whatever it says; 2 if not.
    """
    with handed_on(located(run)) as place, ExitStack() as stack:
        evidence = _collected(place, run, stack)
        found = _judged(evidence, Path(stack.enter_context(_place())), run, redact=False)
        waived = _waived(found, policy)
        if redact:
            hidden = Names()
            evidence = _redacted(evidence, Path(stack.enter_context(_place())), hidden)
            plain, found = found, _judged(evidence, Path(stack.enter_context(_place())), run, redact=True)
            _same_outcomes(plain, found, evidence)
            waived = {hidden.clean(what): hidden.clean(why) for what, why in waived.items()}
        found = replace(found, waived=waived)
    words = render_statement(found)
    if only_words:
        code = 0
        if output is None:
            click.echo(words, nl=False)
        else:
            code = write_or_print(output, words)
        click.get_current_context().exit(code)
    path = output or Path(f"{evidence.name}.bundle{SUFFIX}")
    if not is_packed(path):
        raise InputError("--output", names.from_path(path), f"a name that ends in {SUFFIX}")
    content = made(
        evidence.files,
        name=evidence.name,
        kind=evidence.kind,
        statement=words,
        pinproof=toolkit.__version__,
        redacted=redact,
        key=key,
    )
    write_output(path, content)
    say(f"{names.from_path(path)}: {len(content) / 1e6:.2f} MB, {evidence.kind} {evidence.name}")


def _place() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="pinproof-")


def _collected(place: Path, given: Path, stack: ExitStack) -> _Evidence:
    """Read the files of a run or session that are evidence, and no others that may lie beside them."""
    if is_session(place):
        folder = place.parent if place.name == FILE else place
        session = load_session(folder / FILE)
        wanted = {FILE, *session.files}
        files = {name: content for name in sorted(wanted) if (content := _file(folder, name)) is not None}
        return _Evidence(name=session.session, kind="session", files=files)
    name = given.absolute().name.removesuffix(SUFFIX).removesuffix(".bundle")
    folder = stack.enter_context(opened(place))
    if folder.name == "result.json":
        folder = folder.parent
    if not presence.is_dir(folder):
        raise InputError(names.from_path(given), "no run or session", "a run, a packed run, a session or a bundle")
    known = {f"{stage}.json" for stage in STAGES}
    files = {name: content for name, content in directory_files(folder).items() if Path(name).name in known}
    return _Evidence(name=names.from_path(name), kind="run", files=files)


def _file(folder: Path, name: str) -> bytes | None:
    """Read a file beside the index; ``None``: it is missing, which judging reports."""
    path = folder / name
    if path.parent != folder:
        raise InputError(str(folder / FILE), f"run {name[:60]!r}", "the name of a file beside it")
    if not os.path.lexists(path):
        return None
    try:
        return read_regular(path, MAX_PACKED_BYTES)
    except OSError as error:
        raise InputError(names.from_path(path), error.strerror or str(error), "a file of the session") from None


def _judged(evidence: _Evidence, place: Path, given: Path, *, redact: bool) -> Statement:
    """Judge what will be in the bundle, as whoever gets it will. :param given: what is said of it names this."""
    folder = place / "run"
    lay_out(folder, evidence.files)
    with called(folder, given):
        return _stated(evidence, folder, redact=redact)


def _stated(evidence: _Evidence, folder: Path, *, redact: bool) -> Statement:
    if evidence.kind == "session":
        judged = judged_session(folder)
        return of_session(judged.session, judged.results, judged.outcome, redacted=redact)
    result = judged_again(folder).result
    return of_run(result, evidence.name, redacted=redact)


def _waived(found: Statement, path: Path | None) -> dict[str, str]:
    """Return what a policy bore with when the evidence was made -> why, and by whom."""
    if path is None:
        return {}
    try:
        at = datetime.fromisoformat(found.started_at)
    except ValueError:
        raise InputError(found.name, f"started at {found.started_at[:40]!r}", "a time, for waivers") from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    policy = parse_policy(read_text(path, "a gate's policy", MAX_POLICY_BYTES), str(path), at)
    hardware = found.identity.hardware.name if found.identity.hardware is not None else ""
    waived = {}
    for scenario, rule, subject in found.bad:
        for waiver in policy.waived(at):
            if waiver.matches(rule, subject, scenario, hardware, found.identity.node):
                waived[" ".join(filter(None, (scenario, rule, subject)))] = waiver.text
    return waived


def _redacted(evidence: _Evidence, place: Path, found: Names) -> _Evidence:
    """Replace the names: first they are found in all runs, so that one has the same token in each."""
    if evidence.kind == "run":
        lay_out(place / "run", evidence.files)
        collect(place / "run", found)
        files = redacted_run(place / "run", found)
        return replace(evidence, name=found.clean(evidence.name), files=files)
    lay_out(place / "session", evidence.files)
    packed = [name for name in evidence.files if name != FILE]
    for number, name in enumerate(packed):
        lay_out(place / str(number), read_packed(place / "session" / name))
        collect(place / str(number), found)
    session = load_session(place / "session" / FILE)
    collect_session(session, found)
    files = {name: archive(redacted_run(place / str(number), found)) for number, name in enumerate(packed)}
    files = {found.clean(name): content for name, content in files.items()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    index = {FILE: session_text(redacted_session(session, found, digests), measure_of).encode()}
    refuse_left(index, found)
    return replace(evidence, name=found.clean(evidence.name), files={**index, **files})


def _same_outcomes(plain: Statement, found: Statement, evidence: _Evidence) -> None:
    """Make sure that evidence without names says what the evidence says."""

    def outcomes(one: Statement) -> list[tuple[str, str]]:
        rows = [(verdict.rule, str(verdict.outcome)) for part in one.parts for verdict in part.verdicts]
        rows += [(control.rule, f"control {control.outcome}") for part in one.parts for control in part.controls]
        return sorted(rows)

    if outcomes(plain) != outcomes(found) or plain.outcome is not found.outcome:
        raise InputError(
            evidence.name, "other verdicts without its names", "a run that can be redacted; bundle it as it is"
        )
