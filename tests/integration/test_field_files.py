"""Failures of the field that are in a node's own files: a real kubelet's node as it was captured, and one file changed.

Through the door: ``judge --capture``. The same capture without the change has no such verdict.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.integration.capture_cases import (
    CAPTURES,
    CASES,
)
from toolkit.cli.main import cli
from toolkit.sources.kubelet.files.capture import packed, read_bundle_files

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def failed(archive: Path) -> list[tuple[str, str, str]]:
    """Judge a capture through the verb; what failed, with its reasons."""
    result = CliRunner().invoke(cli, ["judge", "--capture", str(archive), "--json"])
    verdicts = json.loads(result.stdout)["verdicts"]
    return [(one["rule"], one["subject"], one["reason"]) for one in verdicts if one["outcome"] == "failed"]


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_failed_in_the_field_is_reported(case: str, tmp_path: Path) -> None:
    """By its rule, about its subject; the unchanged node has no such verdict."""
    name, file, edit, (rule, subject, part) = CASES[case]
    whole = CAPTURES / f"{name}.tar.gz"
    files = dict(read_bundle_files(whole))
    files[file] = edit(files[file].decode()).encode()
    broken = tmp_path / "node.tar.gz"
    broken.write_bytes(packed(files, 0))

    assert [reason for *about, reason in failed(broken) if about == [rule, subject] and part in reason], failed(broken)
    assert not [about for *about, _ in failed(whole) if about == [rule, subject]]
