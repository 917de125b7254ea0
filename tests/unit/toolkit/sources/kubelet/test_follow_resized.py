"""A followed node of a kubelet that writes down no allocation: a resized quota is asked for at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import WEB, Node, claim, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.host.kept_files import KeptFiles
from toolkit.model.node_reading import Asked
from toolkit.sources.kubelet.files.cgroups import ControlWords, hierarchies

FOLDER = f"{KUBEPODS}/podu-web/{WEB}"


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served: ``web/app`` has 25 ms of each 100."""
    with made_node() as made:
        made.asks(WEB, "web", "0-1", quota_us=25_000)
        write(made.root, f"{FOLDER}/cpu.max", "25000 100000\n")
        for _ in range(2):
            made.read()
        yield made


def test_a_quota_in_force_that_was_not_asked_for_is_asked_for(node: Node) -> None:
    """In the same reading, not in its turn; then it is spared again."""
    asked = []
    node.asks(WEB, "web", "0-1", quota_us=75_000)
    write(node.root, f"{FOLDER}/cpu.max", "75000 100000\n")
    resized = node.read()
    for _ in range(3):
        node.read()
        asked.append(WEB in node.asked)

    assert claim(resized, "web/app").quota_us == 75_000
    assert asked.count(True) <= 1


def test_a_quota_that_drifts_is_asked_for_each_time(node: Node) -> None:
    """The promise stays what was asked for."""
    write(node.root, f"{FOLDER}/cpu.max", "max 100000\n")
    for _ in range(3):
        assert claim(node.read(), "web/app").quota_us == 25_000
        assert WEB in node.asked


@pytest.mark.parametrize(
    ("files", "quota_us", "same"),
    [
        ({"cpu.max": "25000 100000"}, 25_000, True),
        ({"cpu.max": "25000 50000"}, 25_000, False),
        ({"cpu.max": "max 100000"}, -1, True),
        ({"cpu.max": "max 100000"}, 0, True),
        ({"cpu.max": "max 100000"}, 25_000, False),
        ({"cpu.max": "25000 100000"}, -1, False),
        ({"cpu.max": "2000 100000"}, 1_100, True),
        ({"cpu.max": "25000 100000"}, None, True),
        ({"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000"}, 25_000, True),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 25_000, False),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, -1, True),
        ({}, 25_000, True),
    ],
)
def test_a_quota_is_compared_as_a_driver_writes_it(
    tmp_path: Path, files: dict[str, str], quota_us: int | None, *, same: bool
) -> None:
    """Of both versions; systemd's rounds up to a hundredth of a CPU; what is not known differs from nothing."""
    for name, text in files.items():
        top = "cpu/" if name.startswith("cpu.cfs") else ""
        write(tmp_path, f"{top}kubepods/podu/c/{name}", f"{text}\n")
    words = ControlWords(hierarchies(tmp_path))

    assert words.quota_as_asked("/kubepods/podu/c", Asked(quota_us=quota_us, period_us=100_000)) is same


def test_a_controller_is_in_one_hierarchy(tmp_path: Path) -> None:
    """On a hybrid host what its v1 hierarchy does not have is not looked for elsewhere: hundreds do so each reading."""
    for top in ("cpu", "memory", "unified"):
        (tmp_path / top).mkdir()
    write(tmp_path, "unified/kubepods/podu/c/cpu.max", "50000 100000\n")
    read = list[str]()

    class Counted(KeptFiles):
        def read(self, folder: str, names: Sequence[str], *others: Any) -> list[bytes | None]:
            read.append(folder)
            return super().read(folder, names, *others)

    asked = Asked(quota_us=25_000, period_us=100_000, memory_bytes=1 << 20)
    assert ControlWords(hierarchies(tmp_path), Counted(0)).as_asked("/kubepods/podu/c", asked)
    assert read == [f"{tmp_path}/{top}/kubepods/podu/c" for top in ("cpu", "memory")]
