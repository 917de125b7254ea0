"""Pods of some names of a followed kubelet's node: these are promised something, the others run unpromised."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import made_node
from toolkit.model.claims import Claim, SubjectKind
from toolkit.sources.chosen_pods import Choice, ChosenPods

CLAIMS = {
    "shop": Claim(name="shop/web-1/app", cgroup="/a", pod="shop/web-1", namespace="shop", container="app"),
    "default": Claim(name="web-2/app", cgroup="/b", pod="web-2", namespace="default", container="app"),
    "class": Claim(name="burstable/(qos)", cgroup="/c", kind=SubjectKind.QOS),
}


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (Choice(), {"shop", "default", "class"}),
        (Choice(namespaces=("shop",)), {"shop", "class"}),
        (Choice(namespaces=("default",), pods=("web-*",)), {"default", "class"}),
        (Choice(pods=("web-1", "db")), {"shop", "class"}),
        (Choice(namespaces=("shop",), pods=("db",)), {"class"}),
    ],
)
def test_which_claims_are_chosen(choice: Choice, chosen: set[str]) -> None:
    """By both kinds of names where both are given; a class's cgroup is of all pods."""
    assert {name for name, claim in CLAIMS.items() if choice.has(claim)} == chosen


def test_the_others_are_unpromised() -> None:
    """Neither claims nor layers are theirs; their cgroups are known to run; the state file is the whole node's."""
    with made_node() as node:
        whole = node.source.read()
        of_db = ChosenPods(node.source, Choice(pods=("db",)))
        reading = of_db.read()

    assert {claim.pod for claim in whole.claims.claims if claim.pod} == {"db", "web"}
    assert {claim.pod for claim in reading.claims.claims if claim.pod} == {"db"}
    assert {view.claim for view in reading.layers} == {"db/main"}
    assert any("podu-web" in cgroup for cgroup in reading.unpromised - whole.unpromised)
    assert reading.state_files == whole.state_files
    assert (of_db.name, of_db.every_s, of_db.signs()) == ("kubelet", node.source.every_s, node.source.signs())
