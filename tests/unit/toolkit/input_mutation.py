"""Inputs of which one place is replaced by something nasty, and what may come of reading them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from toolkit.errors import InputError

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 1.5, -0.0, 1e308, 5e-324,
    "", "x", "0", "0-3", "\x1b[31m\x00\u202e", "../../etc", "/", "cpu 0", "node",
    [], [[]], [None], {}, {"a": 1}, {"": None},
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:3]):
            yield from places(item, (*path, index))


def mutate(document: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    """Change one place of a document."""
    changed = copy.deepcopy(document)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    if how == "set":
        parent[path[-1]] = value
    elif how == "drop":
        del parent[path[-1]]
    elif isinstance(parent, list):
        parent.append(copy.deepcopy(parent[path[-1]]))
    else:
        parent[str(value)[:20]] = parent[path[-1]]
    return changed


def expect_input_error_or_nothing(work: Callable[[], None]) -> None:
    """Run it; an InputError must be one line."""
    told = ""
    try:
        work()
    except InputError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 1000
