"""What tests of a followed node share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import Node, made_node


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, served."""
    with made_node() as made:
        yield made
