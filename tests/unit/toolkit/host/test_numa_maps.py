"""The reader of ``numa_maps``: kinds, page sizes, policies with blanks, hostile lines, and this very process."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from toolkit.host.numa_maps import parse_numa_maps, read_numa_maps, read_pages
from toolkit.model.cpuset import CpuSet
from toolkit.model.placement import PageKind
from toolkit.model.runtimes import PINNED_NS

ANON, HEAP, STACK, HUGE, FILE = PageKind.ANON, PageKind.HEAP, PageKind.STACK, PageKind.HUGE, PageKind.FILE


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("7f0 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4", {(ANON, 0): 8192, (ANON, 1): 4096}),
        ("7f0 bind:1 heap anon=1 dirty=1 N1=1 kernelpagesize_kB=4", {(HEAP, 1): 4096}),
        ("7f0 default stack anon=1 N0=1 kernelpagesize_kB=64", {(STACK, 0): 65536}),
        ("7f0 prefer (many):0-1 anon=1 N1=1 kernelpagesize_kB=4", {(ANON, 1): 4096}),
        ("7f0 default file=/anon_hugepage\\040(deleted) huge anon=2 N1=2 kernelpagesize_kB=2048", {(HUGE, 1): 4 << 20}),
        ("7f0 default file=/lib/c.so mapped=5 mapmax=9 N0=5 kernelpagesize_kB=4", {(FILE, 0): 20480}),
        ("7f0 default file=/lib/c.so anon=2 dirty=2 mapped=5 N0=5 kernelpagesize_kB=4", {(FILE, 0): 20480}),
        ("7f0 default file=/lib/c.so anon=2 dirty=2 N1=2 kernelpagesize_kB=4", {(ANON, 1): 8192}),
        ("7f0 default file=/dev/shm/heap dirty=1 N1=1 kernelpagesize_kB=4", {(FILE, 1): 4096}),
        ("7f0 default anon=1 N0=1", {(ANON, 0): 4096}),
        ("7f0 default", {}),
        ("", {}),
        ("7f0", {}),
        ("7f0 default N0=x N1 Nx=1 N99999999=1 anon=-1", {}),
        ("\0\udcff N0=1", {}),
    ],
)
def test_lines(line: str, usage: dict[tuple[PageKind, int], int]) -> None:
    """One line gives bytes by kind and node; what makes no sense gives nothing."""
    assert parse_numa_maps(line) == usage


def test_lines_are_summed() -> None:
    """Mappings of one kind and node add up."""
    text = "1 default heap anon=1 N0=1 kernelpagesize_kB=4\n2 default heap anon=2 N0=2 kernelpagesize_kB=4\n"

    assert parse_numa_maps(text) == {(HEAP, 0): 12288}


def test_a_claim_sums_its_processes(tmp_path: Path) -> None:
    """The process with most pages is named; one that is there but cannot be read is counted, one that is gone not."""
    for pid, pages in ((1, 3), (2, 5)):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/numa_maps").write_text(f"7f0 default anon={pages} N1={pages} kernelpagesize_kB=4\n")
        (tmp_path / f"proc/{pid}/comm").write_text(f"c{pid}\n")
    (tmp_path / "proc/3").mkdir()

    found = read_pages("db", [1, 2, 3, 4], tmp_path)

    assert (found.processes, found.unread) == (2, 1)
    assert [(row.node, row.total_bytes, row.pid, row.comm) for row in found.pages] == [(1, 32768, 2, "c2")]


def process(root: Path, name: str, age_s: float, pages: str) -> None:
    """Put process 1 into a made /proc, beside process 2, a program that has been there for an hour."""
    for pid, own, age, lies in ((1, name, age_s, pages), (2, "db", 3600.0, "anon=1 N1=1")):
        place = root / f"proc/{pid}"
        place.mkdir(parents=True)
        ticks = round((time.clock_gettime(time.CLOCK_BOOTTIME) - age) * os.sysconf("SC_CLK_TCK"))
        (place / "stat").write_text(f"{pid} ({own}) R {'0 ' * 18}{ticks} 0\n")
        (place / "comm").write_text(f"{own}\n")
        (place / "numa_maps").write_text(f"7f0 default {lies} kernelpagesize_kB=4\n")


LONG_S = PINNED_NS / 1e9 + 1


@pytest.mark.parametrize(
    ("name", "age_s", "pages", "joining"),
    [
        ("runc:[2:INIT]", 0.1, "anon=2 N0=2", 1),
        ("runc:[2:INIT]", LONG_S, "anon=2 N0=2", 0),
        ("runc:[2:INIT]x", 0.1, "anon=2 N0=2", 0),
        ("db", 0.1, "anon=2 N0=2", 0),
        ("runc:[2:INIT]", 0.1, "anon=2 N1=2", 0),
        ("runc:[2:INIT]", 0.1, "file=/bin/runc N0=2", 0),
    ],
    ids=["runtime", "too long", "another name", "program", "inside", "file"],
)
def test_what_a_runtime_allocated_before_it_joined_is_not_the_containers(
    tmp_path: Path, name: str, age_s: float, pages: str, joining: int
) -> None:
    """It goes when the runtime becomes the program. The name counts for a moment only, and for its own pages alone."""
    process(tmp_path, name, age_s, pages)
    found = read_pages("db", [1, 2], tmp_path, CpuSet.parse("1"))

    assert (found.processes, found.unread, found.joining) == (2 - joining, 0, joining)
    assert (1 in {row.pid for row in found.pages}) is not bool(joining)


def test_a_runtime_that_has_become_its_program_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages were read before, its name after: what counts are the program's pages."""
    process(tmp_path, "sh", 0.1, "anon=2 N0=2")
    read = read_numa_maps

    def reading(pid: int, root: Path) -> dict[tuple[PageKind, int], int] | None:
        found = read(pid, root)
        (root / "proc/1/numa_maps").write_text("7f0 default anon=3 N1=3 kernelpagesize_kB=4\n")
        return found

    monkeypatch.setattr("toolkit.host.numa_maps.read_numa_maps", reading)
    found = read_pages("db", [1, 2], tmp_path, CpuSet.parse("1"))

    assert (found.processes, found.joining) == (2, 0)
    assert [(row.node, row.total_bytes) for row in found.pages] == [(1, 4 * 4096)]


def test_this_process() -> None:
    """16 MiB that this process touches show up as anonymous memory."""
    before = read_numa_maps(os.getpid())
    if before is None:
        pytest.skip("this kernel has no /proc/self/numa_maps (CONFIG_NUMA)")
    with mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for offset in range(0, len(area), 4096):
            area[offset] = 1
        after = read_numa_maps(os.getpid()) or {}

    grown = sum(used for (kind, _), used in after.items() if kind is ANON)
    assert grown - sum(used for (kind, _), used in before.items() if kind is ANON) >= 15 << 20


@pytest.mark.parametrize("end", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_a_file_name_forges_no_mapping(end: str) -> None:
    """The kernel escapes blanks, tabs, line ends and ``=`` alone: no other separator begins a line or a word."""
    name = f"x{end}7f00{end}default{end}huge{end}"
    honest = "7f0000000000 default file=/x mapped=3 N0=3 kernelpagesize_kB=4"

    assert parse_numa_maps(honest.replace("/x", f"/{name}")) == parse_numa_maps(honest)
