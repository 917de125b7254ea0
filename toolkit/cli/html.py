"""Pages on the command line: the option, and what is read for them.

What makes a page is imported when one is asked for: most calls ask for none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.ending import attempt
from toolkit.cli.sessions import judged_session
from toolkit.disk import write_output
from toolkit.fleet.values import Comparison
from toolkit.session.saved import Judged, shown_of
from toolkit.session.saved_session import JudgedSession, Look

if TYPE_CHECKING:
    from toolkit.report.html.run import RunView

html_option = click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Also write one page to this file: for a browser, without a network.",
)  # fmt: skip
Page = Callable[[Comparison | None, str], str]
"""Makes the page of a session. Asks for what differs to a session before, if there is one, and for that one's name."""


def write_page(path: Path | None, make: Callable[[], str]) -> int:
    """Write a page where one is asked for. Returns the exit code of what went wrong, which has been reported."""
    if path is None:
        return 0
    return attempt(lambda: write_output(path, make()))


def read_session(place: Path, *, draw: bool, look: Look | None = None) -> tuple[JudgedSession, Page]:
    """Judge a session again, as :func:`~toolkit.cli.sessions.judged_session`.

    :param draw: its page is asked for: of each run what is drawn is kept, not its evidence. :param look: at every run.
    """
    views: dict[str, RunView] = {}
    drawing = _drawing(views, look) if draw else look
    judged = judged_session(place, drawing, look)

    def made(base: Comparison | None, base_name: str) -> str:
        from toolkit.report.html.session import session_page

        return session_page(judged.session, judged.results, views, base=base, base_name=base_name)

    return judged, made


def _drawing(views: dict[str, RunView], then: Look | None) -> Look:
    from toolkit.report.html.run import run_view

    def look(name: str, found: Judged) -> None:
        views[name] = run_view(found, shown_of(found), name)
        if then is not None:
            then(name, found)

    return look
