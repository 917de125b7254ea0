"""One cause is told once: what follows from it is counted behind it, and what has another cause stands by itself."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.model.result import make_result
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from toolkit.report.causes import causes
from toolkit.report.live_lines import Pending
from toolkit.report.statement import of_run, render_statement
from toolkit.report.table import render_table, render_window
from toolkit.timeline.ran import asked
from validators.registry import RULES

PODS = tuple(f"pod{number}/main" for number in range(30))
GAP = "the kubelet was not read for 3.1 s: what changed is not known"


def verdict(rule: str, subject: str, reason: str, outcome: Outcome = Outcome.UNDECIDED, **changes: object) -> Verdict:
    value = Verdict(rule=rule, subject=subject, outcome=outcome, reason=reason, measures={})
    return replace(value, **changes)  # type: ignore[arg-type]


def one_gap() -> tuple[Verdict, ...]:
    """A reading gap: each rule about each of 30 containers is undecided, and so is the evidence."""
    rules = [rule.id for rule in RULES if not rule.of_node]
    found = [verdict(rule, pod, GAP) for pod in PODS for rule in rules]
    return (*found, verdict("evidence-health", "node", GAP))


def edited() -> tuple[Verdict, ...]:
    """A state file whose pool lost CPU 3: ten containers have it still, by what the kubelet asked for."""
    measures: dict[str, Measure] = {
        "checkpoint_cpus": "0-2",
        "cri_cpus": "0-3",
        "cgroup_cpus": "0-3",
        "observed_cpus": "0-3",
    }
    found = []
    for number, pod in enumerate(PODS[:10]):
        ran = Offender(claim=pod, tid=700 + number, comm="sh", cpu=3, first_at_ns=0, total_ns=9, longest_ns=9)
        mask = f"thread {700 + number} (sh) may run on CPUs 0-3, promised is 0-2"
        lag = "checkpoint and cri differ since 7.0 s: CPUs 0-2 against 0-3, for 18.0 s (bound 15.0 s)"
        failed = Outcome.FAILED
        found += [
            verdict("cpuset-containment", pod, f"{number + 2} switches outside 0-2", failed, offenders=(ran,)),
            verdict("affinity-mask", pod, mask, failed, offenders=(ran,)),
            verdict("applied", pod, "cpuset.cpus was 0-3, promised 0-2 (and 1 more)", failed),
            verdict("layers-agree", pod, lag, failed, measures=dict(measures)),
        ]
    return tuple(found)


def text_of(*verdicts: Verdict, verbose: bool = False) -> str:
    return " ".join(render_table(make_result(evidence(), verdicts, unknown=None), verbose=verbose).split())


def test_one_gap_is_one_cause() -> None:
    """The evidence says it; what rests on it is counted. The result has all."""
    (cause,) = causes(one_gap())
    assert cause.head.rule == "evidence-health"
    assert len(cause.others) == 30 * sum(not rule.of_node for rule in RULES)

    text = render_table(make_result(evidence(), one_gap(), unknown=None))
    assert text.count("was not read for") == 1
    assert len(text.splitlines()) < 25
    assert f"… and {len(cause.others)} more verdicts for the same reason (" in " ".join(text.split())
    assert len(make_result(evidence(), one_gap(), unknown=None).verdicts) == len(one_gap())


def test_a_reason_that_names_its_subject_is_one_all_the_same() -> None:
    """Each claim's threads were not read, each for another while; the evidence names three of them."""
    about = [
        verdict("affinity-mask", pod, f"{pod}: its threads were not read for 3.{n} s") for n, pod in enumerate(PODS)
    ]
    three = "; ".join(one.reason for one in about[:3])
    (cause,) = causes([*about, verdict("evidence-health", "node", f"{three} (and 27 more)")])
    assert cause.head.subject == "node"
    assert len(cause.others) == 30


def test_a_second_reason_is_not_lost() -> None:
    """It is told by the verdict that has it alone, or by the one that has both."""
    lost = "12 events lost (ring buffer full)"
    both = verdict("applied", "db", f"{GAP}; {lost}")
    assert len(causes([*one_gap(), both, verdict("noise", "cpu 2", lost)])) == 2
    found = causes([*one_gap(), both])
    assert [cause.head.reason for cause in found[1:]] == [both.reason]


def test_one_state_file_is_one_cause() -> None:
    """Forty failures of ten containers: the layers that differ are told, and what follows is counted."""
    (cause,) = causes(edited())
    assert (cause.head.rule, cause.head.subject, len(cause.others)) == ("layers-agree", PODS[0], 39)
    text = text_of(*edited())
    assert "applied 10" in text
    assert text.count("(sh)") == 0


def test_the_file_itself_comes_first() -> None:
    """Where the rule about it has failed, too."""
    file = verdict("checkpoint", "cpu_manager_state", "CPU 3 has no owner", Outcome.FAILED)
    (cause,) = causes([*edited(), file])
    assert cause.head == file


@pytest.mark.parametrize("cpu", [3, 5])
def test_a_task_outside_its_own_cgroup_is_a_cause_of_its_own(cpu: int) -> None:
    """No state file puts a thread on a CPU that its cgroup does not have."""
    ran = Offender(claim=PODS[0], tid=7, comm="hog", cpu=cpu, first_at_ns=0, total_ns=9, longest_ns=9)
    rule = "exclusive-cpus"
    escape = verdict(rule, "ex/main", "1 task of another pod ran on its CPUs", Outcome.FAILED, offenders=(ran,))
    found = causes([*edited(), escape])
    assert [cause.head for cause in found[1:]] == ([] if cpu == 3 else [escape])
    assert ("hog (7)" in text_of(*edited(), escape)) is (cpu == 5)


@pytest.mark.parametrize(
    "change",
    [
        {"cgroup_cpus": "0-4"},  # drift: not what was asked for
        {"checkpoint_cpus": "0-3"},  # the state file says what is
        {"checkpoint_cpus": ""},
    ],
)
def test_drift_has_no_state_file_for_its_cause(change: dict[str, str]) -> None:
    """Where a cgroup is not as asked for, what ran there is told."""
    found = [
        replace(one, measures={**one.measures, **change}) if one.rule == "layers-agree" else one for one in edited()
    ]
    assert len(causes(found)) > 1
    assert len([one for one in causes(found) if one.head.rule == "cpuset-containment"]) == 10


def test_other_limits_are_no_consequence() -> None:
    """A memory limit that was written, and a file of more than CPUs that differs, stand by themselves."""
    limit = verdict("applied", PODS[0], "the memory limit was 1 bytes, promised 2", Outcome.FAILED)
    more = verdict("applied", PODS[1], "cpuset.cpus was 0-3, promised 0-2 (and 2 more)", Outcome.FAILED)
    noise = verdict("noise", "cpu 3", "9 ms of system tasks", Outcome.FAILED)
    assert [cause.head for cause in causes([*edited(), limit, more, noise])][1:] == [limit, more, noise]


def test_failures_that_measured_differently_are_told_each() -> None:
    """Two containers that ran outside have two causes, until they are shown to have one."""
    found = [verdict("cpuset-containment", pod, f"{ms} ms outside 0-2", Outcome.FAILED) for ms, pod in enumerate(PODS)]
    assert len(causes(found)) == len(found)


def test_all_are_named_where_an_option_asks() -> None:
    """``--verbose``: each rule and subject, and the threads."""
    text = text_of(*edited(), verbose=True)
    assert all(f"sh (70{number})" in text for number in range(10))
    assert "for the same reason" not in text


def test_windows_of_a_sum_have_one_cause() -> None:
    """The reason is the same whatever window it is of."""
    found = [
        verdict(
            "applied",
            pod,
            f"window {number} of 48 (2026-11-29T05:00:0{number % 10}+00:00), and 2 more undecided: {GAP}",
        )
        for number, pod in enumerate(PODS)
    ]
    assert len(causes(found)) == 1


def test_a_window_a_line_and_the_statement_say_it_once() -> None:
    """What is printed of a window, live lines of a watch, and Markdown; the statement lists causes."""
    result = make_result(evidence(), one_gap(), unknown=None)
    assert render_window(3, result).count("was not read for") == 1
    statement = render_statement(of_run(result, "r", redacted=False))
    assert len(re.findall(r"undecided: `evidence-health` node: .*more verdicts for the same reason", statement)) == 1
    assert statement.count("was not read for") == 1

    pending = Pending()
    layers = [one for one in edited() if one.rule in ("layers-agree", "applied")]
    quiet = evidence(cpu_use=(), offenders=(), intruders=())
    pending.ended(claim_set(), quiet, asked(quiet), layers)
    (line,) = pending.lines()
    assert line.startswith("pod0/main: checkpoint and cri differ since 7.0 s")
    assert line.endswith("… and 19 more verdicts for the same reason (layers-agree 9, applied 10)")
