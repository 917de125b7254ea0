"""Public captures with one thing changed in them: what a node says where something else had happened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.unit.toolkit.sources.made_node import allocations_text
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.model.verdict import Verdict
from toolkit.sources.kubelet.document import claims_data
from toolkit.sources.kubelet.evidence import RULES, evidence_of
from toolkit.sources.kubelet.files.capture import read_bundle_files
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of
from validators.registry import judge, rule_named

DATA = Path(__file__).parents[3] / "data" / "captures"
STATE = "kubelet/cpu_manager_state"
CONFIG = "kubelet/config.yaml"
Files = dict[str, bytes]


def capture(start: str) -> Files:
    """The files of the capture whose name begins so."""
    return dict(_unpacked(start))


@cache
def _unpacked(start: str) -> Mapping[str, bytes]:
    (path,) = DATA.glob(f"{start}*.tar.gz")
    return read_bundle_files(path)


@contextmanager
def part(files: Files, name: str) -> Iterator[Any]:
    """Change a part that is JSON."""
    data = json.loads(files[name])
    yield data
    files[name] = json.dumps(data).encode()


@contextmanager
def allocations(files: Files, name: str = "kubelet/allocated_pods_state") -> Iterator[dict[str, Any]]:
    """Change what the kubelet has allocated, by UID."""
    entries = json.loads(json.loads(files[name])["data"])["entries"]
    yield entries
    files[name] = allocations_text(entries).encode()


def write_state(files: Files, default: str, entries: dict[tuple[str, str], str] | None = None) -> None:
    """Write another state file, as a kubelet does. :param entries: by pod UID and container."""
    sets: dict[str, dict[str, CpuSet]] = {}
    for (uid, name), cpus in (entries or {}).items():
        sets.setdefault(uid, {})[name] = CpuSet.parse(cpus)
    state = CpuState(policy_name="static", default=CpuSet.parse(default), entries=sets)
    files[STATE] = write_cpu_checkpoint(state, pod_level=False).encode()


def configure(files: Files, old: str, new: str) -> None:
    """Replace lines of the kubelet's configuration."""
    text = files[CONFIG].decode()
    assert old in text
    files[CONFIG] = text.replace(old, new).encode()


def place(files: Files, row: dict[str, Any], cpus: str) -> None:
    """Give a container other CPUs wherever a node says which it has. :param row: of the claims document."""
    ident = row["id"]
    for name in files:
        if ident in name and name.endswith((".cpus", ".cpus.effective", ".effective_cpus")):
            files[name] = cpus.encode()
    if "cgroup.json" in files:
        with part(files, "cgroup.json") as tree:
            for path, controls in tree["cpuset"].items():
                if ident in path:
                    controls |= {"cpuset.cpus": cpus, "cpuset.effective_cpus": cpus}
    with part(files, "threads.json") as threads:
        for thread in threads if isinstance(threads, list) else ():
            if any(ident in line for line in thread["cgroup"]):
                thread["cpus"] = cpus
        for process in threads.values() if isinstance(threads, dict) else ():
            for thread in process["threads"].values():
                if ident in str(thread.get("cgroup", process.get("cgroup"))):
                    thread["Cpus_allowed_list"] = cpus


def asked(files: Files, row: dict[str, Any], cpus: str) -> None:
    """Let the runtime say that the kubelet asked for other CPUs."""
    with part(files, "containers.json" if "containers.json" in files else "node.json") as data:
        if "status" in data:
            data["status"][row["id"]]["status"]["resources"]["linux"]["cpusetCpus"] = cpus
        else:
            data[row["id"]]["resources"]["cpu"]["cpus"] = cpus


def rows(files: Files) -> dict[str, dict[str, Any]]:
    """The claims document's rows by name."""
    return {row["name"]: row for row in document(files)["claims"]}


def document(files: Files) -> dict[str, Any]:
    """The claims document."""
    found: dict[str, Any] = json.loads(json.dumps(claims_data(node_claims(reading_of(files)))))
    return found


def judged(files: Files) -> dict[tuple[str, str], Verdict]:
    """The verdicts by rule and subject."""
    reading = reading_of(files)
    claims, evidence = evidence_of(reading, node_claims(reading))
    verdicts = judge(claims, evidence, [rule_named(name) for name in RULES])
    return {(one.rule, one.subject): one for one in verdicts}


def failed(files: Files) -> dict[tuple[str, str], str]:
    """The reasons of what failed."""
    return {key: one.reason for key, one in judged(files).items() if one.outcome == "failed"}


def unmanaged(start: str = "B1-4") -> Files:
    """A capture of a node with policy ``none``: no state file, and the kubelet asked for no CPUs."""
    files = capture(start)
    found = [row for row in document(files)["claims"] if row["kind"] == "container"]
    config = yaml.safe_load(files[CONFIG])
    kept = {key: value for key, value in config.items() if key not in ("cpuManagerPolicyOptions", "featureGates")}
    files[CONFIG] = yaml.safe_dump(kept | {"cpuManagerPolicy": "none"}).encode()
    files.pop("kubelet/cmdline", None)
    del files[STATE]
    for row in found:
        asked(files, row, "")
    return files
