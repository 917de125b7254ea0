"""Every public capture with parts missing, and with each container drifted: no alarm is made up, no drift missed."""

from __future__ import annotations

import random
from itertools import chain

import pytest

from tests.recordings import CAPTURES
from tests.unit.toolkit.sources.edited import Files, capture, failed, judged, place, rows
from toolkit.model.cpuset import CpuSet

NAMES = [path.name.partition(".")[0] for path in CAPTURES]
SUBSETS = 4


def parts(files: Files) -> list[list[str]]:
    """Names of files that are missing together: each part alone, a hierarchy, a kind of control file."""
    groups: dict[str, list[str]] = {}
    for name in files:
        if not name.startswith("cgroup/"):
            groups[name] = [name]
            continue
        for key in ("cgroup", name.split("/")[1], name.rpartition("/")[2]):
            groups.setdefault(f"cgroup {key}", []).append(name)
    return [groups[key] for key in sorted(groups)]


def faulty(files: Files) -> set[tuple[str, str]]:
    """Rule and cgroup (or what else is judged) of what fails: without a runtime's list no names are known."""
    found = failed(files)
    cgroups = {name: row["cgroup"] for name, row in rows(files).items()} if found else {}
    return {(rule, cgroups.get(subject, subject)) for rule, subject in found}


@pytest.mark.parametrize("name", NAMES)
def test_a_part_that_is_missing_makes_nothing_fail(name: str) -> None:
    """What cannot be known is undecided; one part alone, and several."""
    whole = capture(name)
    known, every = faulty(whole), parts(whole)
    chance = random.Random(name)
    several = [[*chain.from_iterable(chance.sample(every, len(every) // 3))] for _ in range(SUBSETS)]
    for missing in [*every, *several]:
        less = {key: data for key, data in whole.items() if key not in missing}
        assert faulty(less) <= known, missing


@pytest.mark.parametrize("name", NAMES)
def test_a_set_that_was_not_asked_for_is_drift_wherever_it_is(name: str) -> None:
    """Of each container, by every set of the machine's first CPUs that neither state file nor runtime names."""
    whole = capture(name)
    for subject, row in rows(whole).items():
        if row["kind"] != "container" or row.get("gone"):
            continue
        for cpus in ("0", "1", "0-1"):
            if cpus in (row["state_cpus"], row["observed"].get("cpuset.cpus")):
                continue
            files = dict(whole)
            place(files, row, cpus)
            verdict = judged(files)["layers-agree", subject]
            assert verdict.outcome == "failed", (subject, cpus, verdict.reason)
            assert str(CpuSet.parse(cpus)) in verdict.reason
