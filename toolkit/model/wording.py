"""Numbers and kinds of values in sentences. Nothing here decides anything."""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet


def kind_of(value: object) -> str:
    """Name the kind of a value in a YAML or JSON document, in words for people rather than Python's."""
    match value:
        case None:
            return "nothing"
        case bool():  # before int, of which bool is one
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"


def count(number: int, one: str, many: str = "") -> str:
    """Write ``1 verdict`` and ``2 verdicts``. :param many: the plural where it is not just an ``s`` more."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def cpus_text(cpus: CpuSet | str) -> str:
    """Write ``CPU 1`` and ``CPUs 2-3``. :param cpus: the set, or its list as text."""
    text = str(cpus)
    return f"{'CPU' if text.isdigit() else 'CPUs'} {text}"


def cpus_do(cpus: CpuSet, one: str, many: str, of: str = "") -> str:
    """Write ``CPU 1 is`` and ``CPUs 2-3 are``. :param one, many: the verb. :param of: whose they are, before it."""
    return f"{cpus_text(cpus)}{of} {one if len(cpus) == 1 else many}"


def nodes_text(nodes: CpuSet | str) -> str:
    """Write ``node 1`` and ``nodes 0-1``. :param nodes: the set of NUMA nodes, or its list as text."""
    text = str(nodes)
    return f"{'node' if text.isdigit() else 'nodes'} {text}"
