"""Every fault that this host can do, on the real kernel: reported by its rule, and taken back exactly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apply_support import traces, wait_until
from tests.integration.probe_lab import cgroup
from toolkit.apply import runs
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.apply.sandbox import sandbox
from toolkit.errors import ApplyError, HostUnsupportedError, InputError
from toolkit.faults.fault import AT_ONCE_S, WATCH_S, Fault, Scope
from toolkit.faults.injection import Injection
from toolkit.faults.interrupts import interrupt_counts
from toolkit.faults.planting import planted
from toolkit.faults.registry import INJECTABLE, fault_by_id
from toolkit.host import cgroupfs
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload
from toolkit.model.verdict import Outcome
from toolkit.session import planted_run
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.session import watched
from toolkit.session.engine.window import Window
from validators.registry import judge

pytestmark = pytest.mark.integration

ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
OWN = CpuSet.of([max(ONLINE)])
REPORTED = [fault for fault in INJECTABLE if fault.scope is Scope.CGROUP]
SHOWN = [fault for fault in INJECTABLE if fault.scope is not Scope.HOST]
FILES_TELL = frozenset(("applied", "affinity-mask", "quota-free", "checkpoint"))
"""Rules that read at a window's ends what a fault has changed; the others need tasks that were seen to run."""
needs_two_cpus = pytest.mark.skipif(len(ONLINE) < 2, reason="an exclusive CPU and a shared one are needed")


@pytest.mark.beside
@needs_two_cpus
@pytest.mark.parametrize("fault", SHOWN, ids=lambda fault: str(fault.id))
def test_a_fault_is_reported_by_its_rules(fault: Fault, kept: Prepared) -> None:
    """Planted in the middle of a window, each fault makes the rules that its description names say ``failed``."""
    name = f"inject-{fault.id}"
    seconds = AT_ONCE_S if FILES_TELL.issuperset(fault.rules) else WATCH_S
    done = planted_run.run(Injection(fault=fault.id), run_id=name, duration_s=seconds, prepared=kept)

    assert done.missed == (), [(v.rule, v.subject, v.outcome.value, v.reason) for v in done.verdicts]
    assert traces(name) == []


@pytest.mark.beside
@needs_two_cpus
def test_without_a_fault_the_same_sandbox_is_clean(kept: Prepared) -> None:
    """The control of all of the above: the same containers, nothing planted, nothing failed."""
    with sandbox(planted_run.request(OWN, ONLINE - OWN), run_id="inject-none") as live:
        places = {container.claim: container.cgroup for container in live.value.containers}
        claims = planted_run.claim_set(places, OWN, ONLINE - OWN, live.value.root)
        window = Window(run_id="inject-none", duration_s=1.0, prepared=kept)
        evidence = watched(claims, window, Path(window.run_id)).evidence
    verdicts = judge(claims, evidence)
    assert [(v.rule, v.subject, v.reason) for v in verdicts if v.outcome is Outcome.FAILED] == []


@pytest.fixture
def live() -> Iterator[LiveSandbox]:
    """Two quiet-ish containers."""
    with sandbox(planted_run.request(OWN, ONLINE - OWN or ONLINE), run_id="inject-live") as made:
        yield made


def state(live: LiveSandbox) -> dict[str, object]:
    """Everything that a cgroup fault may change in a sandbox."""
    top = live.value.root
    found: dict[str, object] = {}
    for name in cgroupfs.subtree(live.hierarchy, top):
        files = cgroupfs.read_files(live.hierarchy, name, 0)
        found[name] = (files, set(cgroupfs.pids(live.hierarchy, name)))
    return found


def target_of(live: LiveSandbox, fault: str) -> str:
    """The container that a fault is about."""
    exclusive = fault_by_id(fault).aims_at is Isolation.CONTAINER
    claim = planted_run.EXCLUSIVE if exclusive else planted_run.SHARED
    return next(container.cgroup for container in live.value.containers if container.claim == claim)


@pytest.mark.beside
@needs_two_cpus
@pytest.mark.parametrize("fault", [fault.id for fault in REPORTED], ids=str)
def test_a_fault_is_taken_back_exactly(live: LiveSandbox, fault: str) -> None:
    """While it stands something differs; afterwards control files, members and cgroups are those of before."""
    before = state(live)
    with planted(Injection(fault=fault, targets=(target_of(live, fault),)), run_id="inject-once") as made:
        during = state(live)
        assert during != before
        assert made.changes
    assert state(live) == before
    assert traces("inject-once") == []


@pytest.mark.beside
@needs_two_cpus
def test_narrowed_threads_get_their_affinities_back() -> None:
    """A fault that changes no file, but the masks of threads: these are those of before afterwards."""
    quiet = ContainerRequest(
        claim="web", cgroup=CgroupRequest(path="web", cpus=ONLINE), workloads=(Workload(threads=3),)
    )
    with sandbox(SandboxRequest(containers=(quiet,)), run_id="inject-quiet") as quiet_one:
        place = quiet_one.value.containers[0].cgroup

        def masks() -> dict[int, CpuSet]:
            return {tid: CpuSet.of(os.sched_getaffinity(tid)) for tid in cgroupfs.tids(quiet_one.hierarchy, place)}

        before = masks()
        assert set(before.values()) == {ONLINE}
        with planted(Injection(fault="pile-up", targets=(place,)), run_id="inject-pile"):
            assert masks() == dict.fromkeys(before, CpuSet.of([ONLINE.first()]))
        assert masks() == before
    assert traces("inject-pile") == []


@needs_two_cpus
@pytest.mark.parametrize("fault", ["cpuset-write", "task-moved", "rogue-task"], ids=str)
def test_a_fault_outlives_its_maker_until_cleanup(live: LiveSandbox, fault: str) -> None:
    """After SIGKILL of the injector the fault stands, and a clean-up takes it back exactly."""
    before = state(live)
    target = target_of(live, fault)
    child = subprocess.Popen(
        [sys.executable, "-m", "toolkit", "inject", str(fault), "--target", target, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["fault"] == fault
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert state(live) != before

    report = runs.cleanup()

    assert [name for name in report.removed if "inject" in name]
    assert wait_until(lambda: state(live) == before), (state(live), before)


@needs_two_cpus
def test_what_another_program_wrote_meanwhile_is_left_alone(live: LiveSandbox) -> None:
    """A file that a third party has written since is theirs: it is named, and not overwritten."""
    target = target_of(live, "weight-reset")
    with (
        pytest.raises(ApplyError, match="another program wrote '333' meanwhile"),
        planted(Injection(fault="weight-reset", targets=(target,)), run_id="inject-third") as made,
    ):
        Path(made.changes[0].path).write_text("333")
    assert Path(made.changes[0].path).read_text().strip() == "333"
    Path(made.changes[0].path).write_text(made.changes[0].before)
    runs.cleanup()


@pytest.mark.beside
def test_foreign_cgroups_need_consent() -> None:
    """A cgroup that is no sandbox of ours is refused without consent, in one line, and nothing is made."""
    with (
        cgroup(f"not-ours-{os.getpid()}") as foreign,
        pytest.raises(InputError, match="--i-know-this-breaks-isolation"),
        planted(Injection(fault="cpuset-write", targets=(foreign,)), run_id="inject-foreign"),
    ):
        pytest.fail("planted")
    assert traces("inject-foreign") == []


@needs_two_cpus
def test_an_interrupt_is_moved_and_moved_back() -> None:
    """The mask names the exclusive CPU while the fault stands; mask and CPU in use are those of before afterwards.

    The hardware may follow only when the interrupt comes next, so the CPU in use is not looked at in between.
    """
    counts = interrupt_counts(Path("/"))
    quiet = [irq for irq, _ in sorted(counts.items(), key=lambda pair: pair[1])]
    folders = [Path(f"/proc/irq/{irq}") for irq in quiet]
    chosen = next((f for f in folders if (f / "effective_affinity_list").exists() and _may(f)), None)
    if chosen is None:
        pytest.skip("no interrupt of this machine has a settable affinity that allows several CPUs")
    used = CpuSet.parse((chosen / "effective_affinity_list").read_text())
    goal = CpuSet.of([(ONLINE - used).first()])
    files = [chosen / "smp_affinity_list", chosen / "effective_affinity_list"]
    before = [file.read_text() for file in files]
    injection = Injection(fault="irq-moved", cpus=goal, irq=int(chosen.name), consent=True)
    try:
        with planted(injection, run_id="inject-irq"):
            assert CpuSet.parse(files[0].read_text()) == goal
    except HostUnsupportedError as error:
        pytest.skip(str(error))
    assert [file.read_text() for file in files] == before


def _may(folder: Path) -> bool:
    return len(CpuSet.parse((folder / "smp_affinity_list").read_text())) > 1


def test_the_boot_cpu_cannot_go_offline() -> None:
    """Where the kernel offers no switch for a CPU, one line says so and nothing happens."""
    if Path("/sys/devices/system/cpu/cpu0/online").exists():
        pytest.skip("this machine's CPU 0 can be taken offline")
    with (
        pytest.raises(HostUnsupportedError, match="CPU 0 cannot be taken offline"),
        planted(Injection(fault="cpu-offline", cpus=CpuSet.of([0]), consent=True), run_id="inject-off"),
    ):
        pytest.fail("planted")
