"""A node that is followed and whose state files say nothing: for a moment that is a restart, then it is said."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import DB, WEB, Node, back, cpus
from tests.unit.toolkit.sources.made_node import write
from tests.unit.validators.evidence_builder import evidence
from toolkit.model.evidence.following import Following
from toolkit.model.layers import Layer
from toolkit.model.verdict import Outcome
from toolkit.session.following.layer_history import LayerHistory
from toolkit.sources.live_source import SourceReading
from validators.rules import checkpoint

STATE, MEMORY = "var/lib/kubelet/cpu_manager_state", "var/lib/kubelet/memory_manager_state"
NONE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
SECOND = 1_000_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the node's clock is ahead, to be changed."""
    ahead, now_ns = [0.0], time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns + int(ahead[0] * SECOND))
    return ahead


def outcomes(reading: SourceReading) -> dict[str, Outcome]:
    """What rule checkpoint says, by file."""
    seen = evidence(state_files=reading.state_files, following=Following(source="kubelet"))
    return {one.subject: one.outcome for one in checkpoint.RULE.check(reading.claims, seen)}


def why(reading: SourceReading, part: str = "cpu_state") -> list[str]:
    return [one.reason for one in reading.missing if one.part == part]


@pytest.mark.parametrize("spoil", [lambda text: text[:-20], lambda text: text + "x", lambda _: "%"])
def test_a_spoilt_file_fails_for_as_long_as_it_lasts(
    node: Node, clock: list[float], spoil: Callable[[str], str]
) -> None:
    """Torn, bytes behind its end, nonsense: no restart writes one. The claims are those of before."""
    before = node.read()
    file = node.root / STATE
    file.write_text(spoil(file.read_text()))
    for clock[0] in (0.1, 3600.0):
        reading = node.read()
        assert outcomes(reading) == {"cpu_manager_state": Outcome.FAILED}
        assert not any(view.layer is Layer.CHECKPOINT for view in reading.layers)
        assert cpus(reading) == cpus(before)
        (reason,) = why(reading)
        assert reason.endswith(": what it said last holds")


def test_an_absent_file_passes_no_longer_than_a_reconcile(node: Node, clock: list[float]) -> None:
    """A kubelet that is down writes none: no failure, what it promised goes on, and nothing says so."""
    before = node.read()
    (node.root / STATE).unlink()
    for clock[0], outcome in ((0.1, Outcome.PASSED), (14.9, Outcome.PASSED), (15.2, Outcome.UNDECIDED)):
        reading = node.read()
        assert outcomes(reading) == {"cpu_manager_state": outcome}
        assert (cpus(reading), len(why(reading))) == (cpus(before), 1)
    node.state("0-1", db="2-3")
    reading = node.read()
    assert (outcomes(reading), why(reading)) == ({"cpu_manager_state": Outcome.PASSED}, [])


def test_what_the_runtime_is_asked_for_while_the_file_is_silent_is_owed_by_none(node: Node) -> None:
    """The last owner has ended, and a kubelet of which it is not known whether it restarts has let the pool grow."""
    node.read()
    node.ends(DB)
    node.state("0-3")
    node.runs(WEB, "web", "app", "0-3")
    grown = node.read()
    node.state("0-1", new="2-3")
    taken = node.read()

    assert (back(grown), cpus(grown)["web/app"]) == ({}, "0-3")
    assert back(taken) == {"web/app": "2-3"}


def test_an_empty_file_fails_after_a_reconcile(node: Node, clock: list[float]) -> None:
    """It is there, and no checkpoint."""
    node.read()
    write(node.root, STATE, "")
    assert outcomes(node.read()) == {"cpu_manager_state": Outcome.PASSED}
    clock[0] = 15.1
    assert outcomes(node.read()) == {"cpu_manager_state": Outcome.FAILED}


def test_a_file_that_was_never_there_is_said_when_one_is_due(node: Node, clock: list[float]) -> None:
    """The policy is static."""
    (node.root / STATE).unlink()
    assert node.read().state_files == ()
    clock[0] = 15.1
    assert outcomes(node.read()) == {"cpu_manager_state": Outcome.UNDECIDED}


def test_a_policy_that_is_not_the_configured_one_fails(node: Node) -> None:
    """Static is configured, the file says none (F25): at the first sight, and after a file of static."""
    write(node.root, STATE, NONE)
    assert outcomes(node.read()) == {"cpu_manager_state": Outcome.FAILED}
    node.state("0-1", db="2-3")
    node.read()
    write(node.root, STATE, NONE)
    assert outcomes(node.read()) == {"cpu_manager_state": Outcome.FAILED}


@pytest.mark.parametrize("absent", [False, True])
def test_memory_is_judged_whatever_the_cpu_managers_file_says(node: Node, *, absent: bool) -> None:
    """The CPU manager's file has no CPU (policy none), or there is none: a torn file of memory fails all the same."""
    node.configure("memoryManagerPolicy: Static\n")
    node.read()
    write(node.root, STATE, NONE)
    if absent:
        (node.root / STATE).unlink()
    write(node.root, MEMORY, '{"policyName":"Static","machin')
    assert outcomes(node.read())["memory_manager_state"] is Outcome.FAILED


def test_a_memory_file_is_missed_after_a_reconcile(node: Node, clock: list[float]) -> None:
    """Both files are absent while a kubelet restarts."""
    node.configure("memoryManagerPolicy: Static\n")
    write(node.root, MEMORY, '{"policyName":"Static"}')
    first = outcomes(node.read())["memory_manager_state"]
    for file in (STATE, MEMORY):
        (node.root / file).unlink()
    assert outcomes(node.read())["memory_manager_state"] is first
    clock[0] = 15.1
    node.read()
    clock[0] = 30.3
    assert outcomes(node.read())["memory_manager_state"] is Outcome.UNDECIDED


def test_no_window_has_a_word_of_long_ago(node: Node, clock: list[float]) -> None:
    """What is not said any more, and was asked for since then: not the state file's, nor the layer's."""
    history, start_ns = LayerHistory("kubelet"), time.monotonic_ns()
    history.begin(start_ns)
    history.read(node.read(), start_ns)
    node.configure("x: [\n")  # nothing says any more that a file is due
    (node.root / STATE).unlink()
    for clock[0] in (2.0, 20.0, 40.0):
        history.read(node.read(), time.monotonic_ns())
    for at_s, words in ((10, 1), (50, 0)):
        stated = history.node_evidence(start_ns + at_s * SECOND, SECOND)
        layers = [view for view in stated.layers if view.layer is Layer.CHECKPOINT and view.claim == "db/main"]
        assert bool(stated.state_files) is bool(layers) is bool(words)


@pytest.mark.parametrize(("began_at", "begun"), [(0.5, False), (1.0, True), (None, True)])
def test_a_refused_pod_is_over_at_once_unless_the_kubelet_restarted(
    node: Node, began_at: float | None, *, begun: bool
) -> None:
    """The only owner of CPUs is refused: the pool has them back before any reconcile, and owes none of them.

    A kubelet that began since then, or of which that is not known, may be about to say again what it said before.

    :param began_at: when the kubelet began, as a part of the time that this machine has been up.
    """
    node.ends(DB)
    node.state("0-1")
    node.read()
    node.state("0", new="1")
    assert back(node.read()) == {"web/app": "1"}
    if began_at is not None:
        os.utime(node.root / "var/lib/kubelet/config.yaml", (0, 0))
        node.started(time.clock_gettime(time.CLOCK_BOOTTIME) * began_at)
    node.state("0-1")
    reading = node.read()
    assert back(reading) == ({"web/app": "1"} if begun else {})
    (said,) = reading.state_files
    assert said.cpu is not None
    assert bool(said.cpu.entries) is begun
