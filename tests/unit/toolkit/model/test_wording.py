"""Numbers and kinds of values in sentences."""

from __future__ import annotations

import pytest

from toolkit.model.cpuset import CpuSet
from toolkit.model.wording import cpus_do, cpus_text, kind_of, nodes_text


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "nothing"),
        (True, "a boolean"),
        (7, "a number"),
        (0.5, "a number"),
        ("7", "text"),
        ([], "a list"),
        ({}, "a mapping"),
    ],
)
def test_values_of_documents_have_names(value: object, name: str) -> None:
    """No message names a class of Python."""
    assert kind_of(value) == name


def test_one_or_several() -> None:
    """A set of one CPU or node is singular."""
    assert [cpus_text("1"), cpus_text(CpuSet.of([2, 3]))] == ["CPU 1", "CPUs 2-3"]
    assert cpus_do(CpuSet.of([7]), "is", "are") == "CPU 7 is"
    assert cpus_do(CpuSet.of([2, 3]), "is", "are", " of a") == "CPUs 2-3 of a are"
    assert [nodes_text("1"), nodes_text(CpuSet.of([0, 1]))] == ["node 1", "nodes 0-1"]
