"""Judging a node of hundreds of containers: what it takes grows with what is there, not with its square."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, cpus, evidence, files, intruder, mask, use
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Alignment, Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass, Transition
from toolkit.model.evidence.following import Following
from validators.queries import view
from validators.registry import judge


def node(count: int) -> tuple[ClaimSet, Evidence]:
    """So many pods, half of which own a CPU, each with threads, files and counters; a few strangers on each CPU."""
    own = [CpuSet.of((number,)) for number in range(count // 2)]
    pool = CpuSet.of(range(count // 2, count // 2 + 4))
    claims = tuple(
        Claim(
            name=f"p{number}/c",
            cgroup=f"/kubepods/p{number}/c",
            pod=f"p{number}",
            cpus=own[number] if number < len(own) else pool,
            isolation=Isolation.CONTAINER if number < len(own) else Isolation.HOST,
            alignments=(Alignment.SMT,) if number < len(own) else (),
            quota_us=-1 if number < len(own) else 50_000,
        )
        for number in range(count)
    )
    shared = claims[len(own) :]
    changes = tuple(
        Transition(
            claim=one.name,
            what="mask-change",
            start_at_ns=SECOND,
            end_at_ns=SECOND + 9,
            cpus_before=pool,
            cpus_after=pool,
        )
        for one in shared
    )
    base = evidence()
    topology: dict[str, object] = {"core_cpus": [str(cpu) for cpu in range(count // 2 + 4)]}
    ends = tuple(files(one.cgroup, cpus=one.cpus, cpus_effective=one.cpus, quota_us=one.quota_us) for one in claims)
    seen = replace(
        base,
        cpu_use=tuple(use(one.name, cpu) for one in claims for cpu in one.cpus or ()),
        files_before=ends,
        files_after=ends,
        files_during=tuple(
            files(one.cgroup, at_ns=2 * SECOND, cpus=one.cpus, cpus_effective=one.cpus, quota_us=one.quota_us)
            for one in shared
        ),
        bandwidth=tuple(bandwidth(one.name, one.cgroup) for one in claims),
        thread_masks=tuple(mask(one.name, str(one.cpus), tid=100 + n, pid=100 + n) for n, one in enumerate(claims)),
        intruders=tuple(
            intruder(OwnerClass.FOREIGN_POD, cpu=n % len(own), tid=9000 + n, cgroup=f"/kubepods/x{n}/c")
            for n in range(count * 2)
        ),
        transitions=changes,
        claim_changes=tuple(ClaimChange(at_ns=SECOND + 99, claim=one) for one in shared),
        following=Following(source="kubelet", readings=5),
        environment=replace(base.environment, topology=topology),
    )
    return ClaimSet(claims=claims, pods_root="/kubepods", noise_budget_ns_per_s=1_000_000), seen


def calls(count: int) -> int:
    """Return how many functions were called to judge a node of that many containers."""
    claims, seen = node(count)
    profile = cProfile.Profile()
    profile.enable()
    judge(claims, seen)
    profile.disable()
    total = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    assert isinstance(total, int)
    return total


def test_twice_the_containers_are_twice_the_work() -> None:
    """Every owner asks for the strangers on its own CPUs, and each of these is looked up among all claims."""
    assert calls(200) < 3 * calls(100)


class Counted(tuple[Any, ...]):
    """Rows that are counted whenever one of them is looked at."""

    looks: ClassVar[int] = 0

    def __iter__(self) -> Iterator[Any]:
        for row in super().__iter__():
            Counted.looks += 1
            yield row

    def __contains__(self, wanted: object) -> bool:
        return any(row == wanted for row in self)


ROWS = ("transitions", "files_before", "files_after", "files_during", "thread_masks", "bandwidth", "usage_bins")


@pytest.mark.parametrize("rows", ROWS)
def test_no_claim_looks_at_the_rows_of_all(rows: str) -> None:
    """A shared pool that shrinks changes hundreds of claims, with a reading of files each."""
    looks = []
    for count in (100, 200):
        claims, seen = node(count)
        Counted.looks = 0
        counted: dict[str, Any] = {rows: Counted(getattr(seen, rows))}
        judge(claims, replace(seen, **counted))
        looks.append(Counted.looks)
    assert 0 < looks[1] < 3 * looks[0]


def test_the_nearest_claim_above_a_cgroup() -> None:
    """Not one whose name only begins alike; the root is above everything."""
    names = {"/": "root", "/a": "a", "/a/b/": "ab", "/a/bc": "abc"}
    claims = ClaimSet(claims=tuple(Claim(name=name, cgroup=cgroup, cpus=cpus("0")) for cgroup, name in names.items()))

    for cgroup, name in (("/a/b/c/d", "ab"), ("/a/bc", "abc"), ("/a/bcd", "a"), ("/ab", "root"), ("/", "root")):
        found = view.claim_of_cgroup(claims, cgroup)
        assert found is not None
        assert found.name == name
    assert view.claim_of_cgroup(replace(claims, claims=claims.claims[1:]), "/ab") is None
    twice = (*claims.claims, replace(claims.claims[1], name="later"))
    first = view.claim_of_cgroup(replace(claims, claims=twice), "/a")
    assert first is not None
    assert first.name == "a"
