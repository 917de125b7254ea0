"""What a node says, and what it said before and holds: facts, equal by value. What follows from them is made once.

A state file is silent while the kubelet restarts, a manifest that is taken away leaves the pod that was made of it, a
kubelet's version and the machine are not read each time. Two readings that come to the same facts come to the same
claims: nothing is kept for any other reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.model.node_reading import NodeReading, RuntimeContainer
from toolkit.sources.kubelet import live_files
from toolkit.sources.kubelet.bundle import reading_of
from toolkit.sources.kubelet.claims import node_claims
from toolkit.sources.kubelet.followed import Followed, followed_of
from toolkit.sources.kubelet.live import NOTHING, LiveNode, says_anything
from toolkit.sources.kubelet.memory import may_have_begun
from toolkit.sources.kubelet.metrics_text import FILE as METRICS
from toolkit.sources.kubelet.metrics_text import kubelet_version
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.overdue import SLACK_S
from toolkit.sources.kubelet.settings import Settings, settings
from toolkit.sources.kubelet.state_file import HeldState
from toolkit.sources.kubelet.static_pods import StaticPods


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """:param parsed: what files and answers say; when each was read is not in it, nor what the metrics say.

    :param version: the kubelet's, by its metrics, which are not read each time, or by its program; it stays while none
        runs. :param sysfs: the machine, which says what the options promise; read again when other CPUs are online.
    :param state: the text of the CPU manager's file that holds. :param static: manifests of static pods by UID.
    """

    parsed: NodeReading
    version: str
    sysfs: str | None
    state: str | None
    static: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """Files and answers, and what was made of their bytes; of another version's kubelet the settings are others."""

    files: dict[str, bytes]
    parsed: NodeReading
    version: str
    settings: Settings


class NodeFacts:
    """Of one node, from reading to reading."""

    def __init__(self) -> None:
        self.held = HeldState()
        self._static = StaticPods()
        self._said: _Said | None = None
        self._machine: tuple[str | None, str | None] = None, None
        """Which CPUs were online when the machine was read, and what was read."""
        self.last: tuple[Facts, Followed] | None = None

    def of(self, node: LiveNode, files: dict[str, bytes], now_ns: int) -> Followed:
        """Return what follows from the files and answers of a reading, and from what holds of those before.

        :param node: as it was just read. :param files: that it gave.
        :raises InputError: there is no kubelet's node. Not after the first reading.
        """
        metrics = files[METRICS].decode("utf-8", "replace") if METRICS in files else None
        said = self._said_in(
            {name: data for name, data in files.items() if name not in ("times.json", METRICS)}, metrics
        )
        facts = Facts(
            parsed=said.parsed,
            version=said.version,
            sysfs=self._sysfs(said, node.sys),
            state=self._state(said, node.proc, now_ns),
            static=self._static.of(said.parsed, said.settings.config),
        )
        if self.last is None or self.last[0] != facts:
            if self.last is None and not says_anything(whole(facts)):
                raise InputError(str(node.places.root), NOTHING, "a kubelet's node")
            reading = whole(facts)
            found = node_claims(reading, lambda _cgroup, _page_bytes: True)
            self.last = facts, followed_of(reading, found, ended(facts.parsed))
        return self.last[1]

    def _said_in(self, files: dict[str, bytes], metrics: str | None) -> _Said:
        before = self._said
        same = before is not None and before.files == files
        parsed = before.parsed if before is not None and same else reading_of(files, whole=False)
        version = kubelet_version(metrics) or parsed.kubelet_version or ("" if before is None else before.version)
        if before is None or not same or before.version != version:
            known = settings(replace(parsed, kubelet_version=version))
            self._said = _Said(files=files, parsed=parsed, version=version, settings=known)
        assert self._said is not None
        return self._said

    def _sysfs(self, said: _Said, sys: Path) -> str | None:
        online, sysfs = self._machine
        if said.settings.config.cpu_manager_policy == STATIC and online != said.parsed.online:
            sysfs = live_files.sysfs_lines(sys)
            self._machine = said.parsed.online, sysfs
        return sysfs

    def _state(self, said: _Said, proc: Path, now_ns: int) -> str | None:
        restarted: Callable[[int], bool] = partial(may_have_begun, proc)
        return self.held.cpu(said.parsed.cpu_state, now_ns, wait_ns(said.settings), restarted)


def whole(facts: Facts) -> NodeReading:
    """Return the reading that says all of them."""
    parsed, version = facts.parsed, facts.version
    return replace(
        parsed,
        kubelet_version=version,
        sysfs=facts.sysfs or parsed.sysfs,
        cpu_state=facts.state,
        static_of=facts.static,
        missing=tuple(one for one in parsed.missing if one.part != "version" or not version),
        containers=present(parsed.containers),
    )


def wait_ns(known: Settings) -> int:
    """So long a reconcile may take, seen from here; and a restart: the same time, since no shorter one is known."""
    return int((known.reconcile_s + SLACK_S) * 1e9)


def present(listed: tuple[RuntimeContainer, ...] | None) -> tuple[RuntimeContainer, ...] | None:
    """Leave out lives that have ended: the next life of a container is the same subject, by the same name."""
    return None if listed is None else tuple(entry for entry in listed if entry.state != "exited")


def ended(parsed: NodeReading) -> frozenset[str]:
    """Return the ids of containers that the runtime lists as ended."""
    return frozenset(entry.id for entry in parsed.containers or () if entry.state == "exited")
