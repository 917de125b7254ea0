"""Rule ``evidence-health``: what was seen is complete, two witnesses agree, and the planted controls came out right.

Incomplete evidence makes it ``undecided``; evidence that is proved wrong (a canary that kept its claim was reported,
the numbers contradict each other) makes it ``failed``.
"""

from __future__ import annotations

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Canary, Evidence
from toolkit.model.measures import Better, Kind, amounts, gated, levels, words
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.credibility.contradictions import contradictions
from validators.credibility.trust import clean_canary_reported, doubts, summary
from validators.queries import hotplug, timeline
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.rules import exclusive_cpus, noise, weight_share
from validators.witness import Witness

ID = "evidence-health"
SUBJECT = "node"
JUDGED_BY = tuple(witness for witness in Witness if witness is not Witness.ACTIONS)
"""Authors of moves explain; no rule judges by them."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge the evidence as a whole."""
    return (_judge(claims, evidence),)


def _judge(claims: ClaimSet, evidence: Evidence) -> Verdict:
    coverage = evidence.coverage
    measures: dict[str, Measure] = {
        "switches_judged": coverage.switches_judged,
        "switches_kernel": coverage.switches_kernel,
        "switches_untraced": coverage.switches_untraced,
        "switches_skew": coverage.switches_skew,
        "lost_events": coverage.lost_events,
        "map_full": coverage.map_full,
        "missed_runs": coverage.missed_runs,
        "cpus_seen": str(coverage.cpus_seen),
        "proc_scans": coverage.proc_scans,
        "sampler_hz": coverage.sampler_hz,
        "hotplug_events": len(evidence.hotplug),
        "blind_spots_count": len(coverage.blind_spots) + (timeline.asked(evidence).unknown is not None),
        "ended_lives_count": len(evidence.ended_use),
        "steal_ns": evidence.steal_ns,
    }
    if evidence.standstill_by_cpu_ns is not None:
        measures["standstill_ns"] = sum(evidence.standstill_by_cpu_ns.values())
    if coverage.switches_kernel > 0:
        measures["switches_judged_ratio"] = (
            coverage.switches_judged + coverage.switches_untraced
        ) / coverage.switches_kernel
    latency_ms = control_latency_ms(evidence)
    if latency_ms is not None:
        measures["positive_control_latency_ms"] = latency_ms

    verdict = Judgement(ID, SUBJECT, measures)
    wrong = list(contradictions(evidence))
    wrong += [
        f"the canary that kept its claim was reported ({canary.out_of_set_switches} switches on a wrong CPU)"
        for canary in evidence.canaries
        if clean_canary_reported(canary) and canary.planted_switches >= 0 and not _lost_its_cpu(canary, evidence)
    ]
    if wrong:
        return verdict(Outcome.FAILED, summary(wrong))
    rests_on = frozenset(JUDGED_BY) - spared(claims)
    found = [doubt for doubt in doubts(claims, evidence) if doubt.witnesses & rests_on]
    if found:
        return verdict(Outcome.UNDECIDED, summary(doubt.text for doubt in found))
    seen = "" if latency_ms is None else f", a planted escape was seen after {latency_ms:.1f} ms"
    hidden = f", {coverage.switches_untraced} not traced by the kernel" if coverage.switches_untraced else ""
    judged = f"{coverage.switches_judged} of {coverage.switches_kernel} switches judged{hidden}"
    return verdict(Outcome.PASSED, f"{judged}, {coverage.lost_events} lost{seen}")


def _lost_its_cpu(canary: Canary, evidence: Evidence) -> bool:
    """Whether the kernel moved it: nothing can keep a claim on a CPU that goes offline. The doubts say so."""
    gone = canary.cpu not in evidence.coverage.cpus_online or any(one.cpu == canary.cpu for one in evidence.hotplug)
    return gone or hotplug.masks_reset(evidence)


def control_latency_ms(evidence: Evidence) -> float | None:
    """Return how long the slowest planted escape took to be reported; ``None`` if one was not."""
    reported = [canary for canary in evidence.canaries if canary.positive]
    latencies = [
        (canary.reported_at_ns - canary.planted_at_ns) / 1e6 for canary in reported if canary.reported_at_ns is not None
    ]
    return max(latencies) if latencies and len(latencies) == len(reported) else None


def spared(claims: ClaimSet) -> frozenset[Witness]:
    """A witness on which no other rule rests for these claims leaves nothing undecided."""
    return (noise.spared(claims) - exclusive_cpus.RULE.rests_on(claims)) | weight_share.spared(claims)


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The evidence is complete, its witnesses agree, and the planted controls came out right.",
        how=prose("""
            The switches that were judged are compared with the kernel's own count (ctxt in /proc/stat). Events, counts
            and program runs that were lost, CPUs that were never seen, and CPU hotplug are counted. A canary with a
            deliberately false claim must be reported in time; a canary that keeps its claim must not be reported,
            unless its CPU went offline, or before Linux 6.2 any CPU did. Two witnesses of CPU time and of placement are
            compared for each claim, and two of how long its tasks waited where a rule asks for that.

            Sums must come out: no CPU ran tasks for longer than the window, no counter is negative or of another
            window, slots of CPU time have what was used, two readings of which CPUs are online agree. What no machine
            can have counted is wrong; a part that is missing from its whole is incomplete, also where no blind spot
            names it.

            Incomplete evidence makes this rule, and every rule that rests on it, undecided. Evidence that is proved
            wrong makes this rule failed.
        """),
        tolerance=prose("""
            Switches: the measured read skew plus 1 in 10,000. CPU time of the two witnesses: see cpuset-containment.

            Positive control: reported within 250 ms, which is one sampler period (10 ms), one poll of user space (100
            ms), and our own wait for a CPU behind 40 tasks with a slice of 3 ms (120 ms), rounded up. At least 95 % of
            its switches (less 3), because /proc and the ledger count them at slightly different times.
        """),
        source="docs/principles.md; docs/facts.md K25-K32",
        negative_control=prose("""
            Let the canary that should keep its claim run on another CPU: the reports about it prove the fault.
        """),
        witnesses=JUDGED_BY,
        measures=(
            *amounts(
                "switches_judged",
                "switches_kernel",
                "switches_untraced",
                "switches_skew",
                "proc_scans",
                "hotplug_events",
                "ended_lives_count",
            ),
            *amounts("lost_events", "map_full", "missed_runs", "steal_ns", "standstill_ns", better=Better.LESS),
            *gated("positive_control_latency_ms", Kind.LEVEL, Better.LESS, relative=1.0, absolute=20),
            *levels("switches_judged_ratio", better=Better.MORE),
            *levels("blind_spots_count", better=Better.LESS),
            *words("cpus_seen", "sampler_hz"),
        ),
    ),
    check,
    spared=spared,
    needs=needs_switches,
    of_node=True,
)
