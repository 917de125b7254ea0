"""The end of every run: serialise, read back, judge. Printing and saving come after it, and need not succeed.

Nothing here needs a disk. What is judged is what was read back from the text that is saved, so that ``pinproof judge``
comes to the same verdicts on another machine. Source: docs/principles.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit import store
from toolkit.disk import remove_directory
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.plan import Plan
from toolkit.model.result import Result, with_stages
from toolkit.model.sandbox import Sandbox
from toolkit.model.scenario import NegativeControl, Scenario
from toolkit.model.stage_text import StageText
from toolkit.model.verdict import Outcome, Verdict, worst
from toolkit.packed import SUFFIX, directory_files, write_packed
from toolkit.store import StoredRun
from toolkit.text import names
from toolkit.timeline.ran import Asked
from validators.registry import judge_and_ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run as it was read back, with its verdicts. :param texts: stage -> what its file holds once it is saved.

    :param ran: what its tasks ran, by the timeline.
    """

    saved: StoredRun
    result: Result
    texts: Mapping[str, StageText]
    ran: Asked

    @property
    def claims(self) -> ClaimSet:
        """What was promised."""
        return self.saved.claims

    @property
    def evidence(self) -> Evidence:
        """What was seen."""
        return self.saved.evidence

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the rules say."""
        return self.result.verdicts

    def save(self) -> None:
        """Save it under its path, whole or not at all.

        :raises InputError: it cannot be written there.
        """
        save(self.saved.path, {"": self})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a window's claims were made from, saved with it; nothing of it where pinproof did not make them."""

    scenario: Scenario | None = None
    plan: Plan | None = None
    sandbox: Sandbox | None = None


NO_ORIGIN = Origin()


def recorded(
    path: Path,
    *,
    claims: ClaimSet,
    evidence: Evidence,
    canaries: Evidence | None = None,
    origin: Origin = NO_ORIGIN,
    rescue: bool = True,
    before: str = "",
) -> Record:
    """Serialise a run, read it back, judge it. :param path: where it will be saved; nothing is written yet.

    :param canaries: what was seen of the controls, saved beside it, as ``origin`` is.
    :param rescue: what cannot be judged is evidence all the same: save it, if possible, before the error goes on.
    :param before: digest of the result of the window that ended when this one began.
    """
    texts = texts_of(claims=claims, evidence=evidence, canaries=canaries, origin=origin)
    return judged(path, texts, rescue=rescue, before=before)


def texts_of(
    *, claims: ClaimSet, evidence: Evidence, canaries: Evidence | None = None, origin: Origin = NO_ORIGIN
) -> dict[str, StageText]:
    """Serialise a run: the first half of :func:`recorded`. What was seen need not be kept for the second."""
    return store.run_texts(
        claims=claims,
        evidence=evidence,
        canaries=canaries,
        scenario=origin.scenario,
        plan=origin.plan,
        sandbox=origin.sandbox,
    )


def judged(path: Path, texts: dict[str, StageText], *, rescue: bool = True, before: str = "") -> Record:
    """Read a run back and judge it: the second half.

    What another machine reads must not be less than what was judged here.

    :param path, rescue: as for :func:`recorded`.
    :param before: digest of the result of the window that ended when this one began.
    """
    try:
        run = store.parse_run(path, texts)
        verdicts, ran = judge_and_ask(run.claims, run.evidence)
        run, texts = store.with_result(run, texts, verdicts, unknown=ran.unknown, before=before)
    except Exception:
        with suppress(InputError):
            if rescue:
                store.write_run(path, {"": texts})
        raise
    assert run.result is not None
    return Record(saved=run, result=run.result, texts=texts, ran=ran)


def save(path: Path, records: Mapping[str, Record]) -> None:
    """Save what belongs together as one run directory. :param records: folder below it ("" for itself) -> record.

    :raises InputError: it cannot be written there; nothing is left of it.
    """
    store.write_run(path, {folder: record.texts for folder, record in records.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished run: what was judged, and the directory that :meth:`save` makes of it.

    :param path: of this stage; ``directory`` itself, or below it.
    :param stage: for people; empty for the last stage. :param before: the stages before, e.g. the init containers'.
    :param hidden: why a fault that was planted may not have come to show; empty if it has.
    :param left_out: stages that were not run because something asked to stop.
    :param sums: of the windows of the last stage, where it had several, each of which was saved when it ended.
        ``record`` is the last of them.
    :param unsaved: the first error of a window that could not be saved.
    :param error: what ended the windows before their time.
    """

    scenario: Scenario
    controls: tuple[NegativeControl, ...] = ()
    directory: Path
    path: Path
    record: Record
    stage: str = ""
    before: tuple[Run, ...] = ()
    hidden: str = ""
    left_out: tuple[str, ...] = ()
    sums: Result | None = None
    unsaved: InputError | None = None
    error: Exception | None = None

    @property
    def own(self) -> Result:
        """The result of this stage by itself."""
        return self.sums or self.record.result

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of this stage."""
        return self.own.verdicts

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts, of all stages."""
        return worst([*(run.outcome for run in self.before), *(verdict.outcome for verdict in self.verdicts)])

    @property
    def result(self) -> Result:
        """What is printed: the result of this stage, with what did not pass in those before."""
        return with_stages(self.own, [(run.path.name, run.record.result) for run in self.before])

    def save(self) -> None:
        """Save all stages as one run directory, whole or not at all. Windows have been saved; their sums are now.

        :raises InputError: it cannot be written; a window could not.
        """
        if self.sums is not None:
            for run in self.before:
                run.record.save()
            store.save_windows_result(self.directory, self.sums)
            if self.unsaved is not None:
                raise self.unsaved
            return
        store.write_run(self.directory, self.texts)

    @property
    def texts(self) -> dict[str, Mapping[str, StageText]]:
        """What :meth:`save` writes: folder below the run's ("" for itself) -> stage -> text."""
        return {"/".join(run.path.relative_to(self.directory).parts): run.record.texts for run in (*self.before, self)}


def whole(done: Sequence[Run]) -> Run:
    """Put the runs of all stages together."""
    return replace(done[-1], before=tuple(done[:-1]))


class Kept:
    """Saves the runs of a scenario as they come; one that cannot be saved has been judged all the same.

    :param session: they are parts of one: each is packed into a file that has the name of what was run.
    """

    def __init__(self, *, session: bool = False) -> None:
        self.unsaved: list[str] = []
        self._session = session
        self._saved: dict[Path, Path] = {}
        self.files: dict[str, str] = {}
        """Of the session: name -> SHA-256."""

    def keep(self, run: Run, name: str) -> Run:
        """Save a run, or note why not. :param name: of it in its session; one that comes again gets a number."""
        try:
            if self._session:
                saved = self._pack(run, name)
            else:
                saved = run.path
                run.save()
        except InputError as error:
            self.unsaved.append(str(error))
        else:
            self._saved[run.directory] = saved
        return run

    def _pack(self, run: Run, name: str) -> Path:
        stem, number = name, 1
        while stem + SUFFIX in self.files:
            number += 1
            stem = f"{name}.{number}"
        path = run.directory.with_name(stem + SUFFIX)
        if run.sums is None:
            content = write_packed(path, store.run_files(run.texts))
        else:  # its windows have been saved as they ended
            run.save()
            content = write_packed(path, directory_files(run.directory))
            remove_directory(run.directory)
        self.files[path.name] = hashlib.sha256(content).hexdigest()
        return path

    def path(self, run: Run) -> str:
        """Return where a run is; empty if it is nowhere."""
        saved = self._saved.get(run.directory)
        return "" if saved is None else names.from_path(saved)

    def packed(self, run: Run) -> str:
        """Return the name of a run's file in its session; empty: it is in none, or could not be saved."""
        saved = self._saved.get(run.directory)
        return saved.name if self._session and saved is not None else ""
