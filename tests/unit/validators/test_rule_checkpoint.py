"""The rule ``checkpoint``: sound files, every way to break one, leaks in time, and files of a real kubelet."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recordings import CAPTURES
from tests.unit.validators.checkpoint_builder import (
    GOOD,
    judged,
    known,
    memory,
    memory_verdict,
    reading,
    state,
    written,
)
from tests.unit.validators.evidence_builder import SECOND, claim_set, coverage, cpus, evidence
from toolkit.allocation.checkpoint.memory import write_memory_checkpoint
from toolkit.allocation.checkpoint.state_files import MAX_TEXT, cpu_state_file, memory_state_file
from toolkit.allocation.memory.state import MemoryState
from toolkit.model.blind_spots import STATE_AUTHORS
from toolkit.model.evidence import StateWrite
from toolkit.model.evidence.following import Following
from toolkit.model.state_files import DeviceStateFile, KnownContainer, StateReading
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.checkpoint import RULE


def test_sound() -> None:
    """A file as a kubelet writes it."""
    verdict = judged(reading(GOOD))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.subject == "cpu_manager_state"


@pytest.mark.parametrize(
    ("policies", "outcome"),
    [
        ({"cpu_policy": "static"}, Outcome.UNDECIDED),
        ({"cpu_policy": "none", "memory_policy": "Static"}, Outcome.UNDECIDED),
        ({"cpu_policy": "none"}, Outcome.SKIPPED),
        ({}, Outcome.UNDECIDED),
    ],
)
def test_a_file_that_its_policy_needs_is_missing(policies: dict[str, str], outcome: Outcome) -> None:
    """What was not read cannot pass; a policy that keeps nothing needs no file."""
    assert judged(reading(None, **policies)).outcome is outcome


@pytest.mark.parametrize(
    ("file", "outcome", "reason"),
    [
        (DeviceStateFile(checksum_ok=True, devices_count=2), Outcome.PASSED, "2 devices taken"),
        (DeviceStateFile(checksum_ok=False), Outcome.FAILED, "takes every device for free"),
        (DeviceStateFile(problem="unexpected end of JSON input"), Outcome.FAILED, "unexpected end of JSON input"),
        (DeviceStateFile(checksum_ok=True, twice=("x/nic n0",)), Outcome.FAILED, "the same device: x/nic n0"),
        (DeviceStateFile(), Outcome.UNDECIDED, "does not say whether the checksum"),
    ],
)
def test_the_device_managers_file(file: DeviceStateFile, outcome: Outcome, reason: str) -> None:
    """A verdict of its own, beside that of the CPU manager's file."""
    made = reading(GOOD, devices=file)
    verdicts = RULE(claim_set(reserved_cpus=cpus("0")), evidence(state_files=(made,)))
    assert [verdict.subject for verdict in verdicts] == ["cpu_manager_state", "kubelet_internal_checkpoint"]
    assert (verdicts[1].outcome, reason in verdicts[1].reason) == (outcome, True)


def test_no_file_is_skipped() -> None:
    """Not every run has a kubelet."""
    assert judged().outcome is Outcome.SKIPPED
    assert judged(reading(None)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "unexpected end"),
        ("[]", "cannot unmarshal array"),
        ("{" * 5000, "invalid character"),
        ("x" * (MAX_TEXT + 1), "are no state file"),
        (GOOD.replace("0-1", "0,1"), "checksum"),
        (GOOD + "}", "invalid character"),
        (state("0-1", policy="best"), "'best' is not none or static"),
        (state("", {}, policy="none"), "policy is none, configured is static"),
        (state("1-3"), "CPUs 2-3 of u1/db are in the shared pool, too"),
        (state("0", {"u1": {"db": "2-3"}}), "CPU 1 is in no set: leaked"),
        (state("0-1", {"u1": {"db": "2-4"}}), "CPU 4 is in a set but not online"),
        (state("1,3", {"u1": {"db": "0,2"}}), "reserved CPU 0 is assigned"),
        (state("0", {"u1": {"db": "1-2"}, "u2": {"db": "2-3"}}), "CPU 2 belongs to both u1 and u2"),
        (state("0", {"u1": {"db": "1-2", "b": "2-3"}}), "CPU 2 belongs to u1/b and u1/db, which both run"),
        (state("0-1", {"u1": {"db": "2-3"}}, {"u1": "2"}), "CPU 3 of u1/db is not its pod's"),
        (state("", {"u1": {"db": "0-3"}}), "the shared pool is empty"),
    ],
)
def test_broken(text: str, words: str) -> None:
    """Each negative control is found, by its name."""
    verdict = judged(reading(text))

    assert verdict.outcome is Outcome.FAILED
    assert words in verdict.reason


@pytest.mark.parametrize(("default", "outcome"), [("1", "passed"), ("0-1", "failed"), ("", "failed")])
def test_strict_reservation(default: str, outcome: str) -> None:
    """Reserved CPUs are in no set then."""
    assert judged(reading(state(default)), strict_reservation=True).outcome.value == outcome


def test_lists_that_are_none() -> None:
    """Nonsense where a CPU list belongs is told, not raised."""
    file = cpu_state_file(GOOD)
    entry = replace(file.entries[0], cpus="two")

    assert judged(reading(replace(file, entries=(entry,)))).outcome is Outcome.FAILED
    assert judged(reading(replace(file, default="3-1"))).outcome is Outcome.FAILED


def test_reuse_within_a_pod() -> None:
    """An init container that has ended keeps its entry; the pod's pool is shared by those with the same set."""
    reused = state("0-1", {"u1": {"b": "2-3", "db": "2-3"}})
    shared = state("0", {"u1": {"b": "2-3", "db": "2-3"}}, {"u1": "1-3"})

    assert judged(reading(reused, containers=known("u1/db", "u1/b", running=False))).outcome is Outcome.PASSED
    assert judged(reading(reused)).outcome is Outcome.FAILED
    assert judged(reading(shared)).outcome is Outcome.PASSED


def test_not_started_yet_is_undecided() -> None:
    """At its first start the pool is empty for a moment; policy ``none`` is always so."""
    assert judged(reading(state("", {}))).outcome is Outcome.UNDECIDED
    assert judged(reading(state("", {}, policy="none"), cpu_policy="none")).outcome is Outcome.PASSED


def test_what_is_not_known_is_undecided() -> None:
    """Without the list of containers leaks cannot be told; without the online CPUs the union cannot."""
    assert judged(reading(GOOD, containers=None)).outcome is Outcome.UNDECIDED
    assert judged(reading(GOOD, cpus_online=cpus(""))).outcome is Outcome.UNDECIDED
    assert judged(reading(state("0-3", {}), containers=None)).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("seconds", "period", "outcome"),
    [(25.0, None, "failed"), (24.9, None, "undecided"), (7.0, 1.0, "failed"), (6.9, 1.0, "undecided")],
)
def test_leaks_take_time(seconds: float, period: float | None, outcome: str) -> None:
    """An entry without its container is a leak once it has outlived two reconciles, and the end of its pod."""
    first = reading(GOOD, containers=())
    last = replace(first, at_ns=int(seconds * SECOND))

    assert judged(first, last, reconcile_period_s=period).outcome.value == outcome
    assert judged(last, first, reconcile_period_s=period).outcome.value == outcome


@pytest.mark.parametrize(("seconds", "outcome"), [(24.9, "passed"), (25, "failed")])
def test_a_leak_of_a_followed_node_waits_for_a_later_window(seconds: float, outcome: str) -> None:
    """A pod that goes leaves its entry for a moment: no doubt, since the next window has the time of the first."""
    first = reading(GOOD, containers=(), at_ns=-SECOND)
    last = replace(first, at_ns=int((seconds - 1) * SECOND))
    seen = replace(evidence(), state_files=(first, last), following=Following(source="kubelet"))

    (verdict,) = RULE(claim_set(), seen)
    assert verdict.outcome.value == outcome


def test_a_moment_between_two_saves_passes() -> None:
    """What was wrong before is counted. Of a file that is read only once nothing else is known."""
    torn = reading(state("0", {"u1": {"db": "2-3"}}), at_ns=SECOND)
    verdict = judged(torn, reading(GOOD, at_ns=2 * SECOND))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["passing_problems_count"] == 1
    assert judged(torn).outcome is Outcome.FAILED


# memory_manager_state


def test_sound_memory() -> None:
    """Tables and blocks agree, and with this boot's totals."""
    verdict = memory_verdict(memory(), node_bytes={0: 1000, 1: 1000}, containers=())

    assert verdict.outcome is Outcome.PASSED
    assert verdict.subject == "memory_manager_state"
    assert verdict.measures["stale_pods_count"] == 1


WRONG_TABLE = memory()
WRONG_TABLE.nodes[1].memory["memory"].free = 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{}x", "invalid character"),
        (write_memory_checkpoint("Static", memory(), pod_level=False).replace("300", "301"), "checksum"),
        (write_memory_checkpoint("Some", memory(), pod_level=False), "policy 'Some'"),
        (write_memory_checkpoint("None", MemoryState(), pod_level=False), "configured is Static"),
        (memory(reserved=400), "400 bytes of memory are taken, the blocks sum up to 300"),
        (memory(node=7), "on node 7, which the file does not know"),
        (WRONG_TABLE, "0 taken and 1 free are not the allocatable 900"),
    ],
)
def test_broken_memory(value: MemoryState | str, words: str) -> None:
    """Each negative control is found, by its name."""
    verdict = memory_verdict(value)

    assert verdict.outcome is Outcome.FAILED
    assert words in verdict.reason


def test_totals_that_changed_with_the_boot() -> None:
    """A node that now has other memory than the file says: the next start of the kubelet will fail."""
    verdict = memory_verdict(memory(), node_bytes={0: 1000, 1: 996})

    assert verdict.outcome is Outcome.FAILED
    assert "node 1 has 996 bytes, the file has 1000" in verdict.reason


# A real kubelet's files.

EMPTY_POOL = "the shared pool is empty"
STRICT = ("A2", "B1", "B2")


def captured(path: Path, name: str) -> str:
    with tarfile.open(path) as archive:
        member = next(entry for entry in archive.getmembers() if entry.name.endswith(f"/{name}"))
        file = archive.extractfile(member)
        assert file is not None
        return file.read().decode()


def test_files_of_a_real_kubelet() -> None:
    """Healthy moments pass; those with an exhausted pool under strict reservation, and only they, fail with that."""
    exhausted = 0
    for path in CAPTURES:
        run = path.name
        file = cpu_state_file(captured(path, "cpu_manager_state"))
        moment = StateReading(
            at_ns=0,
            cpus_online=cpus("0-1" if run.startswith(("A", "D")) else "0-7"),
            cpu=file,
            memory=memory_state_file(captured(path, "memory_manager_state")),
            cpu_policy="static",
            containers=tuple(
                KnownContainer(pod_uid=entry.pod_uid, container=entry.container, running=entry.container != "setup")
                for entry in file.entries
            ),
        )
        verdicts = RULE(
            claim_set(
                reserved_cpus=cpus("0" if run.startswith(("A", "D")) else "0-1"),
                strict_reservation=run.startswith(STRICT),
            ),
            evidence(state_files=(moment,)),
        )
        assert [verdict.subject for verdict in verdicts] == ["cpu_manager_state", "memory_manager_state"]
        assert verdicts[1].outcome is Outcome.PASSED, (path, verdicts[1].reason)
        if not file.default:
            exhausted += 1
            assert verdicts[0].reason.startswith(EMPTY_POOL), path
        assert verdicts[0].outcome is (Outcome.PASSED if file.default else Outcome.FAILED), (path, verdicts[0].reason)
    assert exhausted >= 5


WRITTEN = "2026-11-21T23:59:58.123+00:00"
BROKEN = replace(cpu_state_file(GOOD), checksum_ok=False)


def seen(*readings: StateReading, **changes: object) -> Verdict:
    """Judge readings of a window in which more was seen."""
    return RULE(claim_set(reserved_cpus=cpus("0")), evidence(state_files=readings, **changes))[0]


def test_a_broken_file_says_when_it_was_written_and_why_not_by_what() -> None:
    """Where nothing saw that: its own time. What is sound says nothing, and so does what pinproof's model wrote."""
    sound = replace(reading(GOOD), cpu_written_at=WRITTEN)
    broken = replace(sound, cpu=BROKEN)
    said = "; cpu_manager_state was last written on 2026-11-21 at 23:59:58.123 UTC, by which task is not known: "

    assert judged(broken).outcome is Outcome.FAILED
    assert judged(broken).reason.endswith(said + "no witness saw that")
    assert seen(broken, state_writes=()).reason.endswith(said + "nothing has changed it since the watch began")
    refused = coverage(blind_spots=(f"{STATE_AUTHORS}: /k: Function not implemented",))
    assert seen(broken, coverage=refused).reason.endswith("does not tell (/k: Function not implemented)")
    assert judged(replace(broken, cpu_written_at="")).reason.endswith(
        "; which task wrote cpu_manager_state is not known: no witness saw that"
    )
    assert "written" not in judged(sound).reason
    assert "written" not in judged(replace(broken, modelled=True)).reason


def test_a_broken_memory_file_says_when_it_was_written() -> None:
    """As the other one."""
    broken = replace(memory_state_file(written(memory())), checksum_ok=False)
    verdict = memory_verdict(broken, memory_written_at=WRITTEN)

    assert "; memory_manager_state was last written on 2026-11-21 at 23:59:58.123 UTC, by" in verdict.reason


def wrote(at_s: float, comm: str, did: str = "replaced", file: str = "cpu_manager_state", pid: int = 7) -> StateWrite:
    """Build a change of a state file."""
    return StateWrite(at_ns=int(at_s * SECOND), file=file, did=did, pid=pid, comm=comm)


def test_what_made_a_state_file_wrong_is_named() -> None:
    """The last change before the first wrong reading: none of another file, and no kubelet's that repeats it."""
    good, bad = reading(GOOD), replace(reading(GOOD), cpu=BROKEN)
    readings = [replace(good, at_ns=SECOND), replace(bad, at_ns=3 * SECOND), replace(bad, at_ns=9 * SECOND)]
    by_hand = wrote(2.5, "sed")
    around = (wrote(0.5, "kubelet"), wrote(2, "vi", file="memory_manager_state"), by_hand, wrote(5, "kubelet"))
    verdict = seen(*readings, state_writes=around)

    assert verdict.reason.endswith("; cpu_manager_state was replaced by sed (pid 7) at 01:00:02.500 UTC")
    assert (verdict.measures["writer_comm"], verdict.measures["written_at_ms"]) == ("sed", 2500.0)
    nameless = seen(*readings, state_writes=(replace(by_hand, comm="", did="written"),))
    assert nameless.reason.endswith("was written by a process that has ended (pid 7) at 01:00:02.500 UTC")
    unseen = seen(*readings, state_writes=(replace(by_hand, comm="", pid=0),))
    assert unseen.reason.endswith("at 01:00:02.500 UTC, by a process that the kernel reports to CAP_SYS_ADMIN alone")
    late = seen(*readings, state_writes=(wrote(5, "sed"),))
    assert late.reason.endswith("is not known: it was so before the first change that was seen")


def test_what_a_kubelet_wrote_is_no_strangers() -> None:
    """It says so; where something else had changed the file before, the kubelet may have taken that for its own."""
    bad = replace(reading(GOOD), cpu=BROKEN, at_ns=3 * SECOND)

    assert seen(bad, state_writes=(wrote(2, "kubelet"),)).reason.endswith(
        "; cpu_manager_state was replaced by kubelet (pid 7) at 01:00:02.000 UTC, the kubelet itself"
    )
    assert seen(bad, state_writes=(wrote(-9, "sed"), wrote(2, "k3s-server"))).reason.endswith(
        ", the kubelet itself, before that replaced by sed (pid 7) at 00:59:51.000 UTC, 9.0 s before the window"
    )


def test_a_file_that_was_removed_names_by_what() -> None:
    """Undecided, because it was not read: it says what removed it."""
    gone = replace(reading(None), cpu_policy="static", at_ns=3 * SECOND)

    assert seen(gone, state_writes=(wrote(2, "rm", "removed"),)).reason.endswith(
        "the file was not read; cpu_manager_state was removed by rm (pid 7) at 01:00:02.000 UTC"
    )
