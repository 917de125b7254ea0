"""Answers that many rules need of the same evidence, computed one time for all of them: a node has hundreds of claims.

Values are frozen, so the same objects give the same answer. Nothing is kept after :func:`memo` ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Kept(threading.local):
    answers: dict[tuple[Any, ...], tuple[Any, Any]] | None = None


_kept = _Kept()


@contextmanager
def memo() -> Iterator[None]:
    """Keep the answers of :func:`memoised` functions while the block runs, in this thread."""
    before, _kept.answers = _kept.answers, {}
    try:
        yield
    finally:
        _kept.answers = before


def memoised(function: Callable[P, R]) -> Callable[P, R]:
    """Compute a pure function of frozen values one time for the same objects, inside :func:`memo`."""

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        answers = _kept.answers
        if answers is None or kwargs:
            return function(*args, **kwargs)
        # Most have one: no other key is as cheap, and there are tens of thousands of questions.
        key = (function, id(args[0])) if len(args) == 1 else (function, *map(id, args))
        found = answers.get(key)
        if found is None:
            # The arguments are kept, so that no other object gets their id.
            found = answers[key] = args, function(*args, **kwargs)
        answer: R = found[1]
        return answer

    return asked
