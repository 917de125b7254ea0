"""What the kubelet knows of the hardware: the discovery of cAdvisor, step by step, on any tree.

The CPU manager and the memory manager do not read sysfs; they read cAdvisor's MachineInfo. Where its rules lose
something (no cache ``id`` file: no uncore cache at all; a cache that spans exactly one node is no uncore cache;
folders come in byte order, so ``cpu10`` is met before ``cpu2``) the kubelet decides on the loss, so this follows those
rules and not the hardware. The hardware is :mod:`toolkit.host.topology`.

Source: google/cadvisor ``lib/utils/sysinfo`` (GetNodesInfo) and ``lib/utils/sysfs`` at 6a0c4f2539a8, 2026;
kubernetes ``pkg/kubelet/cm/cpumanager/topology`` (core id = lowest thread, uncore cache fallback = socket).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from toolkit.host.sysfs import SysTree
from toolkit.kubernetes.go_text import quote
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import KubeletCpu, KubeletNode, KubeletView

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
_CPU_FOLDER = re.compile(r"cpu.*[0-9]", re.ASCII | re.DOTALL)
_NODE_FOLDER = re.compile(r"node.*[0-9]", re.ASCII | re.DOTALL)
_ATOI = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_SCAN = re.compile(r"\s*([+-]?[0-9]{1,19})", re.ASCII)
_UINT = re.compile(r"[0-9]{1,20}", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]{1,16}", re.ASCII)
_MEM_TOTAL = re.compile(r"MemTotal:\s*([0-9]+) kB", re.ASCII)
_CORE_CACHE_LEVEL = 2


class _GivesUpError(Exception):
    """An error that ends the discovery."""


class _NoCacheError(Exception):
    """A cache file that is missing or unreadable: the rest of the node's caches are never looked at."""


@dataclass(frozen=True, slots=True)
class _Cache:
    id: int
    size: int
    level: int
    type: str


@dataclass(slots=True)
class _Core:
    id: int
    socket: int
    threads: list[int] = field(default_factory=list)
    uncore_caches: list[_Cache] = field(default_factory=list)


def read_kubelet_view(tree: SysTree, s390x: bool) -> KubeletView:
    """Return cAdvisor's nodes, cores and caches; ``s390x`` adds books and drawers and takes every cache id as 0.

    A discovery that fails is a view with ``error`` set (in cAdvisor's words), never an exception.
    """
    try:
        return _Discovery(tree, s390x).nodes_info()
    except _GivesUpError as error:
        return KubeletView(error=str(error))


class _Discovery:
    def __init__(self, tree: SysTree, s390x: bool) -> None:
        self.tree = tree
        self.s390x = s390x
        self.online = _OnlineList(tree)
        self.cpus: dict[int, KubeletCpu] = {}

    def nodes_info(self) -> KubeletView:
        folders = [name for name in self.tree.names(_NODE) if _NODE_FOLDER.fullmatch(name)]
        if not folders:
            return self._by_package()
        nodes = []
        threads = 0
        for name in folders:
            match = re.match(r"node(\d*)", name, re.ASCII)
            node_id = self._atoi(match[1] if match else "")
            folder = f"{_NODE}/{name}"
            cores = self._cores([f"{folder}/{cpu}" for cpu in self._cpu_folders(folder)])
            threads += sum(len(core.threads) for core in cores)
            node_l3 = self._add_caches(cores)
            memory, hugepages = self._memory(folder), self._hugepages(f"{folder}/hugepages")
            nodes.append(self._node(node_id, cores, memory, hugepages, self._distances(folder), node_l3))
        return KubeletView(cpus=dict(sorted(self.cpus.items())), logical_cpus=threads, nodes=_by_id(nodes))

    def _by_package(self) -> KubeletView:
        """Without node folders every package becomes a node, without memory; offline CPUs count."""
        folders = [f"{_CPU}/{name}" for name in self._cpu_folders(_CPU)]
        if not folders:
            raise _GivesUpError(f"no CPU is available, cpusPath: /{_CPU}")
        packages: dict[int, list[str]] = {}
        for folder in folders:
            text = self._topology(folder, "physical_package_id")
            if text is not None:
                packages.setdefault(self._atoi(text), []).append(folder)
        nodes = []
        for package, members in packages.items():
            cores = self._cores(members)
            nodes.append(self._node(package, cores, 0, {}, None, self._add_caches(cores)))
        return KubeletView(cpus=dict(sorted(self.cpus.items())), logical_cpus=len(folders), nodes=_by_id(nodes))

    def _node(
        self,
        node_id: int,
        cores: list[_Core],
        memory: int,
        hugepages: dict[str, int],
        distances: tuple[int, ...] | None,
        node_caches: list[_Cache],
    ) -> KubeletNode:
        for core in cores:
            uncore = core.uncore_caches[0].id if core.uncore_caches else None
            for thread in core.threads:
                self.cpus[thread] = KubeletCpu(
                    core_id=core.id,
                    core_key=min(core.threads),
                    socket=core.socket,
                    numa=node_id,
                    uncore_cache_id=uncore,
                )
        return KubeletNode(
            id=node_id,
            memory=memory,
            cpus=CpuSet.of(thread for core in cores for thread in core.threads),
            hugepages_kb=hugepages,
            distances=distances,
            node_l3=tuple(cache.id for cache in node_caches if cache.level == 3),
        )

    def _cpu_folders(self, folder: str) -> list[str]:
        return [name for name in self.tree.names(folder) if _CPU_FOLDER.fullmatch(name)]

    def _cores(self, folders: list[str]) -> list[_Core]:
        """Cores differ in core_id, package, book or drawer, within one node; CPUs that lack an id are left out."""
        cores: dict[tuple[int, int, str, str], _Core] = {}
        for folder in folders:
            match = re.search(r"/cpu(\d{1,9})", folder, re.ASCII)
            if match is None:
                raise _GivesUpError(f"unexpected format of CPU directory, cpuDir: /{folder}")
            cpu = int(match[1])
            if cpu not in self.online:
                continue
            core_id = self._topology(folder, "core_id")
            package = None if core_id is None else self._topology(folder, "physical_package_id")
            if core_id is None or package is None:
                continue
            book = drawer = ""
            key_ids = self._atoi(core_id), self._atoi(package)
            if self.s390x:
                books = self._topology(folder, "book_id"), self._topology(folder, "drawer_id")
                if books[0] is None or books[1] is None:
                    continue
                book, drawer = books[0], books[1]
            core = cores.setdefault((*key_ids, book, drawer), _Core(*key_ids))
            core.threads.append(cpu)
        return list(cores.values())

    def _topology(self, folder: str, name: str) -> str | None:
        return self.tree.read(f"{folder}/topology/{name}")

    def _add_caches(self, cores: list[_Core]) -> list[_Cache]:
        """Sort caches above level 2 into the node's and the cores'; stop for good at the first unreadable one.

        A cache is the node's if as many CPUs share it as the node would have if all its cores were like this one.
        """
        node: list[_Cache] = []
        try:
            for core in cores:
                for cache, sharers in self._caches(core.threads[0]):
                    if cache.level <= _CORE_CACHE_LEVEL:
                        continue
                    owner = node if sharers == len(cores) * len(core.threads) else core.uncore_caches
                    if cache not in owner:
                        owner.append(cache)
        except _NoCacheError:
            pass
        return node

    def _caches(self, cpu: int) -> list[tuple[_Cache, int]]:
        folder = f"{_CPU}/cpu{cpu}/cache"
        if not self.tree.is_folder(folder):
            raise _NoCacheError
        found = []
        for name in self.tree.names(folder):
            if not name.startswith("index"):
                continue
            path = f"{folder}/{name}"
            cache_id = 0 if self.s390x else self._scan(f"{path}/id")
            size = self._scan(f"{path}/size", suffix="K")
            level = self._scan(f"{path}/level")
            kind, sharers = self.tree.read(f"{path}/type"), self._count(f"{path}/shared_cpu_map")
            if kind is None:
                raise _NoCacheError
            found.append((_Cache(cache_id, size, level, kind), sharers))
        return found

    def _scan(self, path: str, suffix: str = "") -> int:
        """Read a number at the start of the text, whatever follows the suffix."""
        text = self.tree.read(path)
        match = None if text is None else _SCAN.match(text)
        if text is None or match is None or not text.startswith(suffix, match.end()):
            raise _NoCacheError
        return int(match[1])

    def _count(self, path: str) -> int:
        words = [word.strip() for word in (self.tree.read(path) or "").split(",")]
        if not all(_HEX.fullmatch(word) for word in words):
            raise _NoCacheError
        return sum(int(word, 16).bit_count() for word in words)

    def _memory(self, folder: str) -> int:
        text = self.tree.read(f"{folder}/meminfo")
        if text is None:
            return 0
        match = _MEM_TOTAL.search(text)
        if match is None:
            raise _GivesUpError(f"failed to match regexp in output: {quote(text[:80])}")
        return int(match[1]) * 1024

    def _hugepages(self, folder: str) -> dict[str, int]:
        pages = {}
        for name in self.tree.names(folder):
            size = name.partition("-")[2].partition("-")[0].split("kB")[0]
            count = _SCAN.match(self.tree.read(f"{folder}/{name}/nr_hugepages") or "")
            if not _UINT.fullmatch(size):
                raise _GivesUpError(f"strconv.ParseUint: parsing {quote(size)}: invalid syntax")
            if count is None:
                raise _GivesUpError(f"could not parse file nr_hugepage for {name}")
            pages[str(int(size))] = int(count[1])
        return pages

    def _distances(self, folder: str) -> tuple[int, ...] | None:
        text = self.tree.read(f"{folder}/distance")
        if text is None:
            return None
        words = text.split(" ")
        for word in words:
            if not _UINT.fullmatch(word):
                raise _GivesUpError(f"cannot convert {word[:40]} to int")
        return tuple(int(word) for word in words)

    def _atoi(self, text: str) -> int:
        if not _ATOI.fullmatch(text):
            raise _GivesUpError(f"strconv.Atoi: parsing {quote(text[:40])}: invalid syntax")
        return int(text)


class _OnlineList:
    """cAdvisor's reading of cpu/online: every CPU if there is no such file; none where a part cannot be read."""

    def __init__(self, tree: SysTree) -> None:
        self.everything = not tree.exists(f"{_CPU}/online")
        self.parts = (tree.read(f"{_CPU}/online") or "").split(",")

    def __contains__(self, cpu: int) -> bool:
        if self.everything:
            return True
        for part in self.parts:
            ends = part.split("-")
            if len(ends) > 2 or not all(_UINT.fullmatch(end) and int(end) < 1 << 16 for end in ends):
                return False
            if len(ends) == 2 and int(ends[0]) > int(ends[1]):
                return False
            if int(ends[0]) <= cpu & 0xFFFF <= int(ends[-1]):
                return True
        return False


def _by_id(nodes: list[KubeletNode]) -> tuple[KubeletNode, ...]:
    return tuple(sorted(nodes, key=lambda node: node.id))
