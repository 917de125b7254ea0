"""A busy node for the tests of metrics: so many claims on so many CPUs, every rule, every kind of foreign task."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import SECOND, evidence, intruder, use
from toolkit.model.evidence import BandwidthUse, Evidence, OwnerClass
from toolkit.model.result import make_result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.session.windows.series import Detail, Series
from toolkit.timeline.ran import asked
from validators.registry import RULES


def bandwidth(claim: str, level: int, nr_throttled: int) -> BandwidthUse:
    """A cgroup that used a second in 100 periods."""
    return BandwidthUse(
        claim=claim,
        cgroup=f"/{claim}",
        level=level,
        window_ns=SECOND,
        usage_ns=SECOND,
        nr_periods=100,
        nr_throttled=nr_throttled,
        throttled_ns=0,
    )


def busy(claims: int, cpus: int) -> tuple[Evidence, tuple[Verdict, ...]]:
    """A node of so many claims on so many CPUs, with every kind of intruder; every rule judges every claim."""
    names = [f"c{number:03d}" for number in range(claims)]
    rows = tuple(use(name, cpu, switches=10, run_ns=SECOND) for name in names for cpu in range(cpus))
    limits = tuple(bandwidth(name, level, nr_throttled=0) for name in names for level in range(5))
    strangers = tuple(replace(intruder(owner), cpu=cpu) for owner in OwnerClass for cpu in range(cpus))
    verdicts = tuple(
        Verdict(rule=rule.doc.id, subject=name, outcome=Outcome.PASSED, reason="", measures={})
        for rule in RULES
        for name in names
    )
    found = replace(evidence(cpu_use=rows, bandwidth=limits, intruders=strangers), bpf_run_ns=1)
    return found, verdicts


def watched(detail: Detail, found: Evidence, verdicts: tuple[Verdict, ...]) -> SessionState:
    """The second window of a watch: the first was as this one."""
    counters = Counters(series=Series(detail))
    counters.add(found, asked(found).rows)
    result = make_result(found, verdicts, unknown=None)
    counters.judged(result)
    return SessionState(counters=counters, open=found, last=result, window_s=30.0)
