"""What a configuration promises beside CPU sets: reserved CPUs by amount, alignment, limits, the cgroups above pods."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.toolkit.sources.edited import (
    CONFIG,
    Files,
    asked,
    capture,
    configure,
    document,
    failed,
    judged,
    part,
    place,
    rows,
    write_state,
)
from toolkit.model.claims import Claim
from toolkit.model.cpu_units import MAX_SHARES
from toolkit.sources.claims_file import parse_claims
from toolkit.sources.claims_yaml import claims_yaml
from toolkit.sources.kubelet.promises.class_weight import ClassSum, with_bounds
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of

G1, G2 = "g1-node1/main", "g2-node1/main"
G2_UID, GMIX_UID = "e7779cf5e7bbb597d273070daa389531", "576c774e1899195a7bab9ac362c185d2"


def by_amount(files: Files, kube: str, system: str) -> None:
    """Reserve amounts instead of CPUs."""
    configure(files, 'reservedSystemCPUs: "0-1"', f'kubeReserved:\n  cpu: "{kube}"')
    configure(files, 'systemReserved:\n  memory: "400Mi"', f'systemReserved:\n  memory: "400Mi"\n  cpu: "{system}"')


@pytest.mark.parametrize(("kube", "system", "weight"), [("1", "1", 235), ("700m", "800m", 254)])
def test_reserved_by_amount(kube: str, system: str, weight: int) -> None:
    """The kubelet takes whole CPUs for the sum, the first cores; the weight of all pods is of the rest."""
    files = capture("B1-4")
    by_amount(files, kube, system)
    files["cgroup/kubepods/cpu.weight"] = f"{weight}\n".encode()
    data = document(files)
    assert (data["reserved_cpus"], data["strict_reservation"]) == ("0-1", True)
    assert failed(files) == failed(capture("B1-4"))


def test_without_a_topology_no_rule_judges_by_it() -> None:
    """Neither reserved CPUs nor strictness are made up; that CPUs are in no set is no leak then."""
    files = capture("B1-4")
    by_amount(files, "1", "1")
    del files["sysfs.txt"]
    data = document(files)
    assert (data["reserved_cpus"], data["strict_reservation"]) == ("", False)
    assert any(row["part"] == "reserved_cpus" and "topology" in row["reason"] for row in data["missing"])
    assert judged(files)["checkpoint", "cpu_manager_state"].outcome == "undecided"


def test_an_unknown_configuration_makes_no_leak() -> None:
    """Whether the reservation is strict is in it."""
    files = capture("B1-4")
    del files[CONFIG]
    assert ("checkpoint", "cpu_manager_state") not in failed(files)


def test_cpus_against_the_options_fail_their_alignment() -> None:
    """Every layer agrees, and full-pcpus-only and single-numa-node are broken."""
    files = capture("B1-4")
    sound = judged(files)
    for subject in (G2, "gmix-node1/pinned"):
        assert {sound[rule, subject].outcome for rule in ("smt-alignment", "numa-alignment")} == {"passed"}
    write_state(files, "3,7", {(G2_UID, "main"): "2,6", (GMIX_UID, "pinned"): "4-5"})
    row = rows(files)[G2]
    place(files, row, "2,6")
    asked(files, row, "2,6")
    found = failed(files)
    assert "only 2 of the core 2-3" in found["smt-alignment", G2]
    assert "2 NUMA nodes" in found["numa-alignment", G2]
    assert {("smt-alignment", "gmix-node1/pinned"), ("numa-alignment", "gmix-node1/pinned")}.isdisjoint(found)


def test_a_forgotten_owner_is_promised_no_alignment_of_the_pool() -> None:
    """The file was deleted: the shared pool lies on both nodes, and breaks nothing."""
    files = capture("B1-4")
    write_state(files, "2-7")
    assert not [key for key in failed(files) if key[0] in ("smt-alignment", "numa-alignment", "applied")]


def test_without_a_topology_alignment_is_missing() -> None:
    files = capture("B1-4")
    del files["sysfs.txt"]
    assert any(row["part"] == "alignments" for row in document(files)["missing"])


@pytest.mark.parametrize(
    ("path", "control", "value", "subject", "words"),
    [
        (r"pod62dbb[^/]*/bca556[^/]*", "memory.max", "33554432", "gf-node1/main", "memory limit"),
        (r"kubepods", "cpu.weight", "100", "kubepods/(qos)", "weight"),
        (r"kubepods", "cpu.max", "100000 100000", "kubepods/(qos)", "quota"),
        (r"kubepods", "memory.max", "max", "kubepods/(qos)", "memory limit"),
        (r"kubepods/besteffort", "cpu.weight", "100", "besteffort/(qos)", "weight"),
        (r"kubepods/burstable", "cpu.max", "50000 100000", "burstable/(qos)", "quota"),
    ],
)
def test_limits_of_containers_and_of_what_is_above_pods(
    path: str, control: str, value: str, subject: str, words: str
) -> None:
    """The kubelet writes them once, and nothing else may."""
    files = capture("B1-4")
    assert ("applied", subject) not in failed(files)
    (name,) = [one for one in files if re.fullmatch(rf"cgroup/(.*/)?{path}/{re.escape(control)}", one)]
    files[name] = value.encode()
    assert words in failed(files)["applied", subject]


@pytest.mark.parametrize(
    ("enforced", "amounts", "shares", "memory"),
    [
        ('["pods"]', ("reservedSystemCPUs: 0-1", 'memory: "400Mi"'), 6144, 3_690_524_672),
        ('["none"]', ("reservedSystemCPUs: 0-1", 'memory: "400Mi"'), 8192, 4_109_955_072),
        ('["pods"]', ("kubeReserved: {cpu: 500m, memory: 300Mi}", 'memory: "400Mi"\n  cpu: "1"'), 6656, 3_375_951_872),
    ],
)
def test_node_allocatable_is_the_limit_of_all_pods(
    enforced: str, amounts: tuple[str, str], shares: int, memory: int
) -> None:
    """What the machine had when the kubelet started, less what is kept back, where that is enforced for pods."""
    files = capture("B1-4")
    for before, after in (
        ('enforceNodeAllocatable: ["pods"]', f"enforceNodeAllocatable: {enforced}"),
        ('reservedSystemCPUs: "0-1"', amounts[0]),
        ('memory: "400Mi"', amounts[1]),
    ):
        assert before.encode() in files[CONFIG]
        files[CONFIG] = files[CONFIG].replace(before.encode(), after.encode(), 1)
    row = rows(files)["kubepods/(qos)"]
    assert (row["shares"], row["memory_bytes"]) == (shares, memory)


def test_a_cpu_that_is_present_and_offline_leaves_the_weight_of_all_pods_open() -> None:
    """With how many CPUs the kubelet started is not known. Of such a CPU a capture has no line but those of lists."""
    files = capture("B1-1")
    assert rows(files)["kubepods/(qos)"]["shares"] == 6 * 1024
    gone = re.compile(rb"/sys/devices/system/cpu/cpu7/.*\n")
    text = gone.sub(b"", files["sysfs.txt"]).replace(b"cpu/online: 0-7", b"cpu/online: 0-6")
    files["sysfs.txt"] = text.replace(b"node1/cpulist: 4-7", b"node1/cpulist: 4-6")
    assert rows(files)["kubepods/(qos)"]["shares"] is None
    assert "kubepods/(qos)" not in {subject for _, subject in failed(files)}


def test_the_printed_claims_keep_every_promise() -> None:
    """What `claims` prints is a claims file, alignments included."""
    claims = node_claims(reading_of(capture("B1-4"))).claims
    printed = parse_claims(claims_yaml(claims), "printed")
    assert [(one.name, one.kind, one.alignments, one.memory_bytes) for one in printed.claims] == [
        (one.name, one.kind, one.alignments, one.memory_bytes) for one in claims.claims
    ]
    assert any(one.alignments for one in printed.claims)


@pytest.mark.parametrize("gate", [False, True])
def test_an_owner_with_another_number_of_cpus_than_it_asks_for(*, gate: bool) -> None:
    """A state file that was changed by hand, checksum and all, answers for what was asked: every layer repeats it."""
    files = capture("B1-4")
    base = failed(files)
    write_state(files, "2,6-7", {(G2_UID, "main"): "3", (GMIX_UID, "pinned"): "4-5"})
    for name in ("podresources.json", "metrics_managers.txt"):
        del files[name]
    asked(files, rows(files)[G2], "3")
    place(files, rows(files)[G2], "3")
    for name in ("be-node1/main", "bu-node1/main", "gf-node1/main", "gmix-node1/frac"):
        asked(files, rows(files)[name], "2,6-7")
        place(files, rows(files)[name], "2,6-7")
    if gate:
        # Such a kubelet takes a resize, and its CPU manager keeps what it has.
        files[CONFIG] += (
            b"\nfeatureGates: {InPlacePodVerticalScaling: true, InPlacePodVerticalScalingExclusiveCPUs: true}\n"
        )
    found = {subject: text for (rule, subject), text in failed(files).items() if rule == "layers-agree"}
    assert (G2 in found) is not gate
    assert gate or "model and checkpoint differ: 2 CPUs requested, assigned: CPU 3" in found[G2]
    assert found.keys() - {G2} <= {subject for _, subject in base}


@pytest.mark.parametrize("to", ["1", "0-1"])
def test_memory_nodes_are_compared_with_the_runtimes_word_where_no_state_file_is(to: str) -> None:
    """What the kubelet asked for at a container's start stands, whatever has lost the state file."""
    files = capture("B1-4")
    row = rows(files)[G2]
    del files["kubelet/memory_manager_state"]
    assert "mems" not in str(failed(files).get(("layers-agree", G2)))
    with part(files, "containers.json") as listed:
        listed[row["id"]]["resources"]["cpu"]["mems"] = "0"
    assert ("layers-agree", G2) not in failed(files)
    for name in files:
        if row["id"] in name and name.endswith("cpuset.mems"):
            files[name] = to.encode()
    assert "cri and cgroup differ: memory nodes 0 against" in failed(files)["layers-agree", G2]


@pytest.mark.parametrize(
    ("start", "name", "to"), [("B1-4", "be-node1/main", "1"), ("B1-4", "bu-node1/main", "0"), ("A-3", G1, "1")]
)
def test_memory_nodes_that_were_not_asked_for_are_drift(start: str, name: str, to: str) -> None:
    """Of a container for which none were asked they are those of its pod; the pods of v1 have all of the machine."""
    files = capture(start)
    row = rows(files)[name]
    assert ("layers-agree", name) not in failed(files)
    for file in files:
        if (row["id"] in file and ".mems" in file) or (row["id"] in file and file.endswith("_mems")):
            files[file] = to.encode()
    assert "cri and cgroup differ: memory nodes" in failed(files)["layers-agree", name]


def beside(files: Files, name: str, file: str, text: str) -> None:
    """Let a cgroup have another control file."""
    ident = rows(files)[name]["cgroup"].lstrip("/")
    files[f"cgroup/{ident}/{file}"] = f"{text}\n".encode()


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("cpu.idle", "1", "cpu.idle was 1 (only where nothing else wants the CPU), promised"),
        ("memory.high", "4096", "memory.high was 4096 bytes, promised max"),
    ],
)
def test_a_file_that_takes_a_promise_away(file: str, text: str, reason: str) -> None:
    """A container that is idle, or slowed down below its memory, although its kubelet asked for neither: failed."""
    files = capture("B1-4")
    base = failed(files)
    beside(files, G2, file, text)

    assert set(failed(files)) == {*base, ("applied", G2)}
    assert reason in judged(files)["applied", G2].reason


QOS = "featureGates: {MemoryQoS: true}\n"
"""Of ``bu-node1`` 32 MiB are requested, and 64 MiB are the limit; of ``g2-node1`` both are equal."""


@pytest.mark.parametrize(
    ("version", "settings", "name", "least"),
    [
        ("v1.36.2", "", "bu-node1/main", None),
        ("v1.26.5", QOS, "bu-node1/main", 53_687_091),  # 0.8 x limit
        ("v1.26.5", QOS + "memoryThrottlingFactor: 0.5\n", "bu-node1/main", None),  # no more than the request
        ("v1.27.0", QOS, "bu-node1/main", 63_753_420),  # request + 0.9 x (limit - request)
        ("v1.36.2", QOS + "memoryThrottlingFactor: 0.5\n", "bu-node1/main", 50_331_648),
        ("v1.36.2", QOS, "be-node1/main", None),
        ("v1.37.0", "", "bu-node1/main", None),
        ("v1.37.0", "memoryThrottlingFactor: 0.9\n", "bu-node1/main", 63_753_420),
        ("v1.37.0", "memoryThrottlingFactor: 0.9\n", G2, None),
        ("", QOS, "bu-node1/main", 63_753_420),  # its metrics are those of v1.33 or later
    ],
)
def test_memory_high_by_release_and_gate(version: str, settings: str, name: str, least: int | None) -> None:
    """Between request and limit, where the kubelet asks for it; else ``max`` (no ``least``)."""
    files = capture("B1-4")
    files[CONFIG] += settings.encode()
    if version:
        files["capture.json"] = json.dumps({"kubelet_version": version}).encode()
        del files["metrics_managers.txt"]
    for text, outcome in (("max", "passed"), (str(least or 64 << 20), "passed" if least else "failed")):
        beside(files, name, "memory.high", text)
        assert judged(files)["applied", name].outcome == outcome
    beside(files, name, "memory.high", str((least or 64 << 20) - (64 << 10)))
    assert judged(files)["applied", name].outcome == "failed"


def test_memory_high_that_follows_the_nodes_memory() -> None:
    """Since v1.37 a container without request and limit has one: how low it may be is not known here."""
    files = capture("B1-4")
    files[CONFIG] += b"memoryThrottlingFactor: 0.9\n"
    files["capture.json"] = json.dumps({"kubelet_version": "v1.37.0"}).encode()
    del files["metrics_managers.txt"]
    beside(files, "be-node1/main", "memory.high", "1048576")
    assert "beyond it its tasks are slowed down" in judged(files)["applied", "be-node1/main"].reason


def test_memory_high_that_a_runtime_was_told() -> None:
    """What an NRI plugin has its runtime write is what was asked for; less than that is not."""
    files = capture("B1-4")
    ident = rows(files)[G2]["id"]
    with part(files, "containers.json") as data:
        data[ident]["resources"]["unified"] = {"memory.high": "65536000"}
    for text, outcome in (("65536000", "passed"), ("4096", "failed"), ("max", "passed")):
        beside(files, G2, "memory.high", text)
        assert judged(files)["applied", G2].outcome == outcome


def test_a_partition_is_reported() -> None:
    """Nothing promised that the kernel balances tasks within a container: passed, and the reason says it."""
    files = capture("B1-4")
    beside(files, G2, "cpuset.cpus.partition", "isolated")
    verdict = judged(files)["applied", G2]

    assert verdict.outcome == "passed"
    assert verdict.measures["partition"] == "isolated"


BURSTABLE = ("applied", "burstable/(qos)")


@pytest.mark.parametrize(("weight", "outcome"), [("9999", "failed"), ("0", "failed"), ("8", "passed"), ("1", "passed")])
def test_the_weight_of_the_burstable_class_has_bounds(weight: str, outcome: str) -> None:
    """More than the machine has was never asked for; of pods that may be young nothing is the least."""
    files = capture("B1-4")
    files["cgroup/kubepods/burstable/cpu.weight"] = f"{weight}\n".encode()

    assert judged(files)[BURSTABLE].outcome == outcome


def class_of(*pods: tuple[float, int], cpus: int | None = 4) -> ClassSum:
    return ClassSum(pods=pods, cpus=cpus)


@pytest.mark.parametrize(
    ("known", "now_s", "between"),
    [
        (class_of((100.0, 500), (100.0, 250)), 190.0, (768, 4096)),
        (class_of((100.0, 500), (101.0, 250)), 190.0, (512, 4096)),
        (class_of((100.0, 500)), 110.0, (2, 4096)),
        (class_of((100.0, 500)), None, (2, 4096)),
        (class_of(cpus=None), 1000.0, (2, MAX_SHARES)),
    ],
)
def test_a_pod_is_in_the_sum_when_a_minute_is_over(
    known: ClassSum, now_s: float | None, between: tuple[int, int]
) -> None:
    """The kubelet sums up once a minute; no later than half of one more the pod counts."""
    assert known.shares_between(now_s, 0.0) == between


@pytest.mark.parametrize(
    ("started_s", "least"), [(0.0, 512), (910.0, 512), (911.0, 2), (1000.0, 2), (None, 2)], ids=str
)
def test_a_kubelet_that_has_just_started_has_not_summed_up(started_s: float | None, least: int) -> None:
    """It writes the least there is before it knows the pods that run, and the sum within its minute."""
    known = {"/kubepods/burstable": class_of((100.0, 500))}
    burstable = Claim(name="burstable/(qos)", cgroup="/kubepods/burstable", shares_between=(2, 4096))

    assert with_bounds(burstable, known, 1000.0, started_s).shares_between == (least, 4096)


def test_the_bounds_of_a_followed_node_go_with_the_time() -> None:
    """Of the class alone: the same facts come to a higher least when a pod has run for long enough."""
    known = {"/kubepods/burstable": class_of((100.0, 500))}
    burstable = Claim(name="burstable/(qos)", cgroup="/kubepods/burstable", shares_between=(2, 4096))
    other = Claim(name="besteffort/(qos)", cgroup="/kubepods/besteffort", shares=2)

    assert with_bounds(burstable, known, 150.0, 0.0).shares_between == (2, 4096)
    assert with_bounds(burstable, known, 190.0, 0.0).shares_between == (512, 4096)
    assert with_bounds(other, known, 190.0, 0.0) == other
