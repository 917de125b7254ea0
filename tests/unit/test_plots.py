"""The plots of the random plants: pure, so what they ask of a director can be checked without one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.plot_scenes import CALM, LAST_US, LONGEST_SCENE_US, Spot, Stage
from tests.integration.plots import Plot, plot

SPOTS = (
    Spot(name="db", directory="/cg/db", home=0, cpuset="/cpuset/db/cgroup.procs"),
    Spot(name="web", directory="/cg/web", home=1),
    Spot(name="calm", directory="/cg/calm", home=0),
    Spot(name="remade", directory="/cg/remade", home=0),
    Spot(name="foreign", directory="/cg/pods/foreign", home=0),
)
STAGE = Stage(spots={spot.name: spot for spot in SPOTS}, exit="/cg/cgroup.procs")
PLOTS = [plot(seed, STAGE) for seed in range(300)]


def test_a_seed_is_a_plot() -> None:
    """The same seed makes the same plot, another seed another one."""
    assert plot(3, STAGE) == plot(3, STAGE)
    assert plot(3, STAGE).script != plot(4, STAGE).script


@pytest.mark.parametrize("one", PLOTS[:100], ids=lambda one: str(one.seed))
def test_actors_live_from_spawn_to_kill(one: Plot) -> None:
    """Times rise; no actor acts before it is there or after its end, nor while it is at work; all are killed."""
    alive: set[str] = set()
    busy: set[str] = set()
    threads: dict[str, str] = {}
    assert [each.at_us for each in one.script] == sorted(each.at_us for each in one.script)
    for each in one.script:
        actor, born = each.actor, str(each.args[0]) if each.args else ""
        if each.verb == "spawn":
            assert actor not in alive
            alive.add(actor)
        elif actor != "-":
            assert actor in alive or threads.get(actor) in alive, each
        assert actor not in busy or each.verb == "wait", each
        busy.discard(actor)
        if each.verb in ("hops", "flips", "vfork", "uring"):
            busy.add(actor)
        elif each.verb in ("fork", "clone"):
            alive.add(born)
        elif each.verb == "thread":
            threads[born] = actor
        elif each.verb == "kill":
            alive.remove(actor)
    assert not alive
    assert not busy


def test_plots_are_bounded() -> None:
    """A window is short, a scene ends in time, and what goes into the calm claim is on its CPU."""
    for one in PLOTS:
        assert one.script[-1].at_us <= LAST_US + LONGEST_SCENE_US
        assert len(one.script) < 400
        assert 0.1 <= one.stop_s <= 2.0
        cpu: dict[str, int] = {}
        for each in one.script:
            if each.verb in ("spawn", "pin"):
                cpu[each.actor] = int(each.args[0])
            if each.verb == "write" and each.args[0] == STAGE.spots[CALM].door:
                assert cpu[each.actor] == STAGE.spots[CALM].home


def test_all_kinds_come() -> None:
    """Every verb and every scene is used; every claim is violated in some windows, and left alone in others."""
    verbs = Counter(each.verb for one in PLOTS for each in one.script)
    assert set(verbs) >= {"fork", "clone", "vfork", "thread", "exec", "hops", "flips", "uring", "pin", "rmdir", "mkdir"}
    assert len({scene for one in PLOTS for scene in one.scenes}) == 12
    for name in ("db", "web", "foreign"):
        touched = [
            any(str(arg).startswith(STAGE.spots[name].directory) for each in one.script for arg in each.args)
            for one in PLOTS
        ]
        assert any(touched)
