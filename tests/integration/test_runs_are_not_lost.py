"""Nothing is lost of verbs that make sandboxes: without a disk, or when a later scenario fails, results are told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.lost_support import Begun, begin, ending, scenario

# Not beside others: several loads that use whole CPUs at once starve what else runs here (docs/facts.md K34).
pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Sessions:
    """Verbs that make sandboxes, begun together: each waits for its own windows most of the time.

    :param poor: without stress-ng, by whether it prints JSON. :param unsaved: where a file is in the directory's place.
    """

    poor: dict[bool, Begun]
    unsaved: Begun
    conformance: Begun


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """All of them; the output of those without a disk is a file."""
    bare = tmp_path_factory.mktemp("bin")
    for name in ("sh", "sleep"):
        found = shutil.which(name)
        assert found is not None
        (bare / name).symlink_to(found)
    scenarios = tmp_path_factory.mktemp("scenarios")
    kinds = (("one", "spin"), ("two", "switch"), ("three", "spin"), ("four", "spin"))
    one, two, three, four = (scenario(scenarios, name, kind) for name, kind in kinds)

    def session(*arguments: object, path: Path | None = None) -> Begun:
        folder = tmp_path_factory.mktemp("session")
        (folder / "file").write_text("")
        return begin(folder, *arguments, env=None if path is None else {**os.environ, "PATH": str(path)})

    poor = ("run", one, two, three, "--output", "runs")
    chosen = ("conformance", "--select", "quota-050-over", "--duration", "0.3", "--repeats", "0", "--json")
    begun = Sessions(
        poor={True: session(*poor, "--json", path=bare), False: session(*poor, path=bare)},
        unsaved=session("run", one, four, "--json", "--output", "file"),
        conformance=session(*chosen, "--output", "file", "--junit", "file/junit.xml"),
    )
    with ending((*begun.poor.values(), begun.unsaved, begun.conformance)):
        yield begun


@pytest.mark.parametrize("as_json", [True, False])
def test_the_first_results_are_kept_when_the_second_fails(sessions: Sessions, as_json: bool) -> None:
    """They are printed and saved; what failed, and what was not run, is one line; the worse exit code wins."""
    code, out, err = sessions.poor[as_json].ended()

    (run,) = (sessions.poor[as_json].folder / "runs").iterdir()
    saved = json.loads((run / "result.json").read_text())
    if as_json:
        assert json.loads(out) == [saved]
    else:
        assert "evidence-health" in out
        assert f"Run saved in runs/{run.name}" in out
    assert code == (1 if saved["outcome"] == "failed" else 4)
    assert err.startswith("pinproof: two: stress-ng is not installed")
    assert err.endswith("; not run: three\n")
    assert err.count("\n") == 1


def test_scenarios_that_cannot_be_saved(sessions: Sessions) -> None:
    """Each is judged and printed; each that is not saved is one line."""
    code, out, err = sessions.unsaved.ended()

    results = json.loads(out)
    assert len(results) == 2
    assert code == (1 if "failed" in {result["outcome"] for result in results} else 2)
    warning, *lines = err.splitlines()
    assert "warning" in warning
    assert [line.startswith("pinproof: file/") for line in lines] == [True, True]


def test_a_conformance_session_without_a_disk(sessions: Sessions) -> None:
    """Scenario and controls are judged; that their directories are missing is one line and exit code 2."""
    code, out, err = sessions.conformance.ended()

    session = json.loads(out)
    (found,) = session["scenarios"]
    assert found["verdicts"]
    assert {control["outcome"] for control in found["controls"]} <= {"passed", "undecided"}
    assert (found["run"], {control["run"] for control in found["controls"]}) == ("", {""})
    assert len(found["unsaved"]) >= 2
    assert code == (1 if session["outcome"] == "failed" else 2)
    lines = [line for line in err.splitlines() if "warning" not in line]
    assert len(lines) == 2
    assert "more run)" in lines[0] or "more runs)" in lines[0]
    assert "junit.xml" in lines[1]
