"""One test for each scenario of the catalogue; those that this machine cannot run are skipped, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.scenario_file import load_catalogue
from toolkit.session import conformance
from toolkit.session.conformance import REPEATS
from toolkit.session.engine.execute import Settings
from toolkit.session.planning import fitting
from toolkit.text.names import printable
from validators.pytest_notes import JUDGED, in_words_of_pytest, note, skip_unfit


@pytest.mark.parametrize("scenario", load_catalogue(), ids=lambda scenario: scenario.name)
def test_scenario(
    scenario: Scenario,
    pinproof_host: Topology,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Every promise of the scenario holds, and each that is broken on purpose is noticed."""
    pytestconfig = request.config
    runtime = pytestconfig.getoption("pinproof_runtime")
    reason = fitting.why_not(scenario, pinproof_host, runtime, full=pytestconfig.getoption("pinproof_full"))
    if reason is not None:
        skip_unfit(request.node, in_words_of_pytest(reason))
    runs: Path = pytestconfig.getoption("pinproof_runs") or tmp_path_factory.mktemp("runs")
    duration = pytestconfig.getoption("pinproof_duration")
    # Asked for only here: where every scenario is skipped, nothing is compiled.
    prepared = request.getfixturevalue("pinproof_probes")
    settings = Settings(runs=runs, runtime=runtime, duration_s=duration, prepared=prepared, repeats=REPEATS)

    result = conformance.run_one(scenario, pinproof_host, settings)
    note(request.node, JUDGED)

    if result.outcome is not Outcome.PASSED:
        text = f"{result.outcome.value}: {result.reason} (saved in {result.run or 'no run'})"
        pytest.fail(printable(text), pytrace=False)
