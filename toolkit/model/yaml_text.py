"""YAML text to plain data, safely: no tags, no aliases, no key twice, one document unless several are asked for."""

from __future__ import annotations

from typing import Any

import yaml

from toolkit.errors import InputError

MAX_BITS = 256
MAX_DEPTH = 100
"""Levels of nesting: several times those of any document that people or programs write here. To find the end of a level
the scanner looks ahead over a thousand characters, each of which may begin another one."""
MAX_BYTES = 2 * 1024 * 1024
"""Thousands of claims or pods. The parser takes seconds and some hundred megabytes for each megabyte of a file."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses what would silently lose or multiply data."""

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MAX_DEPTH:
            raise self._too_deep()
        super().fetch_flow_collection_start(token)

    def add_indent(self, column: int) -> bool:
        if len(self.indents) >= MAX_DEPTH:
            raise self._too_deep()
        return bool(super().add_indent(column))

    def _too_deep(self) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=f"more than {MAX_DEPTH} levels", problem_mark=self.get_mark())

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # A file of a few lines could grow to gigabytes when its aliases are expanded.
        if self.check_event(yaml.AliasEvent):
            event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="an alias (*name) is not accepted", problem_mark=event.start_mark)  # type: ignore[arg-type]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"key {key.value!r} twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _bounded_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Read a number, but none that Python would not write again (more than 4300 digits)."""
    try:
        value = int(loader.construct_yaml_int(node))
        if value.bit_length() <= MAX_BITS:
            return value
        problem = "a huge number"
    except ValueError:
        problem = f"{node.value[:40]!r} is no number"
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:int", _bounded_int)


def parse_documents(text: str, where: str) -> list[Any]:
    """Read all YAML documents of a text.

    :raises InputError: with line and column.
    """
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise InputError(where, f"not YAML: {place}{error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(where, f"not YAML that can be read: {str(error) or type(error).__name__}") from None


def parse_document(text: str, where: str) -> Any:
    """Read exactly one YAML document.

    :raises InputError: none, several, or not YAML.
    """
    documents = parse_documents(text, where)
    if len(documents) != 1:
        raise InputError(where, f"{len(documents)} YAML documents", "one")
    return documents[0]
