"""What the sockets of a live node answer, as files of a capture. What does not answer costs one line.

Of a node that is followed what is made of a message is kept as long as it comes again: protobuf's JSON of some hundred
containers takes ten times as long as their transport. Nothing is kept instead of an answer but a container's status,
and that one only where :meth:`Answers.need_not_ask` says so. All else is asked for at each reading.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any, Generic, TypeVar

from toolkit.errors import InputError, PinproofError
from toolkit.sources.cri import Cri, container_entry, status_answer
from toolkit.sources.grpc_socket import as_json
from toolkit.sources.json_parts import text
from toolkit.sources.kubelet.files.allow_list import bounded, kept_entry
from toolkit.sources.pod_resources import PodResources

ALL_S = 60.0
"""For the statuses of all containers: 0.7 ms each on a node that is well."""
MAX_FAILURES = 3
MAX_CONTAINERS = 20_000


def runtime_files(
    endpoints: Sequence[str], deadline_s: float | None = None, answers: Answers | None = None
) -> tuple[dict[str, bytes], str]:
    """Ask the container runtime. :param endpoints: the first that exists is asked; none exists: the first is named.

    :param answers: what it answered before, where it was asked before.
    :returns: ``node.json``, and on one line what is missing (empty: nothing).
    """
    answers = Answers() if answers is None else answers
    endpoint = next((one for one in endpoints if os.path.lexists(one)), endpoints[0])
    try:
        with Cri(endpoint, deadline_s) as cri:
            node = {"version": bounded(cri.version()), "runtimeConfig": bounded(cri.config()), **answers.listed(cri)}
            node["status"], problem = _statuses(answers.ids, partial(answers.status, cri))
    except PinproofError as error:
        others = endpoints[1:] if endpoint == endpoints[0] else ()
        return {}, f"{error}{''.join(f', nor {other}' for other in others)}"
    return {"node.json": answers.document(node)}, problem


def _statuses(ids: Sequence[str], status: Callable[[str], dict[str, Any] | None]) -> tuple[dict[str, Any], str]:
    """Ask for each container; one that is gone meanwhile is no problem, several that fail end the asking."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    end = time.monotonic() + ALL_S
    for container in ids[:MAX_CONTAINERS]:
        if len(problems) >= MAX_FAILURES or time.monotonic() > end:
            problems.append(f"more than {ALL_S:g} s for all")
            break
        try:
            answer = status(container)
        except InputError as error:
            problems.append(str(error))
            continue
        if answer is not None:
            found[container] = answer
    if len(ids) > MAX_CONTAINERS:
        problems.append(f"more than {MAX_CONTAINERS} containers")
    if not problems:
        return found, ""
    return found, f"the status of {len(found)} of {len(ids)} containers was read: {problems[0]}"


def pod_resources_files(
    socket: Path, deadline_s: float | None = None, answers: Answers | None = None
) -> tuple[dict[str, bytes], str]:
    """Ask the kubelet. :returns: ``podresources.json``, and on one line what is missing (empty: nothing)."""
    answers = Answers() if answers is None else answers
    try:
        with PodResources(str(socket), deadline_s) as client:
            return {"podresources.json": answers.pod_resources(client)}, ""
    except PinproofError as error:
        return {}, str(error)


Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A document, and what it was made of: held, so that no other object is where one of them was."""

    words: str
    parts: list[Any]
    text: bytes


class Answers:
    """What the sockets of one node answered, as long as they answer the same."""

    def __init__(self) -> None:
        self._containers = Known(lambda message: kept_entry(container_entry(message)))
        self._sandboxes = Known(lambda message: kept_entry(as_json(message)))
        self._statuses = KnownByName[Answer](lambda message: bounded(status_answer(message)))
        self._pods = Known(lambda message: bounded(as_json(message)))
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
        pods, whole = self._pods.of(client.pod_messages()), bounded(client.allocatable())
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


Value = TypeVar("Value")


def identity(message: Any) -> bytes:
    """Return what a message says, as bytes: two that say the same have the same ones, others never.

    Every field that a table names is in them, and all that is made of a message is made of these. Fields that no table
    names are dropped first: nothing reads them. Entries of maps are sorted: Go's servers send labels, which are a map,
    in another order each time. A digest (SHA-256), since a container's verbose status has tens of kilobytes.
    """
    message.DiscardUnknownFields()
    return hashlib.sha256(message.SerializeToString(deterministic=True)).digest()


class Known(Generic[Value]):
    """:param make: what is made of a message; of nothing else, and nothing changes it afterwards."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._values: dict[bytes, Value] = {}
        self._order: list[bytes] = []
        self._listed: list[Value] = []

    def of(self, messages: Iterable[Any]) -> list[Value]:
        """Return what each of them makes; those that are not among them are forgotten.

        In an order of their own, which is always the same: Go's servers list what they hold in a map, too. The same
        messages make the same list, the very object.
        """
        found: dict[bytes, Value] = {}
        order = []
        for message in messages:
            key = identity(message)
            order.append(key)
            if key not in found:
                found[key] = self._values[key] if key in self._values else self._make(message)
        order.sort()
        self._values = found
        if order != self._order:
            self._order, self._listed = order, [found[key] for key in order]
        return self._listed


class KnownByName(Generic[Value]):
    """The same for messages that are asked for one by one, by name. :param make: as above."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._values: dict[str, tuple[bytes, Value]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Value:
        return self._values[name][1]

    def get(self, name: str) -> Value | None:
        """Return what the last answer made, if there was one."""
        known = self._values.get(name)
        return None if known is None else known[1]

    def of(self, name: str, message: Any) -> Value:
        """Return what an answer makes: what it was before, if it says the same."""
        key = identity(message)
        known = self._values.get(name)
        if known is None or known[0] != key:
            known = self._values[name] = key, self._make(message)
        return known[1]

    def keep(self, names: Iterable[str]) -> None:
        """Forget all others."""
        self._values = {name: self._values[name] for name in names if name in self._values}
