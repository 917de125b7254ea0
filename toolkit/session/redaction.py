"""Evidence without names: those of the machine, of pods and of cgroups become tokens, the same ones in every file.

A run is read, its names are replaced value by value, and it is written and judged anew: its digests and reasons are of
the new evidence. Names that a field is known to hold are found first; then every text of a stranger (never a number, a
CPU list, or a word of ours such as an outcome) has them replaced wherever they stand. What makes a bundle judges both
and compares. What is left: names of threads that are no such name, sizes, times, the hardware.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolkit import presence, store
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Container, Pod
from toolkit.model.claims import Claim
from toolkit.model.evidence import Environment
from toolkit.model.identity import Identity
from toolkit.model.node_reading import RuntimeContainer
from toolkit.model.plan import ContainerPlan, PodPlan
from toolkit.model.result import BEFORE
from toolkit.model.serde import from_data, to_bytes, to_data
from toolkit.model.session import Session
from toolkit.session.engine.record import Origin, judged, texts_of
from toolkit.store import StoredRun, load_result, load_run, stage_paths, window_paths

NAMED = re.compile(
    r"(?:^|_)cgroups?$|^(?:pods?|pod_name|pod_uid|uid|namespace|container|containers|claim|pods_root|root|subject)$"
)
"""Fields whose text is a name, or a path of names."""
NAMES_OF = (Claim, Pod, Container, PodPlan, ContainerPlan, RuntimeContainer)
"""Values whose field ``name`` is one; that of a scenario, a runtime or a class of machines is not."""
OURS = re.compile(r"\(pod\)|\(qos\)|pinproof.*|kubepods.*\.slice|kubepods|burstable|besteffort|guaranteed|[0-9]+|\.*")
"""Parts of names that are no secret: words of Kubernetes and our own. A slice of a pod is not among them."""
PODS_SLICE = re.compile(r"kubepods.*-pod.+\.slice")
PUBLIC = frozenset(
    ("system.slice", "user.slice", "machine.slice", "init.scope", "runtime.slice", "kubelet.service", "node", "sys")
)
SUFFIXES = (".slice", ".scope", ".service")
"""Kinds of systemd's units, which rules look at."""
_ID = re.compile(r"[0-9a-f]{8}[-_](?:[0-9a-f]{4}[-_]){3}[0-9a-f]{12}|[0-9a-f]{12,}")
_WORD = re.compile(r"[A-Za-z]+")
COMM = 15
"""The kernel keeps so many characters of a name of a thread."""


class Names:
    """The names that were found, and their tokens; in the order in which they were found."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, name: str, kind: str) -> None:
        """Add one name."""
        if name and name not in self._tokens:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._tokens[name] = f"{kind}-{self._counts[kind]}"
            self._pattern = None

    def add_path(self, path: str) -> None:
        """Add the parts of a path, or of a subject's name, that are no claim's word but their owner's."""
        for part in path.split("/"):
            if part in PUBLIC or (OURS.fullmatch(part) and not PODS_SLICE.fullmatch(part)):
                continue
            for one in _ID.findall(part):
                self.add(one, "id")
            suffix = next((one for one in SUFFIXES if part.endswith(one)), "")
            if part.removesuffix(suffix):
                self.add(part.removesuffix(suffix), "name")

    def clean(self, text: str) -> str:
        """Return a text with its names replaced."""
        if not self._tokens:
            return text
        if self._pattern is None:
            self._pattern = re.compile("|".join(_patterns(self._tokens)))
        return self._pattern.sub(self._token, text)

    def _token(self, match: re.Match[str]) -> str:
        found = match[0]
        if found in self._tokens:
            return self._tokens[found]
        return next(token for name, token in self._tokens.items() if name.startswith(found))

    def left(self, content: bytes) -> str | None:
        """Return a name that is still in a file, if there is one.

        A plain word that is a name may be one of ours, too: ``host`` is an isolation, whatever a pod is called. Such a
        name is replaced in all texts of strangers, and what is left of it is not its.
        """
        text = content.decode("utf-8", "replace")
        return next((name for name in self._tokens if not _plain(name) and name in text), None)


def _patterns(names: Iterable[str]) -> Iterator[str]:
    """Yield the longest first; a plain word is one only where it stands alone, else English would suffer."""
    both = dict.fromkeys(names, True) | {name[:COMM]: False for name in names if len(name) > COMM}
    for name in sorted(both, key=lambda one: (-len(one), one)):
        yield rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)" if _plain(name) else re.escape(name)


def _plain(name: str) -> bool:
    return _WORD.fullmatch(name) is not None or len(name) < 5


def _collect(value: object, names: Names, field: str = "") -> None:
    """Find the names in a value of a stage."""
    if isinstance(value, Environment):
        if value.cmdline:
            names.add(value.cmdline, "cmdline")
        _collect(value.identity, names)
    elif isinstance(value, Identity):
        for name, kind in ((value.machine, "machine"), (value.boot_id, "boot")):
            names.add(name, kind)
        names.add(value.node, "node")
        if "." in value.node:
            names.add(value.node.partition(".")[0], "node")
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            named = one.name == "name" and isinstance(value, NAMES_OF)
            _collect(getattr(value, one.name), names, "pod" if named else one.name)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            _collect(one, names, str(key))
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            _collect(one, names, field)
    elif type(value) is str and NAMED.search(field):
        names.add_path(value)


def _cleaned(value: Any, names: Names) -> Any:
    """Return a value with its names replaced: texts alone, no enumerations, numbers or sets of CPUs."""
    if type(value) is str:
        return names.clean(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        new = {one.name: _cleaned(getattr(value, one.name), names) for one in dataclasses.fields(value) if one.init}
        changed = {name: one for name, one in new.items() if one is not getattr(value, name)}
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        return {_cleaned(key, names): _cleaned(one, names) for key, one in value.items()}
    if type(value) in (tuple, list, frozenset, set):
        return type(value)(_cleaned(one, names) for one in value)
    return value


def _folders(run: Path) -> list[Path]:
    """Return the directories of a run that hold evidence: the windows or the run itself, and the stages before."""
    own = list(window_paths(run).values()) or [run]
    return [*own, *stage_paths(run)]


def collect(run: Path, names: Names) -> None:
    """Find the names in a run directory.

    :raises InputError: it cannot be read.
    """
    for folder in _folders(run):
        one = load_run(folder)
        for stage in (one.claims, one.evidence, one.canaries, one.sandbox, one.scenario, one.plan):
            if stage is not None:
                _collect(stage, names)


def redacted_run(run: Path, names: Names) -> dict[str, bytes]:
    """Return the files of a run directory with their names replaced, judged anew.

    :raises InputError: it cannot be read, or a name is left.
    """
    files: dict[str, bytes] = {}
    windows = {path: number for number, path in window_paths(run).items()}
    before, last = "", 0
    for folder in _folders(run):
        one = load_run(folder)
        number = windows.get(folder, 0)
        if number and number != last + 1:
            # The window before was not kept: what is known of it is its digest.
            before = one.result.digests.get(BEFORE, "") if one.result is not None else ""
        texts = _judged(one, names, before if number else "")
        if number:
            before, last = store.digest_of(texts["result"]), number
        place = "" if folder == run else names.clean(folder.name)
        for name, pieces in store.run_files({place: texts}).items():
            files[name] = b"".join(pieces) if not isinstance(pieces, str | bytes) else bytes(pieces)  # type: ignore[arg-type]
    if windows and presence.exists(run / "result.json"):
        files["result.json"] = to_bytes(_cleaned(load_result(run / "result.json"), names), indent=1)
    refuse_left(files, names)
    return files


def _judged(one: StoredRun, names: Names, before: str) -> dict[str, Any]:
    origin = Origin(
        scenario=_cleaned(one.scenario, names), plan=_cleaned(one.plan, names), sandbox=_cleaned(one.sandbox, names)
    )
    texts = texts_of(
        claims=_cleaned(one.claims, names),
        evidence=_cleaned(one.evidence, names),
        canaries=_cleaned(one.canaries, names),
        origin=origin,
    )
    return dict(judged(one.path, texts, rescue=False, before=before).texts)


def refuse_left(files: Mapping[str, bytes], names: Names) -> None:
    """Make sure that no name is in any of the files.

    :raises InputError: one is.
    """
    for name, content in files.items():
        found = names.left(content)
        if found is not None:
            raise InputError(
                name, f"the name {found[:60]!r} is left", "evidence without names: this is a defect, report it"
            )


def collect_session(session: Session, names: Names) -> None:
    """Find the names in the index of a session."""
    _collect(session.identity, names)


def redacted_session(session: Session, names: Names, digests: Mapping[str, str]) -> Session:
    """Return the index of a session with its names replaced. :param digests: of its new files."""
    cleaned: Session = _cleaned(dataclasses.replace(session, files={}), names)
    data = to_data(dataclasses.replace(cleaned, files=dict(digests)))
    return from_data(Session, data, "session.json")
