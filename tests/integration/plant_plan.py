"""What a random plant does: a seed makes a list of timed actions. Pure; the same seed makes the same plan.

Two claims on one CPU, and actors that spin or nap on the other one: they are moved in, out and between the claims,
fork, hop by themselves, let the kernel's threads work for them, are born inside a claim. The cgroup of a third claim is
deleted and made again under its name. The observer is stopped for a while, in some windows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.integration.account import Action

MS = 1000
CLAIMS = ("db", "web", "remade")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One window: a director's script, and when the observer is stopped.

    :param stops: (begin, length) in seconds from the first action.
    """

    seed: int
    script: tuple[Action, ...]
    stops: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where plants are made: directories of the claims' cgroups by claim, the way out, the two CPUs."""

    directories: dict[str, str]
    outside: str
    inside_cpu: int
    outside_cpu: int

    def door(self, claim: str) -> str:
        """Return the file that lets a task in; no claim: out."""
        return f"{self.directories[claim] if claim else self.outside}/cgroup.procs"


def plan(seed: int, site: Site, seconds: float = 2.0) -> Plan:
    """Plan one window."""
    dice = random.Random(seed)
    script: list[Action] = []
    last_us = int(seconds * 1e6)
    claims = [name for name in CLAIMS[:2] if dice.random() < 0.8]  # a claim that nothing is planted for must pass
    for number in range(dice.randint(2, 4)):
        script += _life(dice, site, f"a{number}", claims, dice.randint(0, last_us // 3), last_us)
    if dice.random() < 0.5:
        script += _remade(dice, site, dice.randint(last_us // 4, last_us // 2))
    remade_us = next((one.at_us for one in script if one.verb == "rmdir"), last_us)
    for name in CLAIMS:
        # Who stays at home all the time: what is not seen to run cannot be judged.
        keeper = (site.inside_cpu, 100, 3000)
        end = remade_us - 1 * MS if name == "remade" else last_us
        script += [
            Action(at_us=0, verb="spawn", actor=f"home-{name}", args=keeper),
            Action(at_us=1, verb="write", actor=f"home-{name}", args=(site.door(name),)),
            Action(at_us=end, verb="kill", actor=f"home-{name}"),
        ]
    stops = ()
    if dice.random() < 0.4:
        stops = ((dice.uniform(0.1, seconds / 2), dice.uniform(0.1, 3.0)),)
    script.sort(key=lambda action: action.at_us)
    script.append(Action(at_us=last_us + 150 * MS, verb="rest"))
    return Plan(seed=seed, script=tuple(script), stops=stops)


def _life(dice: random.Random, site: Site, name: str, claims: list[str], at_us: int, last_us: int) -> list[Action]:
    gap = 0 if dice.random() < 0.6 else dice.randint(100, 2000)
    spawn = (site.outside_cpu, dice.randint(100, 1000), gap)
    actions = [Action(at_us=at_us, verb="spawn", actor=name, args=spawn)]
    children = 0
    now, inside = at_us + 20 * MS, ""
    while now < last_us - 100 * MS:
        kind = dice.choice(("move", "move", "move", "fork", "hops", "uring", "clone"))
        if kind == "move":
            inside = dice.choice(["", *claims])
            actions.append(Action(at_us=now, verb="write", actor=name, args=(site.door(inside),)))
        elif kind == "fork" and children < 3:
            child = f"{name}f{children}"
            children += 1
            actions.append(Action(at_us=now, verb="fork", actor=name, args=(child,)))
            actions.append(Action(at_us=now + dice.randint(5 * MS, 80 * MS), verb="kill", actor=child))
        elif kind == "clone" and children < 3 and claims:
            child = f"{name}c{children}"
            children += 1
            directory = site.directories[dice.choice(claims)]
            actions.append(Action(at_us=now, verb="clone", actor=name, args=(child, directory)))
            actions.append(Action(at_us=now + dice.randint(5 * MS, 80 * MS), verb="kill", actor=child))
        elif kind == "uring":
            work = (site.outside_cpu, dice.randint(1, 4), dice.choice((1 << 16, 1 << 18)))
            actions.append(Action(at_us=now, verb="uring", actor=name, args=work))
            actions.append(Action(at_us=now + 1, verb="wait", actor=name))
        elif kind == "hops" and claims:
            # It hops in a process of its own: the account of a hopper is its own sums.
            child = f"{name}h{len(actions)}"
            ways = (site.door(dice.choice(claims)), site.door(""), dice.randint(5, 40), dice.choice((100, 500)))
            actions += [
                Action(at_us=now, verb="spawn", actor=child, args=(site.outside_cpu, 100, 500)),
                Action(at_us=now + 1, verb="hops", actor=child, args=ways),
                Action(at_us=now + 2, verb="wait", actor=child),
                Action(at_us=now + 3, verb="kill", actor=child),
            ]
        now += dice.choice((1 * MS, 3 * MS, 20 * MS, 150 * MS)) + dice.randint(0, 5 * MS)
    actions.append(Action(at_us=last_us, verb="kill", actor=name))
    return actions


def _remade(dice: random.Random, site: Site, at_us: int) -> list[Action]:
    directory = site.directories["remade"]
    escaper = (site.outside_cpu, 300, dice.choice((0, 500)))
    begin = at_us + dice.randint(30 * MS, 300 * MS)
    return [
        Action(at_us=at_us, verb="rmdir", args=(directory,)),
        Action(at_us=at_us + dice.randint(1, 200 * MS) % (begin - at_us), verb="mkdir", args=(directory,)),
        Action(at_us=begin, verb="spawn", actor="r", args=escaper),
        Action(at_us=begin + 10 * MS, verb="write", actor="r", args=(site.door("remade"),)),
        Action(at_us=begin + 10 * MS + dice.randint(20 * MS, 200 * MS), verb="kill", actor="r"),
    ]
