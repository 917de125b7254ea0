"""One scenario of the catalogue, run on this machine as ``conformance`` runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.host import cgroupfs
from toolkit.host.topology import read_topology
from toolkit.model.conformance import ScenarioResult
from toolkit.model.verdict import Outcome
from toolkit.scenario_file import load_catalogue
from toolkit.session import conformance
from toolkit.session.engine.execute import Settings
from toolkit.session.engine.prepared import Prepared
from toolkit.session.planning import fitting

SCENARIOS = {scenario.name: scenario for scenario in load_catalogue()}


def run(name: str, tmp_path: Path, kept: Prepared, *, only: str = "") -> ScenarioResult:
    """Run one scenario of the catalogue with short windows.

    :param only: the rule whose negative controls are run, which a virtual machine may skip; all of them if empty.
    """
    topology = read_topology()
    reason = fitting.why_not(SCENARIOS[name], topology)
    if reason is not None:
        pytest.skip(reason)
    every = SCENARIOS[name].negative_controls
    scenario = replace(SCENARIOS[name], negative_controls=tuple(one for one in every if only in ("", one.rule)))
    result = conformance.run_one(scenario, topology, Settings(runs=tmp_path, duration_s=1.0, prepared=kept))
    wrong = [f"{v.rule} {v.subject}: {v.reason}" for v in result.verdicts if v.outcome is Outcome.FAILED]
    missed = [f"{c.rule} {c.subject}: {c.reason}" for c in result.controls if c.outcome is Outcome.FAILED]
    assert (wrong, missed) == ([], [])
    assert only or any(control.outcome is Outcome.PASSED for control in result.controls)
    ids = {Path(one.run).name for one in (result, *result.controls) if one.run}
    left = [path.name for path in cgroupfs.detect().controller_dir("cpuset").glob("pinproof-*")]
    assert ids
    assert not any(one in path for path in left for one in ids)
    return result
