"""Options of a verb under headings in its help: what one looks for stands together."""

from __future__ import annotations

import click

REST = "Options"
"""The heading of options that stand under no other."""


def under(headings: dict[str, tuple[str, ...]]) -> type[click.Command]:
    """Return the class of a command whose options stand under headings. :param headings: of each the options' names.

    The names are those of the help (``--claims``); the help keeps the headings' order, and under each that of the code.
    """
    of_option = {name: heading for heading, names in headings.items() for name in names}

    class Grouped(click.Command):
        """A command whose help has several lists of options."""

        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            lists: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*headings, REST)}
            for param in self.get_params(ctx):
                if (record := param.get_help_record(ctx)) is not None:
                    heading = next((of_option[name] for name in param.opts if name in of_option), REST)
                    lists[heading].append(record)
            for heading, records in lists.items():
                if records:
                    with formatter.section(heading):
                        formatter.write_dl(records)

    return Grouped
