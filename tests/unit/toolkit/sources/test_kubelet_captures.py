"""Captures of a real kubelet: claims against the truth beside each, verdicts against the faults that were written down.

The expectations come from what was done to each node, and from the truth files, not from what the readers made of them.
"""

from __future__ import annotations

import functools
import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.recordings import CAPTURES
from toolkit.cli.claims import command as claims_command
from toolkit.cli.judge import command as judge_command
from toolkit.model.claims import Isolation
from toolkit.sources.claims_file import parse_claims
from toolkit.sources.kubelet.files.capture import METRICS
from toolkit.sources.kubelet.files.endpoint import gauges

FAULTS: dict[str, set[tuple[str, str, str]]] = {
    "2-g1-just-started": set(),
    "4-slow-termination-cpu-given-to-g1": {
        ("checkpoint", "cpu_manager_state", "empty"),
        ("layers-agree", "be-node1/main", "checkpoint and cri"),
        ("layers-agree", "g1slow-node1/main", "checkpoint and cri"),
    },
    "6-tampered": {
        ("checkpoint", "cpu_manager_state", "empty"),
        ("layers-agree", "be-node1/main", "checkpoint and cri"),
        ("layers-agree", "g1-node1/main", "cri and cgroup"),
        ("applied", "g1-node1/main", "cpuset.cpus"),
        ("affinity-mask", "g1-node1/main", "0-1"),
    },
    "4-gmix-and-rejections": {
        ("layers-agree", "gf-node1/main", "memory_manager_state"),
        ("layers-agree", "gmix-node1/frac", "memory_manager_state"),
        ("layers-agree", "gbigmem-node1", "UnexpectedAdmissionError under policy single-numa-node"),
    },
    "4-plr-deleted-gside": {("layers-agree", "kubelet metrics", "exclusive_cpu_allocation_count is 6")},
    "3-g1-just-started-pool-not-shrunk": set(),
    "5-be-main-tampered-0-1": {
        ("layers-agree", "be-node1/main", "cri and cgroup"),
        ("applied", "be-node1/main", "cpuset.cpus"),
        ("affinity-mask", "be-node1/main", "0-1"),
    },
    "1-besteffort": set(),
    "3-g1-reconciled": set(),
    "4-g2-rejected": set(),
    "5-g1-deleted": {("layers-agree", "kubelet metrics", "allocation_per_numa")},
    "1-be": set(),
    "2-pool-exhausted-be-stuck": {
        ("checkpoint", "cpu_manager_state", "empty"),
        ("layers-agree", "be-node1/main", "checkpoint and cri"),
    },
    "3-new-shared-pod-with-empty-pool": {
        ("checkpoint", "cpu_manager_state", "empty"),
        ("layers-agree", "be-node1/main", "checkpoint and cri"),
    },
    "5-after-termination": {
        ("checkpoint", "cpu_manager_state", "empty"),
        ("layers-agree", "be-node1/main", "checkpoint and cri"),
    },
    "1-shared-only": set(),
    "2-g2-just-started": {("layers-agree", "gf-node1/main", "memory_manager_state")},
    "3-g2-reconciled": {("layers-agree", "gf-node1/main", "memory_manager_state")},
    "5-g2-deleted": {
        ("layers-agree", "kubelet metrics", "allocation_per_numa of node 0 is 2"),
        ("layers-agree", "gbigmem-node1", "UnexpectedAdmissionError under policy single-numa-node"),
    },
    "1-plr-just-started": set(),
    "2-plr-reconciled": set(),
    "3-plr-shared": {
        ("checkpoint", "cpu_manager_state", "empty"),
        ("layers-agree", "be-node1/main", "checkpoint and cri"),
    },
    "2-shared-only": set(),
    "4-g1-reconciled": set(),
}
"""Moment -> what must fail: rule, subject, and a part of the reason that names the pair. Nothing else may fail."""
LAGS = {
    "2-g1-just-started": {"be-node1/main"},
    "3-g1-just-started-pool-not-shrunk": {"be-node1/main", "be-node1/logger", "bu-node1/main"},
}
"""Moment -> whose reconcile has not come: undecided, and no other's."""


def moment(path: Path) -> str:
    """The moment's name without its run."""
    name = path.name.removesuffix(".tar.gz")
    return next(known for known in sorted(FAULTS, key=len, reverse=True) if name.endswith(known))


@functools.cache
def document(path: Path) -> dict[str, object]:
    """The claims document of a capture, through the verb; asked for once."""
    result = CliRunner().invoke(claims_command, ["--capture", str(path), "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert isinstance(data, dict)
    return data


def test_claims_equal_the_truth() -> None:
    """Every container of every moment that has a truth file."""
    seen = agreed = 0
    for path in CAPTURES:
        truth_file = path.with_name(path.name.replace(".tar.gz", ".truth.json"))
        if not truth_file.exists():
            continue
        rows = {row["id"]: row for row in document(path)["claims"] if "id" in row}  # type: ignore[attr-defined]
        for want in json.loads(truth_file.read_text())["containers"]:
            seen += 1
            row = rows[want["id"]]
            same = all(
                row[key] == want[key]
                for key in ("pod", "container", "cgroup", "state_cpus", "in_state", "pod_cpus", "state_mems")
            )
            same &= all(row["observed"].get(name) == value for name, value in want["observed"].items())
            same &= row["thread_masks"] == sorted(want["thread_masks"]) and row["live_threads"] == want["live_threads"]
            agreed += same
            assert same, (path.name, want, row)
    print(f"{agreed} of {seen} containers equal the truth")
    assert seen >= 60


def test_every_fault_is_reported_and_nothing_else() -> None:
    """Failed verdicts are exactly the faults that really are there; lag is undecided."""
    for path in CAPTURES:
        result = CliRunner().invoke(judge_command, ["--capture", str(path), "--json"])
        verdicts = json.loads(result.stdout)["verdicts"]
        failed = {(v["rule"], v["subject"]): v["reason"] for v in verdicts if v["outcome"] == "failed"}
        expected = FAULTS[moment(path)]
        assert set(failed) == {(rule, subject) for rule, subject, _ in expected}, (path, failed)
        for rule, subject, words in expected:
            assert words in failed[rule, subject], (path, failed)
        late = {v["subject"] for v in verdicts if v["outcome"] == "undecided"}
        assert late == LAGS.get(moment(path), set()), (path, late)
        assert result.exit_code == (1 if failed else 3 if late else 0)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_the_plain_output_is_a_claims_file(path: Path) -> None:
    """What `claims` prints is what `watch --claims` reads."""
    result = CliRunner().invoke(claims_command, ["--capture", str(path)])
    assert result.exit_code == 0
    claims = parse_claims(result.stdout, "printed")
    printed = {claim.name: claim for claim in claims.claims}
    for row in document(path)["claims"]:  # type: ignore[attr-defined]
        if not row.get("gone"):
            assert str(printed[row["name"]].cpus or "") == (row["cpus"] or "")


WITH_A_BUDGET = [path for path in CAPTURES if moment(path) in ("1-plr-just-started", "2-plr-reconciled")]


@pytest.mark.parametrize("path", WITH_A_BUDGET, ids=lambda path: path.name)
def test_isolation_levels_are_those_that_the_kubelet_counts(path: Path) -> None:
    """NRM-28: a fresh kubelet has counted by what each container of its only pod with a budget owns CPUs."""
    with tarfile.open(path) as archive:
        (name,) = (one for one in archive.getnames() if one.endswith(METRICS))
        samples = gauges(archive.extractfile(name).read().decode())  # type: ignore[union-attr]
    counted = {
        kind: value
        for sample, value in samples.items()
        for kind in ("pod_exclusive", "pod_shared")
        if sample.startswith("resource_manager_container_assignments") and kind in sample and '"cpu"' in sample
    }
    claims = parse_claims(CliRunner().invoke(claims_command, ["--capture", str(path)]).stdout, "printed")
    levels = Counter(claim.isolation for claim in claims.claims if claim.container and claim.name.startswith("plr-"))

    assert counted == {"pod_exclusive": levels[Isolation.CONTAINER], "pod_shared": levels[Isolation.POD]}
