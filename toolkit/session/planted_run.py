"""One fault in a sandbox of our own, under observation: which rules report it, and is everything as before afterwards.

The sandbox has the kubelet's shape: a pod with an exclusive container on the last CPU, a pod with a shared one that
has a quota on the rest. The fault is planted while the window is open. A machine with one CPU is refused.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from probes.readings import Frame
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.checkpoint.state_files import cpu_state_file
from toolkit.allocation.cpu.state import CpuState
from toolkit.apply import changes
from toolkit.apply import sandbox as apply
from toolkit.apply.change import HostChange
from toolkit.apply.journal import runs_directory
from toolkit.apply.run_files import making
from toolkit.errors import HostUnsupportedError
from toolkit.faults.fault import Fault, Scope
from toolkit.faults.injection import Injection
from toolkit.faults.planting import planted
from toolkit.faults.registry import fault_by_id
from toolkit.host.topology import read_topology
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.node_evidence import NOTHING, NodeEvidence
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.state_files import KnownContainer, StateReading
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.record import Record
from toolkit.session.engine.session import session
from toolkit.session.engine.stopping import go_on
from toolkit.session.engine.window import Window

EXCLUSIVE, SHARED = "guaranteed/db", "burstable/web"
QUOTA_US = 40_000
SHARES = 512
BUSY = (Workload(kind=WorkloadKind.SPIN, threads=2), Workload(kind=WorkloadKind.AFFINITY_ESCAPER))
"""What each container runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRun:
    """What came of it."""

    fault: Fault
    record: Record
    changes: tuple[HostChange, ...]

    @property
    def claims(self) -> ClaimSet:
        """What was promised."""
        return self.record.claims

    @property
    def evidence(self) -> Evidence:
        """What was seen."""
        return self.record.evidence

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the rules say."""
        return self.record.verdicts

    def of(self, rule: str, outcome: Outcome) -> tuple[Verdict, ...]:
        """Return the verdicts of a rule with an outcome."""
        return tuple(v for v in self.verdicts if v.rule == rule and v.outcome is outcome)

    @property
    def unjudged(self) -> dict[str, str]:
        """Rules of the fault that this host may not judge, with the reason (noise in a virtual machine)."""
        mine = [verdict for verdict in self.verdicts if verdict.rule in self.fault.rules]
        judged = {verdict.rule for verdict in mine if verdict.outcome is not Outcome.SKIPPED}
        return {verdict.rule: verdict.reason for verdict in mine if verdict.rule not in judged}

    @property
    def missed(self) -> tuple[str, ...]:
        """Rules that should have reported the fault and did not."""
        wanted = [(rule, Outcome.FAILED) for rule in self.fault.rules if rule not in self.unjudged]
        wanted += [(rule, Outcome.UNDECIDED) for rule in self.fault.undecides]
        return tuple(rule for rule, outcome in wanted if not self.of(rule, outcome))


def run(
    injection: Injection,
    *,
    run_id: str,
    runs: Path = Path("runs"),
    duration_s: float = 1.5,
    root: Path = Path("/"),
    loads: tuple[Workload, ...] = BUSY,
    stopped: Sequence[int] = (),
    prepared: Prepared | None = None,
    cpus: CpuSet | None = None,
) -> PlantedRun:
    """Make the sandbox, watch it, plant the fault for ``duration_s``, judge. Everything is gone afterwards.

    :param runs: where the run will be saved (``record.save()``); nothing is written here.
    :param loads: what each container runs; lighter ones suit machines with less time than CPUs.
    :param stopped: as in :class:`toolkit.session.engine.window.Window`.
    :param prepared: as there: for many faults, one after the other.
    :param cpus: those that the sandbox may use; ``None``: all that are online.
    :raises HostUnsupportedError: fewer than two CPUs, or the host cannot do the fault.
    """
    fault = fault_by_id(injection.fault)
    online = read_topology(root).online if cpus is None else cpus
    if len(online) < 2:
        raise HostUnsupportedError("an exclusive CPU and a shared one are needed: this machine has one CPU to use")
    own = CpuSet.of([max(online)])
    shared = online - own
    with (
        apply.sandbox(replace(request(own, shared, loads), cpus=cpus), run_id=run_id, root=root) as live,
        _state_file(runs_directory(root) / run_id, own, shared) as state,
    ):
        places = {container.claim: container.cgroup for container in live.value.containers}
        claims = claim_set(places, own, shared, live.value.root)
        claims = replace(claims, noise_budget_ns_per_s=fault.noise_budget_ns_per_s)
        injection = _aimed(fault, injection, places, own, state)
        # Without a state file rule ``checkpoint`` has nothing to say.
        file = Path(injection.state_file) if fault.scope is Scope.FILE else None
        window = Window(
            run_id=run_id,
            duration_s=duration_s,
            root=root,
            prepared=prepared,
            timeline=True,
            cpus=cpus,
            stopped=stopped,
            node_evidence=partial(_node_evidence, file, online),
        )
        go_on(stopped)
        with (
            session(claims, window) as one,
            planted(injection, run_id=f"{run_id}-fault", root=root) as made,
        ):
            done = one.window(runs / run_id, lambda opened: opened.wait(duration_s))
    return PlantedRun(fault=fault, record=done, changes=made.changes)


def request(own: CpuSet, shared: CpuSet, loads: tuple[Workload, ...] = BUSY) -> SandboxRequest:
    """Return the two pods."""
    return SandboxRequest(
        parents=(
            CgroupRequest(path="guaranteed", quota_us=NO_QUOTA, shares=1024),
            CgroupRequest(path="burstable", quota_us=NO_QUOTA, shares=1024),
        ),
        containers=(
            ContainerRequest(
                claim=EXCLUSIVE, cgroup=CgroupRequest(path=EXCLUSIVE, cpus=own, quota_us=NO_QUOTA), workloads=loads
            ),
            ContainerRequest(
                claim=SHARED,
                cgroup=CgroupRequest(path=SHARED, cpus=shared, quota_us=QUOTA_US, shares=SHARES),
                workloads=loads,
            ),
        ),
    )


def claim_set(places: dict[str, str], own: CpuSet, shared: CpuSet, root: str) -> ClaimSet:
    """Return what the two containers were promised."""
    exclusive = Claim(
        name=EXCLUSIVE,
        pod="guaranteed",
        container="db",
        cgroup=places[EXCLUSIVE],
        cpus=own,
        isolation=Isolation.CONTAINER,
        quota_us=NO_QUOTA,
    )
    pool = Claim(
        name=SHARED,
        pod="burstable",
        container="web",
        cgroup=places[SHARED],
        cpus=shared,
        quota_us=QUOTA_US,
        shares=SHARES,
    )
    return ClaimSet(
        claims=(exclusive, pool),
        reserved_cpus=CpuSet.of([shared.first()]),
        pods_root=root,
    )


def _aimed(fault: Fault, injection: Injection, places: dict[str, str], own: CpuSet, state: Path) -> Injection:
    target = SHARED if fault.aims_at is Isolation.HOST else EXCLUSIVE
    return replace(
        injection,
        targets=(places[target],),
        cpus=injection.cpus or (own if fault.about_a_cpu else None),
        state_file=injection.state_file or str(state),
        # The state file is our own unless one was given.
        consent=injection.consent or (fault.scope is Scope.FILE and not injection.state_file),
    )


def _node_evidence(file: Path | None, online: CpuSet, frame: Frame) -> NodeEvidence:
    """Read the state file as it stands, with what a node says about itself. :param file: ``None``: there is none."""
    if file is None:
        return NOTHING
    running = (KnownContainer(pod_uid="guaranteed", container="db", running=True),)
    reading = StateReading(
        at_ns=frame.end_ns - frame.start_ns,
        cpus_online=online,
        cpu=cpu_state_file(changes.read_state(file) or ""),
        cpu_policy="static",
        containers=running,
    )
    return NodeEvidence(state_files=(reading,))


@contextlib.contextmanager
def _state_file(run: Path, own: CpuSet, shared: CpuSet) -> Iterator[Path]:
    """A state file that agrees with the sandbox, in the run's own directory, which a clean-up takes too."""
    state = CpuState(policy_name="static", default=shared, entries={"guaranteed": {"db": own}})
    folder = run / "state"
    path = folder / "cpu_manager_state"
    with making(folder):
        folder.mkdir(mode=0o700)
    try:
        with making(path):
            path.write_text(write_cpu_checkpoint(state, pod_level=False), encoding="utf-8")
        yield path
    finally:
        shutil.rmtree(folder)
