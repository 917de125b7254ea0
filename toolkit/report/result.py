"""A result as JSON: exactly what ``result.json`` holds, and what ``--json`` prints. Source: docs/principles.md."""

from __future__ import annotations

from pathlib import Path

from toolkit import store
from toolkit.model.result import Result, make_result
from toolkit.model.serde import to_data

__all__ = ["Result", "load_result_data", "make_result", "result_data"]


def result_data(result: Result) -> object:
    """Turn a result into JSON-ready data."""
    return to_data(result)


def load_result_data(path: Path) -> object:
    """Read the result of a run directory (or a ``result.json``) as JSON-ready data.

    :raises InputError: as :func:`toolkit.store.load_result`.
    """
    return result_data(store.load_result(path))
