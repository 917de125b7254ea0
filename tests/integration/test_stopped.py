"""Signals: the window that is open closes, and what was seen is judged, printed and saved."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.lost_support import CLAIMS, PINPROOF, Begun, ending, watch, watching
from tests.integration.probe_lab import cgroup
from tests.json_lines import result_in

pytestmark = [pytest.mark.integration, pytest.mark.beside]
DEADLINE_S = 180
"""For a watch of nothing to end, on a machine however loaded: never reached otherwise."""


@dataclass(frozen=True)
class Watches:
    """Watches of an empty cgroup, for an hour unless one says otherwise, that were begun together.

    A program takes longer to begin than to be stopped.

    :param terminal: our side of the terminal that ``on_terminal`` runs on.
    """

    by_signal: dict[int, Begun]
    repeated: Begun
    nohup: Begun
    on_terminal: Begun
    terminal: int


@pytest.fixture(scope="module")
def watches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watches]:
    """All of them observe; the one that ignores SIGHUP has had one."""
    place = f"pinproof-stopped-{os.getpid()}"
    with cgroup(place) as path:
        claims = tmp_path_factory.mktemp("claims") / "claims.yaml"
        claims.write_text(CLAIMS.replace("PLACE", path))

        def watched(seconds: float = 3600, host: tuple[str, ...] = ()) -> Begun:
            folder = tmp_path_factory.mktemp("watch")
            return Begun(watch(claims, folder / "runs", seconds=seconds, host=host), folder)

        nohup = watched(2, ("sh", "-c", 'trap "" HUP; exec "$@"', "sh"))
        by_signal = {number: watched() for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        ours, on_terminal = begin_on_terminal(claims, tmp_path_factory.mktemp("watch"))
        begun = Watches(by_signal, watched(), nohup, on_terminal, ours)
        every = (nohup, *by_signal.values(), on_terminal, begun.repeated)
        with ending(every, subprocess.Popen.kill):
            watching(nohup.process)
            nohup.process.send_signal(signal.SIGHUP)
            for one in every[1:]:
                watching(one.process)
            yield begun


def begin_on_terminal(claims: Path, folder: Path) -> tuple[int, Begun]:
    """Begin a watch on a terminal of its own, standard output in a file; returns our side of the terminal, too."""
    ours, theirs = pty.openpty()
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            [
                *("setsid", "--ctty", *PINPROOF, "watch", "--claims", claims, "--duration", "3600", "--json"),
                *("--output", folder / "runs"),
            ],
            stdin=theirs,
            stdout=out,
            stderr=theirs,
            text=True,
        )
    os.close(theirs)
    return ours, Begun(process, folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_window_and_it_is_judged(watches: Watches, number: int) -> None:
    """The hour that was asked for is not waited for; what was seen is judged, printed and saved."""
    done = watches.by_signal[number].process
    done.send_signal(number)
    out, err = done.communicate(timeout=DEADLINE_S)
    result = result_in(out)

    codes = {"passed": 0, "skipped": 0, "failed": 1, "undecided": 3}
    assert done.returncode == codes[result["outcome"]], err
    assert 0 < result["duration_s"] < DEADLINE_S
    (run,) = watches.by_signal[number].runs
    assert json.loads((run / "result.json").read_text())["verdicts"] == result["verdicts"]


def test_a_terminal_that_goes_away(watches: Watches) -> None:
    """The kernel sends SIGHUP, and nothing can be said on the terminal any more: the verdicts are where they should."""
    done = watches.on_terminal
    os.close(watches.terminal)
    done.process.wait(timeout=DEADLINE_S)

    result = result_in((done.folder / "out").read_text())
    assert done.process.returncode == {"passed": 0, "failed": 1, "undecided": 3}[result["outcome"]]
    assert len(done.runs) == 1


def test_a_hangup_comes_twice_and_with_others(watches: Watches) -> None:
    """The kernel and the shell both tell of a terminal that went away; systemd sends SIGTERM with it."""
    done = watches.repeated.process
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
        done.send_signal(number)
    out, err = done.communicate(timeout=DEADLINE_S)

    assert result_in(out)["verdicts"], err
    assert len(watches.repeated.runs) == 1


def test_nohup(watches: Watches) -> None:
    """A watch that ignores SIGHUP from its start is not disturbed by it."""
    out, err = watches.nohup.process.communicate(timeout=DEADLINE_S)

    assert result_in(out)["duration_s"] >= 2, err
