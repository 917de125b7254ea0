"""Documents of Kubernetes read by pydantic models, refused as every input is: where, what was found, what is expected.

A model says with :func:`expected` what a place must hold; a check of its own ends with :func:`refusal`. Types are taken
as they are (``strict``): a kubelet does not read ``"true"`` as a boolean or ``0`` as a string either.
Source: pydantic documentation, "Validators" (wrap validators, ``PydanticCustomError``) and "Strict mode".
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from toolkit.errors import InputError
from toolkit.kubernetes.quantity import Quantity
from toolkit.text.wording import kind_of

M = TypeVar("M", bound=BaseModel)
SHOWN = 60
"""Characters of a wrong value that are shown."""
_REFUSED = "refused"
_KEY = "[key]"
"""How pydantic ends the place of a wrong key of a mapping; the item before it is the key."""


class Part(BaseModel):
    """A part of a document: keys as Kubernetes writes them, types as they are, fields of others skipped."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


def refusal(found: str, expected: str) -> PydanticCustomError:
    """Return the error of a validator that knows what it found and what it wants."""
    # The texts are a stranger's: as values of the template, never as the template.
    return PydanticCustomError(_REFUSED, "{found}; expected {expected}", {"found": found, "expected": expected})


def expected(text: str) -> WrapValidator:
    """Return what a place must hold, for a value that is itself refused; errors inside it name their own place."""

    def check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError as error:
            if any(problem["loc"] or problem["type"] == _REFUSED for problem in error.errors(include_url=False)):
                raise
            raise refusal(shown(value), text) from None

    return WrapValidator(check)


def absent(empty: type[dict[str, Any]] | type[list[Any]]) -> BeforeValidator:
    """Take ``null`` in the place of a mapping or a list as an empty one, as Go does."""
    return BeforeValidator(lambda value: empty() if value is None else value)


def without_nulls(data: object) -> object:
    """Drop the keys of a mapping that are ``null``: Go leaves such a field at its default. For a model validator."""
    return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


def needed() -> Any:
    """Return the field of a key that must be there; where it is missing, its validators find nothing, and say so."""
    return Field(default=None, validate_default=True)


def shown(value: object) -> str:
    """Spell a wrong value: a word for what is too large to show."""
    if value is None:
        return "nothing"
    return kind_of(value) if isinstance(value, dict | list) else repr(value)[:SHOWN]


def head(data: object, api_version: str, kind: str, what: str) -> object:
    """Refuse a document of another kind; what is no mapping is left to the model.

    :param what: the document that is expected, in words.
    """
    if isinstance(data, dict) and (data.get("apiVersion") != api_version or data.get("kind") != kind):
        raise refusal(f"{_named(data, 'apiVersion')}, {_named(data, 'kind')}", what)
    return data


def _named(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return f"no {key}" if value is None else f"{key} {shown(value)}"


def check_kind(data: object, kind: str, where: str, what: str) -> None:
    """Refuse what is no mapping, and a document of another kind before each of its fields is refused.

    :raises InputError: one line. :param what: the document that is expected, in words.
    """
    if not isinstance(data, dict):
        raise InputError(where, kind_of(data), what)
    if data.get("kind") not in (None, kind):
        raise InputError(where, f"kind {shown(data['kind'])}", what)


def quantity(text: str) -> Quantity:
    """Read an amount for a validator."""
    try:
        return Quantity.parse(text)
    except InputError as error:
        raise refusal(error.found, error.expected) from None


def read_document(model: type[M], data: object, where: str, what: str) -> M:
    """Read parsed YAML or JSON as a model.

    :param what: what the document is, for one that is not even a mapping.
    :raises InputError: one line with the path, what was found and what is expected; of several the first.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    except RecursionError:
        raise InputError(where, "nested too deeply") from None
    place = list(problem["loc"])
    found = problem.get("input")
    if place and place[-1] == _KEY:
        place = place[:-2]
    if problem["type"] == _REFUSED:
        context = problem.get("ctx", {})
        raise InputError(_path(where, place), str(context["found"]), str(context["expected"]))
    raise InputError(_path(where, place), shown(found), _wanted(problem["type"], found, what if not place else ""))


def _wanted(kind: str, found: object, what: str) -> str:
    if kind == "string_type":
        return "a string (quote it)" if isinstance(found, int | float) else "a string"
    if kind == "bool_type":
        return "true or false"
    return what or {"missing": "a value", "model_type": "a mapping", "dict_type": "a mapping"}.get(
        kind, "a valid value"
    )


def _path(where: str, place: list[Any]) -> str:
    return where + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
