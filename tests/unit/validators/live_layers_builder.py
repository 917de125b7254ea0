"""A claim on a followed node whose state file, runtime and cgroup say what a test lets them say, and its verdict."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import SECOND, claim_set, evidence, files, mask
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Evidence
from toolkit.model.evidence.following import Following
from toolkit.model.layers import Layer, LayerView
from toolkit.model.verdict import Verdict
from validators.rules import layers_agree

PERIOD_S, SLACK_S = 10, 5
CGROUP = "/kubepods/besteffort/podbe/main"
Word = tuple[float, str]
BE = Claim(
    name="be/main", pod="be", container="main", cgroup=CGROUP, cpus=CpuSet.parse("0-3"), isolation=Isolation.HOST
)


def said(layer: Layer, *words: Word) -> list[LayerView]:
    return [
        LayerView(claim=BE.name, layer=layer, at_ns=round(at_s * SECOND), cpus=CpuSet.parse(cpus))
        for at_s, cpus in words
    ]


def granted(at_s: float, cpus: str) -> CgroupFiles:
    found = CpuSet.parse(cpus)
    return files(CGROUP, at_ns=round(at_s * SECOND), cpus=found, cpus_effective=found)


def node(state: list[Word], asked: list[Word], cgroup: list[Word], threads: str = "", **changes: object) -> Evidence:
    """A window of 30 s: words of state file and runtime with their times, readings of the cgroup.

    :param threads: what a thread holds all the time; empty: what the cgroup has at the end, read once.
    """
    once = mask(BE.name, cgroup[-1][1], first_at_ns=29 * SECOND, last_at_ns=29 * SECOND)
    rows = [granted(at_s, cpus) for at_s, cpus in cgroup]
    value = evidence(
        duration_ns=30 * SECOND,
        layers=(*said(Layer.CHECKPOINT, *state), *said(Layer.RUNTIME, *asked)),
        files_before=(rows[0],),
        files_during=tuple(rows[1:]),
        files_after=(replace(rows[-1], at_ns=30 * SECOND),),
        thread_masks=(mask(BE.name, threads, first_at_ns=0, last_at_ns=29 * SECOND) if threads else once,),
        following=Following(source="kubelet", readings=15, slack_ns=SLACK_S * SECOND),
        transitions=(),
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def judged(seen: Evidence, *others: Claim) -> Verdict:
    """Judge ``be/main``. :param others: claims beside it."""
    verdict, *_ = layers_agree.RULE.check(claim_set(BE, *others, reconcile_period_s=float(PERIOD_S)), seen)
    return verdict


SAME: list[Word] = [(0, "0-3"), (29, "0-3")]
