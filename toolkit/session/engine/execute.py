"""One scenario, end to end: plan, apply, observe, judge what was read back. Saving is the caller's: ``Run.save``.

An honest run and a broken one are values of one type (:mod:`toolkit.session.planning.course`), run here alike.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from toolkit import store
from toolkit.apply import sandbox as apply
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.errors import ApplyError, InputError
from toolkit.faults import controls as faults
from toolkit.faults.escaper import Escaper
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.runtimes import CGROUPFS
from toolkit.model.sandbox import ContainerRequest, SandboxRequest
from toolkit.model.scenario import NegativeControl
from toolkit.session.engine import acts, long_stage
from toolkit.session.engine.kubelet_state import node_evidence
from toolkit.session.engine.long_stage import USUAL, Cut, Watched
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.record import Origin, Run, whole
from toolkit.session.engine.resize_writes import write_bandwidth
from toolkit.session.engine.session import session
from toolkit.session.engine.stopping import go_on
from toolkit.session.engine.window import Window
from toolkit.session.planning import from_plan
from toolkit.session.planning.course import Course, Step
from validators.registry import needed_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run: where results go, which runtime makes the containers, and for how long (``None``: the scenario's).

    :param brief: honest windows are no longer than the rules need to pass what is claimed.
    :param cpus: the CPUs that may be loaded; ``None``: all.
    :param prepared: probes and canaries for many runs; ``None``: each window has its own.
    :param repeats: how often at most a run of the catalogue that comes out undecided is repeated.
    :param session: the session that the runs are parts of, and are packed for; empty: each is one by itself.
    :param stopped: as in :class:`toolkit.session.engine.window.Window`.
    :param cut: how what is watched for long is cut into windows.
    """

    runs: Path
    runtime: str = CGROUPFS
    duration_s: float | None = None
    brief: bool = False
    root: Path = Path("/")
    prepared: Prepared | None = None
    cpus: CpuSet | None = None
    repeats: int = 0
    stopped: Sequence[int] = ()
    cut: Cut = USUAL
    session: str = ""


def run_scenario(course: Course, settings: Settings, progress: Callable[[float], None] = lambda _seconds: None) -> Run:
    """Put the plan on the machine, watch it, and judge what is to be saved.

    Init containers run first, one after the other, each watched and judged in a run of its own below the run's
    directory (``init-1``, …); so do pods that depart (``first``). The last stage is cut into consecutive windows where
    it is longer than one (:mod:`toolkit.session.engine.long_stage`). What asks to stop ends the window that is open.

    :param course: an honest one.
    :raises ApplyError: the kernel or the runtime refused the plan; nothing is left behind.
    :raises StoppedError: something asked to stop before the first window.
    """
    done: list[Run] = []
    try:
        left_out = _run_steps(course, settings, store.new_run_id(course.scenario.name), done, progress)
    except BaseException:
        # What has been judged before it went wrong is not lost; what went wrong is the news.
        with contextlib.suppress(InputError):
            if done:
                whole(done).save()
        raise
    return replace(whole(done), left_out=left_out)


def run_controls(course: Course, controls: tuple[NegativeControl, ...], settings: Settings) -> Run:
    """Break a promise on purpose and judge.

    :param course: a broken one; all ``controls`` are of its fault.
    """
    done: list[Run] = []
    _run_steps(course, settings, store.new_run_id(f"{course.scenario.name}-broken"), done)
    return replace(done[-1], controls=controls)


def _run_steps(
    course: Course,
    settings: Settings,
    run_id: str,
    done: list[Run],
    progress: Callable[[float], None] = lambda _seconds: None,
) -> tuple[str, ...]:
    """Run one stage after the other. :param done: receives them. :returns: those that a wish to stop left out."""
    steps = course.steps
    # One sandbox for all stages: what an earlier stage started goes on running in the next, as on a node.
    union = replace(_union([step.request for step in steps]), cpus=settings.cpus)
    with apply.sandbox(union, run_id=run_id, runtime=settings.runtime, root=settings.root, start=False) as live:
        present: dict[str, ContainerRequest] = {}
        parents = {parent.path: parent for parent in union.parents}
        for step in steps:
            if done and settings.stopped:
                break
            last = step is steps[-1]
            if step.quotas is not None:
                write_bandwidth(live, *step.quotas, ignored=course.ignored)
            for parent in step.request.parents:
                if parent != parents[parent.path]:
                    live.set_parent(parent)
                    parents[parent.path] = parent
            present = acts.enter(live, present, step.request, step.late)
            acts.narrowed(course.scenario, live, present)
            path = settings.runs / run_id
            path = path if last else path / step.stage.name.replace(" ", "-")
            entered = _Entered(step=step, live=live, present=frozenset(present), last=last)
            made = _run_step(course, entered, settings, path, progress)
            done.append(replace(made, directory=settings.runs / run_id))
    return tuple(step.stage.name or course.scenario.name for step in steps[len(done) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entered:
    """A step whose containers run. :param present: their claims; those that come late are not among them."""

    step: Step
    live: LiveSandbox
    present: frozenset[str]
    last: bool


@contextlib.contextmanager
def _planted(course: Course, live: LiveSandbox, claims: ClaimSet, root: Path) -> Iterator[Escaper | None]:
    """Plant what the course breaks in the sandbox; gives the task that makes it show, where one must."""
    if course.control is None:
        yield None
        return
    nodes = tuple(node.cpus for node in course.work.topology.numa)
    with faults.broken(course.control, live, claims, course.work.online, root, nodes) as escaper:
        yield escaper


def _run_step(
    course: Course, entered: _Entered, settings: Settings, path: Path, progress: Callable[[float], None]
) -> Run:
    """Watch and judge a stage. :param path: where it will be saved. :param progress: of the last one."""
    work, step, live, root = course.work, entered.step, entered.live, settings.root
    stage = step.stage
    # What is promised is the plan's, whatever the machine was set up by: the difference is the fault.
    claims = course.promise(from_plan.claim_set(stage.plan, work.scenario, live.value, stage.containers))
    with _planted(course, live, claims, root) as escaper:
        # A window over loads that are still starting would find them idle.
        await_load(claims, root, entered.present)
        action = None
        if step.changes:
            action = partial(acts.act, live, work, claims, step.request, step.late, ignored=course.ignored)
            # The node is asked what it states when the window ends: after the resize.
            stage = replace(stage, plan=work.resized) if work.resized is not None else stage
        asked_s = settings.duration_s or work.scenario.duration_s
        if settings.brief and course.control is None:
            asked_s = min(asked_s, needed_s(claims))
        window = Window(
            run_id=live.value.run_id,
            duration_s=min(asked_s, step.most_s),
            root=root,
            canary_escape=course.escapes,
            prepared=settings.prepared,
            timeline=True,
            cpus=settings.cpus,
            stopped=settings.stopped,
            session=settings.session,
            node_evidence=partial(node_evidence, work, stage, live.value.runtime, rewrite=course.rewrite),
        )
        origin = Origin(scenario=work.scenario, plan=stage.plan, sandbox=live.value)
        cut, length_s = settings.cut, window.duration_s or 0.0
        shown = progress if entered.last else lambda _seconds: None
        # What runs is watched from here on, unless something has asked to stop.
        go_on(settings.stopped)
        with session(claims, window) as one:
            if entered.last and escaper is None and length_s > cut.window_s:
                made = long_stage.watch(one, claims, path, cut, length_s, action=action, progress=shown, origin=origin)
            else:
                act = partial(acts.watch, window, action, shown, escaper=escaper)
                made = Watched(record=one.window(path, act, origin=origin))
    return Run(
        scenario=work.scenario,
        directory=path,
        path=path,
        record=made.record,
        stage=stage.name,
        hidden=escaper.hidden if escaper else "",
        sums=made.sums,
        unsaved=made.unsaved,
        error=made.error,
    )


def _union(requests: list[SandboxRequest]) -> SandboxRequest:
    """Put the cgroups of all stages together; what a later stage says about one of them is written when it comes."""
    parents = {parent.path: parent for request in reversed(requests) for parent in request.parents}
    containers = {one.claim: one for request in reversed(requests) for one in request.containers}
    # Parents first: a path is longer than the one that it lies in.
    ordered = sorted(parents.values(), key=lambda parent: parent.path.count("/"))
    return SandboxRequest(parents=tuple(ordered), containers=tuple(containers.values()))


LOAD_DEADLINE_S = 30.0
"""A container of the least weight (2 shares) beside ten busy tasks of the default weight (1024) on its CPU has a slice
of 3 ms every 15 s, and the millisecond that is asked for with it; twice that."""


def await_load(claims: ClaimSet, root: Path, names: frozenset[str] | None = None) -> None:
    """Wait until every load that should be busy has used CPU time. :param names: claims that run by now; all if None.

    :raises ApplyError: one does not start within :data:`LOAD_DEADLINE_S`.
    """
    hierarchy = cgroupfs.detect(root)
    busy = [claim for claim in claims.claims if claim.demand_cpus and (names is None or claim.name in names)]
    waiting = {claim.name: claim.cgroup for claim in busy}
    base = {name: cgroupfs.read_cpu_stat(hierarchy, cgroup).usage_ns or 0 for name, cgroup in waiting.items()}
    deadline = time.monotonic() + LOAD_DEADLINE_S
    while waiting:
        for name, cgroup in list(waiting.items()):
            used = (cgroupfs.read_cpu_stat(hierarchy, cgroup).usage_ns or 0) - base[name]
            if used > 1_000_000:
                del waiting[name]
        if waiting and time.monotonic() > deadline:
            raise ApplyError(f"{', '.join(waiting)}: the workload used no CPU time within {LOAD_DEADLINE_S:.0f} s")
        time.sleep(0.01)
