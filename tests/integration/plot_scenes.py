"""The scenes that a plot is made of: each has actors of its own, some of which escape and some of which are healthy.

Whether an actor escapes is not said here: the account (account.py) finds it in what was really done.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.integration.account import Action, Place

MS = 1000
LAST_US = 2_200 * MS
"""When the last scene has ended."""
LONGEST_SCENE_US = 900 * MS
REST_US = 150 * MS
CALM = "calm"
"""The claim that no actor violates."""
REMADE = "remade"
"""The claim whose cgroup is deleted and made again: only its own scene uses it."""
FOREIGN = "foreign"
"""No claim: a pod's cgroup without one. Its time on exclusive CPUs is accounted for as a claim's time outside is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A cgroup where plants are made. ``home``: the CPU that its tasks may use, of two.

    :param cpuset: where cpusets are in a hierarchy of their own: the file by which a joining is completed.
    """

    name: str
    directory: str
    home: int
    cpuset: str = ""

    @property
    def door(self) -> str:
        """The file by which tasks come in."""
        return f"{self.directory}/cgroup.procs"

    def place(self) -> Place:
        """Return it as the account knows it."""
        return Place(claim=self.name, procs=self.door, forbidden=1 - self.home, cpuset=self.cpuset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """All spots of a window by name, and the file by which tasks leave them."""

    spots: dict[str, Spot]
    exit: str


@dataclass(slots=True)
class Scene:
    """A scene that is being written: time goes on from action to action."""

    dice: random.Random
    stage: Stage
    name: str
    now_us: int
    targets: tuple[Spot, ...]
    """The spots that it may violate."""
    actions: list[Action] = field(default_factory=list)

    def act(self, verb: str, actor: str, *args: str | int, after_us: int = 0) -> None:
        """Add an action ``after_us`` later than the last one."""
        self.now_us += after_us
        self.actions.append(Action(at_us=self.now_us, verb=verb, actor=actor, args=args))

    def actor(self, suffix: str = "") -> str:
        """Return the name of an actor of this scene."""
        return f"{self.name}{suffix}"

    def target(self) -> Spot:
        """Choose a spot."""
        return self.dice.choice(self.targets)

    def stay_us(self) -> int:
        """Choose how long a stay is: 100 us to 20 ms, the short ones as often as the long ones."""
        return int(100 * 200 ** self.dice.random())

    def spawn(self, actor: str, cpu: int, *, spins: bool) -> None:
        """Let an actor begin; 20 ms later it is certainly there."""
        burn, gap = (0, 0) if spins else (self.dice.randint(100, 1000), self.dice.randint(100, 2000))
        self.act("spawn", actor, cpu, burn, gap)
        self.now_us += 20 * MS


def _moved(scene: Scene) -> None:
    """Another process moves it in, out and between, while it spins."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, dice_cpu(scene, target), spins=scene.dice.random() < 0.7)
    for _ in range(scene.dice.randint(3, 24)):
        door = scene.dice.choice([target.door, scene.target().door, scene.stage.exit])
        scene.act("write", actor, door, after_us=scene.stay_us())
    scene.act("kill", actor, after_us=scene.stay_us())


def _hops(scene: Scene) -> None:
    """It writes itself in and out, or from one to the other."""
    actor, target, other = scene.actor(), scene.target(), scene.target()
    second = other.door if other != target and scene.dice.random() < 0.4 else scene.stage.exit
    scene.spawn(actor, dice_cpu(scene, target), spins=True)
    length_us = scene.dice.choice((100, 300, 1000))
    scene.act("hops", actor, target.door, second, scene.dice.randint(3, 12_000 // length_us), length_us)
    scene.act("wait", actor, after_us=1 * MS)
    scene.act("kill", actor, after_us=scene.stay_us())


def _flips(scene: Scene) -> None:
    """It changes its own mask, in the claim."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, target.home, spins=False)
    scene.act("write", actor, target.door)
    scene.act("flips", actor, target.home, 1 - target.home, scene.dice.randint(2, 20), scene.dice.choice((100, 700)))
    scene.act("wait", actor, after_us=1 * MS)
    scene.act("kill", actor, after_us=scene.stay_us())


def _family(scene: Scene) -> None:
    """It forks inside, and clones into a cgroup, while it is moved itself."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, dice_cpu(scene, target), spins=scene.dice.random() < 0.5)
    children = []
    for number in range(scene.dice.randint(1, 4)):
        child = scene.actor(f"c{number}")
        children.append(child)
        scene.act("write", actor, scene.dice.choice([target.door, scene.stage.exit]), after_us=scene.stay_us())
        if scene.dice.random() < 0.5:
            scene.act("clone", actor, child, scene.target().directory, after_us=scene.stay_us())
        else:
            scene.act("fork", actor, child, after_us=scene.stay_us())
        if scene.dice.random() < 0.3:
            scene.act("write", child, scene.dice.choice([scene.target().door, scene.stage.exit]), after_us=500)
    scene.dice.shuffle(children)
    for each in [*children, actor]:
        scene.act("kill", each, after_us=scene.stay_us())


def _vforks(scene: Scene) -> None:
    """Children that share its memory escape, one after the other."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, target.home, spins=False)
    scene.act("write", actor, target.door)
    for _ in range(scene.dice.randint(1, 4)):
        scene.act("vfork", actor, 1 - target.home, scene.dice.randint(500, 8000), after_us=500)
        scene.act("wait", actor, after_us=500)
    scene.act("kill", actor, after_us=scene.stay_us())


def _threads(scene: Scene) -> None:
    """Threads are born, and moved with their process; some of them were sent elsewhere."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, dice_cpu(scene, target), spins=scene.dice.random() < 0.5)
    for number in range(scene.dice.randint(1, 3)):
        thread = scene.actor(f"t{number}")
        scene.act("thread", actor, thread, after_us=1 * MS)
        if scene.dice.random() < 0.5:
            scene.act("pin", thread, scene.dice.randint(0, 1), after_us=1 * MS)
    for _ in range(scene.dice.randint(2, 10)):
        door = scene.dice.choice([target.door, target.door, scene.target().door, scene.stage.exit])
        scene.act("write", actor, door, after_us=scene.stay_us())
    scene.act("kill", actor, after_us=scene.stay_us())


def _uring(scene: Scene) -> None:
    """A worker of the kernel, which no fork event announces, reads for it on the other CPU; it may leave and return."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, target.home, spins=False)
    scene.act("write", actor, target.door)
    scene.act(
        "uring", actor, 1 - target.home, scene.dice.randint(1, 6), scene.dice.choice((1 << 16, 1 << 19)), after_us=MS
    )
    scene.act("wait", actor, after_us=1 * MS)
    for _ in range(scene.dice.randint(0, 3)):
        scene.act("write", actor, scene.stage.exit, after_us=scene.stay_us())
        scene.act("write", actor, target.door, after_us=scene.stay_us())
    scene.act("kill", actor, after_us=scene.stay_us())


def _exec(scene: Scene) -> None:
    """A thread that is not its leader executes, right after the process was moved."""
    actor, target = scene.actor(), scene.target()
    scene.spawn(actor, dice_cpu(scene, target), spins=True)
    scene.act("write", actor, target.door)
    scene.act("exec", actor, after_us=scene.dice.choice((0, scene.stay_us())))
    scene.act("write", actor, scene.stage.exit, after_us=scene.stay_us())
    scene.act("kill", actor, after_us=scene.stay_us())


def _healthy(scene: Scene) -> None:
    """All kinds of work at home."""
    actor, child, spot = scene.actor(), scene.actor("c"), scene.stage.spots[CALM]
    scene.spawn(actor, spot.home, spins=False)
    scene.act("write", actor, spot.door)
    scene.act("fork", actor, child, after_us=scene.stay_us())
    scene.act("thread", actor, scene.actor("t"), after_us=1 * MS)
    scene.act("uring", actor, spot.home, 2, 1 << 16, after_us=1 * MS)
    scene.act("wait", actor, after_us=1 * MS)
    scene.act("vfork", child, spot.home, 1000, after_us=1 * MS)
    scene.act("wait", child, after_us=1 * MS)
    for each in (child, actor):
        scene.act("kill", each, after_us=scene.stay_us())


def _leaves_before_it_goes(scene: Scene) -> None:
    """It leaves the claim, runs elsewhere, comes home, and only then comes back: healthy."""
    actor, spot = scene.actor(), scene.stage.spots[CALM]
    scene.spawn(actor, spot.home, spins=scene.dice.random() < 0.5)
    for _ in range(scene.dice.randint(1, 6)):
        scene.act("write", actor, spot.door, after_us=scene.stay_us())
        scene.act("write", actor, scene.stage.exit, after_us=scene.stay_us())
        scene.act("pin", actor, 1 - spot.home, after_us=scene.dice.choice((0, 500)))
        scene.act("pin", actor, spot.home, after_us=scene.stay_us())
    scene.act("kill", actor, after_us=scene.stay_us())


def _joins_in_two_steps(scene: Scene) -> None:
    """Its cpuset comes some milliseconds after its identity, as a runtime's exec does when it is preempted: healthy."""
    spot = next((one for one in scene.stage.spots.values() if one.cpuset), None)
    if spot is None:
        return
    for number in range(scene.dice.randint(1, 5)):
        actor = scene.actor(f"j{number}")
        scene.spawn(actor, 1 - spot.home, spins=True)
        scene.act("write", actor, spot.door)
        scene.act("write", actor, spot.cpuset, after_us=scene.stay_us())
        scene.act("kill", actor, after_us=scene.stay_us())


def remade(scene: Scene) -> None:
    """The cgroup is deleted and made again, some times; what comes into the new one may escape."""
    spot, begin_us = scene.stage.spots[REMADE], scene.now_us
    # An actor at home before and after, for long enough that its mask is read.
    scene.now_us = 0
    scene.spawn(scene.actor("b"), spot.home, spins=False)
    scene.act("write", scene.actor("b"), spot.door)
    scene.now_us = begin_us + 300 * MS
    scene.act("kill", scene.actor("b"))
    for number in range(scene.dice.randint(1, 3)):
        actor, escapes = scene.actor(f"r{number}"), scene.dice.random() < 0.5
        scene.act("rmdir", "-", spot.directory, after_us=5 * MS)
        scene.act("mkdir", "-", spot.directory, after_us=scene.dice.choice((0, scene.stay_us(), 100 * MS)))
        scene.spawn(actor, 1 - spot.home if escapes else spot.home, spins=scene.dice.random() < 0.5)
        scene.act("write", actor, spot.door, after_us=scene.dice.choice((0, scene.stay_us())))
        scene.act("kill", actor, after_us=scene.dice.randint(5 * MS, 60 * MS))
    scene.spawn(scene.actor("a"), spot.home, spins=False)
    scene.act("write", scene.actor("a"), spot.door)
    scene.now_us = max(scene.now_us, LAST_US)
    scene.act("kill", scene.actor("a"))


SCENES: tuple[Callable[[Scene], None], ...] = (
    _moved,
    _moved,
    _hops,
    _flips,
    _family,
    _vforks,
    _threads,
    _uring,
    _exec,
    _healthy,
    _leaves_before_it_goes,
    _joins_in_two_steps,
)


def dice_cpu(scene: Scene, target: Spot) -> int:
    """Choose a CPU: mostly the one that the target's tasks must not use."""
    return 1 - target.home if scene.dice.random() < 0.8 else target.home
