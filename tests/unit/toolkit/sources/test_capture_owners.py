"""Who owns CPUs by what a pod asks for, and so has no quota; and who shares them, and so keeps his."""

from __future__ import annotations

import re

import pytest

from tests.unit.toolkit.sources.edited import Files, asked, capture, configure, failed, place, rows, write_state

MANAGERS = "  PodLevelResourceManagers: true\n"
PLR = ("plr-node1/main", "plr-node1/(pod)")


def control(files: Files, path: str, name: str, value: str) -> None:
    """Write a control file of the one cgroup whose path ends so."""
    (found,) = [one for one in files if re.fullmatch(rf"cgroup/.*{path}/{re.escape(name)}", one)]
    files[found] = f"{value}\n".encode()


def unmanaged(gate: str) -> Files:
    """A pod with a budget on a node that looks after none: all of it is in the shared pool."""
    files = capture("B2-2")
    named = rows(files)
    configure(files, MANAGERS, gate)
    write_state(files, "2-7")
    for name, row in named.items():
        if name.startswith("plr-") and row.get("in_state"):
            place(files, row, "2-7")
            asked(files, row, "2-7")
    control(files, named[PLR[0]]["id"], "cpu.max", "200000 100000")
    del files["kubelet/memory_manager_state"], files["metrics_managers.txt"], files["podresources.json"]
    return files


@pytest.mark.parametrize("gate", ["", MANAGERS.replace("true", "false")])
def test_a_pod_with_a_budget_that_nobody_manages_keeps_its_quotas(gate: str) -> None:
    """Without the gate, which is off by default, the static policy passes over it."""
    files = unmanaged(gate)
    row = rows(files)[PLR[0]]
    assert [rows(files)[name]["quota_us"] for name in PLR] == [200_000, 400_000]
    assert not [subject for rule, subject in failed(files) if rule == "applied"]

    control(files, row["id"], "cpu.max", "max 100000")
    control(files, f"pod{row['pod_uid']}", "cpu.max", "max 100000")
    found = failed(files)
    assert all("quota" in found["applied", name] for name in PLR)
