"""Hypothesis strategies of claims and evidence."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.unit.validators.evidence_builder import (
    bandwidth,
    claim_set,
    evidence,
    mask,
    use,
)
from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.model.evidence import Evidence, Intruder, OwnerClass

counts = st.integers(0, 1000)
names = st.sampled_from(["db", "web", "ghost"])
some_rows = st.lists(
    st.builds(
        use,
        names,
        st.integers(0, 3),
        switches=counts,
        run_ns=counts.map(lambda n: n * 1_000_000),
        samples=counts,
        out_of_set_switches=st.sampled_from([0, 0, 0, 1]),
        out_of_set_ns=st.sampled_from([0, 0, 0, 1]),
        transition_switches=st.sampled_from([0, 0, 1]),
        transition_ns=st.sampled_from([0, 0, 1]),
    ),
    max_size=6,
    unique_by=lambda row: (row.claim, row.cpu),
)
some_levels = st.lists(
    st.builds(
        bandwidth,
        st.sampled_from(["db", "web"]),
        st.sampled_from(["/kubepods/poda/db", "/kubepods"]),
        st.integers(0, 2),
        usage_ns=st.none() | counts.map(lambda n: n * 1_000_000),
        nr_periods=st.none() | counts,
        nr_throttled=st.none() | counts,
        quota_us=st.sampled_from([None, -1, 50_000, 100_000]),
        bpf_usage_ns=st.none() | counts.map(lambda n: n * 1_000_000),
    ),
    max_size=6,
    unique_by=lambda row: (row.claim, row.level),
)
some_masks = st.lists(
    st.builds(mask, names, st.sampled_from(["2-3", "2", "0-3", "0"]), tid=st.integers(1, 9)),
    max_size=4,
    unique=True,
)
some_intruders = st.lists(
    st.builds(
        Intruder,
        cpu=st.integers(0, 3),
        tid=st.integers(1, 9),
        comm=st.just("guest"),
        owner=st.sampled_from(OwnerClass),
        cgroup=st.sampled_from(["/", "/kubepods/podb/web"]),
        switches=counts,
        total_ns=counts,
        longest_ns=counts,
        first_at_ns=counts,
    ),
    max_size=3,
    unique=True,
)


@st.composite
def anything(draw: st.DrawFn) -> Evidence:
    base = draw(st.sampled_from([healthy(), evidence()]))
    keep = draw(st.tuples(*[st.booleans()] * 4))
    return replace(
        base,
        cpu_use=base.cpu_use if keep[0] else tuple(draw(some_rows)),
        bandwidth=base.bandwidth if keep[1] else tuple(draw(some_levels)),
        thread_masks=base.thread_masks if keep[2] else tuple(draw(some_masks)),
        intruders=() if keep[3] else tuple(draw(some_intruders)),
    )


claim_sets = st.sampled_from([CLAIMS, claim_set(), replace(CLAIMS, pods_root=None)])
