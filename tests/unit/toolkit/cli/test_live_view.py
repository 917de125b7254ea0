"""The live view of a watch: what it shows of an open window, its keys, and the terminal that it gives back."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.report.results_builder import CLAIMS, broken, healthy
from tests.unit.validators.evidence_builder import SECOND, use
from toolkit.cli import live_screen
from toolkit.errors import HostUnsupportedError
from toolkit.model.evidence import Evidence
from toolkit.report.live_board import Board, Looks
from toolkit.session.windows.counters import SessionState

rich = pytest.importorskip("rich", reason="rich is not installed (pip install 'pinproof[live]')")


def state(found: Evidence) -> SessionState:
    return SessionState(open=found, promised=CLAIMS)


def text_of(
    board: Board | None, keys: str = "", events: tuple[str, ...] = (), width: int = 100, height: int = 40
) -> str:
    """Return a screen as text."""
    from rich.console import Console

    from toolkit.report.live_view import Choice, drawn

    choice = Choice()
    for key in keys:
        choice = choice.after(key)
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(drawn(board, events, choice, width, height))
    return str(console.export_text())


def test_a_rate_is_of_the_time_between_two_looks() -> None:
    """The first look is of the window so far; a window that opens begins anew."""
    looks = Looks()
    begin = healthy(duration_ns=2 * SECOND, cpu_use=(use("db", 2, run_ns=SECOND),), intruders=())
    later = replace(begin, duration_ns=4 * SECOND, cpu_use=(use("db", 2, run_ns=3 * SECOND),))
    opened = replace(later, start_monotonic_ns=begin.start_monotonic_ns + 4 * SECOND, duration_ns=SECOND // 2)

    used = [looks.look(state(one)).claims[0].used for one in (begin, later, opened)]  # type: ignore[union-attr]

    assert used == [0.5, 1.0, 6.0]


def test_no_window_is_no_board() -> None:
    """Before the first one, and after the last."""
    assert Looks().look(SessionState()) is None
    assert "no window is open yet" in text_of(None)


def test_what_is_outside_is_said_in_words_and_by_a_sign() -> None:
    """And stands first; names of strangers steer no terminal."""
    text = text_of(Looks().look(state(broken())), events=("12:00:00 db: \x1b[2J ran on CPU 0, outside its set",))

    assert "✘ 1 claim outside" in text
    assert text.index("✘ db") < text.index("web")
    assert "\x1b[2J" not in text
    assert "\\x1b[2J ran on CPU 0" in text
    assert "✔ nothing outside so far" in text_of(Looks().look(state(healthy())))


def test_what_runs_where_it_may_not_is_named_first() -> None:
    """However small its share is, for a line has an end: four are named, and all of them are busy time."""
    others = [use(name, 0, run_ns=SECOND) for name in ("web", "w1", "w2", "w3", "w4")]
    board = Looks().look(state(replace(broken(), duration_ns=10 * SECOND, cpu_use=(*broken().cpu_use, *others))))
    assert board is not None
    row = board.cpus[0]

    assert (row.outside, row.runs[0][0], len(row.runs)) == (("db",), "db", 4)
    assert row.busy > sum(share for _, share in row.runs) + 0.05


def test_the_last_report_is_on_a_narrow_screen() -> None:
    """A report that is longer than a line takes the room of older ones, not that of what stands below."""
    reports = tuple(
        f"12:00:0{at} " + "a report that is longer than a line of so narrow a screen " * 2 for at in range(9)
    )
    text = text_of(Looks().look(state(broken())), events=(*reports, "12:00:09 db: ran on CPU 0"), width=52, height=24)

    assert "12:00:08" in text
    assert "12:00:09 db: ran on CPU 0" in text
    assert "12:00:06" not in text
    assert "q end" in text
    assert len(text.splitlines()) <= 24


def test_keys_sort_and_filter() -> None:
    """Each goes round; one that means nothing changes nothing."""
    board = Looks().look(state(broken()))

    assert "Claims (all, by outside)" in text_of(board)
    assert "Claims (all, by used)" in text_of(board, "s")
    assert "Claims (all, by outside)" in text_of(board, "sssx")
    only = text_of(board, "ff")
    assert "Claims (outside, by outside)" in only
    assert "web  " not in only.partition("CPUs\n")[0]
    assert "PAUSED" in text_of(board, " ")


class Terminal:
    """A terminal's other end: a person who types, and all that was shown."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self.shown = descriptor, ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._descriptor, keys.encode())

    def until(self, text: str) -> str:
        """Wait until a text was shown; return all that was."""
        deadline_s = time.monotonic() + 10
        while text not in self.shown:
            assert time.monotonic() < deadline_s, self.shown
            time.sleep(0.01)
        return self.shown

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # closed at the other end
            while found := os.read(self._descriptor, 4096):
                self.shown += found.decode("utf-8", "replace")


@contextlib.contextmanager
def on_terminal() -> Iterator[Terminal]:
    """Make a terminal this process's standard input and error; yield its other end.

    No fixture: pytest puts its own streams in place between one and its test.
    """
    ours, theirs = pty.openpty()
    with (
        os.fdopen(os.dup(theirs), "r") as keys,
        os.fdopen(os.dup(theirs), "w") as screen,
        pytest.MonkeyPatch.context() as replaced,
    ):
        replaced.setenv("TERM", "xterm-256color")
        replaced.setattr(sys, "stdin", keys)
        replaced.setattr(sys, "stderr", screen)
        yield Terminal(ours)
    os.close(theirs)


def test_the_terminal_is_given_back() -> None:
    """On it: the board, then what was printed meanwhile; keys are read one by one, and by the line again afterwards."""
    with on_terminal() as terminal:
        before = termios.tcgetattr(sys.stdin.fileno())
        with live_screen.live_screen() as screen:
            assert screen is not None
            print("12:00:00 web: something", file=sys.stderr)
            terminal.type("sf")
            deadline_s = time.monotonic() + 10
            while screen.choice.sort != "used" and time.monotonic() < deadline_s:
                screen.tick(lambda: state(broken()))
            terminal.until("1 claim outside")
        text = terminal.until("web: something\r\n")
        assert termios.tcgetattr(sys.stdin.fileno()) == before

    assert (screen.choice.sort, screen.choice.show) == ("used", "running")
    assert "12:00:00 web: something" in text.rpartition("\x1b[?1049l")[2], "printed once the view is closed"


def test_it_is_a_terminal_or_nothing() -> None:
    """One line, exit code 2, before anything is begun."""
    ended = pinproof("watch", "--claims", "claims.yaml", "--live")

    assert ended.exit_code == 2
    assert ended.stderr.splitlines()[-1].startswith("pinproof: --live needs a terminal, and standard error is none")


def test_without_rich_it_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; a watch without it needs none."""
    monkeypatch.setitem(sys.modules, "rich", None)
    with on_terminal(), pytest.raises(HostUnsupportedError, match=r"--live needs rich: pip install 'pinproof\[live\]'"):
        live_screen.require_live()
