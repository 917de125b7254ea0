"""The end of a window: while the node is asked once more, and what is left of it."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.probe_lab import wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.model.verdict import Outcome
from toolkit.session.engine import canary, observe
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.window import Window
from validators.registry import judge

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def test_the_new_window_is_seen_while_the_node_is_asked(kept: Prepared) -> None:
    """A scrape need not wait for the node's answer: here the answer waits for the scrape."""
    seen = threading.Event()
    answers: list[bool] = []

    def look() -> None:
        opened.snapshot()
        seen.set()

    looker = threading.Thread(target=look)

    def ask() -> Callable[[], bool]:
        looker.start()

        def heard() -> bool:
            answers.append(seen.is_set())
            return answers[-1]

        return heard

    window = Window(run_id="turning", duration_s=None, prepared=kept, ask=ask)
    with observe.observation(ClaimSet(claims=()), window) as opened:
        opened.wait(4.0)  # the node is waited for during half of the window at most
        opened.turn()
        looker.join()

    assert answers[-1]


def test_nothing_is_left_of_a_window_that_has_ended(kept: Prepared) -> None:
    """With hundreds of containers it is megabytes, and all objects are seldom looked through for circles: no circle."""
    window = Window(run_id="turned", duration_s=None, prepared=kept)
    with observe.observation(ClaimSet(claims=()), window) as opened:
        watched = [weakref.ref(watch) for watch in opened.observer._window().watches.values()]
        gc.disable()
        try:
            opened.turn()
            # A reader of files or masks has the window of its last round until the next.
            wait_for(lambda: not any(watch() for watch in watched), "what was watched to be gone")
        finally:
            gc.enable()
    assert watched


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("when", ["fit", "turn_window"])
def test_a_control_that_is_moved_while_its_window_ends(
    kept: Prepared, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It was read before, and reported because it ran elsewhere until the end: that is no false alarm."""
    window = Window(run_id=f"moved-{when}", duration_s=None, prepared=kept)
    with observe.observation(ClaimSet(claims=()), window) as opened:
        pair = opened._pair
        (pid,) = cgroupfs.pids(pair.hierarchy, pair.claims[1].cgroup)

        def escaped() -> bool:
            rows = [row for row in opened.observer.snapshot().cpu_use if row.claim == canary.CLEAN]
            return sum(row.out_of_set_switches for row in rows) > 0

        def after_a_move(step: Callable[..., Any]) -> Callable[..., Any]:
            def moved(*arguments: Any) -> Any:
                os.sched_setaffinity(pid, set(pair.online) - {pair.cpu})
                wait_for(escaped, "the control is seen elsewhere")
                return step(*arguments)

            return moved

        place: Any = canary if when == "fit" else opened.observer
        monkeypatch.setattr(place, when, after_a_move(getattr(place, when)))
        evidence = opened.turn().evidence
        monkeypatch.undo()

    (clean,) = [one for one in evidence.canaries if not one.positive]
    assert clean.out_of_set_switches > 0
    assert clean.planted_switches == canary.NOT_RUNNING
    (health,) = [one for one in judge(ClaimSet(claims=()), evidence) if one.rule == "evidence-health"]
    assert health.outcome is Outcome.UNDECIDED, health.reason
