"""``conformance --list`` says of each scenario which promises it judges."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.lab.harness.catalogue import scenarios
from toolkit.cli.conformance import command
from toolkit.session.planning.judged import judged


def listed(*arguments: str) -> str:
    """Return what the verb prints."""
    done = CliRunner().invoke(command, ["--list", *arguments])
    assert done.exit_code == 0
    return done.stdout


def test_every_scenario_says_what_it_judges() -> None:
    """None is silent, in JSON."""
    found = {entry["name"]: entry["judges"] for entry in json.loads(listed("--json"))}

    assert set(found) == set(scenarios())
    assert [name for name, promises in found.items() if not promises] == []


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("smt-admit", "alignment smt"),
        ("numa-distributed", "alignment numa-even"),
        ("distribute-across-cores", "preference distinct-cores"),
        ("numa-closest", "preference closest-nodes"),
        ("topology-restricted", "fewest NUMA nodes"),
        ("numa-pod-scope", "alignment numa-pod"),
        ("qos-burstable-limits", "quota of pods"),
        ("qos-best-effort", "weight of QoS classes"),
        ("weights", "part of contended CPU time"),
        ("strict-reservation", "strict reservation"),
        ("smt-reject", "refusal"),
        ("numa-packed", "expected CPUs"),
        ("kubelet-restart", "CPUs kept"),
        ("resize-unmoved", "CPUs kept"),
    ],
)
def test_what_a_scenario_shows_is_among_it(name: str, promise: str) -> None:
    """The option that a scenario is about is a promise that it judges."""
    assert promise in judged(scenarios()[name])


def test_the_table_has_a_column_for_it() -> None:
    """People read it, too."""
    assert "alignment smt" in " ".join(listed("--select", "smt-admit").split())
