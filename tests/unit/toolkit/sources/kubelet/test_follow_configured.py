"""The configuration of a followed kubelet is that with which it runs, not what a file says by now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import Node, made_node
from tests.unit.toolkit.sources.made_node import write

KUBELET = 42


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served."""
    with made_node() as made:
        yield made


def starts(node: Node, ticks: int) -> None:
    """Let the kubelet have started at this time (clock ticks since the machine's start)."""
    fields = ["S", *("0" for _ in range(18)), str(ticks), "0"]
    write(node.root, f"proc/{KUBELET}/stat", f"{KUBELET} (kubelet) {' '.join(fields)}\n")


def period_s(node: Node) -> float | None:
    """What it is read to reconcile by."""
    return node.read().claims.reconcile_period_s


def test_what_is_edited_holds_from_the_next_start_on(node: Node) -> None:
    """A kubelet reads its files when it starts; while none runs what was in force before holds."""
    starts(node, 100)
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
    starts(node, 200)

    assert (before, edited, broken, away, period_s(node)) == (20.0, 20.0, 20.0, 20.0, 60.0)


def test_where_nobody_says_when_it_started_the_file_is_believed(node: Node) -> None:
    """It may have restarted between two readings."""
    node.configure("cpuManagerReconcilePeriod: 20s\n")
    before = period_s(node)
    node.configure("cpuManagerReconcilePeriod: 60s\n")

    assert (before, period_s(node)) == (20.0, 60.0)
