"""The live view as it is drawn (rich): claims, CPUs, what was reported, and the keys. It decides nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from toolkit.report.live_board import Board, ClaimRow, CpuRow
from toolkit.report.text import printable
from toolkit.text.wording import brief, count

SORTS: dict[str, Callable[[ClaimRow], tuple[float, float, str]]] = {
    "outside": lambda row: (-row.outside_ns, -row.used, row.name),
    "used": lambda row: (0, -row.used, row.name),
    "name": lambda row: (0, 0, row.name),
}
FILTERS: dict[str, Callable[[ClaimRow], bool]] = {
    "all": lambda row: True,
    "running": lambda row: row.used > 0,
    "outside": lambda row: row.outside_ns > 0,
}
KEYS = "s sort · f filter · ↑ ↓ scroll · space pause · q end"
EVENTS = 6
"""Lines for what was reported: so many reports, or the last ones where they are longer than a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What its reader has chosen. :param top: the first row of claims and CPUs that is shown."""

    sort: str = "outside"
    show: str = "all"
    top: int = 0
    paused: bool = False

    def after(self, key: str) -> Choice:
        """Return what is chosen after a key; one that means nothing changes nothing."""
        match key:
            case "s":
                return replace(self, sort=_next(list(SORTS), self.sort), top=0)
            case "f":
                return replace(self, show=_next(list(FILTERS), self.show), top=0)
            case "down" | "j":
                return replace(self, top=self.top + 1)
            case "up" | "k":
                return replace(self, top=max(0, self.top - 1))
            case " ":
                return replace(self, paused=not self.paused)
        return self


def _next(words: Sequence[str], word: str) -> str:
    return words[(words.index(word) + 1) % len(words)]


def drawn(board: Board | None, events: Sequence[str], choice: Choice, width: int, height: int) -> RenderableType:
    """Return a screen. :param events: what was reported, the last last. :param width, height: of the terminal."""
    shown, lines = _latest(events, width)
    if board is None:
        return Group(Text("pinproof: no window is open yet"), _events(shown), Text(KEYS, style="dim"))
    kept = sorted(filter(FILTERS[choice.show], board.claims), key=SORTS[choice.sort])
    room = max(4, height - lines - 13)
    of_cpus = min(len(board.cpus), max(2, room // 2))
    of_claims = max(2, room - of_cpus)
    top = min(choice.top, max(0, len(kept) - of_claims))
    return Group(
        _head(board, choice),
        _claims(kept, top, of_claims, choice),
        _cpu_table(board.cpus, min(choice.top, max(0, len(board.cpus) - of_cpus)), of_cpus),
        _events(shown),
        Text(KEYS + ("   PAUSED" if choice.paused else ""), style="dim"),
    )


def _head(board: Board, choice: Choice) -> Text:
    bad = sum(row.outside_ns > 0 for row in board.claims)
    text = Text("pinproof  ", style="bold")
    if bad:
        text.append(f"✘ {count(bad, 'claim')} outside", style="bold red")
    else:
        text.append("✔ nothing outside so far", style="bold green")
    text.append(f"  window {board.windows + 1}, {board.window_s:.1f} s")
    text.append(f"  {board.switches:,} switches judged, {board.lost:,} lost")
    if board.last:
        text.append(f"  last window {board.last}", style="red" if board.last == "failed" else "")
    return text


def _claims(rows: Sequence[ClaimRow], top: int, room: int, choice: Choice) -> Table:
    title = f"Claims ({choice.show}, by {choice.sort})"
    table = Table(title=title, title_justify="left", expand=True, box=None, header_style="dim", pad_edge=False)
    for name in ("claim", "promised"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("runs on", no_wrap=True, overflow="ellipsis", max_width=24)
    for name in ("uses", "outside"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows[top : top + room]:
        bad = row.outside_ns > 0
        table.add_row(
            Text(("✘ " if bad else "  ") + printable(row.name), style="bold red" if bad else ""),
            Text(row.promised),
            Text(row.runs_on or "-"),
            Text(f"{row.used:.2f} CPUs"),
            Text(brief(row.outside_ns) if bad else "-", style="bold red" if bad else "dim"),
        )
    if len(rows) > room:
        table.caption = f"{top + 1}-{min(len(rows), top + room)} of {len(rows)}"
    return table


def _cpu_table(rows: Sequence[CpuRow], top: int, room: int) -> Table:
    table = Table(title="CPUs", title_justify="left", expand=True, box=None, header_style="dim", pad_edge=False)
    table.add_column("CPU", justify="right")
    table.add_column("owner", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("busy", no_wrap=True, width=12)
    table.add_column("what runs", no_wrap=True, overflow="ellipsis", ratio=2)
    for row in rows[top : top + room]:
        what = Text()
        for name, share in row.runs:
            bad = name in row.outside
            what.append(f"{'✘ ' if bad else ''}{printable(name)} {share:.0%}  ", style="bold red" if bad else "")
        bar = round(row.busy * 10)
        table.add_row(str(row.cpu), Text(printable(row.owner)), Text("█" * bar + "·" * (10 - bar)), what)
    if len(rows) > room:
        table.caption = f"{top + 1}-{min(len(rows), top + room)} of {len(rows)} CPUs"
    return table


def _latest(events: Sequence[str], width: int) -> tuple[list[str], int]:
    """Return the last reports that there is room for, one at least, and how many lines they take."""
    shown, lines = list[str](), 0
    for event in reversed(events):
        text = printable(event)
        needed = len(textwrap.wrap(text, max(1, width - 4))) or 1
        if shown and lines + needed > EVENTS:
            break
        shown.insert(0, text)
        lines += needed
    return shown, lines


def _events(events: Sequence[str]) -> Panel:
    lines = Text("\n").join(map(Text, events))
    return Panel(lines if events else Text("nothing was reported", style="dim"), title="Reported", title_align="left")
