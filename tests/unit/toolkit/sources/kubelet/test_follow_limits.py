"""Limits of memory and huge pages on a followed node: what of a request is promised, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.toolkit.session.followed import Node as FollowedNode
from tests.unit.toolkit.sources.kubelet.followed_node import (
    MANIFEST,
    SHARER,
    STATES,
    WEB,
    Node,
    allocates,
    claim,
    made_node,
    resizes,
)
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from tests.unit.toolkit.sources.socket_server import status
from tests.unit.validators.evidence_builder import evidence
from toolkit.model.claims import Claim, ClaimSet, HugepageLimit, SubjectKind
from toolkit.model.evidence import CgroupFiles
from toolkit.model.evidence.following import LIMITS, Following
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.placement import HugetlbUse
from toolkit.model.verdict import Outcome
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_live
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places
from validators.rules import applied, hugepages

MIB = 1 << 20
API = "dd" * 32
HUGE = (HugepageLimit(page_bytes=2 * MIB, limit_bytes=4 * MIB),)
ASKS = {"limits": {"memory": "64Mi", "hugepages-2Mi": "4Mi"}, "requests": {"memory": "64Mi", "hugepages-2Mi": "4Mi"}}


@pytest.fixture
def node() -> Iterator[Node]:
    """The node, with a static pod ``api-node1`` that requests huge pages, as ``web/app`` does."""
    with made_node() as made:
        made.configure("staticPodPath: /etc/manifests\n")
        huge = MANIFEST.replace("memory: 64Mi", "memory: 64Mi, hugepages-2Mi: 4Mi")
        write(made.root, "etc/manifests/api.yaml", huge)
        made.runs(API, "api-node1", "app", "0-1")
        write(made.root, f"{KUBEPODS}/podu-api-node1/cpuset.cpus", "\n")
        allocates(made, {"u-web": {"app": ASKS}})
        yield made


def limited(node: Node, pod: str, container: str = "", name: str = "hugetlb.2MB.max", root: str = KUBEPODS) -> None:
    """Let a cgroup have a limit of huge pages."""
    write(node.root, f"{root}/podu-{pod}/{container}{'/' if container else ''}{name}", "4194304\n")


def left_out(reading: SourceReading) -> list[str]:
    return [row.reason for row in reading.missing if row.part == LIMITS and row.reason.startswith("huge pages of")]


def told(node: Node) -> None:
    """Let the runtime's specification limit huge pages."""
    node._said[WEB] = status(WEB, f"/kubepods/podu-web/{WEB}", "0-1", huge={"2MB": 4 * MIB})


def test_a_pod_has_its_limit_and_its_container_what_its_runtime_was_told(node: Node) -> None:
    """containerd leaves huge pages out of the specification by default: the container is promised nothing."""
    limited(node, "api-node1")
    limited(node, "api-node1", API)
    limited(node, "web", WEB)
    before = node.read()
    told(node)
    node.source = type(node.source)(Places(root=node.root, cri=f"unix://{node.root}/c.sock"))
    after = node.read()

    assert claim(before, "api-node1/(pod)").hugepages == HUGE
    assert [claim(before, name).hugepages for name in ("api-node1/app", "web/app")] == [(), ()]
    said = "huge pages of {}: their runtime was told no limit, their pods' cgroups have it"
    assert left_out(before) == [said.format("2 containers (api-node1/app, web/app)")]
    assert claim(after, "web/app").hugepages == HUGE
    assert left_out(after) == [said.format("1 container (api-node1/app)")]


@pytest.mark.parametrize("name", ["hugetlb.2MB.max", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.rsvd.max", ""])
def test_what_no_control_file_carries_out_is_not_promised(node: Node, name: str) -> None:
    """A machine without the controller, or of another hierarchy; `claims --kubelet` says the same as what follows."""
    told(node)
    if name:
        for pod, container in (("api-node1", ""), ("web", WEB)):
            limited(node, pod, container, name)
    there = name in ("hugetlb.2MB.max", "hugetlb.2MB.limit_in_bytes")
    reading = node.read()
    whole = node_claims(read_live(Places(root=node.root, cri=f"unix://{node.root}/c.sock")))

    for claims in (reading.claims.claims, whole.claims.claims):
        found = {one.name: one.hugepages for one in claims}
        assert [found["api-node1/(pod)"], found["web/app"]] == [HUGE if there else ()] * 2
    lines = "huge pages of 2 cgroups (web/app, api-node1/(pod)): no control file of such a limit was found"
    assert (lines in left_out(reading)) is not there
    assert (lines in [row.reason for row in whole.missing]) is not there


def test_on_v1_the_controllers_own_hierarchy_has_it(node: Node) -> None:
    """Of a hybrid host."""
    told(node)
    top = node.root / "sys/fs/cgroup"
    pods = top / "kubepods"
    (top / "cpuset").mkdir()
    pods.rename(top / "cpuset/kubepods")
    limited(node, "web", WEB, "hugetlb.2MB.limit_in_bytes", "sys/fs/cgroup/hugetlb/kubepods")
    reading = node.read()

    assert claim(reading, "web/app").hugepages == HUGE
    assert claim(reading, "api-node1/(pod)").hugepages == ()


def test_a_resize_under_way_promises_no_memory(node: Node) -> None:
    """From the moment at which it is allocated until the kubelet says that it is in force."""
    more = {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": SHARER["requests"]}
    found = []
    for now, then in ((SHARER, SHARER), (SHARER, more), (more, more)):
        resizes(node, now, then)
        found.append(claim(node.read(), "web/app").memory_bytes)
    assert found == [64 * MIB, None, 128 * MIB]


def test_pods_whose_requests_are_not_known_are_named(node: Node) -> None:
    """Without a list of pods and an allocation there is the runtime's word, and no word about the rest."""
    before = [row.reason for row in node.read().missing if row.part == LIMITS]
    (node.root / STATES / "allocated_pods_state").unlink()
    reading = node.read()
    after = [row.reason for row in reading.missing if row.part == LIMITS]
    own = "nothing is promised about their own cgroups"

    assert any(line.endswith(f"(web) are init containers is not known: {own}") for line in before)
    assert any(line.startswith("the requests of 2 pods (db, web) are not known: nothing is promised") for line in after)
    assert claim(reading, "web/app").memory_bytes == 64 * MIB
    assert not any(one.name in ("web/(pod)", "db/(pod)") for one in reading.claims.claims)


def unlimited(node: Node, *, told: int = 0) -> SourceReading:
    """Read the node with a container without a limit, and a pod of which one container has one."""
    allocates(node, {"u-web": {"app": {"requests": {"memory": "32Mi"}}}})
    manifest = "  - {name: side, resources: {requests: {cpu: 100m}}}\n"
    write(node.root, "etc/manifests/api.yaml", MANIFEST + manifest)
    node.asks(WEB, "web", "0-1", quota_us=-1, memory=told)
    return node.read()


def test_a_container_without_a_limit_is_promised_none(node: Node) -> None:
    """Neither is its pod, of which one container has one: no limit at all is promised, and any other value is wrong."""
    reading = unlimited(node)

    assert claim(reading, "web/app").memory_bytes == NO_LIMIT
    assert claim(reading, "api-node1/(pod)").memory_bytes == NO_LIMIT
    assert claim(reading, "api-node1/app").memory_bytes == 64 * MIB
    for name in ("web/app", "api-node1/(pod)"):
        promised = claim(reading, name)
        outcomes = []
        for found in (NO_LIMIT, 64 * MIB):
            read = (CgroupFiles(cgroup=promised.cgroup, at_ns=0, memory_max_bytes=found),)
            seen = evidence(files_before=read, files_after=read, bandwidth=(), cpu_use=())
            bare = Claim(name=name, cgroup=promised.cgroup, memory_bytes=promised.memory_bytes)
            (verdict,) = applied.RULE(ClaimSet(claims=(bare,)), seen)
            outcomes.append(verdict.outcome)
        assert outcomes == [Outcome.PASSED, Outcome.FAILED]
        assert "the memory limit was 67108864 bytes, promised none" in verdict.reason


def test_a_limit_that_others_told_the_runtime_is_not_judged(node: Node) -> None:
    """An NRI plugin, or the runtime's own base specification: the kubelet promised neither that limit nor none."""
    assert claim(unlimited(node, told=64 * MIB), "web/app").memory_bytes is None


def test_without_the_runtimes_word_no_container_is_promised_none(node: Node) -> None:
    """Nothing says whether a program between the kubelet and the kernel set a limit."""
    node.source = type(node.source)(Places(root=node.root))
    reading = unlimited(node)

    assert {one.memory_bytes for one in reading.claims.claims if one.kind is SubjectKind.CONTAINER} <= {None, 64 * MIB}


@pytest.mark.parametrize(("limit", "asked"), [("67108864", True), ("max", False), ("9223372036854771712", False)])
def test_a_limit_that_was_not_asked_for_is_asked_for_again(node: Node, limit: str, asked: bool) -> None:
    """A resize may have brought it, by a kubelet that writes no allocations."""
    (node.root / STATES / "allocated_pods_state").unlink()
    node.asks(WEB, "web", "0-1", quota_us=-1, memory=0)
    for _ in range(2):
        node.read()
    write(node.root, f"{KUBEPODS}/podu-web/{WEB}/memory.max", f"{limit}\n")
    asks = []
    for _ in range(3):
        node.read()
        asks.append(WEB in node.asked)
    assert all(asks) is asked


@pytest.mark.parametrize(("limit", "asked"), [("67108864", False), ("max", True), ("134217728", True), ("", False)])
def test_a_limit_that_is_another_one_is_asked_for_again(node: Node, limit: str, asked: bool) -> None:
    """A kubelet that writes no allocations resizes without a word of its own: the runtime was asked for the new one."""
    (node.root / STATES / "allocated_pods_state").unlink()
    for _ in range(2):
        node.read()
    if limit:
        write(node.root, f"{KUBEPODS}/podu-web/{WEB}/memory.max", f"{limit}\n")
    asks = []
    for _ in range(3):
        node.read()
        asks.append(WEB in node.asked)
    assert all(asks) is asked


def test_a_pods_limit_is_read_and_one_that_is_gone_is_no_doubt() -> None:
    """Of a pod that ended in the window; one with another limit fails."""
    pod = Claim(name="web/(pod)", cgroup="/kubepods/podu-web", kind=SubjectKind.POD, hugepages=HUGE)
    claims = ClaimSet(claims=(pod,))
    row = HugetlbUse(claim=pod.name, page_bytes=2 * MIB, limit_bytes=4 * MIB, usage_bytes=0)
    seen = {
        "right": (row,),
        "wrong": (HugetlbUse(claim=pod.name, page_bytes=2 * MIB, limit_bytes=-1, usage_bytes=0),),
        "gone": (HugetlbUse(claim=pod.name, page_bytes=2 * MIB),),
        "never read": (),
    }
    found = {}
    for name, rows in seen.items():
        (verdict,) = hugepages.RULE.check(claims, evidence(hugetlb=rows, following=Following(source="kubelet")))
        found[name] = verdict.outcome
    assert found == {
        "right": Outcome.PASSED,
        "wrong": Outcome.FAILED,
        "gone": Outcome.SKIPPED,
        "never read": Outcome.SKIPPED,
    }


def test_what_a_pods_cgroup_is_promised_anew_is_a_change_in_the_window(tmp_path: Any) -> None:
    """A resize changes its pod, too; one that came in the window is judged in the next one."""
    node = FollowedNode(tmp_path)
    changes: list[Claim] = []
    node.promise = changes.append  # type: ignore[method-assign]
    pod = Claim(name="p/(pod)", cgroup="/p", kind=SubjectKind.POD, memory_bytes=MIB)
    more = Claim(name="p/(pod)", cgroup="/p", kind=SubjectKind.POD, memory_bytes=2 * MIB)
    main = node.claim("p/main")

    node.say(main, pod)
    node.observer.window = cast(Any, SimpleNamespace(start_ns=1 << 62))
    node.say(main, more)
    assert changes == [more]
    assert node.observer.beside == (more,)
    node.observer.window = cast(Any, SimpleNamespace(start_ns=0))
    node.say(main, pod)
    assert changes == [more]


def test_allocations_that_are_not_the_kubelets_word_are_named(node: Node) -> None:
    """A file whose checksum is another one: what the manifest says holds, and it is a line until it is whole again."""
    allocates(node, {"u-web": {"app": SHARER}})
    assert "allocated_pods" not in {row.part for row in node.read().missing}
    file = node.root / STATES / "allocated_pods_state"
    whole = file.read_text()
    file.write_text(whole.replace("500m", "900m"))
    (named,) = [row.reason for row in node.read().missing if row.part == "allocated_pods"]
    assert named.startswith("the checksum is not that of the content: ")
    file.write_text(whole)
    assert "allocated_pods" not in {row.part for row in node.read().missing}
