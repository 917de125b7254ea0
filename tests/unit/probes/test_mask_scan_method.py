"""Which way the masks are read, and the program that lists tasks. No kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes import kernel_structs, program
from probes.masks.sample import Sample
from probes.masks.scan_method import AWAKE_NS, LISTED_PAUSES, PAUSES, THREAD_NS, ScanMethod
from probes.masks.strays import Strays
from probes.program import Program
from probes.subprograms import Linked
from tests.unit.probes.mask_node import Node
from toolkit.errors import HostUnsupportedError
from toolkit.host import bpf_syscalls


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Threads whose policy is not asked of the real kernel."""
    monkeypatch.setattr("probes.masks.thread.policy_of", lambda _tid: "other")
    return Node(tmp_path)


def never() -> int:
    """Threads are counted before the first scan alone."""
    raise AssertionError


def test_the_cheaper_way_is_taken(node: Node) -> None:
    """From the first scan on: the list where many threads are claims'; /proc where few are, or few of many tasks."""
    pause_ns = 200_000_000
    few = pause_ns // PAUSES // THREAD_NS

    def begun(threads: int) -> ScanMethod:
        method = ScanMethod(Strays(node.hierarchy, node.root), Sample(node.hierarchy, node.root), node.tasks, pause_ns)
        method.next(lambda: threads)
        return method

    assert begun(few + 1).pauses == LISTED_PAUSES
    method = begun(few)
    assert method.pauses == PAUSES
    assert method.next(never) is None
    method.threads = few + 1
    assert method.next(never) is node.tasks
    method.pass_ns = (few + 1) * THREAD_NS
    assert method.next(never) is None
    method.begin()
    assert method.next(never) is node.tasks


def test_few_threads_are_read_before_a_cpu_goes_cold(node: Node) -> None:
    """A dear scan of few threads makes no long rest; a scan of many, by either way, rests by what it took."""
    pause_ns, dear_ns = 200_000_000, 14_000_000
    method = ScanMethod(Strays(node.hierarchy, node.root), Sample(node.hierarchy, node.root), node.tasks, pause_ns)
    method.next(lambda: 3)
    assert method.pause_ns(dear_ns) == AWAKE_NS
    assert method.pause_ns(1_000_000) == PAUSES * 1_000_000
    method.threads = 1000
    method.next(never)
    assert method.pause_ns(dear_ns) == LISTED_PAUSES * dear_ns
    method.pass_ns = 1000 * THREAD_NS
    method.next(never)
    assert method.pause_ns(dear_ns) == PAUSES * dear_ns


def test_a_kernel_that_refuses_the_list_is_read_as_ever(node: Node) -> None:
    """Every thread from /proc, however many there are."""
    method = ScanMethod(Strays(node.hierarchy, node.root), Sample(node.hierarchy, node.root), None)
    method.threads = 1 << 20
    assert (method.next(never), method.pauses) == (None, PAUSES)


def test_an_iterator_is_loaded_for_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the type of bpf_iter_task()'s arguments; a kernel without it refuses."""

    class Types:
        def function_id(self, name: str) -> int | None:
            return {"bpf_iter_task": 41}.get(name)

    asked: list[tuple[object, ...]] = []

    def load(kind: int, code: bytes, *, name: str, attach_type: int, attach_btf_id: int, functions: object) -> int:
        assert functions == (b"", b"")
        asked.append((kind, code, name, attach_type, attach_btf_id))
        return 3

    monkeypatch.setattr("probes.program.Btf.of_kernel", lambda: Types())
    monkeypatch.setattr(bpf_syscalls, "load_program", load)
    assert program.load(Linked(code=b"code"), Program(name="on_task", iterates="task")) == 3
    assert asked == [(bpf_syscalls.TRACING, b"code", "on_task", bpf_syscalls.TRACE_ITER, 41)]
    with pytest.raises(HostUnsupportedError, match="no function bpf_iter_file"):
        program.load(Linked(code=b"code"), Program(name="on_file", iterates="file"))


def test_a_kernel_without_memory_nodes_makes_no_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One member less: no offset of any is given, so that the program is not made."""

    class Types:
        def has_member(self, _struct: str, member: str) -> bool:
            return member != "mems_allowed"

    monkeypatch.setattr(kernel_structs, "_kernel", lambda _root: Types())
    assert kernel_structs.of_threads(tmp_path) == {}
