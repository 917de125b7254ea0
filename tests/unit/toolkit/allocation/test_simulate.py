"""Recorded scenarios through the model, and the verb that replays them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.recordings import DATA, DECISIONS, unpacked
from toolkit.allocation.simulate import differences, simulate
from toolkit.allocation.vectors import FORMAT, read_vectors
from toolkit.cli.simulate import DEFECT_TAGS, command
from toolkit.errors import InputError

CHOSEN = DATA / "vectors" / "chosen.json"
SCENARIOS = list(read_vectors(CHOSEN))


@pytest.mark.parametrize("area", DECISIONS)
def test_every_recorded_scenario(tmp_path: Path, area: str) -> None:
    """With its defects reproduced the model gives what the real components gave; where no defect shows, without too."""
    seen, wrong = 0, []
    for scenario in read_vectors(unpacked(area, tmp_path)):
        seen += 1
        for quirks in (False, True):
            if quirks or not DEFECT_TAGS & set(scenario.tags):
                found = list(differences(scenario.expect, simulate(scenario, quirks=quirks)))
                wrong += [(scenario.id, quirks, found[0])] if found else []

    assert seen >= 10
    assert wrong == []


def test_all_areas_are_recorded() -> None:
    """Each area by hand and, but for kubelets that do not start, at random."""
    areas = {"cpu-static-basic", "cpu-static-options", "memory-manager", "topology-manager", "pod-level", "restart"}

    assert set(DECISIONS) == areas | {f"{area}-fuzz" for area in areas} | {"startup-errors"}


def test_simulation_is_deterministic() -> None:
    """Two replays give the same data."""
    for scenario in SCENARIOS:
        assert simulate(scenario) == simulate(scenario)


def test_a_restart_that_fails_shows_the_file_it_has_written(tmp_path: Path) -> None:
    """The CPU Manager has filled its empty pool before the Memory Manager refuses to start."""
    strict = {"cpuManagerPolicy": "static", "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}
    kubelet = {**strict, "reservedSystemCPUs": "0-1", "memoryManagerPolicy": "None"}
    later = {
        **strict,
        "reservedSystemCPUs": "0",
        "systemReserved": {"memory": "1Mi"},
        "memoryManagerPolicy": "Static",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Mi"}}],
    }
    machine = {"cpus": [[0, 0, 0, 0, None], [1, 1, 0, 0, None]], "numa": [{"id": 0, "memory": 1 << 30}]}
    events = [{"restart_kubelet": {"kubelet": later}}]
    scenario = {"id": "a", "machine": "m", "kubelet": kubelet, "events": events}
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"format": FORMAT, "machines": {"m": machine}, "scenarios": [scenario]}))
    outcome = simulate(next(read_vectors(file)))

    assert outcome["events"][0]["startup_error"]["stage"] == "memory-manager-start"
    assert '"defaultCpuSet":"1"' in outcome["final"]["cpu_manager_state"]


def run(*arguments: str) -> Any:
    """Run the verb."""
    return CliRunner().invoke(command, arguments)


def test_check_passes_and_sets_defects_apart() -> None:
    """--check ends with the count; scenarios that differ by a known defect do not count as failed."""
    result = run(str(CHOSEN), "--check")

    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == f"{len(SCENARIOS) - 2} passed, 0 failed"
    assert "mm-hp-missing: kubelet defect (panic)" in result.output


def test_check_shows_what_differs(tmp_path: Path) -> None:
    """A wrong expectation is told with scenario, event, field, expected and got; exit code 1."""
    data = json.loads(CHOSEN.read_text(encoding="utf-8"))
    data["scenarios"] = [s for s in data["scenarios"] if s["id"] == "mm-multi-none-container"]
    data["scenarios"][0]["expect"]["events"][0]["containers"]["c"]["cpus"] = "0-1"
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data), encoding="utf-8")
    result = run(str(changed), "--check")

    assert result.exit_code == 1
    assert 'mm-multi-none-container: event 0, containers.c.cpus: expected "0-1", got "1,33"' in result.output
    assert result.output.splitlines()[-1] == "0 passed, 1 failed"


def test_a_tag_excuses_only_its_own_defect(tmp_path: Path) -> None:
    """A tagged scenario that differs for another reason fails."""
    data = json.loads(CHOSEN.read_text(encoding="utf-8"))
    data["scenarios"] = [s for s in data["scenarios"] if s["id"] == "pl-over-budget-best-effort-pod"]
    data["scenarios"][0]["expect"]["events"][1]["admitted"] = False
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data), encoding="utf-8")

    assert run(str(changed), "--check").exit_code == 1


def test_json_holds_one_outcome_per_scenario() -> None:
    """--json prints {"results": {id: outcome}} in the shape of "expect"."""
    results = json.loads(run(str(CHOSEN), "--json", "--quirks").output)["results"]

    assert set(results) == {s.id for s in SCENARIOS}
    for scenario in SCENARIOS:
        assert not list(differences(scenario.expect, results[scenario.id]))


def test_plain_output_tells_the_story() -> None:
    """Without options every event is told in words."""
    output = run(str(CHOSEN)).output

    assert "the kubelet does not start (cpu-manager): [cpumanager] unable to determine reserved CPU" in output
    assert "readmit" not in output
    assert "admitted again" in output


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format":"other"}', '{"format":"kubelet-resource-manager-vectors/1"}', "[" * 100_000,
     '{"format":"kubelet-resource-manager-vectors/1","machines":{},"scenarios":[{"id":"a","machine":"none"}]}',
     '{"format":"kubelet-resource-manager-vectors/1","machines":{"m":{"cpus":[[0,0,0,0]]}},"scenarios":[]}'],
)  # fmt: skip
def test_files_of_another_form_are_bad_input(tmp_path: Path, text: str) -> None:
    """One line that says what is wrong where."""
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        list(read_vectors(path))

    assert "\n" not in str(raised.value)


def test_damaged_files_never_crash_the_reader(tmp_path: Path) -> None:
    """Values replaced at random end in bad input or in an outcome."""
    source = random.Random(7)
    base: dict[str, Any] = json.loads(CHOSEN.read_text(encoding="utf-8"))
    path = tmp_path / "file.json"
    bad = 0
    for _ in range(150):
        data = json.loads(json.dumps(base))
        data["scenarios"] = [source.choice(data["scenarios"])]
        holder: Any = data
        key: Any = "scenarios"
        place: Any = data["scenarios"]
        while isinstance(place, dict | list) and place and source.random() < 0.85:
            holder, key = place, source.choice(list(place) if isinstance(place, dict) else range(len(place)))
            place = holder[key]
        holder[key] = source.choice([None, 3, -1, "x", [], {}, True, "9" * 30, 1e300])
        path.write_text(json.dumps(data), encoding="utf-8")
        try:
            for scenario in read_vectors(path):
                simulate(scenario)
        except InputError:
            bad += 1

    assert bad > 10
