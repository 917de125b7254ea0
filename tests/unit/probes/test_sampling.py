"""Readers and sums beside the programs, on fake trees."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from probes.cgroups.bandwidth import bandwidth_use, lineage
from probes.cgroups.lives import Lives, Reading
from probes.compiler import import_bcc, source_text
from probes.masks.status import parse_status
from probes.node.system import read_run_delay, read_system, run_delay
from probes.node.untraced import untraced
from probes.switches.bins import MAX_BINS, Bins
from toolkit.errors import HostUnsupportedError
from toolkit.host.cgroupfs import CpuStat
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet


def test_lineage_ends_below_the_root() -> None:
    """The claim's cgroup first, then every ancestor but the root."""
    assert lineage("/kubepods/poda/db") == ("/kubepods/poda/db", "/kubepods/poda", "/kubepods")


def stat(at_ns: int, usage_ns: int | None, throttled: int | None = 0) -> CpuStat:
    return CpuStat(
        at_ns=at_ns,
        usage_ns=usage_ns,
        nr_periods=10,
        nr_throttled=throttled,
        throttled_ns=None,
        nr_bursts=None,
        burst_ns=None,
    )


def test_bandwidth_rows_have_their_own_window_and_no_guess() -> None:
    """Deltas by level; what went backwards (a new cgroup of the same name) or is not told stays unknown."""
    claim = Claim(name="db", cgroup="/a/b")
    lives = Lives()
    for cgroup, first, last in (("/a/b", stat(10, 100), stat(1010, 350)), ("/a", stat(11, 500), stat(1015, 400))):
        lives.start(cgroup, Reading(stat=first, ids=(1, 1)), None)
        lives.read(cgroup, Reading(stat=last, ids=(1, 1)), None)

    own, parent = bandwidth_use(claim, lives.accounts, {}, 240)

    assert (own.level, own.window_ns, own.usage_ns, own.bpf_usage_ns) == (0, 1000, 250, 240)
    assert (parent.level, parent.window_ns, parent.usage_ns, parent.bpf_usage_ns) == (1, 1004, None, None)


def test_bins_stay_bounded_and_keep_their_sum() -> None:
    """However long it lasts: slots get longer, nothing is lost."""
    bins = Bins("db")
    for step in range(1, 3 * MAX_BINS):
        bins.add(step * 10, step * 3)

    rows = bins.values()
    assert len(rows) <= MAX_BINS
    assert sum(row.usage_ns for row in rows) == (3 * MAX_BINS - 1) * 3
    assert all(a.start_at_ns + a.length_ns == b.start_at_ns for a, b in pairwise(rows))


def test_status_is_read_and_a_dying_thread_is_nothing() -> None:
    """Masks from the list lines; a file cut short gives no reading."""
    text = "Name:\tdb\nTgid:\t7\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0\n"

    found = parse_status(text)

    assert found is not None
    assert (found.pid, found.comm, found.cpus_allowed) == (7, "db", CpuSet.parse("0-3,8"))
    assert parse_status("Name:\tdb\n") is None


def test_system_counters(tmp_path: Path) -> None:
    """ctxt, and the eighth column of the cpu line."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  1 2 3 4 5 6 7 100 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nctxt 4711\n")

    counters = read_system(tmp_path)

    assert (counters.context_switches, counters.steal_ns) == (4711, 1_000_000_000)


def test_run_delay_counts_new_threads_whole(tmp_path: Path) -> None:
    """A thread that was not there before waited all its life within the window."""
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/5/schedstat").write_text("100 40 3\n")

    assert read_run_delay((5, 6), tmp_path) == {5: 40}
    assert run_delay({5: 10, 9: 7}, {5: 40, 8: 3}) == 33


def test_threads_of_a_claim_are_never_excused(tmp_path: Path) -> None:
    """Hidden threads are named and summed; those of a claim, and single switches at the edge, are not."""
    first, last = {1: 10, 2: 10, 3: 10}, {1: 15, 2: 99, 3: 11, 4: 50}
    found = untraced((first, first), (last, last), frozenset({2}), tmp_path)

    assert (found.switches, found.skew, len(found.threads)) == (5, 1, 1)


def test_what_hidden_threads_did_between_the_reads_is_the_skew(tmp_path: Path) -> None:
    """Counters read before and after the kernel's total differ: the sum is the middle, the rest is uncertain."""
    found = untraced(({1: 10}, {1: 12}), ({1: 30}, {1: 34}), frozenset(), tmp_path)

    assert (found.switches, found.skew) == (21, 3)


def test_own_headers_are_put_in_once() -> None:
    """One compilation unit: every own header once, with line marks for the compiler's messages."""
    text = source_text(("switches/ledger.bpf.c",))

    assert text.count("struct claim_root {") == 1
    assert '#include "' not in text
    assert '#line 1 "switches/claims.h"' in text


def test_the_other_bcc_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that merely has the name is refused with the right package's name."""
    import sys

    (tmp_path / "bcc.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bcc", raising=False)

    with pytest.raises(HostUnsupportedError, match="python3-bpfcc"):
        import_bcc()
    del sys.modules["bcc"]  # not through monkeypatch, which would put it back
