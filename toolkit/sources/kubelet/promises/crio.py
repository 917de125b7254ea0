"""What CRI-O was asked for by the annotations of a node's pods: of their sandboxes, and of the kubelet's list.

Of another runtime, and of one that does not say which it is, they promise nothing.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.errors import InputError
from toolkit.model.claims import NO_QUOTA, Claim, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import UNIFIED, MissingPart, NodeReading
from toolkit.sources import crio
from toolkit.sources.json_parts import mapping
from toolkit.sources.kubelet.pods import pod_documents
from toolkit.sources.kubelet.subjects import Subject
from toolkit.sources.pinned import Pinned, PinnedWords
from toolkit.text.names import printable

PART = "annotations"


class CrioPods:
    """Of one reading."""

    def __init__(self, reading: NodeReading) -> None:
        self.is_crio = reading.runtime_name == crio.RUNTIME
        self._annotations = _annotations(reading)
        self._handlers = {one.pod_uid: one.runtime_handler for one in reading.containers or () if one.sandbox}
        self._v2 = set(reading.cgroups or {}) <= {UNIFIED}
        self._known, self.problem = _configuration(reading)
        self.runtime = printable(reading.runtime_name)

    def hooked(self, subject: Subject, *, guaranteed: bool) -> crio.Hooked:
        """Return what its hooks promise of a container. :param guaranteed: whether its pod is."""
        annotations = self._annotations.get(subject.pod_uid, {})
        if not annotations or subject.kind is not SubjectKind.CONTAINER:
            return crio.Hooked()
        if not self.is_crio:
            names = sorted(key for key in annotations if key.startswith(crio.HOOKS))
            line = (
                f"{names[0]}: the runtime is {self.runtime or 'not known'}, and CRI-O alone obeys it" if names else ""
            )
            return crio.Hooked(unjudged=(line,) if line else ())
        asked = subject.runtime.asked if subject.runtime is not None else None
        shares = asked.shares if asked is not None else None
        return crio.hooked(
            annotations,
            subject.container,
            handler=self._handlers.get(subject.pod_uid, ""),
            known=self._known,
            whole=guaranteed and bool(shares) and not (shares or 0) % crio.WHOLE,
            v2=self._v2,
        )

    def workload(self, uid: str, container: str) -> Pinned | None:
        """Return what a workload of its configuration pins a container to.

        :raises InputError: a pod is of a workload, and which one, or what it has, is not known.
        """
        annotations = self._annotations.get(uid, {})
        targets = [key for key in annotations if key.startswith(crio.TARGET)]
        if not self.is_crio or not (targets or self._known):
            return None
        if self._known is None:
            raise InputError(printable(targets[0]), self.problem or "CRI-O's configuration was not read")
        return crio.partitioned(annotations, container, self._known)


def words(reading: NodeReading) -> PinnedWords:
    """Return what workloads of CRI-O's configuration have pinned."""
    pods, found, problems = CrioPods(reading), {}, []
    for one in reading.containers or ():
        try:
            pinned = None if one.sandbox else pods.workload(one.pod_uid, one.name)
        except InputError as error:
            problems.append(f"{printable(one.pod_name)}/{printable(one.name)}: {error}")
            continue
        if pinned is not None:
            found[printable(one.id)] = pinned
    return PinnedWords(by_id=found, problems=tuple(problems), unread=pods.problem)


def with_hooked(claim: Claim, hooked: crio.Hooked) -> Claim:
    """Return a container's claim with what CRI-O's hooks do to it."""
    if hooked.shared:
        claim = replace(claim, quota_us=None, kept_quota_us=None)
    if hooked.quota_free:
        claim = replace(claim, quota_us=NO_QUOTA, kept_quota_us=None)
    return claim if hooked.tuning is None else replace(claim, tuning=hooked.tuning)


def beside_own(hooked: crio.Hooked, own: CpuSet | None) -> Pinned | None:
    """Return the CPUs of a container that has shared ones beside those that are its own; ``None``: it has none."""
    return Pinned(source="CRI-O's shared_cpuset", cpus=own | hooked.shared) if own and hooked.shared else None


def unjudged(lines: dict[str, crio.Hooked]) -> tuple[MissingPart, ...]:
    """Return what is stated and not judged. :param lines: by container."""
    return tuple(
        MissingPart(part=PART, reason=f"{name}: {line}") for name, one in lines.items() for line in one.unjudged
    )


def _configuration(reading: NodeReading) -> tuple[crio.Configuration | None, str]:
    try:
        return (None if reading.crio is None else crio.configuration(reading.crio)), ""
    except InputError as error:
        return None, str(error)


def _annotations(reading: NodeReading) -> dict[str, dict[str, str]]:
    found = {
        uid: crio.kept_annotations(mapping(document.get("metadata")).get("annotations"))
        for uid, document in pod_documents(reading).items()
    }
    for one in reading.containers or ():
        if one.sandbox and one.annotations:
            found[one.pod_uid] = crio.kept_annotations(one.annotations)
    return {uid: annotations for uid, annotations in found.items() if annotations}
