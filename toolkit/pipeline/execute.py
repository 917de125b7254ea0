"""One scenario, end to end: plan, apply, observe, save, read back, judge."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit import store
from toolkit.apply import sandbox as apply
from toolkit.errors import ApplyError
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import FaultKind, NegativeControl, Scenario
from toolkit.model.verdict import Outcome, Verdict, worst
from toolkit.pipeline import faults, observe, promises
from validators.registry import judge

SETTLE_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run: where results go, which runtime makes the containers, and for how long (``None``: the scenario's)."""

    runs: Path
    runtime: str = "cgroupfs"
    duration_s: float | None = None
    root: Path = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One finished run: its directory, what was judged, and the verdicts."""

    scenario: Scenario
    control: NegativeControl | None
    path: Path
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts."""
        return worst(verdict.outcome for verdict in self.verdicts)


def new_run_id(name: str) -> str:
    """Return an id that sorts by time and is harmless as a file and cgroup name."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{secrets.token_hex(3)}"


def run_scenario(
    scenario: Scenario,
    plan: Plan,
    online: CpuSet,
    settings: Settings,
    control: NegativeControl | None = None,
    progress: Callable[[float], None] = lambda _seconds: None,
) -> Run:
    """Put the plan on the machine, watch it, and judge what was saved. ``control`` is broken on purpose first.

    :raises ApplyError: the kernel or the runtime refused the plan; nothing is left behind.
    """
    run_id = new_run_id(scenario.name)
    path = settings.runs / run_id
    request = promises.sandbox_request(plan, scenario)
    with apply.sandbox(request, run_id=run_id, runtime=settings.runtime, root=settings.root) as live:
        claims = promises.claim_set(plan, scenario, live.value)
        if control is not None:
            faults.apply_fault(control, live, request, online)
        _settle(claims, settings.root)
        window = observe.Window(
            run_id=run_id,
            duration_s=settings.duration_s or scenario.duration_s,
            root=settings.root,
            canary_escape=control is not None and control.fault is FaultKind.CANARY_ESCAPE,
        )
        evidence = observe.observe(claims, window, progress)
        sandbox = live.value
    store.save_run(path, scenario=scenario, plan=plan, sandbox=sandbox, claims=claims, evidence=evidence)
    saved = store.load_run(path)
    verdicts = judge(saved.claims, saved.evidence)
    store.save_result(path, verdicts, saved.evidence)
    return Run(scenario=scenario, control=control, path=path, verdicts=verdicts)


def _settle(claims: ClaimSet, root: Path) -> None:
    """Wait until every load that should be busy has used CPU time.

    :raises ApplyError: one does not start within :data:`SETTLE_DEADLINE_S`.
    """
    hierarchy = cgroupfs.detect(root)
    waiting = {claim.name: claim.cgroup for claim in claims.claims if claim.demand_cpus}
    base = {name: cgroupfs.read_cpu_stat(hierarchy, cgroup).usage_ns or 0 for name, cgroup in waiting.items()}
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    while waiting:
        for name, cgroup in list(waiting.items()):
            used = (cgroupfs.read_cpu_stat(hierarchy, cgroup).usage_ns or 0) - base[name]
            if used > 1_000_000:
                del waiting[name]
        if waiting and time.monotonic() > deadline:
            raise ApplyError(f"{', '.join(waiting)}: the workload used no CPU time within {SETTLE_DEADLINE_S:.0f} s")
        time.sleep(0.01)
