"""Facts of a node that may separate bad nodes from good ones: what it is built of, and what runs on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from toolkit.fleet.exact import false_discovery, fisher
from toolkit.model.evidence import Environment
from toolkit.model.identity import Identity
from toolkit.model.serde import stage_value
from toolkit.model.session import Session

Facts = tuple[tuple[str, str], ...]
"""Name and value, each name once; words of the command line are facts of their own (``cmdline nohz_full=2-5``)."""
MAX_WORDS = 200
MAX_RATE = 0.05
"""Of the facts that are named as many may be named by chance."""
ABSENT = "(absent)"


def of_session(session: Session) -> Facts:
    """Return the facts of a session's node."""
    own = [("kernel", session.kernel), ("pinproof", session.pinproof), ("cgroup", session.cgroup)]
    return _stated([*own, *_of_identity(session.identity), *_words(session.cmdline)])


def of_environment(environment: Environment) -> Facts:
    """Return the facts of a result's node."""
    own = [
        ("kernel", environment.kernel),
        ("pinproof", environment.pinproof),
        ("cgroup", environment.cgroup),
        ("hz", "" if environment.hz is None else str(environment.hz)),
        ("sched_ext", environment.sched_ext),
        ("virtualization", environment.virtualization),
    ]
    return _stated([*own, *_of_identity(environment.identity or Identity()), *_words(environment.cmdline)])


def _of_identity(identity: Identity) -> list[tuple[str, str]]:
    return [
        (
            "hardware class",
            "" if identity.hardware is None else f"{identity.hardware.name} {identity.hardware.hash[:6]}",
        ),
        ("kernel build", identity.kernel_build),
        ("microcode", identity.microcode),
        ("kubelet", identity.kubelet),
        ("runtime", identity.runtime),
        ("OCI runtime", identity.oci_runtime),
        ("programs", identity.programs),
        *((f"gate {name}", str(on).lower()) for name, on in sorted(identity.feature_gates.items())),
        *((f"sysctl {name}", value) for name, value in sorted(identity.sysctls.items())),
    ]


def _words(cmdline: str) -> list[tuple[str, str]]:
    return [(f"cmdline {word}", "present") for word in dict.fromkeys(cmdline.split()[:MAX_WORDS])]


def _stated(facts: Sequence[tuple[str, str]]) -> Facts:
    return tuple((name, value) for name, value in facts if value)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Separating:
    """A value of a fact that bad nodes have more often, or less often, than good ones.

    :param same: other facts that hold of exactly the same nodes: nothing tells them apart here.
    """

    fact: str
    value: str
    bad_with: int
    bad: int
    good_with: int
    good: int
    p: float
    q: float
    same: tuple[str, ...]


def separating(bad: Mapping[str, Facts], good: Mapping[str, Facts]) -> tuple[Separating, ...]:
    """Return the facts that separate nodes, the clearest first. :param bad, good: node -> its facts.

    A value that one node alone has, or that all have, separates nothing and is not tested. Facts that hold of the same
    nodes are tested once; a fact that nodes lack is a value, too.
    """
    having: dict[tuple[str, str], set[str]] = defaultdict(set)
    stated: dict[str, set[str]] = defaultdict(set)
    for host, facts in (*bad.items(), *good.items()):
        for name, value in facts:
            having[name, value].add(host)
            stated[name].add(host)
    every = set(bad) | set(good)
    for name, hosts in stated.items():
        if every - hosts and not name.startswith("cmdline "):
            having[name, ABSENT] = every - hosts
    return _tested(_partitions(having, every), set(bad), set(good))


Side = tuple[frozenset[str], list[tuple[str, str]]]


def _partitions(having: Mapping[tuple[str, str], Collection[str]], every: Collection[str]) -> list[tuple[Side, Side]]:
    """Return the ways in which facts divide the nodes, each once, with the facts that hold on either side."""
    sides: dict[frozenset[str], list[tuple[str, str]]] = {}
    for fact, hosts in having.items():
        if 1 < len(hosts) < len(every) or (len(every) == 2 and len(hosts) == 1):
            sides.setdefault(frozenset(hosts), []).append(fact)
    found = []
    while sides:
        nodes, facts = sides.popitem()
        others = frozenset(every) - nodes
        found.append(((nodes, facts), (others, sides.pop(others, []))))
    return found


def _tested(partitions: Sequence[tuple[Side, Side]], bad: set[str], good: set[str]) -> tuple[Separating, ...]:
    tables = [(len(one[0] & bad), len(one[0] & good)) for one, _ in partitions]
    chances = [fisher(b, len(bad) - b, g, len(good) - g) for b, g in tables]
    rows = []
    for (one, other), p, q in zip(partitions, chances, false_discovery(chances), strict=True):
        if q > MAX_RATE:
            continue
        # What bad nodes have says more than what they lack.
        share = len(one[0] & bad) * len(good) >= len(one[0] & good) * len(bad)
        nodes, facts = (one if share else other) if (one if share else other)[1] else (other if share else one)
        (fact, value), *same = sorted(facts, key=lambda each: each[1] == ABSENT)
        rows.append(
            Separating(
                fact=fact,
                value=value,
                bad_with=len(nodes & bad),
                bad=len(bad),
                good_with=len(nodes & good),
                good=len(good),
                p=p,
                q=q,
                same=tuple(f"{name} {text}" for name, text in same),
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.p, row.fact)))
