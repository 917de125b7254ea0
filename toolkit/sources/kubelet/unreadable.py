"""Values that were read and that say nothing: a text that is no list of CPUs or of memory nodes. Each source is a line.

A kernel and a runtime write none: such a text is of a capture that was spoilt, and what it stood for is not known.
Cgroups in pods that the runtime does not list are named here, too: what they are is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolkit.model.claims import SubjectKind
from toolkit.model.node_reading import MissingPart, NodeReading
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.pod_paths import CONTAINER_ID
from toolkit.sources.kubelet.subjects import PAUSE, Subject
from toolkit.text.names import printable
from toolkit.text.wording import count

_SETS = (
    *("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"),
)
_SHOWN = 40
_COSTS = {
    "containers": "what the kubelet asked for there is not known",
    "cgroups": "what is in force there is not known",
    "threads": "the mask is left out",
}


def unreadable(reading: NodeReading, subjects: Iterable[Subject]) -> tuple[MissingPart, ...]:
    """Return a line for each source in which there is such a text, with the first one."""
    known = tuple(subjects)
    found = []
    for part, texts in (("containers", _asked(known)), ("cgroups", _files(known)), ("threads", _masks(known))):
        wrong = [(name, text) for name, text in texts if text and parsed(text) is None]
        if wrong:
            name, text = wrong[0]
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            reason = f"{name} is {printable(repr(text[:_SHOWN]))}; expected a list such as 0-3{more}: {_COSTS[part]}"
            found.append(MissingPart(part=part, reason=reason))
    number = sum(_unlisted(one) for one in known) if reading.containers is not None else 0
    if number:
        cgroups = count(number, "cgroup of a pod", "cgroups of pods")
        reason = f"{cgroups}, with threads, {'is' if number == 1 else 'are'} in no list of the runtime"
        found.append(MissingPart(part="names", reason=f"{reason}: nothing is promised about their CPUs"))
    return tuple(found)


def _asked(subjects: Iterable[Subject]) -> Iterator[tuple[str, str]]:
    for one in subjects:
        asked = one.runtime.asked if one.runtime is not None else None
        if asked is not None:
            yield f"the runtime's CPU set of {one.name}", asked.cpus or ""
            yield f"the runtime's set of memory nodes of {one.name}", asked.mems or ""


def _files(subjects: Iterable[Subject]) -> Iterator[tuple[str, str]]:
    for one in subjects:
        yield from ((f"{name} of {one.name}", one.files.get(name, "").strip()) for name in _SETS)


def _masks(subjects: Iterable[Subject]) -> Iterator[tuple[str, str]]:
    for one in subjects:
        for thread in one.threads:
            yield f"the CPU mask of thread {thread.tid} of {one.name}", thread.cpus_allowed or ""
            yield f"the memory mask of thread {thread.tid} of {one.name}", thread.mems_allowed or ""


def _unlisted(subject: Subject) -> bool:
    """Whether it is a container's, by its id, and nothing says which one. A pod's sandbox is known by its program."""
    helper = subject.kind is SubjectKind.HELPER and not subject.monitored
    runs = any(thread.comm != PAUSE for thread in subject.threads)
    return helper and runs and subject.runtime is None and bool(CONTAINER_ID.fullmatch(subject.id))
