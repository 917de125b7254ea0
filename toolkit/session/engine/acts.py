"""What is done to a scenario's containers: which of them run in a stage, what happens while its window is open."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.faults.escaper import SHOW_S, Escaper
from toolkit.faults.fault import WATCH_S
from toolkit.faults.pile_up import narrow
from toolkit.model.claims import ClaimSet
from toolkit.model.sandbox import ContainerRequest, SandboxRequest
from toolkit.model.scenario import Scenario
from toolkit.session.engine import observe, resize_writes, visit_acts
from toolkit.session.engine.window import Window
from toolkit.session.planning.planned import Planned


def enter(
    live: LiveSandbox, present: dict[str, ContainerRequest], request: SandboxRequest, late: frozenset[str]
) -> dict[str, ContainerRequest]:
    """Go from the containers that run to those of a stage. :param late: pods that are started later."""
    wanted = {container.claim: container for container in request.containers}
    for claim in present:
        if claim not in wanted:
            live.stop(claim)
    now: dict[str, ContainerRequest] = {}
    absent = []
    for claim, container in wanted.items():
        cpus = container.cgroup.cpus
        # Of those that are about to start too, and before any does: none may start on CPUs that another still has.
        if cpus and (claim not in present or cpus != present[claim].cgroup.cpus):
            live.set_cpus(claim, cpus)
        if claim.partition("/")[0] in late:
            continue
        if claim not in present:
            absent.append(claim)
        now[claim] = container
    live.start_all(absent)
    return now


def act(
    live: LiveSandbox,
    work: Planned,
    claims: ClaimSet,
    request: SandboxRequest,
    late: frozenset[str],
    opened: observe.Observation,
    *,
    ignored: str = "",
) -> None:
    """Do what the scenario wants done while the window is open. :param ignored: whose resize is announced, not done."""
    # A cgroup's counters go with it: they are read once more just before we delete it.
    live.before_delete = opened.observer.read_last
    live.start_all(one.claim for one in request.containers if one.claim.partition("/")[0] in late)
    for claim in work.scenario.restarts:
        with opened.observer.restarting(claim):
            live.restart(claim)
    if work.visited is not None:
        visit_acts.carry_out(live, opened, claims, work.scenario, (work.plan, work.visited), ignored)
    if work.resized is not None:
        resize_writes.carry_out(live, opened, claims, work.plan, work.resized, ignored)


def watch(
    window: Window,
    action: Callable[[observe.Observation], None] | None,
    progress: Callable[[float], None],
    opened: observe.Observation,
    *,
    escaper: Escaper | None = None,
) -> None:
    """Do something at the start of a window, then let it take its time.

    :param escaper: what is waited for besides, for :data:`toolkit.faults.escaper.SHOW_S` at most.
    """
    seconds = window.duration_s or 0.0
    if escaper is not None and not escaper.begin():
        seconds = max(seconds, WATCH_S)
    if action is not None:
        action(opened)
    opened.wait(seconds, progress)
    # On a busy machine it takes its turns: a window that ends before it was everywhere says nothing of the rules.
    if escaper is not None:
        opened.wait(max(0.0, SHOW_S - seconds), until=escaper.shown)


def narrowed(scenario: Scenario, live: LiveSandbox, present: dict[str, ContainerRequest]) -> None:
    """Put every thread of the containers that the scenario piles up on one CPU of their sets."""
    places = {container.claim: container.cgroup for container in live.value.containers}
    for claim in scenario.pile_ups:
        container = present.get(claim)
        if container is not None and container.cgroup.cpus:
            narrow(live.hierarchy, places[claim], container.cgroup.cpus)
