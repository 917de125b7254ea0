"""Readers of YAML that refuse what would silently lose or multiply data: one for any text, and a quick one for most.

PyYAML scans a text in Python, a character at a time. Its binding of libyaml scans in C and gives the same events, six
times as fast, where a text has nothing that both read differently (:data:`ODD`). What the quick one does not read, for
whatever reason, the other reads, and says what is wrong with it.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor

MAX_BITS = 256
MAX_DEPTH = 100
"""Levels of nesting: several times those of any document that people or programs write here. To find the end of a level
the scanner looks ahead over a thousand characters, each of which may begin another one."""


class _Refusing(Composer, SafeConstructor):
    """What is refused, whatever scans."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # A file of a few lines could grow to gigabytes when its aliases are expanded.
        if self.check_event(yaml.AliasEvent):  # type: ignore[attr-defined]
            event: yaml.Event = self.peek_event()  # type: ignore[attr-defined]
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


def _bounded_int(loader: Any, node: yaml.ScalarNode) -> int:
    """Read a number, but none that Python would not write again (more than 4300 digits)."""
    try:
        value = int(loader.construct_yaml_int(node))
        if value.bit_length() <= MAX_BITS:
            return value
        problem = "a huge number"
    except ValueError:
        problem = f"{node.value[:40]!r} is no number"
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class AnyLoader(_Refusing, yaml.SafeLoader):
    """For a text that comes from elsewhere."""

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Go one level deeper, into ``[`` or ``{``."""
        if self.flow_level >= MAX_DEPTH:
            raise self._too_deep()
        super().fetch_flow_collection_start(token)

    def add_indent(self, column: int) -> bool:
        """Go one level deeper, by indentation."""
        if len(self.indents) >= MAX_DEPTH:
            raise self._too_deep()
        return bool(super().add_indent(column))

    def _too_deep(self) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=f"more than {MAX_DEPTH} levels", problem_mark=self.get_mark())


AnyLoader.add_constructor("tag:yaml.org,2002:int", _bounded_int)


QUICK_DEPTH = 50
"""What is nested deeper is left to the other reader, which counts brackets and indentation apart."""
ODD = re.compile(r"[^\n -~]|\?|(?<!\w)[%&*!@`]|(?<!\w)[|>](?![+-]?\n)|:[,\[\]{}]")
"""What libyaml may read differently: tabs and what is not ASCII; ``?``, which ends a text in brackets for one of them;
tags, anchors and directives; an indicator of a text of several lines that is followed by more than ``+`` or ``-``."""

if yaml.__with_libyaml__:

    class QuickLoader(_Refusing, yaml.CSafeLoader):
        """For a text without :data:`ODD`, and for our own."""

        def __init__(self, stream: str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            Composer.__init__(self)
            self._depth = 0

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            """Go one level deeper."""
            self._depth += 1
            if self._depth > QUICK_DEPTH:
                raise yaml.MarkedYAMLError(problem=f"more than {QUICK_DEPTH} levels")
            node = super().compose_node(parent, index)
            self._depth -= 1
            return node

    QuickLoader.add_constructor("tag:yaml.org,2002:int", _bounded_int)
else:
    QuickLoader = AnyLoader  # type: ignore[misc,assignment]
