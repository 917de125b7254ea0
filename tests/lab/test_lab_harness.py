"""The harness itself, without starting a guest."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from tests.lab.harness import debian, initramfs, limits, plugin, settings
from tests.lab.harness.architecture import AMD64, ARM64, Architecture
from tests.lab.harness.inside import wire
from tests.lab.harness.topology import BY_NAME, CATALOGUE, SPARSE, TWO_SOCKETS, Topology
from toolkit.model.conformance import ControlResult
from toolkit.model.cpuset import CpuSet
from toolkit.model.verdict import Outcome, Verdict


def test_messages_survive_any_fragmentation() -> None:
    """Two messages with binary bodies come out whole when the stream arrives one byte at a time."""
    stream = wire.encode({"id": 1, "op": "run"}, bytes(range(256))) + wire.encode({"id": 2})
    decoder = wire.Decoder()
    found = [message for i in range(len(stream)) for message in decoder.feed(stream[i : i + 1])]
    assert found == [({"id": 1, "op": "run"}, bytes(range(256))), ({"id": 2}, b"")]


def test_initramfs_is_a_cpio_archive(busybox: Path, tmp_path: Path) -> None:
    """Another implementation unpacks exactly what was packed, whatever the alignment of names and contents."""
    files = {f"d/{'n' * length}": b"x" * (7 - length) for length in range(1, 8)}
    data = initramfs.archive({"d": None, **files})
    unpack = [busybox, "cpio", "-i", "-d", "--quiet"]
    subprocess.run(unpack, input=data, cwd=tmp_path, check=True, capture_output=True)
    assert {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files


@pytest.mark.parametrize("topology", CATALOGUE, ids=BY_NAME)
def test_topologies_are_consistent(topology: Topology) -> None:
    """Nodes partition the CPUs, and a distance matrix is square, symmetric and local on its diagonal."""
    owned = [cpu for node in topology.nodes for cpu in node.cpus]
    assert sorted(owned) == list(range(topology.cpu_count))
    for i, row in enumerate(topology.distances):
        assert len(row) == len(topology.distances) == len(topology.nodes)
        assert row[i] == 10
        assert all(topology.distances[j][i] == distance > 10 for j, distance in enumerate(row) if j != i)


def test_place_of_a_cpu() -> None:
    """CPU 13 of 2 sockets x 2 dies x 2 cores x 2 threads is the second thread of the first core of the last die."""
    place = TWO_SOCKETS.place(13)
    assert (place.socket, place.die, place.core_key, place.l3_key, place.node) == (1, 1, 12, 12, 3)
    assert (TWO_SOCKETS.siblings(13), TWO_SOCKETS.l3(13)) == (CpuSet.parse("12-13"), CpuSet.parse("12-15"))


def test_one_machine_has_ids_on_both_sides_of_64() -> None:
    """The sparse machine crosses a 64-bit word boundary and leaves gaps."""
    ids = list(SPARSE.online_cpus)
    assert {63, 64} <= set(ids)
    assert max(ids) > 64
    assert len(ids) < max(ids)


@pytest.mark.parametrize(
    ("architecture", "kernel", "release"),
    [
        (AMD64, "5.10", "5.10.0-32-amd64"),
        (AMD64, "6.1", "6.1.0-40-amd64"),
        (AMD64, "6.12", "6.12.117+deb12-amd64"),
        (AMD64, "6.12-rt", "6.12.117+deb12-rt-amd64"),
        (ARM64, "6.12", "6.12.117+deb13-arm64"),
        (ARM64, "6.12-16k", "6.12.117+deb13-arm64-16k"),
    ],
)
def test_a_kernel_is_found_by_the_name_of_its_package(
    architecture: Architecture, kernel: str, release: str, tmp_path: Path
) -> None:
    """Beside others of the same version that are made for something else."""
    (tmp_path / "boot").mkdir()
    for name in ("5.10.0-32-amd64", "6.1.0-40-rt-amd64", "6.1.0-40-amd64", "6.12.117+deb12-rt-amd64"):
        (tmp_path / "boot" / f"vmlinuz-{name}").touch()
    for name in ("6.12.117+deb12-amd64", "6.12.117+deb13-arm64-16k", "6.12.117+deb13-arm64"):
        (tmp_path / "boot" / f"vmlinuz-{name}").touch()
    assert debian.kernel_release(tmp_path, kernel, architecture.kernels) == release
    with pytest.raises(settings.LabUnavailableError, match="no kernel '6\\.13' in the lab"):
        debian.kernel_release(tmp_path, "6.13", architecture.kernels)


def test_tests_of_each_architecture_have_a_guest_of_their_own() -> None:
    """The worker that a test is sent to is known by the name of its guest, whose beginning is another's name."""
    test = "tests/lab/test_lab_arm64.py::test_it[pair-6.12{}-arm64-recall]"
    assert len({plugin.group_of(test.format(kind)) for kind in ("", "-16k")}) == 2


def test_cache_is_outside_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images never land in the checkout, and the variable moves them."""
    monkeypatch.delenv("PINPROOF_LAB_CACHE", raising=False)
    assert not settings.cache().is_relative_to(settings.PROJECT)
    monkeypatch.setenv("PINPROOF_LAB_CACHE", str(tmp_path))
    assert settings.cache() == tmp_path.resolve()


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED])
def test_a_guest_does_not_certify_noise(outcome: Outcome) -> None:
    """A verdict on noise comes out skipped with the reason and keeps its measures; containment is left alone."""
    noise = Verdict(rule="noise", subject="cpu 3", outcome=outcome, reason="budget", measures={"noise_ns": 5})
    held = Verdict(rule="cpuset-containment", subject="db", outcome=outcome, reason="", measures={})
    changed, kept = limits.restated([noise, held])
    assert changed.outcome is Outcome.SKIPPED
    assert "does not certify noise" in changed.reason
    assert changed.measures == {"noise_ns": 5}
    assert kept == held


LATE = "the planted escape was reported after 611.0 ms (stated: 250 ms)"
BUSY = (
    "used 0.27 CPUs of 0.500 and was throttled in only 1 of 9 periods: the host was too busy to decide (waited 0.6 s)"
)
EXPLAINED = "; its tasks waited 1866.2 ms in 3.08 s: 939.8 ms behind batch/job, 292.0 ms throttled by its own quota"
UNTESTED = (
    "used 1.3507 CPUs of 1.500 and was throttled in only 11 of 23 periods: /p/web was throttled in 13, so the claim's "
    "own quota was not tested"
)
STOPPED = "/r/db was throttled in 4 periods although its load of 1 CPUs is below the quota"
BLIND = (
    "the observer stood still for 1.60 s (from 0.00 s on): the kernel counted on and kept its events, but how CPU time "
    "was spread in that time is not known"
)
LITTLE = (
    "/r/db used 1.088 s, by its weight 82 of 328 due 1.084 s: too little time to distinguish half or twice of it "
    "(allowed 0.000 to 2.854)"
)
OWED = "throttled in 7 of 7 periods after 0.0000 CPUs; 50 ms / 100 ms gives at least 0.3538 CPUs"


@pytest.mark.parametrize(
    ("rule", "outcome", "text", "certified"),
    [
        ("evidence-health", Outcome.UNDECIDED, LATE, False),
        ("evidence-health", Outcome.UNDECIDED, f"3 events lost (ring buffer full); {LATE}", True),
        ("evidence-health", Outcome.UNDECIDED, f"{LATE}; 3 events lost (ring buffer full)", True),
        ("evidence-health", Outcome.UNDECIDED, "the planted escape was never reported", True),
        ("evidence-health", Outcome.PASSED, "complete", True),
        ("quota-throttling", Outcome.UNDECIDED, BUSY, False),
        ("quota-throttling", Outcome.UNDECIDED, BUSY + EXPLAINED, False),
        ("quota-throttling", Outcome.UNDECIDED, f"{STOPPED}{EXPLAINED}; 3 events lost", True),
        ("quota-throttling", Outcome.UNDECIDED, UNTESTED, False),
        ("quota-throttling", Outcome.FAILED, OWED, False),
        ("quota-throttling", Outcome.UNDECIDED, STOPPED, False),
        ("quota-throttling", Outcome.UNDECIDED, BLIND, False),
        ("cpuset-containment", Outcome.UNDECIDED, BLIND, True),
        ("weight-share", Outcome.UNDECIDED, LITTLE, False),
        ("weight-share", Outcome.UNDECIDED, "its share cannot be judged: /r/db was throttled by a quota", False),
        ("quota-throttling", Outcome.FAILED, "used 0.9 CPUs, 50 ms / 100 ms allows at most 0.6 CPUs", True),
        ("cpuset-containment", Outcome.UNDECIDED, LATE, False),
        ("cpuset-containment", Outcome.FAILED, "db ran outside its CPUs", True),
        ("quota-free", Outcome.UNDECIDED, BUSY, True),
    ],
)
def test_only_what_rests_on_emulation_is_taken_back(rule: str, outcome: Outcome, text: str, certified: bool) -> None:
    """Late reports and unused quotas are the host's; a second complaint, loss, and use above a quota stay."""
    verdict = Verdict(rule=rule, subject="node", outcome=outcome, reason=text, measures={})
    control = ControlResult(rule=rule, fault="set-quota", subject="node", outcome=outcome, reason=text)
    (said,) = limits.restated([verdict])
    assert said.outcome is (outcome if certified else Outcome.SKIPPED)
    assert limits.restated_control(control).outcome is (outcome if certified else Outcome.SKIPPED)


def test_a_broken_promise_that_was_caught_stays_caught() -> None:
    """A rule that a guest may not certify can fail all the same, and that is what a control shows."""
    caught = ControlResult(rule="noise", fault="tight-limit", subject="cpu 3", outcome=Outcome.PASSED, reason="budget")
    assert limits.restated_control(caught) == caught


def test_guests_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As many guests run side by side as were asked for; the next one waits."""
    monkeypatch.setenv("PINPROOF_LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PINPROOF_LAB_GUESTS", "2")
    third = threading.Event()

    def wait_for_a_turn() -> None:
        with settings.turn():
            third.set()

    waiting = threading.Thread(target=wait_for_a_turn, daemon=True)
    with settings.turn():
        with settings.turn():
            waiting.start()
            assert not third.wait(3 * settings.TURN_S)
        assert third.wait(60)
    waiting.join()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_number_of_guests_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """One line says what was found and what was expected."""
    monkeypatch.setenv("PINPROOF_LAB_GUESTS", text)
    with pytest.raises(
        settings.LabUnavailableError, match=f"PINPROOF_LAB_GUESTS is '{text}', expected a positive number"
    ):
        settings.guests_at_once()
