"""Churn under observation: containers come, go, die, exec and are resized at random; the model says what must hold.

Every operation is done for real in a sandbox while the observer watches; after it the kernel's cpusets are compared
with the model's. Windows of a few operations are judged by all rules. On a healthy machine no rule may say ``failed``;
with planted faults each must be reported by its rule about its target, and nothing else may be.

A promise of bandwidth holds for a whole window, so a resize of a quota happens between two windows.

Longer than 300 lines: one loop with its operations; the model is in churn_model.py.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from probes.observer import ObserveOptions, Observer
from toolkit.apply import sandbox as apply
from toolkit.apply.sandbox import LiveSandbox
from toolkit.host import cgroupfs
from toolkit.host.environment import read_environment
from toolkit.host.topology import read_topology
from toolkit.inject.catalogue import FaultId, fault_named
from toolkit.inject.planting import planted
from toolkit.inject.prepare import Injection
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.verdict import Outcome, Verdict
from toolkit.pipeline import canary, observe
from toolkit.pipeline.churn_model import ChurnModel, Operation, Step
from toolkit.pipeline.planning import machine_of
from validators.registry import judge

STEPS_PER_WINDOW = 5
REPORTS = 5
"""Looks at the reports before a window ends: the positive control's must have arrived."""
FAULT_DEADLINE_S = 15.0
LOADS = (
    WorkloadKind.SPIN,
    WorkloadKind.PULSE,
    WorkloadKind.EXEC_STORM,
    WorkloadKind.AFFINITY_ESCAPER,
    WorkloadKind.SYSCALL,
)
"""No thread storms: a thread that is being forked while its cpuset shrinks may really run once, for some 20 us, on a
CPU that the set has lost by then (docs/facts.md K12 promises the write's effect for non-forking tasks only). That is an
escape, and is reported as one: about once in 50 shrinks of a storm."""
CONSEQUENCES: dict[FaultId, tuple[str, ...]] = {
    FaultId.CPUSET_WRITE: ("cpuset-containment", "exclusive-cpus", "quota-throttling", "layers-agree"),
    FaultId.ROGUE_TASK: (),
    FaultId.QUOTA_IMPOSED: (),
    FaultId.QUOTA_RESET: ("quota-throttling",),
}
"""Faults of the second run, and rules beside their own that may rightly say ``failed`` because of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One planted fault: ``found`` when each of its rules said ``failed`` about the target."""

    fault: FaultId
    claim: str
    found: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnReport:
    """What a run of churn showed. :param false_alarms: ``failed`` verdicts that no planted fault explains."""

    seed: int
    duration_s: float
    windows: int
    operations: dict[Operation, int]
    outcomes: dict[str, int]
    """``rule outcome`` -> how often."""
    transitions_ms: tuple[tuple[str, float], ...]
    false_alarms: tuple[str, ...]
    mismatches: tuple[str, ...]
    """Where the kernel's cpusets were not the model's."""
    faults: tuple[FaultResult, ...]


@dataclass(slots=True)
class _Tally:
    operations: Counter[Operation] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    transitions: list[tuple[str, float]] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    faults: list[FaultResult] = field(default_factory=list)
    windows: int = 0


def churn(*, duration_s: float, seed: int, run_id: str, faults: bool = False, root: Path = Path("/")) -> ChurnReport:
    """Churn for some time. :param faults: plant one in every window.

    :raises HostUnsupportedError: this host cannot watch, or a kubelet could not start here.
    """
    topology = read_topology(root)
    reserved = CpuSet.of([topology.online.first()])
    model = ChurnModel(machine_of(topology), reserved, random.Random(seed))
    base = ClaimSet(claims=(), reserved_cpus=reserved, pods_root=f"/pinproof-{run_id}")
    tally = _Tally()
    began = time.monotonic()
    with (
        observe.keep_off(topology.online - reserved),
        apply.sandbox(SandboxRequest(), run_id=run_id, root=root) as live,
        canary.canaries(base, topology.online, run_id, root) as pair,
        Observer(replace(base, claims=pair.claims), root=root, options=ObserveOptions()) as observer,
    ):
        live.before_delete = observer.read_last
        scene = Scene(model=model, live=live, observer=observer, base=base)
        while time.monotonic() < began + duration_s:
            _window(scene, pair, root, tally, faults=faults)
    return ChurnReport(
        seed=seed,
        duration_s=time.monotonic() - began,
        windows=tally.windows,
        operations=dict(tally.operations),
        outcomes=dict(tally.outcomes),
        transitions_ms=tuple(tally.transitions),
        false_alarms=tuple(tally.alarms),
        mismatches=tuple(tally.mismatches),
        faults=tuple(tally.faults),
    )


@dataclass(slots=True)
class Scene:
    """The model and the machine side by side."""

    model: ChurnModel
    live: LiveSandbox
    observer: Observer
    base: ClaimSet
    standing: set[str] = field(default_factory=set)
    claims: dict[str, Claim] = field(default_factory=dict)
    """Every claim of the present window, also those that are gone by now."""

    def do(self, step: Step) -> None:
        """Make real what the model has decided."""
        name = step.pod
        match step.operation:
            case Operation.CREATE_EXCLUSIVE | Operation.CREATE_SHARED:
                if step.admission is not None and step.admission.admitted:
                    self._follow(but_not=name)
                    self._create(name)
            case Operation.DELETE:
                self._delete(name)
                self._follow()
            case Operation.RESTART:
                with self.observer.restarting(name):
                    self.live.restart(name)
            case Operation.EXEC:
                self.live.spawn(name, Workload(kind=self.model.dice.choice(LOADS)))
            case Operation.RESIZE:
                self._resize(name)
            case Operation.KUBELET_RESTART:
                self._follow()

    def mismatches(self) -> list[str]:
        """Compare the kernel's cpusets with the model's."""
        found = self.model.problems()
        for name, wanted in self.model.containers().items():
            files = cgroupfs.read_files(self.live.hierarchy, self.claims[name].cgroup, 0)
            if files.cpus_effective != wanted.cpus:
                found.append(f"{name} has {files.cpus_effective}, the model says {wanted.cpus}")
        return found

    def present(self) -> dict[str, Claim]:
        """Return the claims whose containers stand."""
        return {name: self.claims[name] for name in sorted(self.standing)}

    def _follow(self, but_not: str = "") -> None:
        """Let every container have the set that the model gives it now: those that lose CPUs first."""
        wanted = self.model.containers()
        changed = [n for n, c in self.present().items() if n != but_not and n in wanted and c.cpus != wanted[n].cpus]
        for name in sorted(changed, key=lambda n: len(wanted[n].cpus)):
            cpus = wanted[name].cpus
            with self.observer.changing(name, cpus):
                self.live.set_cpus(name, cpus)
            self.claims[name] = replace(self.claims[name], cpus=cpus)

    def _create(self, name: str) -> None:
        pod = self.model.plans()[name]
        container = pod.containers[0]
        self.live.add_parent(CgroupRequest(path=_pod(name), quota_us=pod.quota_us, period_us=pod.period_us))
        self.live.create(
            ContainerRequest(
                claim=name,
                cgroup=CgroupRequest(
                    path=f"{_pod(name)}/{container.name}",
                    cpus=container.cpus,
                    quota_us=container.quota_us,
                    period_us=container.period_us,
                ),
                workloads=(Workload(kind=self.model.dice.choice(LOADS)),),
            )
        )
        self.claims[name] = self._claim(name, container)
        self.standing.add(name)
        self.observer.add_claim(self.claims[name])

    def _claim(self, name: str, container: ContainerPlan) -> Claim:
        place = next(one.cgroup for one in self.live.value.containers if one.claim == name)
        return Claim(
            name=name,
            pod=name,
            container=container.name,
            cgroup=place,
            cpus=container.cpus,
            isolation=container.isolation,
            quota_us=container.quota_us,
            period_us=container.period_us,
        )

    def _delete(self, name: str) -> None:
        with self.observer.ending(name):
            self.live.stop(name)
        self.live.remove(name)
        self.live.remove_parent(_pod(name))
        self.standing.discard(name)

    def _resize(self, name: str) -> None:
        """Between two windows: pod and container, the one that grows first."""
        pod = self.model.plans()[name]
        container = pod.containers[0]
        before = self.claims[name].quota_us or 0
        parent = CgroupRequest(path=_pod(name), quota_us=pod.quota_us, period_us=pod.period_us)
        self.observer.remove_claim(name)
        if container.quota_us > before:
            self.live.set_parent(parent)
        self.live.set_bandwidth(name, container.quota_us, container.period_us)
        if container.quota_us <= before:
            self.live.set_parent(parent)
        self.claims[name] = self._claim(name, container)
        self.observer.add_claim(self.claims[name])


def _pod(name: str) -> str:
    """Return the cgroup of a pod below the sandbox; never used twice, as with a kubelet."""
    return f"pod-{name}"


def _window(scene: Scene, pair: canary.CanaryPair, root: Path, tally: _Tally, *, faults: bool) -> None:
    """Open a window, let some things happen in it, close and judge it."""
    scene.claims = scene.present()
    environment = read_environment(root)
    opened = observe.Observation(scene.observer, pair, root, environment, lambda _violation: None)
    late: Step | None = None
    for _ in range(STEPS_PER_WINDOW):
        step = scene.model.step()
        tally.operations[step.operation] += 1
        if step.operation is Operation.RESIZE:
            late = step
            break
        scene.do(step)
        opened.poll(0.02)
        tally.mismatches += scene.mismatches()
    for _ in range(REPORTS):
        opened.poll(0.05)
    fault = _choose(scene) if faults and late is None else None
    if fault is None:
        evidence = opened.close()
        verdicts = judge(_all(scene), evidence)
        explained: set[tuple[str, str]] = set()
    else:
        claim, injection = fault
        with planted(injection, run_id=f"{scene.live.value.run_id}-fault", root=root):
            deadline = time.monotonic() + FAULT_DEADLINE_S
            while not _found(injection.fault, claim, judge(_all(scene), opened.snapshot())):
                if time.monotonic() > deadline:
                    break
                opened.poll(0.2)
            evidence = opened.close()
        verdicts = judge(_all(scene), evidence)
        tally.faults.append(_result(injection.fault, claim, verdicts))
        explained = _explained(scene, injection.fault, claim)
    tally.windows += 1
    tally.outcomes.update(f"{verdict.rule} {verdict.outcome}" for verdict in verdicts)
    tally.transitions += [(t.what, (t.end_at_ns - t.start_at_ns) / 1e6) for t in evidence.transitions]
    tally.alarms += [
        f"{v.rule} {v.subject}: {v.reason} (window {tally.windows}, {dict(v.measures)})"
        for v in verdicts
        if v.outcome is Outcome.FAILED and (v.rule, v.subject) not in explained
    ]
    if late is not None:
        scene.do(late)
        tally.mismatches += scene.mismatches()


def _all(scene: Scene) -> ClaimSet:
    return replace(scene.base, claims=tuple(scene.claims.values()))


def _choose(scene: Scene) -> tuple[str, Injection] | None:
    """Choose a fault that makes sense on what stands now; ``None`` if nothing does."""
    present = scene.present()
    own = sorted(name for name, claim in present.items() if claim.isolation is Isolation.CONTAINER)
    shared = sorted(name for name, claim in present.items() if claim.isolation is Isolation.HOST)
    able = [(FaultId.QUOTA_RESET, name) for name in shared]
    able += [(fault, name) for fault in (FaultId.ROGUE_TASK, FaultId.QUOTA_IMPOSED) for name in own]
    if own:
        able += [(FaultId.CPUSET_WRITE, name) for name in shared]
    if not able:
        return None
    fault, name = scene.model.dice.choice(able)
    busy = {FaultId.CPUSET_WRITE: WorkloadKind.AFFINITY_ESCAPER, FaultId.QUOTA_IMPOSED: WorkloadKind.SPIN}
    if fault in busy:
        # The fault shows only where somebody makes use of it.
        scene.live.spawn(name, Workload(kind=busy[fault]))
    return name, Injection(fault=fault, targets=(present[name].cgroup,))


def _found(fault: FaultId, claim: str, verdicts: tuple[Verdict, ...]) -> bool:
    failed = {verdict.rule for verdict in verdicts if verdict.outcome is Outcome.FAILED and verdict.subject == claim}
    return set(fault_named(fault).rules) <= failed


def _result(fault: FaultId, claim: str, verdicts: tuple[Verdict, ...]) -> FaultResult:
    return FaultResult(
        fault=fault,
        claim=claim,
        found=_found(fault, claim, verdicts),
        reasons=tuple(f"{v.rule} {v.outcome}: {v.reason}" for v in verdicts if v.subject == claim),
    )


def _explained(scene: Scene, fault: FaultId, claim: str) -> set[tuple[str, str]]:
    """Return which verdicts a fault explains: its rules about its target, and what the target does to others."""
    found = {(rule, claim) for rule in (*fault_named(fault).rules, *CONSEQUENCES[fault])}
    if "exclusive-cpus" in CONSEQUENCES[fault]:
        own = (name for name, one in scene.claims.items() if one.isolation is Isolation.CONTAINER)
        found |= {("exclusive-cpus", name) for name in own}
    return found
