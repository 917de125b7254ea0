"""What a program beside the kubelet says it has pinned a container to: a value, and how two such words are joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One program's word about one container.

    :param source: how the program is called where its word is repeated (``NRI balloons``).
    :param cpus: ``None``: it does not decide on them. :param mems: memory nodes; the same.
    :param shares: ``cpu.shares`` that it has set; the same.
    :param quota_us, period_us: the same. :param exclusive: whether it gives the CPUs to nothing else.
    :param of_reserved: whether it may give CPUs that the kubelet has reserved.
    """

    source: str
    cpus: CpuSet | None = None
    mems: CpuSet | None = None
    shares: int | None = None
    quota_us: int | None = None
    period_us: int | None = None
    exclusive: bool = False
    of_reserved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedWords:
    """What all such programs say on a node. :param by_id: by the id of the container.

    :param problems: what they say and is promised to no container, a line each, with why.
    :param unread: why a file of theirs was not read; empty: all that are there were.
    """

    by_id: Mapping[str, Pinned]
    problems: tuple[str, ...] = ()
    unread: str = ""


def joined(words: Iterable[PinnedWords]) -> PinnedWords:
    """Put together what several programs say. Two that pin one container to different CPUs are both no promise."""
    found: dict[str, Pinned] = {}
    contested: set[str] = set()
    problems: list[str] = []
    unread: list[str] = []
    for one in words:
        problems += one.problems
        unread += [one.unread] if one.unread else []
        for key, pinned in one.by_id.items():
            before = found.get(key)
            if before is not None and before.cpus is not None and before.cpus != pinned.cpus:
                problems.append(
                    f"container {key[:12]}: {before.source} says CPUs {before.cpus}, {pinned.source} {pinned.cpus}"
                )
                contested.add(key)
            elif before is None or before.cpus is None:
                found[key] = pinned
    by_id = {key: pinned for key, pinned in found.items() if key not in contested}
    return PinnedWords(by_id=by_id, problems=tuple(problems), unread="; ".join(unread))
