"""What took a claim's time: how long its tasks waited for a CPU, what had it meanwhile, as measures and words.

Nothing is decided by it: it explains what a rule found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import BandwidthUse, Culprit, CulpritClass, Evidence
from toolkit.model.measures import Better, Kind, amounts, gated, levels, words
from toolkit.model.verdict import Measure
from toolkit.text.wording import and_more
from validators.queries import view
from validators.queries.pressure import Pressed, pressed
from validators.wording import digits

WORTH_NS = 1_000_000
"""A reason says what took the time where it was more than so much."""
NAMED = 3
MEASURES = (
    *gated("waited_ns", Kind.AMOUNT, Better.LESS, relative=0.5, absolute=5_000_000),
    *amounts("waited_throttled_ns", "waited_unnamed_ns", "migrations_count", better=Better.LESS),
    *levels("longest_wait_ns", better=Better.LESS),
    *amounts("psi_some_us", "psi_full_us", better=Better.LESS),
    *words("waited_behind", "psi"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What one claim waited for.

    :param behind: what had the CPU meanwhile, in words, the worst first, with how long (ns).
    :param pressed: the same by the kernel's own witness.
    :param counted: whether a ledger was there that counts waits: else only ``pressed`` says anything.
    """

    total_ns: int
    longest_ns: int
    throttled_ns: int
    unnamed_ns: int
    migrations: int
    behind: tuple[tuple[str, int], ...]
    pressed: Pressed | None = None
    counted: bool = True

    def measures(self) -> dict[str, Measure]:
        """Return the numbers."""
        found: dict[str, Measure] = {
            "waited_ns": self.total_ns,
            "longest_wait_ns": self.longest_ns,
            "waited_throttled_ns": self.throttled_ns,
            "waited_unnamed_ns": self.unnamed_ns,
            "migrations_count": self.migrations,
        } if self.counted else {}  # fmt: skip
        found |= {} if self.pressed is None else self.pressed.measures()
        return found | ({"waited_behind": self._behind()} if self.behind else {})

    def ending(self, evidence: Evidence) -> str:
        """Return what a reason ends with; empty where it is not worth a word."""
        problem = "" if self.pressed is None else self.pressed.problem
        doubt = f"; {problem}" if problem else ""
        if self.total_ns < WORTH_NS:
            return doubt
        window = digits(evidence.duration_ns / view.NANOSECONDS)
        text = f"; its tasks waited {self.total_ns / 1e6:.1f} ms in {window} s"
        return (f"{text}: {self._behind()}" if self.behind else text) + doubt

    def _behind(self) -> str:
        named = ", ".join(f"{ns / 1e6:.1f} ms {what}" for what, ns in self.behind[:NAMED])
        return named + and_more(len(self.behind) - NAMED)


def waited(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Waited | None:
    """Return what a claim waited for, the claims inside it included; ``None``: nothing was seen of it (older runs)."""
    names = view.covered(claim, claims)
    rows = [row for name in sorted(names) for row in view.by_claim(evidence.delays).get(name, ())]
    by_kernel = pressed(claim, claims, evidence)
    if not rows and (by_kernel is None or not by_kernel.some_ns):
        return None
    behind = Counter[str]()
    for name in sorted(names):
        for culprit in view.by_claim(evidence.culprits).get(name, ()):
            behind[_called(culprit, claim, names, evidence)] += culprit.total_ns
    return Waited(
        total_ns=sum(row.wait_ns for row in rows),
        longest_ns=max((row.longest_ns for row in rows), default=0),
        throttled_ns=sum(row.throttled_ns for row in rows),
        unnamed_ns=sum(row.unnamed_ns for row in rows),
        migrations=sum(row.migrations for row in rows),
        behind=tuple(sorted(behind.items(), key=lambda item: (-item[1], item[0]))),
        pressed=by_kernel,
        counted=not view.without_programs(evidence),
    )


def _called(culprit: Culprit, claim: Claim, names: frozenset[str], evidence: Evidence) -> str:
    """Say what had the CPU."""
    match culprit.owner:
        case CulpritClass.CLAIM:
            return (
                "behind its own tasks" if culprit.name in names else f"behind {culprit.name or 'a claim that is gone'}"
            )
        case CulpritClass.FOREIGN_POD:
            return f"behind {culprit.cgroup or 'tasks of pods that have ended'}"
        case CulpritClass.TOOLKIT:
            return f"behind pinproof itself ({culprit.name})"
        case CulpritClass.ENDED:
            return "behind tasks that have ended"
        case CulpritClass.IDLE:
            return "on an idle CPU"
        case CulpritClass.THROTTLED:
            return f"throttled{_by_level(claim, evidence)}"
        case _:
            return f"behind {culprit.name}"


def _by_level(claim: Claim, evidence: Evidence) -> str:
    """Say by which level's quota, by the kernel's count of each: the one that was throttled longest."""
    throttled = [row for row in view.levels_of(claim, evidence) if _throttled_ns(row)]
    if not throttled:
        return ""
    worst = max(throttled, key=lambda row: (_throttled_ns(row), -row.level))
    return " by its own quota" if worst.level == 0 else f" by the quota of {worst.cgroup}"


def _throttled_ns(row: BandwidthUse) -> int:
    return row.throttled_ns or 0
