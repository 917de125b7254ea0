"""Options that only a kubelet's node is read with: with another source they would do nothing, so they are refused."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.cli.command_line import pinproof


@pytest.mark.parametrize("source", ["--podman", "--slurm", "--capture=node.tar.gz"])
@pytest.mark.parametrize(
    "option",
    [
        *("--kubelet-root", "--logs", "--cri", "--kubelet-metrics", "--kubelet-pods"),
        *("--kubelet-token", "--kubelet-ca"),
    ],
)
def test_claims_of_others(source: str, option: str) -> None:
    """One line, exit code 2, before anything is read."""
    ended = pinproof("claims", source, option, "x")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1] == f"pinproof: {option} is for --kubelet"


@pytest.mark.parametrize("source", [["--docker"], ["--claims", "claims.yaml"]])
def test_watch_of_others(source: list[str]) -> None:
    """The same of ``watch``."""
    ended = pinproof("watch", *source, "--cri", "unix:///run/x.sock")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1] == "pinproof: --cri is for --kubelet"
