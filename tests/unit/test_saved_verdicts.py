"""What was judged once is judged so again: the verdicts of every saved run, watch and capture in ``tests/data``.

A change that moves how a verdict is reached, and not what it is, leaves ``verdicts.txt`` as it is. Where a verdict was
wrong, the file says what it is now: ``python -m tests.unit.test_saved_verdicts`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from toolkit.cli.judge import command as judge_verb

DATA = Path(__file__).resolve().parents[1] / "data"
SAVED = DATA / "verdicts.txt"


def sources() -> dict[str, list[str]]:
    """Name of what is judged -> how ``judge`` is told of it."""
    runs = {f"runs/{path.parent.name}": [str(path.parent)] for path in DATA.glob("runs/*/evidence.json")}
    watches = {f"watches/{path.name}": [str(path)] for path in DATA.glob("watches/*")}
    captures = {f"captures/{path.name}": ["--capture", str(path)] for path in DATA.glob("captures/*.tar.gz")}
    return dict(sorted((runs | watches | captures).items()))


def judged(arguments: list[str]) -> Iterator[str]:
    """Yield a line for each verdict, in the order of the result."""
    done = CliRunner().invoke(judge_verb, [*arguments, "--json"])
    for verdict in json.loads(done.stdout)["verdicts"]:
        yield f"{verdict['outcome']} {verdict['rule']} {verdict['subject']}"


def saved() -> dict[str, list[str]]:
    """The verdicts as they were, by name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in SAVED.read_text().splitlines():
        if line.startswith("  "):
            lines.append(line.strip())
        else:
            lines = found[line] = []
    return found


@pytest.mark.parametrize("name", sources())
def test_the_verdicts_are_those_of_before(name: str) -> None:
    """The same rules say the same of the same subjects."""
    assert list(judged(sources()[name])) == saved()[name]


def test_each_is_there() -> None:
    """Nothing is judged that is not held, and the other way round."""
    assert list(saved()) == list(sources())


if __name__ == "__main__":
    texts = ("\n".join([name, *(f"  {line}" for line in judged(told))]) for name, told in sources().items())
    SAVED.write_text("\n".join(texts) + "\n")
