"""Thousands of results read on all CPUs; their evidence judged again, and by its hash never twice."""

from __future__ import annotations

import functools
import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

from toolkit import presence
from toolkit.bundle import Bundle
from toolkit.cli.bundles import laid_out
from toolkit.disk import write_atomically
from toolkit.errors import InputError, PinproofError
from toolkit.fleet import reading
from toolkit.fleet.reading import Found, Recorded, Report
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment
from toolkit.model.result import Result
from toolkit.model.serde import MAX_FILE_BYTES, to_bytes
from toolkit.model.session import FILE, Session
from toolkit.packed import MAX_PACKED_BYTES, is_packed
from toolkit.regular_file import read_regular
from toolkit.session.index import session_of
from toolkit.session.saved import judge_saved
from toolkit.session.saved_session import judge_session
from toolkit.store import load_session, parse_result, parse_session
from toolkit.text.names import from_path, printable

ALONE = 200
"""Files that one process reads sooner than others are started."""
CHUNK = 50
PACKAGES = ("toolkit", "validators")
Said = tuple[Session | Result, tuple[str, ...]]


def read_all(
    places: Sequence[Found], *, judge: bool, cache: Path | None, jobs: int, progress: Callable[[int], None]
) -> Iterator[Report | Recorded]:
    """Yield what every place says, in their order. :param progress: called with how many are done."""
    step = 1 if judge else CHUNK
    chunks = [places[start : start + step] for start in range(0, len(places), step)]
    work = functools.partial(_chunk, judge=judge, cache=cache, version=source_digest() if judge else "")
    done = 0
    for chunk, found in zip(chunks, _worked(chunks, work, jobs, alone=not judge and len(places) <= ALONE), strict=True):
        done += len(chunk)
        progress(done)
        yield from found


Work = Callable[[Sequence[Found]], list[Report | Recorded]]


def _worked(
    chunks: Sequence[Sequence[Found]], work: Work, jobs: int, *, alone: bool
) -> Iterator[list[Report | Recorded]]:
    if alone or jobs < 2 or len(chunks) < 2:
        yield from map(work, chunks)
        return
    ahead = jobs * 8
    """What is read is not kept by the pool: as many chunks wait as keep all busy."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        waiting: list[Future[list[Report | Recorded]]] = []
        broken = False
        for place, chunk in enumerate(chunks):
            while not broken and len(waiting) < ahead and place + len(waiting) < len(chunks):
                try:
                    waiting.append(pool.submit(work, chunks[place + len(waiting)]))
                except BrokenProcessPool:
                    broken = True
            try:
                if not waiting:
                    raise BrokenProcessPool
                yield waiting.pop(0).result()
            except BrokenProcessPool:
                broken = True
                yield [reading.broken(one, "a process that read it was killed (out of memory?)") for one in chunk]


def _chunk(places: Sequence[Found], *, judge: bool, cache: Path | None, version: str) -> list[Report | Recorded]:
    again = functools.partial(judged_again, cache=cache, version=version) if judge else None
    return [_one(place, again) for place in places]


def _one(place: Found, again: Callable[[Path], Said] | None) -> Report | Recorded:
    try:
        return reading.read(place, again)
    except Exception as error:  # of thousands of files of strangers one must not hide the others
        return reading.broken(place, f"a defect of pinproof, please report it: {type(error).__name__}: {error}")


def judged_again(path: Path, *, cache: Path | None, version: str) -> Said:
    """Judge what is in a bundle or lies beside a ``session.json`` or ``result.json``, or take what the same evidence
    came to before.

    :param cache: a folder of judgements, by the SHA-256 of all that was judged; ``None``: none.
    :param version: of the code that judges.
    :raises InputError: it cannot be read.
    """
    if is_packed(path):
        bundle = reading.bundle_at(path)
        # The manifest names every file by its hash, and was held against them.
        key = hashlib.sha256(f"{version} bundle ".encode() + bundle.signed).hexdigest()
        whole = bundle.manifest.kind == "session"
        return _judged_once(path, lambda: _judged_bundle(bundle), _place_of(cache, key), whole=whole)
    evidence = _session_files(path) if path.name == FILE else _run_files(path.parent)
    if path.name != FILE and not any(one.name == "evidence.json" for one in evidence):
        content = _bytes(path, MAX_FILE_BYTES)
        return parse_result(content, from_path(path)), (
            "there is no evidence beside it: its verdicts are taken as they are",
        )
    key = _key(version, path.parent, evidence)
    whole = path.name == FILE
    judge = functools.partial(_judged_session, path) if whole else functools.partial(_judged_run, path.parent)
    return _judged_once(path, judge, _place_of(cache, key), whole=whole)


def _place_of(cache: Path | None, key: str) -> Path | None:
    return None if cache is None else cache / f"{key}.json"


def _judged_once(path: Path, judge: Callable[[], Said], file: Path | None, *, whole: bool) -> Said:
    """Judge, or take what was kept. :param file: of the judgement in the cache. :param whole: it is of a session."""
    kept = None if file is None else _kept(file, whole=whole)
    if kept is not None:
        return kept
    found, said = judge()
    notes = tuple(printable(note.removeprefix(f"{path}: ")) for note in said)
    if file is not None:
        with suppress(PinproofError, OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(file, json.dumps(notes).encode() + b"\n" + to_bytes(found))
    return found, notes


def _judged_bundle(bundle: Bundle) -> Said:
    with laid_out(bundle) as folder:
        found, notes = _judged_session(folder / FILE) if bundle.manifest.kind == "session" else _judged_run(folder)
        return found, tuple(note.replace(str(folder), str(bundle.path)) for note in notes)


def _judged_run(path: Path) -> Said:
    judged = judge_saved(path)
    return judged.result, judged.notes


def _judged_session(path: Path) -> Said:
    judged = judge_session(path)
    saved = judged.session
    environment = Environment(
        kernel=saved.kernel,
        cgroup=saved.cgroup,
        cmdline=saved.cmdline,
        cpus_online=CpuSet(),
        pinproof=saved.pinproof,
        identity=saved.identity,
    )
    found = session_of(
        saved.session,
        judged.results,
        environment,
        started_at=saved.started_at,
        duration_s=saved.duration_s,
        complete=saved.complete,
    )
    return found, judged.notes


def _session_files(path: Path) -> list[Path]:
    return [path, *(path.parent / name for name in sorted(load_session(path).files) if name == Path(name).name)]


def _run_files(folder: Path) -> list[Path]:
    """Return the stages of a run with those of its windows; of links nothing."""
    try:
        return sorted(one for pattern in ("*.json", "*/*.json") for one in folder.glob(pattern))
    except OSError as error:
        raise InputError(str(folder), error.strerror or str(error)) from None


def _key(version: str, folder: Path, files: Iterable[Path]) -> str:
    found = hashlib.sha256(version.encode())
    for one in files:
        try:
            digest = hashlib.sha256(read_regular(one, max(MAX_FILE_BYTES, MAX_PACKED_BYTES))).hexdigest()
        except OSError as error:
            digest = error.strerror or str(error)
        found.update(f"{os.fsencode(one.relative_to(folder))!r} {digest}\n".encode())
    return found.hexdigest()


def _kept(file: Path, *, whole: bool) -> Said | None:
    """Return a judgement that was kept; what cannot be read is no judgement."""
    try:
        head, _, document = read_regular(file, MAX_FILE_BYTES).partition(b"\n")
        notes = json.loads(head)
        parse = parse_session if whole else parse_result
        return parse(document, str(file)), tuple(map(str, notes))
    except (OSError, ValueError, PinproofError, TypeError):
        return None


def _bytes(path: Path, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from None


@functools.cache
def source_digest() -> str:
    """Return a hash of the code: another one judges anew."""
    root, found = Path(__file__).resolve().parents[2], hashlib.sha256()
    for path in sorted(one for package in PACKAGES for one in presence.below(root / package, "**/*.py")):
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def cache_place() -> Path:
    """Return where judgements are kept unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/cache/pinproof/judged")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pinproof/judged"
