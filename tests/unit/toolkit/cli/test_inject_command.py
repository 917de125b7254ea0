"""``pinproof inject`` as far as it needs no root: the list, and what is refused before anything is done."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from toolkit.cli.inject import command
from toolkit.errors import InputError
from toolkit.faults.registry import INJECTABLE


def test_the_list_tells_every_fault() -> None:
    """Name, what it changes, what reports it; the same as JSON."""
    text = CliRunner().invoke(command, ["--list"], catch_exceptions=False).output
    for fault in INJECTABLE:
        assert fault.id in text
        assert all(rule in text for rule in fault.rules)
    found = json.loads(CliRunner().invoke(command, ["--list", "--json"], catch_exceptions=False).output)
    assert [fault["id"] for fault in found] == [fault.id for fault in INJECTABLE]


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["rogue-task", "--cpus", "x"]])
def test_bad_input_is_refused(arguments: list[str]) -> None:
    """Nothing named, an unknown fault, no CPU list: one line each."""
    with pytest.raises(InputError):
        CliRunner().invoke(command, arguments, catch_exceptions=False)
