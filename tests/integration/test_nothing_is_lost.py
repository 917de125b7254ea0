"""Nothing is lost with the disk: the verdicts are printed, what went wrong is one line more."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lost_support import PINPROOF, watch, watching
from tests.json_lines import result_in

pytestmark = [pytest.mark.integration, pytest.mark.beside]


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
    result = result_in(out)
    assert result["schema"] == "pinproof.result/1"
    assert {"cpuset-containment", "evidence-health"} <= {verdict["rule"] for verdict in result["verdicts"]}
    assert done.returncode == (1 if result["outcome"] == "failed" else error), err
    assert "Traceback" not in err
    return err.splitlines()


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
        assert (
            len([line for line in lines if not any(word in line for word in ("warning", "ran on CPU", "armed: "))]) == 1
        )
        if place in ("full", "no-inodes"):
            assert {path.name for path in output.iterdir()} <= {"fill"}
        elif place == "a file":
            assert output.read_text() == "mine"


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


@pytest.mark.parametrize(("limit", "value"), [(resource.RLIMIT_FSIZE, 4096)], ids=["file size"])
def test_limits_of_the_process(tmp_path: Path, empty_claims: Path, limit: int, value: int) -> None:
    """A run that may not become as large as it is: the same."""
    (tmp_path / "runs").mkdir()
    done = watch(empty_claims, tmp_path / "runs")
    resource.prlimit(done.pid, limit, (value, value))
    lines = told(done)

    assert "File too large" in lines[-1]
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("stdout", ["gone", "full"])
def test_a_run_is_saved_where_nothing_reads(tmp_path: Path, empty_claims: Path, stdout: str) -> None:
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
