"""The machine side of churn: what the model decides is done for real in a sandbox, announced to the observer.

Every change is announced before it is made, so that what runs meanwhile belongs to a transition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from probes.observer import Observer
from tests.churn.model import ChurnModel, Operation, Step
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.plan import ContainerPlan
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, Workload, WorkloadKind
from toolkit.session.engine.observe import Observation

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


@dataclass(slots=True)
class Scene:
    """The model and the machine side by side."""

    model: ChurnModel
    live: LiveSandbox
    opened: Observation
    base: ClaimSet
    running: set[str] = field(default_factory=set)
    claims: dict[str, Claim] = field(default_factory=dict)
    """Every claim of the present window, also those that are gone by now."""

    @property
    def observer(self) -> Observer:
        """Where changes are announced before they are made."""
        return self.opened.observer

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
                found.append(f"{name} has {files.cpus_effective}, the model {wanted.cpus}")
        return found

    def present(self) -> dict[str, Claim]:
        """Return the claims whose containers run."""
        return {name: self.claims[name] for name in sorted(self.running)}

    def claim_set(self) -> ClaimSet:
        """Return the claims of the present window, also those that are gone by now."""
        return replace(self.base, claims=tuple(self.claims.values()))

    def _follow(self, but_not: str = "") -> None:
        """Let every container have the set that the model gives it now: those that lose CPUs first."""
        wanted = self.model.containers()
        changed = [n for n, c in self.present().items() if n != but_not and n in wanted and c.cpus != wanted[n].cpus]
        for name in sorted(changed, key=lambda n: len(wanted[n].cpus)):
            cpus = wanted[name].cpus
            with self.observer.changing(name, cpus):
                self.live.set_cpus(name, cpus)
            self.claims[name] = replace(self.claims[name], cpus=cpus)
            self.opened.promise(self.claims[name])

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
        self.running.add(name)
        self.observer.add_claim(self.claims[name])
        self.opened.promise(self.claims[name])

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
        self.running.discard(name)

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
