"""A quota that was promised to a cgroup without a cpu controller: there is none, and what exceeds it is proven."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.json_lines import result_in
from toolkit.apply import kill
from toolkit.host import cgroupfs

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="making cgroups and watching need root"),
]
LOAD = "import os\nos.nice(-10)\nwhile True: pass"
NAME = f"/no-controller-{os.getpid()}"


@contextlib.contextmanager
def bare_cgroup() -> Iterator[cgroupfs.Hierarchy]:
    """A cgroup where the identity is, and on v2 below one that hands no cpu controller on."""
    hierarchy = cgroupfs.detect()
    identity = hierarchy.identity_root()
    cpuset = hierarchy.find_controller("cpuset")
    parts = (NAME[1:], f"{NAME[1:]}/leaf") if hierarchy.is_v2("cpu") else (NAME[1:],)
    places = [mount / part for mount in dict.fromkeys((identity, cpuset or identity)) for part in parts]
    try:
        for place in places:
            place.mkdir()
            if cpuset is not None and cpuset != identity and place.is_relative_to(cpuset):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    place.joinpath(name).write_text((cpuset / name).read_text())
        yield hierarchy
    finally:
        kill.remove(places)


def test_there_is_no_quota_and_what_was_used_beyond_it_is_proven(tmp_path: Path) -> None:
    """``applied`` says that there is no cpu controller, ``quota-throttling`` fails by the ledger."""
    with bare_cgroup() as hierarchy:
        cgroup = f"{NAME}/leaf" if hierarchy.is_v2("cpu") else NAME
        claims = tmp_path / "claims.yaml"
        claims.write_text(
            "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
            f"  - {{name: bt, cgroup: {cgroup}, quota: {{quotaUs: 5000, periodUs: 100000}}}}\n"
        )
        mounts = {hierarchy.identity_root(), hierarchy.find_controller("cpuset") or hierarchy.identity_root()}
        task = subprocess.Popen([sys.executable, "-c", LOAD])
        try:
            for mount in mounts:
                mount.joinpath(cgroup[1:], "cgroup.procs").write_text(str(task.pid))
            command = [sys.executable, "-m", "toolkit", "watch", "--claims", claims, "--duration", "5", "--json"]
            done = subprocess.run(
                [*command, "--output", tmp_path / "runs"], capture_output=True, check=False, timeout=120
            )
        finally:
            task.kill()
            task.wait()
    verdicts: dict[str, Any] = {one["rule"]: one for one in result_in(done.stdout)["verdicts"]}
    why = (
        "cpu is missing in cgroup.subtree_control of"
        if hierarchy.is_v2("cpu")
        else "no such cgroup in the cpu hierarchy"
    )

    assert done.returncode == 1
    assert verdicts["applied"]["outcome"] == "failed"
    assert (
        "the quota was none, promised 5 ms / 100 ms: the cgroup has no cpu controller" in verdicts["applied"]["reason"]
    )
    assert why in verdicts["applied"]["reason"]
    assert verdicts["quota-throttling"]["outcome"] == "failed", verdicts["quota-throttling"]["reason"]
    assert f"{cgroup} has no bandwidth counters: it has no cpu controller" in verdicts["quota-throttling"]["reason"]
