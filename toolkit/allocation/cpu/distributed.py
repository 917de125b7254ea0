"""``distribute-cpus-across-numa``: spread a request evenly over as few NUMA nodes as can hold it.

Combinations of 1, 2, 3 ... nodes are compared by how evenly the CPUs that stay free are distributed over all nodes
(standard deviation, rounded to three decimals, lowest wins, first found wins a tie). What does not divide evenly is
dealt out in groups to some of the combination's nodes, those that leave the best balance.

With ``quirks`` the real component's defect is reproduced: a remembered combination of four or more nodes shares its
memory with candidates tried later and can be altered by them. And it never ends where the remainder of a combination
can be dealt by its sum, but not in groups (full-pcpus-only, cores of which one thread is taken).

Source: KEP-2902; ``docs/specification.md``; ``docs/simulate-format.md`` (tag ``combination-aliasing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import sqrt

from toolkit.allocation.admission import KubeletPanic
from toolkit.allocation.cpu.groups import Group, cpu_groups
from toolkit.allocation.cpu.packed import CpuShortageError
from toolkit.allocation.machine import Machine

Combine = Callable[[Sequence[int], int], Iterator[Sequence[int]]]
"""Gives the combinations of k indices, in lexicographic order."""
NEVER = (
    "the CPU Manager never answers, and holds its lock: distribute-cpus-across-numa goes on dealing what remains in "
    "groups out of nodes of which each has less than a group"
)


def take_distributed(
    machine: Machine,
    available: int,
    count: int,
    *,
    take: Callable[..., int],
    group_size: int = 1,
    foreign: int = 0,
    quirks: bool = False,
) -> int:
    """Choose ``count`` CPUs out of the mask ``available``, in groups of ``group_size``.

    :param take: the packed choice of the machine, for what a node gives and for what cannot be distributed.
    :raises CpuShortageError: as :func:`toolkit.allocation.cpu.packed.take_packed`.
    """
    if count % group_size or not 0 < count <= available.bit_count():
        return take(available, count, foreign=foreign)
    # A node that spans sockets is listed once per socket.
    nodes = list(dict.fromkeys(cpu_groups(machine).numa_nodes(available)))
    fewest, most = _range(machine, count, group_size, len(nodes))
    balance = _Balance([(mask & available).bit_count() for _, mask in nodes], count, group_size, quirks)
    for size in range(fewest, most + 1):
        best = balance.best(size)
        if best is not None:
            hand = _Hand(take, available, foreign, quirks)
            hand.deal([nodes[i] for i in best[0]], [nodes[i] for i in best[1]], count, group_size)
            return hand.result
    return take(available, count, foreign=foreign)


def _range(machine: Machine, count: int, group_size: int, nodes: int) -> tuple[int, int]:
    """Return how many nodes a request needs at least (were they all empty and equal) and at most."""
    groups = (len(machine.cpus) - 1) // group_size + 1
    per_node = (groups - 1) // machine.num_numa + 1
    needed = (count - 1) // group_size + 1
    # From all CPUs of the machine, as the kubelet counts: a node with fewer than the average is found out by trying.
    return (needed - 1) // per_node + 1, min(needed, nodes)


class _Hand:
    """CPUs as they are dealt out of the chosen nodes."""

    __slots__ = ("available", "foreign", "given", "quirks", "result", "take")

    def __init__(self, take: Callable[..., int], available: int, foreign: int, quirks: bool) -> None:
        self.take = take
        self.available = available
        self.foreign = foreign
        self.quirks = quirks
        self.result = 0
        self.given = 0

    def deal(self, nodes: Sequence[Group], remainder_nodes: Sequence[Group], count: int, group_size: int) -> None:
        """Take an even share from each node, and what is left in groups from some of them.

        :raises CpuShortageError: a node did not have what it seemed to have.
        """
        share = count // len(nodes) // group_size * group_size
        for _, mask in nodes:
            self._take_from(mask, share)
        left = count - share * len(nodes)
        while left > 0:
            before = left
            for _, mask in remainder_nodes:
                if left > 0 and (mask & self.available).bit_count() >= group_size:
                    self._take_from(mask, group_size)
                    left -= group_size
            if left == before:
                if self.quirks:
                    raise KubeletPanic(NEVER)
                break
        missing = count - self.given
        if missing:
            word = "not enough" if missing > 0 else "too many"
            raise CpuShortageError(f"accounting error, {word} CPUs allocated, remaining: {missing}")

    def _take_from(self, mask: int, count: int) -> None:
        kept = 0 if self.quirks else self.foreign | self.result
        try:
            taken = self.take(self.available & mask, count, foreign=kept)
        except CpuShortageError:
            # A node that cannot give its share gives nothing; the count at the end shows it.
            return
        self.result |= taken
        self.available &= ~taken
        self.given += taken.bit_count()


class _Balance:
    """Compares combinations. Nodes are indices into ``free``, the numbers of free CPUs in the nodes' order."""

    __slots__ = ("combine", "count", "free", "group_size", "known", "mean_milli", "quirks", "total")

    def __init__(self, free: list[int], count: int, group_size: int, quirks: bool) -> None:
        self.free = free
        self.count = count
        self.group_size = group_size
        self.quirks = quirks
        self.combine: Combine = _aliased_combinations if quirks else combinations
        self.known: dict[int, float] = {}
        # Whatever is taken, the same number of CPUs stays free: the mean is a constant of the request.
        self.total = sum(free) - count
        # Rounded as the kubelet rounds: two combinations that differ by less are equal, and the first wins.
        self.mean_milli = int(self.total / len(free) * 1000 + 0.5)

    def deviation(self, squares: int) -> float:
        """Standard deviation of what stays free, from the sum of its squares; mean and result rounded to 1/1000."""
        known = self.known.get(squares)
        if known is None:
            mean, nodes = self.mean_milli, len(self.free)
            sum_micro = 1_000_000 * squares - 2000 * mean * self.total + nodes * mean * mean
            known = self.known[squares] = int(sqrt(max(sum_micro, 0) / nodes) + 0.5) / 1000
        return known

    def best(self, size: int) -> tuple[Sequence[int], Sequence[int]] | None:
        """Return the best combination of ``size`` nodes and those of them that take the remainder."""
        free, count, group = self.free, self.count, self.group_size
        share = count // size // group * group
        left = count - share * size
        squares = sum(n * n for n in free)
        best_balance = float("inf")
        best: tuple[Sequence[int], Sequence[int]] | None = None
        for nodes in self.combine(range(len(free)), size):
            if best_balance == 0:
                break  # nothing can be better, and of equals the first found wins
            if sum(free[i] // group for i in nodes) * group < count or any(free[i] < share for i in nodes):
                continue
            after = {i: free[i] - share for i in nodes}
            shared_squares = squares - sum(share * (2 * free[i] - share) for i in nodes)
            takers: Sequence[int] = ()
            if left == 0:
                balance = self.deviation(shared_squares)
            else:
                balance, takers = self._best_remainder(after, shared_squares, left)
            if balance < best_balance:
                best_balance, best = balance, (nodes, takers)
        return best

    def _best_remainder(self, after: dict[int, int], squares: int, left: int) -> tuple[float, Sequence[int]]:
        """Find the nodes that should take the remainder, preferring many nodes to few."""
        group = self.group_size
        able = [i for i, n in after.items() if n >= group]
        best_balance = float("inf")
        best: Sequence[int] = ()
        for size in range(len(able), 0, -1):
            for takers in self.combine(able, size):
                if sum(after[i] for i in takers) < left:
                    continue
                dealt = self._deal(after, takers, left)
                if dealt is None and self.quirks:
                    raise KubeletPanic(NEVER)
                if dealt is None:
                    continue
                balance = self.deviation(squares - dealt)
                if balance < best_balance:
                    best_balance, best = balance, takers
        return best_balance, best

    def _deal(self, after: dict[int, int], takers: Sequence[int], left: int) -> int | None:
        """Deal groups out in turns; return by how much the sum of squares falls, or ``None`` if they do not fit."""
        group = self.group_size
        now = [after[i] for i in takers]
        fallen = 0
        while left > 0:
            before = left
            for place, n in enumerate(now):
                if left <= 0:
                    break
                if n >= group:
                    fallen += group * (2 * n - group)
                    now[place] = n - group
                    left -= group
            if left == before:
                return None
        return fallen


class _Prefix(Sequence[int]):
    """The first ``size`` items of a list that others go on writing to."""

    __slots__ = ("items", "size")

    def __init__(self, items: list[int], size: int) -> None:
        self.items = items
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.items[: self.size][index]


def _aliased_combinations(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Combinations whose storage is shared as in the real component.

    Storage doubles when it is full: a prefix of length 1, 2 or 4 has no room left, so the next item goes to new
    storage; after 3, 5, 6 or 7 items there is room, and every continuation of one prefix writes to the same place.
    """
    yield from _extend(list(items), size, 0, [], 0)


def _extend(items: list[int], missing: int, start: int, storage: list[int], used: int) -> Iterator[Sequence[int]]:
    if missing == 0:
        yield _Prefix(storage, used)
        return
    for i in range(start, len(items) - missing + 1):
        if used == len(storage):
            grown = [*storage, items[i], *([0] * (max(2 * used, 1) - used - 1))]
        else:
            grown = storage
            grown[used] = items[i]
        yield from _extend(items, missing - 1, i + 1, grown, used + 1)
