"""Control files that are changed without a promise and put back: seen, dated and judged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from probes.cgroups.files import FileWatch
from probes.loaded import observing
from probes.observer import Observer
from probes.switches.ledger import Ledger
from tests.integration.apply_support import container, online, request
from tests.integration.probe_lab import BRISK, EMULATED, wait_for
from toolkit.apply import cgroups
from toolkit.apply import sandbox as apply
from toolkit.host import cgroupfs
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.sandbox import WorkloadKind
from toolkit.model.verdict import Outcome, Verdict
from validators.queries.file_history import GAP_LIMIT_NS
from validators.rules.applied import check as applied
from validators.rules.layers_agree import check as layers_agree
from validators.rules.quota_free import check as quota_free
from validators.rules.quota_throttling import check as quota_throttling

pytestmark = [pytest.mark.integration, pytest.mark.beside]

QUOTA_US, SHARES = 20_000, 512
READINGS = 2
"""A change stands until everything has been read so often."""


def failed(verdicts: tuple[Verdict, ...], claim: str) -> str:
    """Return why the one verdict about a claim failed; empty if it did not."""
    (one,) = [verdict for verdict in verdicts if verdict.subject == claim]
    return one.reason if one.outcome is Outcome.FAILED else ""


def pause(observer: Observer) -> None:
    """Wait until all control files have been read."""
    window = observer._window()
    wanted = window.watch(FileWatch).files.readings + READINGS
    wait_for(lambda: window.watch(FileWatch).files.readings >= wanted, "control files were read", 15)


def test_what_is_put_back_was_seen(ledger: Ledger) -> None:
    """A cpuset, a quota and a weight, each changed for some readings; a fourth container is left alone."""
    if len(online()) < 2:
        pytest.skip("a cpuset that changes needs two CPUs")
    first, other = CpuSet.of([online().first()]), CpuSet.of([sorted(online())[-1]])
    names = ("cpuset", "quota", "weight", "alone")
    limits: dict[str, object] = {"cpus": first, "quota_us": QUOTA_US, "period_us": 100_000, "shares": SHARES}
    with apply.sandbox(
        request(*(container(name, WorkloadKind.PULSE, **limits) for name in names)), run_id=f"files-{os.getpid()}"
    ) as live:
        places = {one.claim: one.cgroup for one in live.value.containers}
        claims = ClaimSet(
            claims=tuple(
                Claim(name=name, cgroup=places[name], cpus=first, quota_us=QUOTA_US, shares=SHARES) for name in names
            ),
            reconcile_period_s=10.0,
        )
        with observing(claims, ledger=ledger) as observer:
            observer.open_window()
            start, delay_ns = time.monotonic_ns(), waited_ns()
            pause(observer)
            began = (time.monotonic_ns() - start) / 1e9
            live.set_cpus("cpuset", first | other)
            live.set_bandwidth("quota", 2 * QUOTA_US)
            cgroups.set_weight(live.hierarchy, places["weight"], shares=4 * SHARES, weight=None)
            pause(observer)
            live.set_cpus("cpuset", first)
            live.set_bandwidth("quota", QUOTA_US)
            cgroups.set_weight(live.hierarchy, places["weight"], shares=SHARES, weight=None)
            pause(observer)
            delay_ns = waited_ns() - delay_ns
            evidence = observer.close_window()

    said = {name: failed(applied(claims, evidence), name) for name in names}
    assert f"cpuset.cpus was {first | other}, promised {first}" in said["cpuset"]
    assert "the quota was 40 ms / 100 ms, promised 20 ms / 100 ms" in said["quota"]
    assert "the weight was" in said["weight"]
    assert said["alone"] == ""
    for name in names[:3]:
        stretch = said[name].partition("from ")[2]
        from_s, until_s = (float(stretch.split(" s")[index].removeprefix(" to ")) for index in (0, 1))
        assert began - 0.1 <= from_s < until_s <= evidence.duration_ns / 1e9
    assert failed(layers_agree(claims, evidence), "cpuset").startswith("claim and cgroup differed as read from")
    assert failed(layers_agree(claims, evidence), "alone") == ""
    assert "had 40 ms / 100 ms as read from" in failed(quota_throttling(claims, evidence), "quota")
    assert failed(quota_throttling(claims, evidence), "alone") == ""
    paced(evidence, delay_ns)


def test_a_quota_of_the_pod_was_seen(ledger: Ledger) -> None:
    """An exclusive container's pod is given a quota that is never met, and loses it again: no task is throttled."""
    with apply.sandbox(
        request(container("own", WorkloadKind.PULSE, quota_us=NO_QUOTA)), run_id=f"pod-{os.getpid()}"
    ) as live:
        (place,) = [one.cgroup for one in live.value.containers]
        own = Claim(name="own", cgroup=place, cpus=online(), isolation=Isolation.CONTAINER, quota_us=NO_QUOTA)
        claims = ClaimSet(claims=(own,))
        pod = place.rpartition("/")[0]
        with observing(claims, ledger=ledger, witnesses=BRISK) as observer:
            observer.open_window()
            pause(observer)
            cgroups.set_bandwidth(live.hierarchy, pod, 10_000_000, 100_000, None)
            pause(observer)
            cgroups.set_bandwidth(live.hierarchy, pod, NO_QUOTA, 100_000, None)
            pause(observer)
            evidence = observer.close_window()

    assert not any(row.nr_throttled for row in evidence.bandwidth)
    assert f"{pod} had a quota of 10000 ms / 100 ms as read from" in failed(quota_free(claims, evidence), "own")


WRITER = """import itertools, os, sys
file = os.open(sys.argv[1], os.O_WRONLY)
for more in itertools.cycle(range(1, 9000)):
    os.pwrite(file, sys.argv[2].format(quota=int(sys.argv[3]) + more).encode(), 0)
"""


def test_a_quota_that_never_stands_still_is_seen(ledger: Ledger) -> None:
    """It is rewritten without a pause and put back before the window closes: failed, and a blind spot says why more
    may have happened.
    """
    spinner = container("quota", WorkloadKind.PULSE, quota_us=QUOTA_US, period_us=100_000)
    with apply.sandbox(request(spinner), run_id=f"restless-{os.getpid()}") as live:
        place = live.value.containers[0].cgroup
        claims = ClaimSet(claims=(Claim(name="quota", cgroup=place, quota_us=QUOTA_US),))
        v2 = live.hierarchy.is_v2("cpu")
        name = "cpu.max" if v2 else "cpu.cfs_quota_us"
        (file,) = [path for path in cgroupfs.control_paths(live.hierarchy, place) if path.endswith(f"/{name}")]
        text = "{quota} 100000" if v2 else "{quota}"
        with observing(claims, ledger=ledger, witnesses=BRISK) as observer:
            observer.open_window()
            pause(observer)
            with subprocess.Popen([sys.executable, "-c", WRITER, file, text, str(QUOTA_US)]) as writer:
                try:
                    files = observer._window().watch(FileWatch).files
                    wait_for(lambda: place in files.never_at_rest(), "a reading without a moment of rest", 60)
                    pause(observer)
                finally:
                    writer.kill()
            live.set_bandwidth("quota", QUOTA_US)
            pause(observer)
            evidence = observer.close_window()

    assert "the quota was 2" in failed(applied(claims, evidence), "quota")
    (spot,) = [spot for spot in evidence.coverage.blindness if "never stood still" in spot.text]
    assert (spot.claim, spot.witnesses) == ("quota", (Witness.FILES,))


def test_a_reader_that_cannot_read_leaves_a_gap(ledger: Ledger) -> None:
    """Nothing was read for longer than a second: the evidence says for how long."""
    with observing(ClaimSet(claims=()), ledger=ledger) as observer:
        observer.open_window()
        with observer.lock:
            time.sleep(1.5)  # the time itself is what is measured
        evidence = observer.close_window()
    assert evidence.coverage.file_gap_ns >= 1_400_000_000


def waited_ns() -> int:
    """Return how long the reader's thread has waited for a CPU so far (``schedstat``)."""
    (reader,) = (thread for thread in threading.enumerate() if thread.name == "pinproof-files")
    return int(Path(f"/proc/self/task/{reader.native_id}/schedstat").read_text().split()[1])


def paced(evidence: Evidence, delay_ns: int) -> None:
    """Assert that the readings came about once a second, but for how long their thread waited for a CPU.

    An emulated CPU reads a dozen cgroups for longer than a hundredth of a second: there those that are written to are
    read at once, and all of them more seldom.
    """
    coverage = evidence.coverage
    seconds = evidence.duration_ns / 1e9
    assert 0 < coverage.file_readings <= seconds + 1
    assert 0 < coverage.file_unwatched_ns < GAP_LIMIT_NS + delay_ns
    if not EMULATED:
        assert (seconds - delay_ns / 1e9) / 3 <= coverage.file_readings
        assert 0 < coverage.file_gap_ns < GAP_LIMIT_NS + delay_ns
