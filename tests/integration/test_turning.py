"""The end of a window: while the node is asked once more, and what is left of it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from tests.integration.probe_lab import wait_for
from toolkit.model.claims import ClaimSet
from toolkit.session import observe
from toolkit.session.prepared import Prepared
from toolkit.session.window import Window

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
            # Whoever reads files or masks has the window of its last round until the next.
            wait_for(lambda: not any(watch() for watch in watched), "what was watched to be gone")
        finally:
            gc.enable()
    assert watched
