"""YAML text to plain data, safely: no tags, no aliases, no key twice, one document unless several are asked for.

JSON is read as such, as kubelet and kubectl do it: as YAML it could not be indented with tabs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

from toolkit.errors import InputError
from toolkit.text import json_text
from toolkit.text.yaml_loaders import MAX_DEPTH, ODD, AnyLoader, QuickLoader

NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
DECIMAL = re.compile(r"[-+]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|\.(?:inf|nan))", re.I)
"""A number that all readers read alike. YAML 1.1 reads ``010`` as 8, ``1_0`` as 10 and ``1:0`` as 60."""
MAX_BYTES = 2 * 1024 * 1024
"""Thousands of claims or pods. The parser takes seconds and some hundred megabytes for each megabyte of a file."""


def _scalars(root: yaml.Node, but: frozenset[str]) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yield every scalar with its place, keys too, but none below a key in ``but``."""
    waiting = [("", root)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            yield path, node
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(f"{path}[{i}]", item) for i, item in reversed([*enumerate(node.value)])]
        elif isinstance(node, yaml.MappingNode):
            for key, value in reversed(node.value):
                name = key.value if isinstance(key, yaml.ScalarNode) else ""
                if name not in but:
                    place = f"{path}.{name[:80]}".lstrip(".")
                    waiting += [(place, value), (place, key)]


def parse_documents(
    text: str, where: str, decimal_but: frozenset[str] | None = None, *, own: bool = False
) -> list[Any]:
    """Read all YAML documents of a text, or the one of a JSON text.

    :param decimal_but: refuse numbers that are not plain decimal, except below these keys; ``None``: none is refused.
        Those of JSON all are.
    :param own: it ships with pinproof, and is read quickly whatever it has.
    :raises InputError: with line and column.
    """
    no_json = ""
    if text.lstrip().startswith(("{", "[")):
        try:
            data = json_text.load(text, where)
            if _levels(data) <= MAX_DEPTH:
                return [data]
        except (ValueError, RecursionError) as error:
            no_json = f"not JSON: {str(error)[:80]}"
    if own or not ODD.search(text):
        with contextlib.suppress(InputError, yaml.YAMLError, RecursionError, ValueError):
            return _documents(QuickLoader(text), where, decimal_but)
    try:
        return _documents(AnyLoader(text), where, decimal_but)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        problem = f"not YAML: {place}{error.problem or error.context}"
        # A tab is no fault of JSON: something else keeps the text from being it.
        both = f"{no_json}; {problem}" if no_json and "\\t" in problem else problem
        raise InputError(where, both) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(where, f"not YAML that can be read: {str(error) or type(error).__name__}") from None


def _documents(loader: Any, where: str, decimal_but: frozenset[str] | None) -> list[Any]:
    documents = []
    while loader.check_node():
        node = loader.get_node()
        if decimal_but is not None and node is not None:
            _check_decimal(node, where, decimal_but)
        documents.append(loader.construct_document(node))
    return documents


def _levels(data: Any) -> int:
    """Return how deep lists and mappings are nested, up to one more than is accepted."""
    level, inside = 0, [data]
    while level <= MAX_DEPTH and (inside := [one for one in inside if isinstance(one, dict | list)]):
        level += 1
        inside = [part for one in inside for part in (one.values() if isinstance(one, dict) else one)]
    return level


def _check_decimal(root: yaml.Node, where: str, but: frozenset[str]) -> None:
    """Refuse a number that YAML 1.1 reads as another one than people do."""
    for path, scalar in _scalars(root, but):
        if scalar.tag in NUMBERS and not DECIMAL.fullmatch(scalar.value):
            found = f"line {scalar.start_mark.line + 1}: {path + ': ' if path else ''}{scalar.value[:40]}"
            raise InputError(where, found, "a plain decimal number, or quotes around a text")


def parse_document(text: str, where: str, decimal_but: frozenset[str] | None = None, *, own: bool = False) -> Any:
    """Read exactly one YAML document; see :func:`parse_documents`.

    :raises InputError: none, several, or not YAML.
    """
    documents = parse_documents(text, where, decimal_but, own=own)
    if len(documents) != 1:
        raise InputError(where, f"{len(documents)} YAML documents", "one")
    return documents[0]
