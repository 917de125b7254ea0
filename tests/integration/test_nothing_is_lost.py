"""Nothing is lost with the disk: the verdicts are printed, what went wrong is one line more."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.lost_support import PINPROOF, Begun, begin, ending, scenario, watch, watching

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def tmpfs(where: Path, options: str) -> Iterator[Path]:
    """A small file system."""
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=64k,{options}", "none", str(where)], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


def told(done: subprocess.Popen[str], *, error: int = 2) -> list[str]:
    """Wait for its end: the verdicts are there, the exit code is the worse of both. Returns standard error's lines."""
    out, err = done.communicate(timeout=120)
    result = json.loads(out)
    assert result["schema"] == "pinproof.result/1"
    assert {"cpuset-containment", "evidence-health"} <= {verdict["rule"] for verdict in result["verdicts"]}
    assert done.returncode == (1 if result["outcome"] == "failed" else error), err
    assert "Traceback" not in err
    return err.splitlines()


@pytest.mark.beside
@pytest.mark.parametrize("place", ["full", "read-only", "no-inodes", "a file", "a dangling link", "too long"])
def test_a_directory_that_cannot_be_written(tmp_path: Path, empty_claims: Path, place: str) -> None:
    """It changes nothing about the verdicts, and leaves nothing that looks like a run."""
    with contextlib.ExitStack() as stack:
        output = tmp_path / "output"
        if place == "full":
            stack.enter_context(tmpfs(output, "mode=755"))
            with (output / "fill").open("wb") as fill, contextlib.suppress(OSError):
                fill.write(bytes(48 << 10))
        elif place == "read-only":
            stack.enter_context(tmpfs(output, "ro"))
        elif place == "no-inodes":
            stack.enter_context(tmpfs(output, "nr_inodes=3"))
        elif place == "a file":
            output.write_text("mine")
        elif place == "a dangling link":
            output.symlink_to(tmp_path / "nowhere")
        else:
            output = tmp_path / ("x" * 300)
        lines = told(watch(empty_claims, output))
        assert lines[-1].startswith(f"pinproof: {output}")
        assert "; expected a directory that can be written" in lines[-1]
        assert len([line for line in lines if "warning" not in line and "ran on CPU" not in line]) == 1
        if place in ("full", "no-inodes"):
            assert {path.name for path in output.iterdir()} <= {"fill"}
        elif place == "a file":
            assert output.read_text() == "mine"


@pytest.mark.beside
def test_a_directory_that_goes_while_we_watch(tmp_path: Path, empty_claims: Path) -> None:
    """A file takes its place."""
    output = tmp_path / "there" / "runs"
    output.mkdir(parents=True)
    done = watch(empty_claims, output, seconds=2)
    watching(done)
    output.rename(tmp_path / "moved")
    output.write_text("")

    lines = told(done)
    assert "not a directory" in lines[-1].lower()
    assert list((tmp_path / "moved").iterdir()) == []


@pytest.mark.beside
@pytest.mark.parametrize(("limit", "value"), [(resource.RLIMIT_FSIZE, 4096)], ids=["file size"])
def test_limits_of_the_process(tmp_path: Path, empty_claims: Path, limit: int, value: int) -> None:
    """A run that may not become as large as it is: the same."""
    (tmp_path / "runs").mkdir()
    done = watch(empty_claims, tmp_path / "runs")
    resource.prlimit(done.pid, limit, (value, value))
    lines = told(done)

    assert "File too large" in lines[-1]
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.beside
@pytest.mark.parametrize("stdout", ["gone", "full"])
def test_a_run_is_saved_where_nobody_reads(tmp_path: Path, empty_claims: Path, stdout: str) -> None:
    """What cannot be printed is on the disk."""
    if stdout == "full":
        write = os.open("/dev/full", os.O_WRONLY)
    else:
        read, write = os.pipe()
        os.close(read)
    try:
        done = subprocess.run(
            [*PINPROOF, "watch", "--claims", empty_claims, "--duration", "0.3", "--output", tmp_path / "runs"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)

    assert done.returncode == (2 if stdout == "full" else 141)
    (run,) = (tmp_path / "runs").iterdir()
    assert subprocess.run([*PINPROOF, "judge", run], capture_output=True, check=False).returncode in (0, 1, 3)


@dataclass(frozen=True)
class Sessions:
    """Verbs that make sandboxes, begun together: each waits for its own windows most of the time.

    :param poor: without stress-ng, by whether it prints JSON. :param unsaved: where a file is in the directory's place.
    """

    poor: dict[bool, Begun]
    unsaved: Begun
    conformance: Begun


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """All of them; the output of those without a disk is a file."""
    bare = tmp_path_factory.mktemp("bin")
    for name in ("sh", "sleep"):
        found = shutil.which(name)
        assert found is not None
        (bare / name).symlink_to(found)
    scenarios = tmp_path_factory.mktemp("scenarios")
    kinds = (("one", "spin"), ("two", "switch"), ("three", "spin"), ("four", "spin"))
    one, two, three, four = (scenario(scenarios, name, kind) for name, kind in kinds)

    def session(*arguments: object, path: Path | None = None) -> Begun:
        folder = tmp_path_factory.mktemp("session")
        (folder / "file").write_text("")
        return begin(folder, *arguments, env=None if path is None else {**os.environ, "PATH": str(path)})

    poor = ("run", one, two, three, "--output", "runs")
    chosen = ("conformance", "--select", "quota-050-over", "--duration", "0.3", "--repeats", "0", "--json")
    begun = Sessions(
        poor={True: session(*poor, "--json", path=bare), False: session(*poor, path=bare)},
        unsaved=session("run", one, four, "--json", "--output", "file"),
        conformance=session(*chosen, "--output", "file", "--junit", "file/junit.xml"),
    )
    with ending((*begun.poor.values(), begun.unsaved, begun.conformance)):
        yield begun


@pytest.mark.parametrize("as_json", [True, False])
def test_the_first_results_are_kept_when_the_second_fails(sessions: Sessions, as_json: bool) -> None:
    """They are printed and saved; what failed, and what was not run, is one line; the worse exit code wins."""
    code, out, err = sessions.poor[as_json].ended()

    (run,) = (sessions.poor[as_json].folder / "runs").iterdir()
    saved = json.loads((run / "result.json").read_text())
    if as_json:
        assert json.loads(out) == [saved]
    else:
        assert "evidence-health" in out
        assert f"Run saved in runs/{run.name}" in out
    assert code == (1 if saved["outcome"] == "failed" else 4)
    assert err.startswith("pinproof: two: stress-ng is not installed")
    assert err.endswith("; not run: three\n")
    assert err.count("\n") == 1


def test_scenarios_that_cannot_be_saved(sessions: Sessions) -> None:
    """Each is judged and printed; each that is not saved is one line."""
    code, out, err = sessions.unsaved.ended()

    results = json.loads(out)
    assert len(results) == 2
    assert code == (1 if "failed" in {result["outcome"] for result in results} else 2)
    warning, *lines = err.splitlines()
    assert "warning" in warning
    assert [line.startswith("pinproof: file/") for line in lines] == [True, True]


def test_a_conformance_session_without_a_disk(sessions: Sessions) -> None:
    """Scenario and controls are judged; that their directories are missing is one line and exit code 2."""
    code, out, err = sessions.conformance.ended()

    session = json.loads(out)
    (found,) = session["scenarios"]
    assert found["verdicts"]
    assert {control["outcome"] for control in found["controls"]} <= {"passed", "undecided"}
    assert (found["run"], {control["run"] for control in found["controls"]}) == ("", {""})
    assert len(found["unsaved"]) >= 2
    assert code == (1 if session["outcome"] == "failed" else 2)
    lines = [line for line in err.splitlines() if "warning" not in line]
    assert len(lines) == 2
    assert "more run)" in lines[0] or "more runs)" in lines[0]
    assert "junit.xml" in lines[1]
