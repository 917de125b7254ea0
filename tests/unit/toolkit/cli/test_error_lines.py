"""What a user meets first: errors of one line with path, what was found and what was expected; pages; widths."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from toolkit.cli import plan as plan_verb

RUN = Path(__file__).parents[3] / "data/runs/three-classes"
CAPTURE = Path(__file__).parents[3] / "data/captures/B1-3-g2-reconciled.tar.gz"


@pytest.mark.parametrize(
    ("words", "content", "line"),
    [
        (("claims", "--capture"), "x", "not a tar archive; expected a capture: a folder or a .tar.gz of one"),
        (("judge", "--capture"), "", "not a tar archive; expected a capture: a folder or a .tar.gz of one"),
        (("claims", "--podman"), "x", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (("claims", "--systemd"), b"\xff\x01", r"line '\xff\x01'; expected what `systemctl show` prints about units"),
        (("claims", "--slurm"), b"\xff", r"'\xff'; expected what `scontrol show job -d` prints"),
        (("claims", "--slurm"), "", "nothing; expected what `scontrol show job -d` prints"),
        (("simulate",), "{}", "no format; expected kubelet-resource-manager-vectors/1"),
        (
            ("plan",),
            "kind: Claims",
            "kind 'Claims'; expected a scenario file (apiVersion: pinproof/v1, kind: Scenario)",
        ),
        (
            ("watch", "--claims"),
            "kind: Scenario",
            "kind 'Scenario'; expected a claims file (apiVersion: pinproof/v1, kind: Claims)",
        ),
        (
            ("plan", "--kubelet-config"),
            "{}",
            "no apiVersion, no kind; expected a KubeletConfiguration (apiVersion: kubelet.config.k8s.io/v1beta1)",
        ),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, words: tuple[str, ...], content: str | bytes, line: str) -> None:
    """The line names the file; no word of Python's is in it, and a byte that is no text is spelt as in a name."""
    file = tmp_path / "file"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    ended = pinproof(*words, file)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", f"pinproof: {file}: {line}\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("plan", "--pods", "p"),
            "--kubelet-config: not given; expected a KubeletConfiguration file, --capture or --kubelet",
        ),
        (("doctor", "--isolation", "--exclusive", "x"), "--exclusive: 'x'; expected a list of ids such as 0-3,8"),
        (
            ("doctor", "--isolation", "--exclusive", "1,x"),
            "--exclusive: 'x' in '1,x'; expected a list of ids such as 0-3,8",
        ),
        (
            ("plan", "--kubelet-version", "1.35", "s.yaml"),
            "--kubelet-version goes with --kubelet-config, --capture or --kubelet",
        ),
        (("run", "s.yaml", "--duration", "x"), "Invalid value for '--duration': 'x' is not a number of seconds"),
        (("run", "s.yaml", "--duration", "inf"), "Invalid value for '--duration': 'inf' is not a number of seconds"),
    ],
)
def test_an_option_that_is_wrong(words: tuple[str, ...], line: str) -> None:
    """Nothing that was asked for is left out in silence."""
    ended = pinproof(*words)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", f"pinproof: {line}\n")


def test_admission_has_a_page() -> None:
    """A verdict of conformance can be looked up like any other; it rests on no witness."""
    page = pinproof("explain", "admission")
    assert page.exit_code == 0
    assert "rejectedPods" in page.stdout
    assert "Witnesses" not in page.stdout
    assert json.loads(pinproof("explain", "admission", "--json").stdout)["undecided_when"] == {}
    assert "`admission`" in pinproof("rules").stdout


def test_one_cpu_is_no_plural() -> None:
    """In the reasons of verdicts, as in the sentence at a report's end."""
    hosted = [row for row in pinproof("judge", RUN, "--verbose").stdout.splitlines() if "hosted only" in row]
    assert hosted
    assert not [row for row in hosted if "CPUs 1 hosted" in row]


def test_a_plan_keeps_to_the_width() -> None:
    """Of names and paths alone a line may be longer."""
    ended = pinproof("plan", "--capture", CAPTURE)
    assert [line for line in ended.stdout.splitlines() if len(line) > 80 and str(CAPTURE) not in line] == []


@pytest.mark.parametrize(("no_color", "coloured"), [("1", False), ("", True)])
def test_a_picture_has_no_colours_where_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    """NO_COLOR, if not empty, holds on a terminal too."""
    monkeypatch.setitem(os.environ, "NO_COLOR", no_color)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert plan_verb._coloured() is coloured
