"""What took a claim's time: measures and words that explain a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, claim_set, claim_web, evidence
from toolkit.model.evidence import Culprit, CulpritClass, Delay, Evidence
from validators.queries.delay import waited
from validators.rules.quota_throttling import RULE as QUOTA

MS = 1_000_000
WEB = claim_web()


def behind(owner: CulpritClass, name: str, ms: float, claim: str = "web", cpu: int = 1) -> Culprit:
    """Return what had a CPU for so long, in two turns."""
    ns = int(ms * MS)
    pod = owner is CulpritClass.FOREIGN_POD
    named = {"name": "", "cgroup": name} if pod else {"name": name}
    return Culprit(claim=claim, cpu=cpu, owner=owner, turns=2, total_ns=ns, longest_ns=ns // 2, **named)


def delayed(*culprits: Culprit, ms: float = 38.0, claim: str = "web", **changes: object) -> Evidence:
    """Return evidence of a claim that waited so long."""
    row = Delay(
        claim=claim, cpu=1, wait_ns=int(ms * MS), woken_ns=int(ms * MS), longest_ns=9 * MS, longest_at_ns=SECOND
    )
    return replace(evidence(**changes), delays=(row,), culprits=culprits)


def ending(found: Evidence) -> str:
    """Return what a reason about ``web`` ends with."""
    said = waited(WEB, claim_set(WEB), found)
    assert said is not None
    return said.ending(found)


def test_a_reason_names_what_had_the_cpu() -> None:
    """The worst first, of every CPU together."""
    found = delayed(
        behind(CulpritClass.CLAIM, "db", 7),
        behind(CulpritClass.KTHREAD, "kworker/3:1", 21),
        behind(CulpritClass.CLAIM, "db", 10, cpu=2),
    )

    assert ending(found) == "; its tasks waited 38.0 ms in 10 s: 21.0 ms behind kworker/3:1, 17.0 ms behind db"


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (CulpritClass.CLAIM, "web", "behind its own tasks"),
        (CulpritClass.FOREIGN_POD, "/kubepods/podx/y", "behind /kubepods/podx/y"),
        (CulpritClass.FOREIGN_POD, "", "behind tasks of pods that have ended"),
        (CulpritClass.SYSTEM, "cron", "behind cron"),
        (CulpritClass.TOOLKIT, "poll", "behind pinproof itself (poll)"),
        (CulpritClass.ENDED, "", "behind tasks that have ended"),
        (CulpritClass.IDLE, "", "on an idle CPU"),
        (CulpritClass.THROTTLED, "", "throttled by its own quota"),
    ],
)
def test_every_kind_of_culprit_has_words(owner: CulpritClass, name: str, said: str) -> None:
    """Also where nothing ran."""
    assert ending(delayed(behind(owner, name, 38))).endswith(f": 38.0 ms {said}")


@pytest.mark.parametrize(
    ("own_ms", "pod_ms", "said"),
    [(30, 2, "throttled by its own quota"), (2, 30, "throttled by the quota of /kubepods/podb")],
)
def test_the_level_that_throttled_is_named(own_ms: int, pod_ms: int, said: str) -> None:
    """By the kernel's own count of each level."""
    rows = tuple(
        bandwidth("web", cgroup, level, throttled_ns=ms * MS)
        for level, (cgroup, ms) in enumerate(((WEB.cgroup, own_ms), ("/kubepods/podb", pod_ms)))
    )

    assert ending(delayed(behind(CulpritClass.THROTTLED, "", 38), bandwidth=rows)).endswith(said)


def test_what_is_not_worth_a_word_is_a_number_all_the_same() -> None:
    """Half a millisecond in ten seconds; and nothing is said of runs in which nothing counted it."""
    found = delayed(ms=0.5)
    said = waited(WEB, claim_set(WEB), found)

    assert said is not None
    assert (ending(found), said.measures()["waited_ns"]) == ("", 500_000)
    assert waited(WEB, claim_set(WEB), evidence()) is None


def test_more_culprits_are_counted() -> None:
    """Three are named."""
    found = delayed(*(behind(CulpritClass.SYSTEM, name, 9) for name in ("a", "b", "c", "d", "e")))

    assert ending(found).endswith("9.0 ms behind a, 9.0 ms behind b, 9.0 ms behind c and 2 more")


def test_a_quota_explains_itself_by_it() -> None:
    """In its reason, and as measures."""
    verdict = QUOTA.check(claim_set(WEB), delayed(behind(CulpritClass.SYSTEM, "cron", 38)))[0]

    assert verdict.reason.endswith("; its tasks waited 38.0 ms in 10 s: 38.0 ms behind cron")
    assert (verdict.measures["waited_ns"], verdict.measures["longest_wait_ns"]) == (38 * MS, 9 * MS)
