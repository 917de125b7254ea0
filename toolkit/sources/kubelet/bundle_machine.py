"""The machine of a capture, from the lines of its ``sysfs.txt``, read by the one reader of such files.

The lines are put back as files of a temporary tree. Source: docs/capture-bundle.md.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NodeReading
from toolkit.model.topology import Topology

_LINE = re.compile(r"(/sys/devices/system/(?:cpu|node)(?:/[A-Za-z0-9_-]{1,64}){1,8}): ?(.*)", re.ASCII)
_MEMBERS = re.compile(r"/sys/devices/system/node/node(\d{1,4})/cpulist", re.ASCII)
_CPU = re.compile(r"/sys/devices/system/cpu/cpu(\d{1,5})/topology/core_id", re.ASCII)
_LINE_END = " | "
"""Between the lines of a file of several."""
MAX_LINES = 2_000_000
MAX_FILES = 500_000
"""The kernel's most CPUs with some fifty files each."""
EXPECTED = "a capture with sysfs.txt (docs/capture-bundle.md)"


def capture_topology(reading: NodeReading, where: str) -> Topology:
    """Return the machine that the capture describes.

    :param where: the capture, for messages.
    :raises InputError: it describes none: no ``sysfs.txt``, or one without the CPUs' topology.
    """
    lines = (reading.sysfs or "").split("\n", MAX_LINES)[:MAX_LINES]
    files = {match[1]: match[2] for line in lines if (match := _LINE.fullmatch(line.rstrip("\r")))}
    if not any(_CPU.fullmatch(path) for path in files):
        raise InputError(where, "no topology of its CPUs in it", f"{EXPECTED}, or --topology DIR")
    if len(files) > MAX_FILES:
        raise InputError(where, f"sysfs.txt: {len(files)} files", f"at most {MAX_FILES}")
    with tempfile.TemporaryDirectory(prefix="pinproof-capture-") as folder:
        root = Path(folder)
        try:
            _write(root, files)
        except OSError as error:
            raise InputError(where, f"sysfs.txt: {error.strerror}", EXPECTED) from None
        return read_topology(root)


def _write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace(_LINE_END, "\n") + "\n", encoding="utf-8")
    system = root / "sys/devices/system"
    for path, text in files.items():
        members = _MEMBERS.fullmatch(path)
        for number in CpuSet.parse(text.strip(), path) if members is not None else ():
            if members is not None and (system / f"cpu/cpu{number}").is_dir():
                _link(system, int(members[1]), number)


def _link(system: Path, node: int, cpu: int) -> None:
    """Make the links between a node and its CPU, which no line holds."""
    (system / f"node/node{node}/cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")
    (system / f"cpu/cpu{cpu}/node{node}").symlink_to(f"../../node/node{node}")
