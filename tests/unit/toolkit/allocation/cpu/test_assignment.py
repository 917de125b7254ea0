"""Which CPUs are taken: worked examples per option, irregular machines, and the real component's defects."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.allocation.admission import KubeletPanic
from toolkit.allocation.cpu.assignment import CpuShortageError, take_cpus, take_cpus_near
from toolkit.allocation.cpu.distributed import _aliased_combinations
from toolkit.allocation.cpu.groups import fullest, lowest
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.machine import Machine, MachineCpu
from toolkit.model.cpuset import EMPTY, CpuSet

PLAIN = CpuPolicyOptions()


def machine(*, sockets: int, nodes: int, cores: int, threads: int = 2, per_cache: int = 0) -> Machine:
    """Build a machine; siblings are numbered after all first threads. ``nodes``: per socket; ``cores``: per node."""
    total = sockets * nodes * cores
    return Machine.build(
        (
            MachineCpu(
                cpu=core + thread * total,
                core=core,
                socket=core // cores // nodes,
                numa=core // cores,
                uncore=core // per_cache if per_cache else core // cores // nodes,
            )
            for core in range(total)
            for thread in range(threads)
        ),
        (),
    )


SMT8 = machine(sockets=1, nodes=1, cores=4)
"""0-3 and their siblings 4-7."""
TWO_SOCKETS = machine(sockets=2, nodes=1, cores=4)
"""Socket 0: 0-3,8-11; socket 1: 4-7,12-15."""
FOUR_NODES = machine(sockets=2, nodes=2, cores=2, threads=1)
"""Nodes 0-1, 2-3 | 4-5, 6-7."""
CACHES = machine(sockets=1, nodes=2, cores=8, threads=1, per_cache=4)
"""Nodes 0-7, 8-15; caches of four CPUs."""
CACHES_SMT = machine(sockets=1, nodes=1, cores=8, threads=2, per_cache=4)
"""Caches 0-3,8-11 and 4-7,12-15."""
HYBRID = Machine.build(
    [MachineCpu(cpu=c, core=c // 2, socket=0, numa=0, uncore=0) for c in range(4)]
    + [MachineCpu(cpu=c, core=c, socket=0, numa=0, uncore=0) for c in range(4, 8)],
    (),
)
"""Two cores of two threads (0-1, 2-3), four of one (4-7): "threads per core" is 1."""
LONE_SIBLING = Machine.build(
    [MachineCpu(cpu=c, core=c % 4, socket=0, numa=0, uncore=0) for c in (0, 1, 2, 3, 4, 5, 6)], ()
)
"""Cores 0,4 1,5 2,6 and 3 alone: 7 CPUs on 4 cores, "threads per core" is 1."""


def take(on: Machine, free: str, count: int, quirks: bool = False, foreign: CpuSet = EMPTY, **options: Any) -> str:
    """Take CPUs and write them as a list."""
    return str(
        take_cpus(
            on,
            CpuSet.parse(free),
            count,
            CpuPolicyOptions.of(*(name.replace("_", "-") for name in options)),
            foreign=foreign,
            quirks=quirks,
        )
    )


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-7", 1, "0"),
        ("0-7", 2, "0,4"),
        ("0-7", 3, "0-1,4"),
        ("0-7", 8, "0-7"),
        ("1-7", 2, "1,5"),  # a whole core rather than the broken one
        ("1-7", 1, "4"),  # the broken core first
        ("1-7", 3, "1,4-5"),
        ("1-3", 2, "1-2"),
    ],
)
def test_packed_on_one_socket(free: str, count: int, taken: str) -> None:
    """Whole cores as long as they fit, then single threads, broken cores first."""
    assert take(SMT8, free, count) == taken


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-15", 8, "0-3,8-11"),  # a whole socket
        ("0-15", 10, "0-4,8-12"),  # a socket and a core of the other
        ("1-15", 8, "4-7,12-15"),  # the socket that is wholly free
        ("1-15", 2, "1,9"),  # the fuller socket first
        ("0-3,8-11", 9, None),
    ],
)
def test_packed_on_two_sockets(free: str, count: int, taken: str | None) -> None:
    """Sockets before cores; cores from the socket with the fewest free CPUs."""
    if taken is None:
        with pytest.raises(CpuShortageError, match="available to satisfy request: requested=9, available=8"):
            take(TWO_SOCKETS, free, count)
    else:
        assert take(TWO_SOCKETS, free, count) == taken


def test_nothing_asked_nothing_taken() -> None:
    """Zero CPUs are always available."""
    assert take(SMT8, "", 0) == ""


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-7", 2, "0-1"),  # fits one node
        ("0-7", 4, "0-3"),  # two whole nodes
        ("0,2-7", 4, "2-3,4-5"),  # two nodes, two each; with one CPU left in node 0 the rest stays balanced
        ("0-7", 3, "0-2"),
        ("0,2,4,6", 3, "0,2,4"),
        ("0,2,4,6", 4, "0,2,4,6"),
    ],
)
def test_distribution(free: str, count: int, taken: str) -> None:
    """As few nodes as possible, an even share from each."""
    assert take(FOUR_NODES, free, count, distribute_cpus_across_numa=True) == str(CpuSet.parse(taken))


def test_distribution_is_even_where_packing_is_not() -> None:
    """A request that one node cannot hold is halved instead of filling one node."""
    assert take(TWO_SOCKETS, "0-15", 10) == "0-4,8-12"
    assert take(TWO_SOCKETS, "0-15", 10, distribute_cpus_across_numa=True) == "0-2,4-6,8-9,12-13"
    together = take(TWO_SOCKETS, "0-15", 10, distribute_cpus_across_numa=True, full_pcpus_only=True)
    assert together == "0-2,4-5,8-10,12-13"


def test_where_the_kubelet_never_answers() -> None:
    """Four nodes of five cores, of each one thread reserved: thirty CPUs leave six to deal, of nodes with 3 and 3 free.

    By the sources of v1.36 (``takeByTopologyNUMADistributed``): a loop that takes whole cores, while some are left.
    """
    four = machine(sockets=4, nodes=1, cores=5)
    options = {"distribute_cpus_across_numa": True, "full_pcpus_only": True}
    free = "1-4,6-9,11-14,16-39"

    assert len(CpuSet.parse(take(four, free, 30, **options))) == 30
    with pytest.raises(KubeletPanic, match="never answers"):
        take(four, free, 30, quirks=True, **options)
    assert len(CpuSet.parse(take(four, free, 28, quirks=True, **options))) == 28


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        ("0-15", 4, "0-3"),
        ("1-15", 4, "4-7"),  # the node with fewer free CPUs, there the cache that is whole
        ("1-15", 3, "1-3"),  # the fullest cache that can hold it
        ("0-15", 6, "0-5"),
        ("1-15", 6, "1,4-7,2"),  # a whole cache, and two from one other
        ("0,4,8,12", 2, "0,4"),  # no cache can hold it: packed
        ("0,4-7", 3, "4-6"),  # packing would begin with the core that is free elsewhere
    ],
)
def test_caches(free: str, count: int, taken: str) -> None:
    """Whole caches first, then what is left from a single cache that can hold it."""
    assert take(CACHES, free, count, prefer_align_cpus_by_uncorecache=True) == str(CpuSet.parse(taken))


def test_odd_request_in_one_cache_of_smt_cores() -> None:
    """An odd request gets whole cores and one thread; the highest thread of the last core stays free."""
    assert take(CACHES_SMT, "0-15", 3, prefer_align_cpus_by_uncorecache=True) == "0-1,8"


def test_spread_takes_ascending_threads() -> None:
    """Threads in ascending order rather than whole cores, but whole sockets all the same."""
    assert take(SMT8, "0-7", 4, distribute_cpus_across_cores=True) == "0-3"
    assert take(TWO_SOCKETS, "1-15", 3, distribute_cpus_across_cores=True) == "1-3"
    assert take(TWO_SOCKETS, "0-15", 8, distribute_cpus_across_cores=True) == "0-3,8-11"


def test_near_the_hint_first() -> None:
    """CPUs of the hint's nodes first, the rest from anywhere; with align-by-socket a node means its socket."""
    free = CpuSet.parse("1-7")
    assert str(take_cpus_near(FOUR_NODES, free, 3, PLAIN, (1,))) == "1-3"
    assert str(take_cpus_near(FOUR_NODES, free, 2, PLAIN, (2,))) == "4-5"
    by_socket = CpuPolicyOptions.of("align-by-socket")
    assert str(take_cpus_near(FOUR_NODES, CpuSet.parse("0,5-7"), 2, by_socket, (2,))) == "6-7"
    assert str(take_cpus_near(FOUR_NODES, CpuSet.parse("0,5-7"), 2, PLAIN, (2,))) == "0,5"
    assert str(take_cpus_near(FOUR_NODES, free, 1, PLAIN, None)) == "1"


def test_what_was_taken_near_the_hint_can_count_twice() -> None:
    """CPU 0 is offline, so a core has 7 / 4 = 1 thread on average, and a half-free core counts as whole.

    Near node 1 are 5-7; core 4-5 is taken whole for its free 5, then 6. The second choice finds core 6-7 half free and
    takes it whole: 6 counts again, and four CPUs pass for five.
    Source: kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/policy_static.go, ``allocateCPUs``.
    """
    offline = Machine.build(
        (MachineCpu(cpu=cpu, core=cpu // 2, socket=0, numa=cpu // 4, uncore=0) for cpu in range(1, 8)), ()
    )
    free = CpuSet.parse("2-3,5-7")

    for quirks in (False, True):
        assert str(take_cpus_near(offline, free, 5, PLAIN, (1,), quirks=quirks)) == "4-7"


def test_average_threads_decide_on_hybrid_machines() -> None:
    """With one thread per core on average, only cores with exactly one free thread count as whole."""
    assert take(HYBRID, "0-7", 2) == "4-5"
    assert take(HYBRID, "0-7", 5) == "0,4-7"


def test_irregular_core_brings_its_reserved_sibling_along() -> None:
    """The real component takes a core whose free threads equal the average whole: a reserved CPU is given away."""
    assert take(LONE_SIBLING, "1-6", 2) == "0,4"


def test_irregular_core_does_not_bring_other_pods_cpus_along() -> None:
    """A CPU of another pod is never given out twice, unless the defect is asked for."""
    foreign = CpuSet.parse("0")
    assert take(LONE_SIBLING, "1-6", 2, foreign=foreign) == "3-4"
    assert take(LONE_SIBLING, "1-6", 2, foreign=foreign, quirks=True) == "0,4"


def test_units_listed_twice_do_not_count_twice() -> None:
    """Where nodes and sockets cross, the real component counts a core twice and gives too few CPUs; the model never."""
    places = ((1, 1), (0, 1), (1, 1), (0, 0))
    crossing = Machine.build(
        [
            MachineCpu(cpu=2 * core + thread, core=core, socket=socket, numa=node, uncore=0)
            for core, (socket, node) in enumerate(places)
            for thread in range(2)
        ],
        (),
    )
    assert not crossing.irregular
    assert take(crossing, "1-3,7", 4) == "1-3,7"
    assert take(crossing, "1-3,7", 4, quirks=True) == "2-3"


def test_aliased_combinations() -> None:
    """Combinations of four share storage after the third item, those of up to three and of five do not."""
    for size, shared_from in ((1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (6, 5), (7, 5)):
        seen = list(_aliased_combinations(range(8), size))
        first, last_with_prefix = (
            list(seen[0]),
            list(range(shared_from)) + [8 - size + i for i in range(shared_from, size)],
        )
        assert first == (last_with_prefix if shared_from < size else list(range(size)))


def test_order_helpers() -> None:
    """Fewest free CPUs first, then the lowest id; the lowest bits of a mask."""
    assert fullest([(1, 0b11), (0, 0b1100), (2, 0b10000), (3, 0b100000)], 0b011111) == [(2, 16), (0, 12), (1, 3)]
    assert lowest(0b101101, 2) == 0b101
    assert lowest(0b101, 5) == 0b101
    assert lowest(0b101, 0) == 0
