"""The configuration of a followed kubelet is that with which it runs, not what a file says by now."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import Node, made_node
from tests.unit.toolkit.sources.made_node import process, write

KUBELET = 42
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
ARGUMENTS = ["--config=/var/lib/kubelet/config.yaml", "--config-dir=/etc/kubelet.d"]
SOON_S, LATE_S = 5, 300
"""After a kubelet's start: a script may still become it; it has read its files."""


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served."""
    with made_node() as made:
        yield made


def starts(node: Node, in_s: int = 0) -> None:
    """Let the kubelet have started now, or so many seconds later."""
    node.started(time.clock_gettime(time.CLOCK_BOOTTIME) + in_s)


def period_s(node: Node) -> float | None:
    """What it is read to reconcile by."""
    return node.read().claims.reconcile_period_s


def test_what_is_edited_holds_from_the_next_start_on(node: Node) -> None:
    """A kubelet reads its files when it starts; while none runs what was in force before holds."""
    starts(node)
    node.configure("cpuManagerReconcilePeriod: 20s\n")
    before = period_s(node)
    node.configure("cpuManagerReconcilePeriod: 60s\n")
    edited = period_s(node)
    node.configure("x: [\n")
    broken = period_s(node)
    node.configure("cpuManagerReconcilePeriod: 60s\n")
    write(node.root, f"proc/{KUBELET}/comm", "bash\n")
    away = period_s(node)
    write(node.root, f"proc/{KUBELET}/comm", "kubelet\n")
    starts(node, 1)

    assert (before, edited, broken, away, period_s(node)) == (20.0, 20.0, 20.0, 20.0, 60.0)


def test_where_its_start_is_not_known_the_file_is_believed(node: Node) -> None:
    """It may have restarted between two readings."""
    node.configure("cpuManagerReconcilePeriod: 20s\n")
    before = period_s(node)
    node.configure("cpuManagerReconcilePeriod: 60s\n")

    assert (before, period_s(node)) == (20.0, 60.0)


def written(path: Path, in_s: float) -> None:
    """Let a file or folder have been written so many seconds from now."""
    os.utime(path, times=(0, time.time() + in_s))


@pytest.mark.parametrize("drop_in", [False, True])
def test_what_was_edited_before_the_first_look_is_not_what_it_runs_with(node: Node, *, drop_in: bool) -> None:
    """Nothing says what was there before: its reserved CPUs are not known, rather than those of the file."""
    file, folder = node.root / "var/lib/kubelet/config.yaml", node.root / "etc/kubelet.d"
    process(node.root, KUBELET, "kubelet", "/kubelet.service", ARGUMENTS)
    write(node.root, "etc/kubelet.d/10.conf", HEADER + "cpuManagerReconcilePeriod: 20s\n")
    starts(node)
    edited = folder / "10.conf" if drop_in else file
    written(edited, LATE_S)
    reading = node.read()
    reason, *_ = [one.reason for one in reading.missing if one.part == "config"]

    assert reason.startswith(f"/{edited.relative_to(node.root)}: written, or put in its place, after")
    assert str(reading.claims.reserved_cpus) == ""
    starts(node, LATE_S)
    assert (str(node.read().claims.reserved_cpus), period_s(node)) == ("0", 20.0)


def test_a_file_with_an_old_date_that_was_put_in_its_place_counts_as_edited(node: Node) -> None:
    """As ``cp -p``, ``rsync -a`` and packages do: nothing is written into it where it is."""
    file = node.root / "var/lib/kubelet/config.yaml"
    starts(node, -SOON_S)
    written(file, -LATE_S)
    assert "config" not in {one.part for one in node.read().missing}
    starts(node, -LATE_S)
    reason, *_ = [one.reason for one in node.read().missing if one.part == "config"]
    assert reason.startswith("/var/lib/kubelet/config.yaml: written, or put in its place, after")


def test_a_drop_in_that_was_taken_away_counts_as_edited(node: Node) -> None:
    """The folder was written to; a file that a script writes before it becomes the kubelet was not."""
    folder = node.root / "etc/kubelet.d"
    process(node.root, KUBELET, "kubelet", "/kubelet.service", ARGUMENTS)
    write(node.root, "etc/kubelet.d/10.conf", HEADER + "cpuManagerReconcilePeriod: 20s\n")
    starts(node)
    written(folder, LATE_S)
    assert "config" in {one.part for one in node.read().missing}
    written(folder, SOON_S)
    assert "config" not in {one.part for one in node.read().missing}
    written(folder, LATE_S)
    assert ("config" in {one.part for one in node.read().missing}, period_s(node)) == (False, 20.0)
