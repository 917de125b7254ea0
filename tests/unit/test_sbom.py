"""What an image holds is listed from what its package managers say of it: the same root, the same document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.toolkit.host.sysroots import write

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u1
Description: with: a colon
 and a second line

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
METADATA = """Metadata-Version: 2.1
Name: Prometheus_Client
Version: 0.21.0
License: Apache-2.0

Version: 9 of the text below
"""


def test_packages_of_both_kinds_are_listed(tmp_path: Path) -> None:
    """Those that are installed, with the names by which scanners look them up; sorted, and without a time."""
    write(
        tmp_path,
        {
            "var/lib/dpkg/status": STATUS,
            "usr/local/lib/python3.11/dist-packages/prometheus_client-0.21.0.dist-info/METADATA": METADATA,
        },
    )
    command = [sys.executable, "-m", "tools.sbom", tmp_path, "--name", "pinproof", "--version", "1"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    document = json.loads(text)

    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert [one["purl"] for one in document["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64",
        "pkg:pypi/prometheus-client@0.21.0",
    ]
    assert document["components"][1]["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == text
