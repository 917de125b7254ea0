"""Standard streams that are closed, full, or of another encoding: one line, the right exit code, never a traceback."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from toolkit.cli.common import progress
from toolkit.cli.ending import NO_READER
from toolkit.errors import InputError
from validators.registry import RULES

COMMAND = [sys.executable, "-m", "toolkit"]


def test_a_full_disk_behind_standard_output() -> None:
    """What cannot be written is told in one line; a result that was not delivered is not a success."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, "rules"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == InputError.exit_code
    assert done.stderr == "pinproof: output: No space left on device\n"


RUN = Path(__file__).parents[3] / "data/runs/three-classes"
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""What a user's environment is like: what could not be written is tried again by Python at its exit."""


@pytest.mark.parametrize("gone", ["terminal", "disk"])
def test_nothing_can_be_said(gone: str) -> None:
    """A standard error that cannot be written changes no exit code: a terminal that has hung up, a full disk."""
    if gone == "terminal":
        ours, theirs = pty.openpty()
        os.close(ours)
    else:
        theirs = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run([*COMMAND, "explain", "nothing"], env=BUFFERED, stderr=theirs, check=False)
    finally:
        os.close(theirs)

    assert done.returncode == InputError.exit_code


def test_a_verdict_on_a_full_disk() -> None:
    """A verb that ends with a verdict ends with one line more, and with the worse of both codes."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "judge", RUN],
            env=BUFFERED,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stderr) == (InputError.exit_code, "pinproof: output: No space left on device\n")


def test_a_reader_that_leaves() -> None:
    """``| head``: ends as by SIGPIPE, in silence; not with 1, which would say that isolation failed."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([*COMMAND, "rules"], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(write)

    assert (done.returncode, done.stderr) == (NO_READER, "")


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(streams: str) -> None:
    """A stream that the caller closed is none that we trip over, or through which we write another file."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *COMMAND, "explain", "noise"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_other_encodings(encoding: str) -> None:
    """Characters that the terminal does not have are escaped; JSON stays the same document."""
    done = subprocess.run(
        [*COMMAND, "rules", "--json"],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    # click writes UTF-8 where it is told ASCII.
    text = done.stdout.decode("utf-8" if encoding == "ascii" else encoding)
    assert [rule["id"] for rule in json.loads(text)] == [rule.id for rule in RULES]


def test_a_path_cannot_steer_the_terminal() -> None:
    """Escape sequences in what was asked for come back spelt out, on one line."""
    done = subprocess.run(
        [*COMMAND, "judge", "\x1b[31mred\nnext\u202e"], capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == InputError.exit_code
    assert done.stderr.startswith("pinproof: \\x1b[31mred\\nnext\\u202e: no such directory")
    assert done.stderr.count("\n") == 1


def test_interrupted() -> None:
    """Ctrl-C is one line and 130, also while a verb works."""
    program = (
        # Children of a shell's background job are born with the signal ignored.
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from toolkit.cli import explain, main;"
        "explain.render_page = lambda doc: os.kill(os.getpid(), signal.SIGINT);"
        "sys.argv = ['pinproof', 'explain', 'noise']; main.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "pinproof: interrupted\n")


PROGRESSBAR_OF_CLICK_8_1 = {
    *("iterable", "length", "label", "show_eta", "show_percent", "show_pos", "item_show_func", "fill_char"),
    *("empty_char", "bar_template", "info_sep", "width", "file", "color", "update_min_steps"),
}


def test_progress_is_silent_without_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the oldest click that pinproof names, too: Debian 12 and 13 have 8.1, which cannot hide a bar."""
    given: set[str] = set()
    real = click.progressbar
    monkeypatch.setattr(click, "progressbar", lambda **words: given.update(words) or real(**words))
    with progress(2.0, "spinning") as bar:
        bar.to(1.0, "web/app")

    assert capfd.readouterr() == ("", "")
    assert given <= PROGRESSBAR_OF_CLICK_8_1
