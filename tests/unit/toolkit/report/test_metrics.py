"""Prometheus metrics: computed from a snapshot at scrape time, served on loopback, no global registry."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, evidence, intruder, use
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.result import make_result
from toolkit.report.metrics import PLACE, registry_of
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.session.windows.series import Detail, Series
from toolkit.timeline.ran import asked
from validators.registry import judge


def state_now(found: Evidence | None = None) -> SessionState:
    """The first window of a session, open."""
    return SessionState(open=found or evidence())


def values(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Sample name and labels -> value, as a Prometheus server would read them."""
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if k not in PLACE))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_values() -> None:
    """Counters have units and labels; each verdict is a state set with exactly one state."""
    bad = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
    guest = intruder(OwnerClass.SYSTEM, total_ns=2_000_000)
    found = evidence(cpu_use=(*evidence().cpu_use, bad), intruders=(guest, replace(guest, tid=2)))
    read = values(registry_of(claim_set, lambda: SessionState(open=found), judge))

    assert read[("pinproof_switches_judged_total", ())] == 1_204_331
    assert read[("pinproof_out_of_set_switches_total", (("claim", "db"), ("cpu", "0")))] == 3
    assert read[("pinproof_run_seconds_total", (("claim", "db"), ("cpu", "2")))] == 1.0
    assert read[("pinproof_intruder_seconds_total", (("cpu", "2"), ("owner", "system")))] == pytest.approx(0.004)
    assert read[("pinproof_cfs_throttled_periods_total", (("claim", "web"), ("level", "0")))] == 100
    assert read[("pinproof_positive_control_latency_seconds", ())] == pytest.approx(0.0021)
    states = {
        dict(labels)["pinproof_verdict"]: value
        for (name, labels), value in read.items()
        if name == "pinproof_verdict" and ("rule", "cpuset-containment") in labels and ("subject", "db") in labels
    }
    assert states == {"failed": 1, "passed": 0, "undecided": 0, "skipped": 0}


def test_names_and_registry() -> None:
    """Every name has the prefix, and nothing is registered globally."""
    before = generate_latest(REGISTRY)
    read = values(registry_of(claim_set, state_now, judge))

    assert {name for name, _ in read if not name.startswith("pinproof_")} == set()
    assert b"pinproof" not in before
    assert b"pinproof" not in generate_latest(REGISTRY)


def test_hostile_names_stay_labels() -> None:
    """A claim's name cannot break out of its label."""
    found = evidence(cpu_use=(use('x"} 1\nevil 2', 0),))
    read = values(registry_of(claim_set, lambda: SessionState(open=found), judge))

    assert "evil" not in {name for name, _ in read}


def test_lint() -> None:
    """What ``promtool check metrics`` asks for: help, base units, ``_total`` on counters alone, no series twice."""
    text = generate_latest(registry_of(claim_set, state_now, judge)).decode()
    seen = set()
    for family in text_string_to_metric_families(text):
        assert re.fullmatch("pinproof_[a-z][a-z_]*[a-z]", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert not re.search("_(ns|us|ms|milliseconds|percent|bytes_total_bytes|count|bucket|sum)(_|$)", family.name)
        assert family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in seen, key
            seen.add(key)


def test_two_names_stay_two_series() -> None:
    """Names that look alike when printed are still two: a series twice makes Prometheus refuse the whole scrape."""
    found = evidence(cpu_use=(use("a\x01", 0), use("a\x02", 0)))
    read = values(registry_of(claim_set, lambda: SessionState(open=found), judge))

    assert sum(name == "pinproof_switches_total" for name, _ in read) == 2


def test_counters_go_on_from_window_to_window() -> None:
    """Sums of the windows that have ended and of the open one; verdicts are those of the last that ended."""
    ended, bad = Counters(), replace(use("db", 0, switches=3, run_ns=10, samples=0), out_of_set_switches=3)
    failing = evidence(cpu_use=(*evidence().cpu_use, bad))
    failed = make_result(failing, judge(claim_set(), failing), unknown=None)
    passed = make_result(evidence(), judge(claim_set(), evidence()), unknown=None)
    for found, result in ((failing, failed), (evidence(), passed), (failing, failed)):
        ended.add(found, asked(found).rows)
        ended.judged(result)
    read = values(registry_of(claim_set, lambda: SessionState(counters=ended, open=evidence(), last=failed), judge))

    assert read["pinproof_switches_judged_total", ()] == 4 * 1_204_331
    assert read["pinproof_watched_seconds_total", ()] == 4 * evidence().duration_ns / 1e9
    assert read["pinproof_out_of_set_switches_total", (("claim", "db"), ("cpu", "0"))] == 6
    assert read["pinproof_run_seconds_total", (("claim", "db"), ("cpu", "2"))] == 4.0
    windows = {outcome: read["pinproof_windows_total", (("outcome", outcome),)] for outcome in ("passed", "failed")}
    assert windows == {"passed": 1, "failed": 2}
    key = (("outcome", "failed"), ("rule", "cpuset-containment"), ("subject", "db"))
    assert read["pinproof_window_verdicts_total", key] == 2
    state = (("pinproof_verdict", "failed"), ("rule", "cpuset-containment"), ("subject", "db"))
    assert read["pinproof_verdict", state] == 1
    # What is asked for does not count into what has ended.
    assert ended.sums["switches_judged", ()] == 3 * 1_204_331


def test_a_session_that_is_over_keeps_its_sums() -> None:
    """Between the end of the last window and that of the server there is no open window."""
    ended = Counters()
    ended.add(evidence(), asked(evidence()).rows)
    read = values(registry_of(claim_set, lambda: SessionState(counters=ended), judge))

    assert read["pinproof_switches_judged_total", ()] == 1_204_331
    assert ("pinproof_window_seconds", ()) not in read


def places(state: SessionState, *promised: Claim) -> dict[str, dict[str, str]]:
    """The labels of whose a series is, by claim and by subject of a verdict."""
    text = generate_latest(registry_of(lambda: claim_set(*promised), lambda: state, judge)).decode()
    return {
        sample.labels.get("claim") or sample.labels["subject"]: {name: sample.labels[name] for name in PLACE}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if {"claim", "subject"} & sample.labels.keys()
    }


def test_series_are_of_a_namespace_a_pod_and_a_container() -> None:
    """As kube-state-metrics and cAdvisor name them; a pod's own cgroup has no container, the node is none of a pod."""
    db = claim_db(pod="shop/db-0", namespace="shop", container="main")
    pod = Claim(
        name="shop/db-0/(pod)", cgroup="/kubepods/poda", pod="shop/db-0", namespace="shop", kind=SubjectKind.POD
    )
    found = places(state_now(), db, claim_web(pod="web", namespace="default", container="app"), pod)

    assert found["db"] == {"namespace": "shop", "pod": "db-0", "container": "main"}
    assert found["web"] == {"namespace": "default", "pod": "web", "container": "app"}
    assert found["shop/db-0/(pod)"] == {"namespace": "shop", "pod": "db-0", "container": ""}
    assert found["node"] == {"namespace": "", "pod": "", "container": ""}


def test_a_container_that_has_gone_keeps_its_labels() -> None:
    """As long as its counters are served: a series that lost its labels would be another one."""
    counters = Counters()
    counters.add(evidence(), asked(evidence()).rows)
    counters.promised(claim_set(claim_db(namespace="shop", container="main"), claim_web()), evidence())
    found = places(SessionState(counters=counters, open=evidence(cpu_use=(), bandwidth=())), claim_web())

    assert found["db"] == {"namespace": "shop", "pod": "a", "container": "main"}


def test_by_rule_there_are_no_such_labels() -> None:
    """Claims have no series of their own there."""
    state = SessionState(counters=Counters(series=Series(Detail.RULE)), open=evidence())
    text = generate_latest(registry_of(claim_set, lambda: state, judge)).decode()

    assert "namespace=" not in text
