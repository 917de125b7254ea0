"""What happens in one window of the random plants: a seed makes a list of timed actions. Pure, deterministic, bounded.

A plot is made of scenes (plot_scenes.py) that overlap.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.integration.account import Action
from tests.integration.plot_scenes import (
    CALM,
    FOREIGN,
    LAST_US,
    LONGEST_SCENE_US,
    MS,
    REMADE,
    REST_US,
    SCENES,
    Scene,
    Stage,
    remade,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One window: a director's script, and when the observer is to be stopped (seconds from the first action)."""

    seed: int
    script: tuple[Action, ...]
    scenes: tuple[str, ...]
    stop_at_s: float
    stop_s: float


def plot(seed: int, stage: Stage) -> Plot:
    """Write one window's plot: some scenes at random times, and residents, so that every claim is seen to run."""
    dice = random.Random(seed)
    open_to_all = [one for name, one in stage.spots.items() if name not in (CALM, REMADE)]
    targets = tuple(dice.sample(open_to_all, dice.randint(1, len(open_to_all))))
    chosen = [dice.choice(SCENES) for _ in range(dice.randint(3, 7))]
    if dice.random() < 0.5:
        chosen.append(remade)
    script: list[Action] = []
    for number, write in enumerate(chosen):
        scene = Scene(dice, stage, "abcdefgh"[number], dice.randint(30 * MS, LAST_US - LONGEST_SCENE_US), targets)
        write(scene)
        script += scene.actions
    for name, spot in stage.spots.items():
        if (name == REMADE and remade in chosen) or name == FOREIGN:
            continue
        script += [
            Action(at_us=0, verb="spawn", actor=f"R{name}", args=(spot.home, 200, 1500)),
            Action(at_us=10 * MS, verb="write", actor=f"R{name}", args=(spot.door,)),
            Action(at_us=LAST_US, verb="kill", actor=f"R{name}"),
        ]
    script.sort(key=lambda action: action.at_us)
    script.append(Action(at_us=script[-1].at_us + REST_US, verb="rest"))
    names = tuple(sorted(write.__name__.strip("_") for write in chosen))
    return Plot(
        seed=seed,
        script=tuple(script),
        scenes=names,
        stop_at_s=dice.uniform(0.1, 1.2),
        stop_s=dice.uniform(0.1, 2.0),
    )
