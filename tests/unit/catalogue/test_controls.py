"""Negative controls break what their scenario shows, on the real machine: each kind of promise, not the CPU set alone.

That every promise of every scenario *can* fail is shown by edited evidence (``test_promises_can_fail.py``); these are
the faults that are really made, of which a run has time for a few.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.lab.harness.catalogue import scenarios
from toolkit.model.claims import pod_claim_name, qos_claim_name
from toolkit.model.sandbox import WorkloadKind
from toolkit.model.scenario import NegativeControl
from toolkit.session.planning.judged import judged

CONTROLS = [(name, control) for name, scenario in scenarios().items() for control in scenario.negative_controls]

ROAMS = ("reserved-cpus", "misconfigure-node")

SHOWN: dict[str, tuple[str, ...]] = {
    "CPUs of the pod alone": ("exclusive-cpus",),
    "alignment llc": ("llc-alignment",),
    "alignment numa": ("numa-alignment",),
    "alignment numa-even": ("numa-alignment",),
    "alignment numa-pod": ("numa-alignment",),
    "alignment smt": ("smt-alignment",),
    "alignment smt-pod": ("smt-alignment",),
    "devices on its NUMA node": ("device-numa",),
    "expected CPUs": ("admission",),
    "fewest NUMA nodes": ("numa-alignment",),
    "huge pages": ("hugepages",),
    "memory nodes": ("mems-containment",),
    "noise budget": ("noise",),
    "part of contended CPU time": ("weight-share",),
    "preference closest-nodes": ("numa-alignment",),
    "preference distinct-cores": ("smt-alignment",),
    "preference llc": ("llc-alignment",),
    "preference socket": ("socket-alignment",),
    "refusal": ("admission",),
    "state files": ("checkpoint",),
    "strict reservation": ("reserved-cpus",),
    "time of a change": ("transition-window",),
}
"""Promises that only some scenarios make, and the rules that report them broken: each such scenario breaks them."""

EVERYWHERE: dict[str, tuple[tuple[str, str], ...]] = {
    "CPU set": (("cpuset-containment", ""), ("affinity-mask", ""), ("layers-agree", "widen-cpuset")),
    "CPUs of the container alone": (("exclusive-cpus", ""),),
    "memory limit": (("applied", "raise-memory"),),
    "no quota": (("quota-free", ""), ("applied", "set-quota")),
    "quota": (("quota-throttling", ""), ("applied", "set-quota")),
    "weight": (("applied", "set-shares"), ("weight-share", "")),
}
"""Promises that nearly all make: the rule, and the fault where the rule judges several of them."""
LEVELS = {pod_claim_name(""): " of pods", qos_claim_name(""): " of QoS classes"}
ENOUGH = 8
"""Scenarios that break such a promise, at each level at which it is made."""

NO_FAULT = {"CPUs kept", "expected values"}
"""What no fault breaks: no setting makes a kubelet move what runs, or give another weight than a pod asks for. Plans
are edited (``test_promises_can_fail.py``) and the model is made to (``test_wrong_plans.py``)."""

OUT_OF_REACH = {
    # Its machine may have two nodes and no more, and the pod has both: there is no third that it could be on.
    ("fewest NUMA nodes", "memory-group"),
    # For one NUMA node: there is no other that the memory could be on.
    *(("memory nodes", f"memory-container-scope-{name}") for name in ("full-budget", "init", "mixed")),
    # One pod runs, and no other that could intrude.
    *(("CPUs of the pod alone", name) for name in ("pod-level-over-budget", "pod-level-pool-kept", "weights")),
    ("CPUs of the pod alone", "memory-pod-level-pool-kept"),
    # No setting of a kubelet takes from a driver what it hands over, nor from the next pod what the last one gave back.
    *(("expected CPUs", name) for name in ("dra-exclusive", "dra-two-claims")),
    *(("expected CPUs", name) for name in ("pod-level-pool-released", "pod-level-sequential")),
}


@pytest.mark.parametrize("name", sorted(scenarios()))
def test_what_only_some_promise_is_broken_by_all_of_them(name: str) -> None:
    """A scenario about NUMA nodes breaks them, one with state files spoils them, one that refuses is made to admit."""
    rules = {control.rule for one, control in CONTROLS if one == name}
    words = {word for word in judged(scenarios()[name]) if word in SHOWN and not rules & set(SHOWN[word])}

    assert words == {word for word, one in OUT_OF_REACH if one == name}


def broken(control: NegativeControl) -> set[str]:
    """Return which of the promises of nearly every claim a control breaks, in the words of ``--list``."""
    level = next((text for suffix, text in LEVELS.items() if control.target.endswith(suffix)), "")
    return {
        f"{word}{level}"
        for word, breaks in EVERYWHERE.items()
        if any(control.rule == rule and fault in ("", control.fault) for rule, fault in breaks)
    }


def test_what_nearly_all_promise_is_broken_in_many() -> None:
    """Quotas, weights and limits of containers, pods and QoS classes, as well as CPU sets."""
    makes = Counter(
        word for scenario in scenarios().values() for word in judged(scenario) if word not in {*SHOWN, *NO_FAULT}
    )
    breaks: dict[str, set[str]] = defaultdict(set)
    for name, control in CONTROLS:
        for word in broken(control):
            breaks[word].add(name)

    assert {word: len(breaks[word]) for word in makes if len(breaks[word]) < min(ENOUGH, makes[word])} == {}


def test_no_fault_stands_for_the_others() -> None:
    """Widened CPU sets were more than half of all controls."""
    count = Counter(control.fault for _, control in CONTROLS)

    assert count["widen-cpuset"] < 0.4 * len(CONTROLS)
    assert len([fault for fault, times in count.items() if times >= ENOUGH]) >= 9


@pytest.mark.parametrize("name", [name for name, control in CONTROLS if (control.rule, control.fault) == ROAMS])
def test_what_may_run_on_reserved_cpus_does(name: str) -> None:
    """A node that lends its reserved CPUs breaks nothing until a task goes there, and busy ones may stay elsewhere."""
    workloads = scenarios()[name].workloads.values()
    assert any(load.kind is WorkloadKind.AFFINITY_ESCAPER for loads in workloads for load in loads)
