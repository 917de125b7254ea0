"""What many rules ask of the same evidence is worked out once for all of them: a node has hundreds of claims.

Values are frozen, so the same objects give the same answer. Nothing is kept longer than :func:`once` lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class _Kept(threading.local):
    answers: dict[tuple[Any, ...], tuple[Any, Any]] | None = None


_kept = _Kept()


@contextmanager
def once() -> Iterator[None]:
    """Keep the answers of what is :func:`asked_often` while the block runs, in this thread."""
    before, _kept.answers = _kept.answers, {}
    try:
        yield
    finally:
        _kept.answers = before


def asked_often(function: Callable[P, R]) -> Callable[P, R]:
    """Let a pure function of frozen values be called once for the same objects."""

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        answers = _kept.answers
        if answers is None or kwargs:
            return function(*args, **kwargs)
        key = (function, *map(id, args))
        found = answers.get(key)
        if found is None:
            found = answers[key] = args, function(*args, **kwargs)  # who is kept has its number for itself
        return cast("R", found[1])

    return asked
