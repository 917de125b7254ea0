"""``watch --podman FILE``: what podman printed, watched on real cgroups; what is not here is named and left out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.probe_lab import wait_for
from tests.integration.prometheus_server import free_port
from tests.json_lines import result_in
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.sources.followed_tool import SAID_AFTER_S

pytestmark = pytest.mark.integration

ONLINE = CpuSet.of(os.sched_getaffinity(0))


TOLD_S = 0.3
"""A tool says what it has written when its runtime, a program, has returned."""
RECORDED = Path(__file__).parents[1] / "data/sources/podman-inspect.json"


def container(name: str, cgroup: str, cpus: CpuSet) -> dict[str, Any]:
    """What podman printed of a container, with another name, place and set."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())[0]
    limits = dict.fromkeys(("CpuShares", "CpuPeriod", "CpuQuota", "NanoCpus", "Memory"), 0)
    # A process that cannot exist: one whose cgroup is not here has ended.
    found["State"] |= {"CgroupPath": cgroup, "Pid": 1 << 22}
    found["HostConfig"] |= limits | {"CpusetCpus": str(cpus), "CpusetMems": ""}
    return found | {"Name": name, "Id": name, "OCIRuntime": "runc"}


@contextlib.contextmanager
def pulsing(cpus: CpuSet, *names: str) -> Iterator[dict[str, str]]:
    """Run containers that keep to these CPUs; yields their cgroups by name."""
    containers = tuple(
        ContainerRequest(
            claim=name, cgroup=CgroupRequest(path=name, cpus=cpus), workloads=(Workload(kind=WorkloadKind.PULSE),)
        )
        for name in names
    )
    with sandbox(SandboxRequest(containers=containers), run_id=f"tool-{os.getpid()}") as live:
        yield {container.claim: container.cgroup for container in live.value.containers}


@pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values")
def test_containers_of_a_file_are_watched(tmp_path: Path) -> None:
    """One keeps to its CPUs, one has others than podman says; the third does not run here."""
    one, two = CpuSet.of([min(ONLINE)]), CpuSet.of([max(ONLINE)])
    with pulsing(two, "right", "wrong") as places:
        file = tmp_path / "inspected"
        known = (("right", places["right"], two), ("wrong", places["wrong"], one), ("gone", "/no", two))
        file.write_text(json.dumps([container(*one) for one in known]))
        command = [sys.executable, "-m", "toolkit", "watch", "--podman", file, "--duration", "1.5", "--json"]
        done = subprocess.run(
            [*command, "--output", tmp_path / "runs"], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 1, done.stderr
    assert "not watched: gone: its cgroup /no does not exist" in done.stderr
    verdicts = {(one["rule"], one["subject"]): one["outcome"] for one in result_in(done.stdout)["verdicts"]}

    assert verdicts["cpuset-containment", "right"] == "passed"
    assert verdicts["cpuset-containment", "wrong"] == "failed"
    assert verdicts["applied", "wrong"] == "failed"


def containment(port: int) -> dict[str, str]:
    """Subject -> what the metrics say of rule ``cpuset-containment``; nothing as long as no answer comes."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        sample.labels["subject"]: sample.labels["pinproof_verdict"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "pinproof_verdict" and sample.labels["rule"] == "cpuset-containment" and sample.value == 1
    }


@pytest.mark.beside
@pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values")
def test_metrics_of_the_first_window_know_what_is_there_now(tmp_path: Path) -> None:
    """While the first window is open: one container ends, another begins and breaks its promise at once."""
    one, two = CpuSet.of([min(ONLINE)]), CpuSet.of([max(ONLINE)])
    file, port = tmp_path / "inspected", free_port()
    with pulsing(two, "stays", "ends", "begins") as places:

        def listed(**promised: CpuSet) -> None:
            (tmp_path / "new").write_text(
                json.dumps([container(name, places[name], promised[name]) for name in promised])
            )
            (tmp_path / "new").replace(file)

        listed(stays=two, ends=two)
        command = [sys.executable, "-m", "toolkit", "watch", "--podman", file, "--window", "600", "--read-every", "0.5"]
        options = ["--metrics-detail", "claim", "--metrics-port", str(port), "--output", tmp_path / "runs"]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen([*command, *options], stdout=said, stderr=said)
            try:
                wait_for(lambda: set(containment(port)) >= {"stays", "ends"}, "both are judged", 60)
                listed(stays=two, begins=one)
                wait_for(lambda: containment(port).get("begins") == "failed", "the new one is judged", 60)
                for pid in cgroupfs.pids(cgroupfs.detect(), places["ends"]):
                    os.kill(pid, signal.SIGKILL)
                # A scrape in the very moment of the change may see both.
                wait_for(lambda: "ends" not in containment(port), "what has ended is gone", 60)
            finally:
                process.terminate()
                process.wait(60)
    assert not list(tmp_path.glob("runs/*/window-*")), "it was the first window all the time"


@pytest.mark.beside
@pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values")
def test_a_container_that_is_not_listed_and_works_is_judged(tmp_path: Path) -> None:
    """Its engine forgets it and knows it again; what it does meanwhile, outside of its CPUs, is its own."""
    one, two = CpuSet.of([min(ONLINE)]), CpuSet.of([max(ONLINE)])
    file = tmp_path / "inspected"
    with pulsing(ONLINE, "kept", "lost", "late") as places:
        pids = cgroupfs.pids(cgroupfs.detect(), places["lost"])

        def place(cpus: CpuSet) -> None:
            for pid in pids:
                os.sched_setaffinity(pid, cpus)

        def listed(*names: str) -> None:
            (tmp_path / "new").write_text(
                json.dumps([container(name, places[name], one if name == "lost" else ONLINE) for name in names])
            )
            (tmp_path / "new").replace(file)

        place(one)
        listed("kept", "lost")
        command = [sys.executable, "-m", "toolkit", "watch", "--podman", file, "--read-every", "0.3"]
        with (tmp_path / "said").open("w+") as said:
            process = subprocess.Popen(
                [*command, "--json", "--output", tmp_path / "runs"], stdout=subprocess.PIPE, stderr=said, text=True
            )
            wait_for(lambda: "armed" in (tmp_path / "said").read_text(), "it watches", 60)
            listed("kept")
            wait_for(lambda: "does not list it" in (tmp_path / "said").read_text(), "it is named", 60)
            place(two)
            wait_for(lambda: "outside its set" in (tmp_path / "said").read_text(), "it runs there", 60)
            place(one)
            listed("kept", "lost", "late")
            wait_for(lambda: "late began" in (tmp_path / "said").read_text(), "the list is read that has it again", 60)
            process.terminate()
            answer, _ = process.communicate(timeout=60)
    verdicts = {(row["rule"], row["subject"]): row for row in result_in(answer)["verdicts"]}
    lost, lines = verdicts["cpuset-containment", "lost"], (tmp_path / "said").read_text()

    assert (process.returncode, lost["outcome"]) == (1, "failed"), lost["reason"] + lines
    assert f"CPU {two} outside {one}" in lost["reason"]
    assert verdicts["cpuset-containment", "kept"]["outcome"] == "passed"
    assert not any(line.endswith(("lost ended", "lost began")) for line in lines.splitlines())


def judged(folder: Path) -> list[dict[tuple[str, str], dict[str, Any]]]:
    """Return the verdicts of every window that has ended, by rule and subject."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("runs/*/window-*/result.json"))]
    return [{(one["rule"], one["subject"]): one for one in result["verdicts"]} for result in found]


@pytest.mark.beside
def test_a_tool_that_does_not_answer_any_more_passes_nothing(tmp_path: Path) -> None:
    """As long as it cannot be asked every window is undecided, with the reason; when it answers again they pass."""
    file, asked = tmp_path / "inspected", ("cpuset-containment", "one")
    with pulsing(ONLINE, "one") as places:
        file.write_text(json.dumps([container("one", places["one"], ONLINE)]))
        command = [sys.executable, "-m", "toolkit", "watch", "--podman", file, "--window", "1.5", "--read-every", "0.5"]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen([*command, "--output", tmp_path / "runs"], stdout=said, stderr=said)

            def ended(outcome: str) -> None:
                after = len(judged(tmp_path))

                def came() -> bool:
                    windows = judged(tmp_path)[after:]
                    return any(window[asked]["outcome"] == outcome for window in windows)

                wait_for(came, f"a window {outcome}", 90)

            try:
                ended("passed")
                file.rename(tmp_path / "away")
                ended("undecided")
                (tmp_path / "away").rename(file)
                ended("passed")
            finally:
                process.terminate()
                process.wait(60)
    reasons = [window[asked]["reason"] for window in judged(tmp_path) if window[asked]["outcome"] == "undecided"]
    assert any("podman did not answer in all of the window" in reason for reason in reasons)


def cpuset_of(cgroup: str) -> Path:
    """Return the file that holds a cgroup's CPUs."""
    return cgroupfs.detect().controller_dir("cpuset") / cgroup.lstrip("/") / "cpuset.cpus"


@pytest.mark.beside
@pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values")
def test_a_tool_that_changes_its_own_set_breaks_nothing(tmp_path: Path) -> None:
    """It writes the cgroup, and says so when its runtime has returned; a write that it never says is drift."""
    file, one, two = tmp_path / "inspected", CpuSet.of([min(ONLINE)]), CpuSet.of([max(ONLINE)])
    late = set[int]()
    """Windows of a change that we said too late ourselves: a machine that stands still for seconds delays that, too."""
    with pulsing(one, "one") as places:

        def says(cpus: CpuSet) -> None:
            (tmp_path / "new").write_text(json.dumps([container("one", places["one"], cpus)]))
            (tmp_path / "new").replace(file)

        says(one)
        command = [sys.executable, "-m", "toolkit", "watch", "--podman", file, "--window", "2"]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen([*command, "--output", tmp_path / "runs"], stdout=said, stderr=said)

            def windows(more: int) -> None:
                after = len(judged(tmp_path)) + more
                wait_for(lambda: len(judged(tmp_path)) >= after, f"{more} windows", 90)

            try:
                windows(1)
                for cpus in (two, one | two, one):
                    first, began_s = len(judged(tmp_path)), time.monotonic()
                    cpuset_of(places["one"]).write_text(str(cpus))
                    time.sleep(TOLD_S)
                    says(cpus)
                    in_time = time.monotonic() - began_s < SAID_AFTER_S
                    windows(2)
                    if not in_time:
                        late.update(range(first, len(judged(tmp_path))))
                told = len(judged(tmp_path))
                cpuset_of(places["one"]).write_text(str(two))
                windows(3)
            finally:
                process.terminate()
                process.wait(60)
    found = judged(tmp_path)
    assert len(late) < told - 1, "this machine stood still at each change"
    good = [window for number, window in enumerate(found[:told]) if number not in late]
    wrong = [verdict for window in good for verdict in window.values() if verdict["outcome"] == "failed"]
    assert not wrong, wrong
    assert found[told + 1]["applied", "one"]["outcome"] == "failed"
