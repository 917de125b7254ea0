"""``pinproof doctor --isolation`` on a machine where a kubelet runs: its process says what it runs with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof

PROGRAM = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    for (int i = 1; i < count; i++)
        if (!strcmp(words[i], "--version"))
            return puts("Kubernetes v1.22.17") < 0;
    return pause();
}
"""
CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryReservationPolicy: None
reservedCpus: "0-4"
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: none can be exclusive beside the reserved one")
def test_the_kubelet_that_runs_is_asked(tmp_path: Path) -> None:
    """Its command line names the file, its program the version; fields that it does not have are said."""
    program, config = tmp_path / "kubelet", tmp_path / "config.yaml"
    config.write_text(CONFIG)
    subprocess.run(["cc", "-o", program, "-x", "c", "-"], input=PROGRAM, text=True, check=True)
    program.chmod(0o755)
    process = subprocess.Popen([program, f"--config={config}"])
    try:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/comm").read_text().strip() != "kubelet":
            assert time.monotonic() < deadline
        data = json.loads(pinproof("doctor", "--isolation", "--json").stdout)
    finally:
        process.kill()
        process.wait()

    assert data["roles"]["source"] == f"the running kubelet's {config}"
    assert data["roles"]["reserved"] == "0"
    assert data["kubelet"] == {"version": "v1.22.17"}
    said = [one["value"] for one in data["findings"] if one["id"] == "no-such-field"]
    assert "memoryReservationPolicy is a field since v1.36: kubelet v1.22 goes on without it" in said
    assert any(one.startswith("reservedCpus is no field") for one in said)
