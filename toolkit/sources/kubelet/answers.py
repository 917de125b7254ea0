"""What the sockets of a node that is followed answered, kept as long as they answer the same.

Nothing is kept instead of an answer but a container's status, and that one only where :meth:`Answers.need_not_ask` says
so. All else is asked for at each reading: what is spared is the work on messages that were read before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from operator import is_
from typing import Any

from toolkit.sources.cri import Cri, container_entry, status_answer
from toolkit.sources.grpc_socket import as_json
from toolkit.sources.known_messages import Known, KnownByName
from toolkit.sources.kubelet import kept
from toolkit.sources.kubelet.json_parts import text
from toolkit.sources.pod_resources import PodResources

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A document, and what it was made of: held, so that no other object is where one of them was."""

    words: str
    parts: list[Any]
    text: bytes


class Answers:
    """Of one node."""

    def __init__(self) -> None:
        self._containers = Known(lambda message: kept.listed(container_entry(message)))
        self._sandboxes = Known(lambda message: kept.listed(as_json(message)))
        self._statuses = KnownByName[Answer](lambda message: kept.bounded(status_answer(message)))
        self._pods = Known(lambda message: kept.bounded(as_json(message)))
        self._entries: dict[str, Answer] = {}
        """The list's entry beside which a status was read, by container id."""
        self._list: list[Answer] = []
        self._listed: dict[str, Answer] = {}
        """The list's entries of this reading, and by id."""
        self.ids: list[str] = []
        """Of the list, in its order."""
        self._settled: frozenset[str] = frozenset()
        self.asked_ns: dict[str, int] = {}
        """When a status that is known was asked for (CLOCK_MONOTONIC), by container id: its word is of then."""
        self._documents: dict[str, _Written] = {}

    def need_not_ask(self, containers: Iterable[str]) -> None:
        """Say whose statuses the next reading need not ask for, as long as the runtime lists them unchanged."""
        self._settled = frozenset(containers)

    def must_ask(self, containers: Iterable[str]) -> None:
        """Take back from the next reading what was said of these."""
        self._settled -= frozenset(containers)

    def listed(self, cri: Cri) -> Answer:
        """Ask for the lists; the same entries are the same objects."""
        containers, sandboxes = (
            self._containers.of(cri.container_messages()),
            self._sandboxes.of(cri.sandbox_messages()),
        )
        if containers is not self._list:
            self._list, self.ids = containers, [text(entry.get("id")) for entry in containers]
            self._listed = dict(zip(self.ids, containers, strict=True))
            self._entries = {key: entry for key, entry in self._entries.items() if key in self._listed}
            self._statuses.keep(self._listed)
            self.asked_ns = {key: at_ns for key, at_ns in self.asked_ns.items() if key in self._listed}
        return {
            "containers": {"containers": containers} if containers else {},
            "sandboxes": {"items": sandboxes} if sandboxes else {},
        }

    def status(self, cri: Cri, container: str) -> Answer | None:
        """Return a listed container's status: asked for now, or that of before."""
        entry = self._listed[container]
        # Another entry (a state, an attempt) is another moment of its life: what was said of it before may be over.
        if container in self._settled and container in self._statuses and self._entries.get(container) is entry:
            return self._statuses[container]
        at_ns = time.monotonic_ns()
        message = cri.status_message(container)
        if message is None:
            return None
        self._entries[container] = entry
        before = self._statuses.get(container)
        status = self._statuses.of(container, message)
        # containerd holds its answer back until an update under way is written: the same answer was so when it was
        # asked for, another one is so since it was given at the latest. CRI-O says until then what was asked before.
        self.asked_ns[container] = at_ns if status is before else time.monotonic_ns()
        return status

    def pod_resources(self, client: PodResources) -> bytes:
        """Ask the kubelet; return ``podresources.json``."""
        pods, whole = self._pods.of(client.pod_messages()), kept.bounded(client.allocatable())
        said = {"List": {"podResources": pods} if pods else {}, "GetAllocatableResources": whole}
        return self._written("pods", said, [pods], [whole])

    def document(self, node: Answer) -> bytes:
        """Return ``node.json`` of what the runtime said."""
        lists = [node["containers"].get("containers"), node["sandboxes"].get("items"), *node["status"].values()]
        return self._written("node", node, lists, [node["version"], node["runtimeConfig"], list(node["status"])])

    def _written(self, name: str, value: Answer, parts: list[Any], small: list[Any]) -> bytes:
        """Return a value's JSON; that of before where nothing differs.

        :param parts, small: all that the value holds. Parts are the same where they are the same objects, which nothing
            changes: equal is not enough, ``1`` equals ``true``. Of the small ones the texts are compared.
        """
        words, known = json.dumps(small), self._documents.get(name)
        if known is not None and known.words == words and _are(known.parts, parts):
            return known.text
        self._documents[name] = _Written(words=words, parts=parts, text=json.dumps(value).encode())
        return self._documents[name].text


def _are(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
