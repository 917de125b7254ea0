"""Stage values to and from JSON text, strictly.

Files come from elsewhere (another node, another person): every field is type-checked, unknown keys are refused, and
what is wrong is reported in one line. pydantic does the work on the plain dataclasses; they need no base class.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic_core
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import ErrorDetails, PydanticSerializationError

from toolkit.errors import InputError
from toolkit.model.cpuset import MAX_ID
from toolkit.text import json_text
from toolkit.text.names import printable
from toolkit.text.wording import and_more

T = TypeVar("T")
CpuId = Annotated[int, Field(ge=0, le=MAX_ID)]
"""A CPU's id in a file: one that fits in a :class:`~toolkit.model.cpuset.CpuSet`."""
_NOT_ASCII = re.compile(r"[^\n -~]+")
_DELETE = b"\x7f"
"""Of the characters that cannot be printed JSON escapes all below a blank; this one is ASCII, too."""
MAX_FILE_BYTES = 256 * 1024 * 1024

stage_value = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
"""Decorator for every stage dataclass: unknown keys in a file are an error, and so are infinite numbers and NaN."""


_adapters: dict[object, TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


_SHAPES = {
    "model_type": "a mapping is expected",
    "dict_type": "a mapping is expected",
    "tuple_type": "a list is expected",
    "list_type": "a list is expected",
}
"""What pydantic reports in the names of Python's types."""


def first_problem(error: ValidationError) -> str:
    """Return the first error, with its place, on one line."""
    problem, more = _first(error)
    place = ".".join(map(str, problem["loc"])) or "document"
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown key {place}"
    if problem["type"] == "missing":
        return f"{place} is missing"
    problem_text = _SHAPES.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    return f"{place}: {problem_text}{_shown(problem.get('input'))}" + and_more(more)


def first_place(error: ValidationError) -> tuple[int | str, ...]:
    """Return where the first error is: keys and numbers of entries."""
    return tuple(_first(error)[0]["loc"])


def _first(error: ValidationError) -> tuple[ErrorDetails, int]:
    """Return the first error, in its place nothing but keys of the file, and how many others there are."""
    problems = error.errors(include_url=False)
    problem, same = problems[0], 1
    if problem["loc"] and str(problem["loc"][-1]).startswith("literal["):
        # Of the alternatives `none` and `{quotaUs: ...}` the error of the one that matched furthest says most.
        stem = problem["loc"][:-1]
        others = [one for one in problems if one["loc"][: len(stem)] == stem]
        problem = max(others, key=lambda one: (len(one["loc"]), not str(one["loc"][-1]).startswith("literal[")))
        # The alternative's own name is no key of the file.
        problem["loc"], same = (*stem, *problem["loc"][len(stem) + 1 :]), len(others)
    # Nor is what remains of our classes in the place.
    problem["loc"] = tuple(part for part in problem["loc"] if not str(part).startswith(("_", "literal[")))
    return problem, len(problems) - same


def _shown(found: object) -> str:
    if isinstance(found, dict | list):
        return ""
    return f" (found {str(found)[:60]!r})"


def to_json(value: object, indent: int | None = None) -> str:
    """Write a stage value as JSON text of printable characters."""
    return to_bytes(value, indent).decode()


def to_bytes(value: object, indent: int | None = None) -> bytes:
    """Write a stage value as JSON text of printable characters, in UTF-8."""
    adapter = _adapter(type(value))
    try:
        text = adapter.dump_json(value, indent=indent)
    except PydanticSerializationError:
        # A text that is no UTF-8, which no reader should have let in: rather spelt late than evidence lost.
        data = _spelt(adapter.dump_python(value, mode="json"))
        text = pydantic_core.to_json(data, indent=indent, inf_nan_mode="null")
    # It hardly ever has one that cannot be printed. Of megabytes each copy costs milliseconds.
    return text if text.isascii() and _DELETE not in text else printable_json(text.decode()).encode()


def to_lean_json(value: object) -> str:
    """Write a stage value without the fields that are as where nothing is said, on one line, of printable characters.

    What must be said is always written, and the schema's name first.
    """
    return printable_json(pydantic_core.to_json(lean_data(value), inf_nan_mode="null").decode())


def lean_data(value: object) -> dict[str, Any]:
    """Turn a stage value into JSON-ready data, as :func:`to_lean_json` writes it."""
    data: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json", exclude_defaults=True)
    schema = getattr(value, "schema", None)
    return data if schema is None else {"schema": schema, **data}


def printable_json(text: str) -> str:
    r"""Write what cannot be printed in a JSON text as ``\uXXXX``: it means the same, and breaks or forges no line."""
    return _NOT_ASCII.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in match[0])


def _spelt(data: object) -> object:
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        return {_spelt(key): _spelt(value) for key, value in data.items()}
    return [_spelt(value) for value in data] if isinstance(data, list) else data


def to_data(value: object) -> object:
    """Turn a stage value into JSON-ready lists, dictionaries, strings and numbers."""
    return json.loads(to_json(value))


def from_json(kind: type[T], text: str | bytes, where: str) -> T:
    """Read a stage value from JSON text.

    :raises InputError: one line with the place and the problem.
    """
    try:
        value = _adapter(kind).validate_json(text, strict=False)
    except ValidationError as error:
        raise InputError(where, first_problem(error)) from None
    except RecursionError:
        raise InputError(where, "nested too deeply") from None
    json_text.check(text, where)
    return value


def read_back(kind: type[T], text: bytes) -> T | None:
    """Read what :func:`to_bytes` has written; ``None``: it is not as the type says."""
    try:
        return _adapter(kind).validate_json(text)
    except ValidationError:
        return None


def from_data(kind: type[T], data: object, where: str) -> T:
    """Read a stage value from plain data, e.g. parsed YAML."""
    try:
        return _adapter(kind).validate_python(data)
    except ValidationError as error:
        raise InputError(where, first_problem(error)) from None
    except RecursionError:
        raise InputError(where, "nested too deeply") from None


def json_schema(kind: type[Any]) -> dict[str, object]:
    """Return the JSON Schema of a stage value."""
    return _adapter(kind).json_schema()


def read_text(path: Path, what: str, limit: int = MAX_FILE_BYTES) -> str:
    """Read a user's file of at most ``limit`` bytes.

    :raises InputError: missing, not a file, too large, or not UTF-8.
    """
    try:
        if not path.is_file():
            raise InputError(str(path), "no such file" if not path.exists() else "not a file", what)
        if path.stat().st_size > limit:
            raise InputError(str(path), f"{path.stat().st_size} bytes", f"at most {limit}")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(str(path), "not UTF-8 text", what) from None
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), what) from None
