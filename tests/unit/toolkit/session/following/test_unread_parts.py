"""What a source could not read is a line when it begins, and one when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.toolkit.session.followed import Node
from tests.unit.toolkit.sources.kubelet.followed_node import Node as KubeletNode
from tests.unit.toolkit.sources.kubelet.followed_node import made_node
from toolkit.model.node_reading import MissingPart
from toolkit.session.following.unread_parts import SHOWN, TURNS, WIDTH, UnreadParts


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def seen(lines: list[str]) -> UnreadParts:
    return UnreadParts(lines.append)


def parts(*names: str, why: str = "refused") -> list[MissingPart]:
    return [MissingPart(part=name, reason=why) for name in names]


def test_a_part_is_said_once_and_when_it_is_over(seen: UnreadParts, lines: list[str]) -> None:
    """Whatever the reason is from one reading to the next."""
    for found in (parts("cri"), parts("cri", why="timed out"), parts("cri", "config"), parts("config"), []):
        seen.note(found, ())
    assert lines == [
        "not read: cri: refused",
        "not read: config: refused",
        "read again: cri",
        "read again: config",
    ]


def test_what_others_report_is_not_said_twice(seen: UnreadParts, lines: list[str]) -> None:
    """A subject that is left out has its own line."""
    seen.note(parts("lost", "cri"), {"lost": "why"})
    assert lines == ["not read: cri: refused"]


def test_two_reasons_of_one_part_are_one_line(seen: UnreadParts, lines: list[str]) -> None:
    """Two manifests that cannot be read."""
    seen.note([*parts("static_pods"), *parts("static_pods", why="too long")], ())
    assert lines == ["not read: static_pods: refused (and 1 more)"]


def test_lines_are_bounded(seen: UnreadParts, lines: list[str]) -> None:
    """Many parts at once, a part that comes and goes all the time, long reasons, names that are no line."""
    seen.note(parts(*(f"p{number:02}" for number in range(30))), ())
    assert (len(lines), lines[-1]) == (SHOWN + 1, f"{30 - SHOWN} more parts are not read, or are read again")
    seen.note([], ())
    lines.clear()
    for _ in range(50):
        seen.note(parts("cri"), ())
        seen.note([], ())
    assert len(lines) == 2 * TURNS + 1
    assert lines[-1] == "not read: cri, again and again: no more lines about it"
    lines.clear()
    seen.note(parts("a\nb", why="word " * 1000), ())
    assert len(lines) < 12
    assert all(len(line) <= WIDTH and "\n" not in line for line in lines)


@pytest.fixture
def kubelet() -> Iterator[KubeletNode]:
    with made_node() as made:
        yield made


def test_a_followed_node_says_it(kubelet: KubeletNode, tmp_path: Path) -> None:
    """A state file that is torn and mended again; the masks of threads, which the watch reads itself, never."""
    node = Node(tmp_path, kubelet.source)
    node.read()
    first = list(node.lines)
    assert any(line.startswith("not read: pods: ") for line in first)
    assert not any("cpu_state" in line or "threads" in line for line in first)
    file = kubelet.root / "var/lib/kubelet/cpu_manager_state"
    text = file.read_text()
    for now in (text[:9], text[:9], text):
        file.write_text(now)
        node.read()
    said = [line for line in node.lines[len(first) :] if "read" in line]
    assert [line.split(": ")[:2] for line in said] == [["not read", "cpu_state"], ["read again", "cpu_state"]]
