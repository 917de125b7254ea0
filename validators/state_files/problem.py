"""One thing that is wrong with a state file, and what of it stands on from one reading to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from toolkit.model.state_files import CpuStateFile, MemoryStateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong.

    :param marks: what is wrong, a part each (a CPU that is in no set): of two readings that name other CPUs or bytes in
        one sentence some parts may be the same.
    :param passing: a kubelet that works may be found so between its two saves, or while its node was read.
    """

    text: str
    marks: frozenset[str]
    passing: bool = True


def part(text: str, kind: str, what: Iterable[object]) -> Problem:
    """Return a problem that a moment may explain. :param kind: of what is wrong. :param what: each thing that is so."""
    return Problem(text=text, marks=frozenset(f"{kind} {one}" for one in what))


def whole(text: str, kind: str = "") -> Problem:
    """Return a problem that no save and no reading makes, however short. :param kind: where its text has numbers."""
    return Problem(text=text, marks=frozenset({kind or text}), passing=False)


def of_any_file(
    file: CpuStateFile | MemoryStateFile, policies: tuple[str, ...], configured: str | None
) -> Iterator[Problem]:
    """Yield what is wrong with a state file of either manager: nothing else is asked of one that cannot be read.

    :param policies: those of the manager. :param configured: what the kubelet is set to; ``None``: not known.
    """
    if file.problem:
        yield whole(file.problem)
        return
    if not file.checksum_ok:
        yield whole("the checksum is not that of the content")
    if file.policy not in policies:
        yield whole(f"policy {file.policy[:40]!r} is not {' or '.join(policies)}")
    elif configured is not None and configured != file.policy:
        yield whole(f"policy is {file.policy}, configured is {configured}: the kubelet will not start", "policy")
