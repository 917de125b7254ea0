"""What a source text imports: the rules on imports and ``make test-of`` ask it. Nothing is imported to find out."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path


def module_name(path: Path, root: Path) -> str:
    """``toolkit/model/cpuset.py`` -> ``toolkit.model.cpuset``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imported(source: str, module: str, is_package: bool) -> tuple[tuple[str, int], ...]:
    """Every module that a source text imports, with its line; relative names made absolute. Each text is read once."""
    return tuple(imports_of(ast.walk(ast.parse(source)), module, is_package))


def imports_of(nodes: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """As :func:`imported`, of a text that is parsed already. An import inside a function counts like one at the top."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*above, *([base] if base else [])])
            yield base, node.lineno
            # `from toolkit import cli` names a module too.
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno
