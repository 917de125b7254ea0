"""One scenario, end to end: plan, apply, observe, judge what was read back. Saving is the caller's: ``Run.save``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from toolkit import store
from toolkit.apply import sandbox as apply
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.errors import InputError
from toolkit.faults.controls import broken
from toolkit.faults.fault import When
from toolkit.faults.registry import word_of
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.runtimes import CGROUPFS
from toolkit.model.sandbox import ContainerRequest, SandboxRequest
from toolkit.model.scenario import NegativeControl
from toolkit.session import acts, from_plan, observe, resizing
from toolkit.session.engine import Act, session
from toolkit.session.from_plan import Stage
from toolkit.session.kubelet_state import node_word
from toolkit.session.load import await_load
from toolkit.session.planning import Planned
from toolkit.session.prepared import Prepared
from toolkit.session.record import Run, whole
from toolkit.session.resize_writes import write_bandwidth
from toolkit.session.stopping import go_on
from validators.registry import needed_s

STAGE_S = 1.0
"""How long a stage before the last is watched, at most."""

CHANGES = (When.CLAIMS, When.CHANGE)
"""Faults of what the scenario changes while the window is open: it changes it in the broken run, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run: where results go, which runtime makes the containers, and for how long (``None``: the scenario's).

    :param brief: honest windows are no longer than the rules need to pass what is claimed.
    :param cpus: the CPUs that may be loaded; ``None``: all.
    :param prepared: probes and canaries for many runs; ``None``: each window has its own.
    :param repeats: how often at most a run of the catalogue that comes out undecided is repeated.
    :param stopped: as in :class:`toolkit.session.observe.Window`.
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


def run_scenario(work: Planned, settings: Settings, progress: Callable[[float], None] = lambda _seconds: None) -> Run:
    """Put the plan on the machine, watch it, and judge what is to be saved.

    Init containers run first, one after the other, each watched and judged in a run of its own below the run's
    directory (``init-1``, …); so do pods that depart (``first``). Who asks to stop ends the window that is open.

    :raises ApplyError: the kernel or the runtime refused the plan; nothing is left behind.
    :raises StoppedError: somebody asked to stop before the first window.
    """
    run_id = store.new_run_id(work.scenario.name)
    done: list[Run] = []
    try:
        left_out = _run_stages(work, settings, run_id, done, progress)
    except BaseException:
        # What has been judged before it went wrong is not lost; what went wrong is the news.
        with contextlib.suppress(InputError):
            if done:
                whole(done).save()
        raise
    return replace(whole(done), left_out=left_out)


def _run_stages(
    work: Planned, settings: Settings, run_id: str, done: list[Run], progress: Callable[[float], None]
) -> tuple[str, ...]:
    """Run one stage after the other. :param done: receives them. :returns: those that a wish to stop left out."""
    stages = _stages(work)
    requests = [from_plan.sandbox_request(stage.plan, work.scenario, stage.containers) for stage in stages]
    # One sandbox for all stages: what an earlier stage started goes on running in the next, as on a node.
    union = replace(_union(requests), cpus=settings.cpus)
    with apply.sandbox(union, run_id=run_id, runtime=settings.runtime, root=settings.root, start=False) as live:
        present: dict[str, ContainerRequest] = {}
        parents = {parent.path: parent for parent in union.parents}
        for number, (stage, request) in enumerate(zip(stages, requests, strict=True)):
            if done and settings.stopped:
                break
            last = number == len(stages) - 1
            late = frozenset(work.scenario.arrivals) if last else frozenset[str]()
            if number and stages[number - 1].name == resizing.BEFORE:
                write_bandwidth(live, work.plan, stage.plan)
            for parent in request.parents:
                if parent != parents[parent.path]:
                    live.set_parent(parent)
                    parents[parent.path] = parent
            present = acts.enter(live, present, request, late)
            claims = from_plan.claim_set(stage.plan, work.scenario, live.value, stage.containers)
            acts.narrowed(work.scenario, live, present)
            # A window over loads that are still starting would find them idle.
            await_load(claims, settings.root, frozenset(present))
            seconds = settings.duration_s or work.scenario.duration_s
            if settings.brief:
                seconds = min(seconds, needed_s(claims))
            # The node is asked what it states when the window ends: after the resize.
            in_the_end = replace(stage, plan=work.resized) if last and work.resized is not None else stage
            window = observe.Window(
                run_id=run_id,
                duration_s=seconds if last else min(STAGE_S, seconds),
                root=settings.root,
                prepared=settings.prepared,
                cpus=settings.cpus,
                stopped=settings.stopped,
                word=partial(node_word, work, in_the_end, live.value.runtime),
            )
            action = partial(acts.act, live, work, claims, request, late) if last else None
            path = settings.runs / run_id
            path = path if last else path / stage.name.replace(" ", "-")
            act = partial(acts.watch, window, action, progress if last else lambda _seconds: None)
            made = _judged(work, in_the_end, path, live, claims, window, act)
            done.append(replace(made, directory=settings.runs / run_id))
    return tuple(stage.name or work.scenario.name for stage in stages[len(done) :])


def run_controls(
    work: Planned, controls: tuple[NegativeControl, ...], settings: Settings, node: Planned | None = None
) -> Run:
    """Break a promise on purpose and judge; all ``controls`` are of the same fault.

    Only the stage is run in which the target runs.

    :param node: what the machine is set up by, where that differs from what is promised.
    """
    control = controls[0]
    word = word_of(control)
    run_id = store.new_run_id(f"{work.scenario.name}-broken")
    real = node or work
    stages = _stages(work)
    target = control.target
    stage = next((stage for stage in reversed(stages) if not target or target in _names(stage, work)), stages[-1])
    # Who ignores a resize has the quotas of before; so has a node that is set up otherwise.
    put = replace(stage, plan=real.plan) if node is not None or word.when is When.CHANGE else stage
    request = replace(from_plan.sandbox_request(put.plan, real.scenario, put.containers), cpus=settings.cpus)
    seconds = min(word.watch_s, settings.duration_s or work.scenario.duration_s)
    with contextlib.ExitStack() as stack:
        live = stack.enter_context(apply.sandbox(request, run_id=run_id, runtime=settings.runtime, root=settings.root))
        if word.when is When.CHANGE:
            write_bandwidth(live, put.plan, stage.plan, ignored=target)
        # What is promised is still `work`'s plan, whatever the machine was set up by: the difference is the fault.
        claims = from_plan.claim_set(stage.plan, work.scenario, live.value, stage.containers)
        claims = word.promise(control, claims)
        acts.narrowed(work.scenario, live, {container.claim: container for container in request.containers})
        escaper = stack.enter_context(broken(control, live, claims, work.online, settings.root))
        await_load(claims, settings.root)
        action = None
        if word.when in CHANGES:
            ignored = target if word.when is When.CHANGE else ""
            action = partial(acts.act, live, work, claims, request, frozenset[str](), ignored=ignored)
        if action is not None and work.resized is not None:
            stage = replace(stage, plan=work.resized)
        window = observe.Window(
            run_id=run_id,
            duration_s=seconds,
            root=settings.root,
            canary_escape=word.when is When.CANARIES,
            prepared=settings.prepared,
            cpus=settings.cpus,
            stopped=settings.stopped,
            word=partial(node_word, work, stage, live.value.runtime, rewrite=word.rewrite),
        )
        act = partial(acts.watch, window, action, lambda _seconds: None, escaper=escaper)
        done = _judged(work, stage, settings.runs / run_id, live, claims, window, act)
    return replace(done, controls=controls, hidden=escaper.hidden if escaper else "")


def _stages(work: Planned) -> tuple[Stage, ...]:
    return resizing.parted(work.scenario, from_plan.stages(work.plan, work.before), work.resized)


def _names(stage: Stage, work: Planned) -> frozenset[str]:
    """Every container of a stage, ephemeral ones included."""
    extra = from_plan.ephemeral(stage.plan, work.scenario, stage.containers)
    return stage.containers | {f"{pod.name}/{name}" for pod, name in extra}


def _judged(
    work: Planned,
    stage: Stage,
    path: Path,
    live: LiveSandbox,
    claims: ClaimSet,
    window: observe.Window,
    act: Act,
) -> Run:
    """Observe one window over what runs now and judge it.

    :raises StoppedError: somebody asked to stop before it.
    """
    go_on(window.stopped)
    with session(claims, window) as one:
        made = one.window(path, act, scenario=work.scenario, plan=stage.plan, sandbox=live.value)
    return Run(scenario=work.scenario, directory=path, path=path, record=made, stage=stage.name)


def _union(requests: list[SandboxRequest]) -> SandboxRequest:
    """Put the cgroups of all stages together; what a later stage says about one of them is written when it comes."""
    parents = {parent.path: parent for request in reversed(requests) for parent in request.parents}
    containers = {one.claim: one for request in reversed(requests) for one in request.containers}
    # Parents first: a path is longer than the one that it lies in.
    ordered = sorted(parents.values(), key=lambda parent: parent.path.count("/"))
    return SandboxRequest(parents=tuple(ordered), containers=tuple(containers.values()))
