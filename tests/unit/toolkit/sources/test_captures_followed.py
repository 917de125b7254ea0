"""Real kubelets' nodes, captured moment by moment: which of their containers run on what is another pod's by then."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from tests.recordings import CAPTURES
from tests.unit.toolkit.sources.made_node import write
from toolkit.sources.kubelet.files.capture import read_bundle_files
from toolkit.sources.kubelet.files.cgroups import ControlWords, hierarchies
from toolkit.sources.kubelet.held import Owned, followed_of
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_capture

RUNS = [(run, list(moments)) for run, moments in groupby(CAPTURES, key=lambda path: path.name.partition("-")[0])]
SLOW = {"A2-4-slow-termination-cpu-given-to-g1.tar.gz": {"g1slow-node1/main": "1"}}
"""Fault 2 of the captures; all else is no such thing: late pools, a pool that is empty, pods that were deleted."""


@pytest.mark.parametrize(("run", "moments"), RUNS, ids=[run for run, _ in RUNS])
def test_two_owners_at_once_are_found_and_nothing_else(run: str, moments: list[Path], tmp_path: Path) -> None:
    """Each run is followed from its first moment to its last."""
    owned, found = Owned(), {}
    for moment in moments:
        reading = read_capture(moment)
        for name, data in read_bundle_files(moment).items():
            if name.endswith("/cgroup.procs"):
                write(tmp_path / moment.name, name, data.decode())
        now = followed_of(reading, node_claims(reading))
        taken = owned.taken(now, ControlWords(hierarchies(tmp_path / moment.name / "cgroup")))
        if taken:
            found[moment.name] = {name: str(cpus) for name, cpus in taken.items()}

    assert found == {name: cpus for name, cpus in SLOW.items() if name.startswith(f"{run}-")}
