"""Arbitrary changes of files that users write: refused in one line, or read. Nothing else is ever raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from tests.unit.toolkit.input_mutation import NASTY, expect_input_error_or_nothing, mutate, places
from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.kubernetes.node_config import FIELDS, read_settings
from toolkit.scenario_file import load_catalogue, load_scenario, parse_scenario
from toolkit.session.planning.planned import plan_scenario
from toolkit.sources.claims_file import load_claims, parse_claims
from toolkit.text.yaml_text import MAX_BYTES

CLAIMS = """
apiVersion: pinproof/v1
kind: Claims
reservedCPUs: "0"
strictReservation: true
policy: k8s
podsRoot: /kubepods
transitionLimitMs: 5
claims:
  - name: db
    cgroup: /kubepods/poda/db
    cpus: "1"
    isolation: container
    quota: none
    mems: "0"
    hugepages: {2097152: 4194304}
    demandCpus: 1
  - {name: web, cgroup: /kubepods/podb/web, quota: {quotaUs: 50000, periodUs: 100000}, weight: 100}
"""
SCENARIO = """
apiVersion: pinproof/v1
kind: Scenario
name: two
title: two pods
requires: {cpus: 2}
kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: "0", featureGates: {PodLevelResources: true}}
pods:
  - apiVersion: v1
    kind: Pod
    metadata: {name: a}
    spec:
      initContainers: [{name: init, resources: {limits: {cpu: "1", memory: 64Mi}}}]
      containers: [{name: main, resources: {limits: {cpu: "1", memory: 64Mi}}}]
  - apiVersion: v1
    kind: Pod
    metadata: {name: b}
    spec:
      resources: {requests: {cpu: 500m}}
      containers: [{name: main, resources: {requests: {cpu: 100m}}}]
workloads: {a/main: [{kind: spin, threads: 1}]}
durationSeconds: 2.0
negativeControls: [{rule: cpuset-containment, fault: widen-cpuset, target: a/main}]
"""
WILD = (*NASTY, float("nan"), float("inf"), 10**5000, "1e999", "9" * 400, "-1", "1m", "0-99999999999", "a/../b")
EXAMPLES = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
TOPOLOGY = read_topology()


def read_claims(text: str) -> None:
    """Read a claims file."""
    parse_claims(text, "file")


def plan(text: str) -> None:
    """Read a scenario and plan it for this machine."""
    plan_scenario(parse_scenario(text, "file"), TOPOLOGY)


FILES = {"claims": (CLAIMS, read_claims), "scenario": (SCENARIO, plan)}


@pytest.mark.parametrize("kind", FILES)
def test_the_files_are_good(kind: str) -> None:
    """What is changed below is accepted as it stands."""
    text, read = FILES[kind]

    read(text)


@pytest.mark.parametrize("kind", FILES)
@EXAMPLES
@given(data=st.data())
def test_any_change_of_a_value(kind: str, data: st.DataObject) -> None:
    """A value of another type, sign or size, one that is gone or one too many."""
    text, read = FILES[kind]
    document = yaml.safe_load(text)
    path = data.draw(st.sampled_from(list(places(document))))
    value = data.draw(st.sampled_from(WILD))
    changed = mutate(document, path, data.draw(st.sampled_from(["set", "set", "drop", "add"])), _spelt(value))
    expect_input_error_or_nothing(lambda: read(_yaml(changed)))


@pytest.mark.parametrize("kind", FILES)
@EXAMPLES
@given(data=st.data())
def test_any_change_of_text(kind: str, data: st.DataObject) -> None:
    """Characters put in, cut out or doubled."""
    text, read = FILES[kind]
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, min(len(text), at + 40)))
    middle = data.draw(st.one_of(st.text(max_size=6), st.sampled_from(list("{}[]&*!|>%@`#:-?,'\"\t\n\\"))))
    expect_input_error_or_nothing(lambda: read(text[:at] + middle + text[to:]))


def _spelt(value: Any) -> Any:
    return "0x" + "f" * 5000 if value == 10**5000 else value


def _yaml(document: Any) -> str:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    # A number that Python does not write in decimal is still one in a file.
    return yaml.dump(document, Dumper=Plain, allow_unicode=True).replace(f"'0x{'f' * 5000}'", f"0x{'f' * 5000}")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "pinproof-canary-positive"}, "claim name"),
        ({"name": "red\x1b[31m"}, "claim name"),
        ({"cgroup": "/a/../b"}, "below the cgroup root"),
        ({"cgroup": "/a//b"}, "below the cgroup root"),
        ({"cgroup": "//"}, "below the cgroup root"),
        ({"demandCpus": float("inf")}, "finite"),
        ({"memoryBytes": 10**60}, "less than or equal"),
        ({"quota": {"quotaUs": 5}}, r"claims.0.quota.quotaUs: .* 1000"),
        ({"cpus": "1", "isolation": "container", "quota": 7}, "claims.0.quota"),
    ],
    ids=str,
)
def test_claims_that_are_refused(change: dict[str, Any], told: str) -> None:
    """A name that our own controls have, a path that leads elsewhere, a number that no cgroup holds."""
    document = yaml.safe_load(CLAIMS)
    document["claims"] = [{"name": "a", "cgroup": "/a", "cpus": "1", **change}]

    with pytest.raises(InputError, match=told):
        parse_claims(_yaml(document), "file")


@pytest.mark.parametrize("where", ["kubelet", "negativeControls"])
def test_a_misspelt_option_of_the_kubelet(where: str) -> None:
    """It is refused with the one that was meant: else the model would take the default and promise nothing."""
    document = yaml.safe_load(SCENARIO)
    part = document if where == "kubelet" else document["negativeControls"][0]
    part["kubelet"] = {"cpuManagerPolcy": "static"}

    with pytest.raises(InputError, match=r"unknown key kubelet\.cpuManagerPolcy; expected cpuManagerPolicy"):
        parse_scenario(_yaml(document), "file")


def test_the_known_options_are_those_that_are_read() -> None:
    """Each of the list is read: a value of no use is refused with its path. The catalogue uses no other."""
    for field in FIELDS:
        with pytest.raises(InputError, match=rf"^here\.{field}: {{1, 2}}; expected ."):
            read_settings({field: {1, 2}}, "here")
    assert read_settings({"maxOpenFiles": {1, 2}, "": None, 3: 4}, "here") == read_settings({}, "here")
    assert {key for scenario in load_catalogue() for key in scenario.kubelet} <= FIELDS


@pytest.mark.parametrize("load", [load_claims, load_scenario])
def test_what_is_no_file(tmp_path: Path, load: Any) -> None:
    """Missing, a directory, a device, no text, a flood: told with the path, at once."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "flood").write_bytes(b"- a\n" * (MAX_BYTES // 4 + 1))
    for path in (tmp_path / "flood", tmp_path / "none", tmp_path, Path("/dev/zero"), tmp_path / "binary"):
        with pytest.raises(InputError, match=str(path)):
            load(path)
