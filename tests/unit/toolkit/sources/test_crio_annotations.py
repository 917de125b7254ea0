"""What CRI-O's and OpenShift's annotations promise of a node's containers, and whether the node keeps it."""

from __future__ import annotations

import json

import pytest

from tests.unit.toolkit.sources.edited import Files, capture, document, failed, judged, part, place, rows, unmanaged
from tests.unit.toolkit.sources.kubelet.followed_node import DB, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from tests.unit.toolkit.sources.pinners import SECRET
from tests.unit.toolkit.sources.socket_server import CRI, field, pairs, sandbox, served
from toolkit.errors import InputError
from toolkit.host.cpu_settings import settings_of
from toolkit.model.cpu_tuning import CpuTuning
from toolkit.sources import crio
from toolkit.sources.kubelet.evidence import RULES, evidence_of
from toolkit.sources.kubelet.files.capture import CPU_SETTINGS
from toolkit.sources.kubelet.files.live import node_files
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of
from toolkit.sources.places import Places
from validators.registry import judge, rule_named

OWNER, BE, BU = "g1-node1/main", "be-node1/main", "bu-node1/main"
WORKLOADS = b"""[crio.runtime.workloads.management]
activation_annotation = "target.workload.openshift.io/management"
annotation_prefix = "resources.workload.openshift.io"
resources = { "cpushares" = 0, "cpuset" = "0-1" }
"""
RUNTIMES = b"""[crio.runtime]
infra_ctr_cpuset = "0-1"
[crio.runtime.runtimes.high-performance]
inherit_default_runtime = true
allowed_annotations = ["cpu-load-balancing.crio.io", "cpu-quota.crio.io", "irq-load-balancing.crio.io"]
"""
MANAGEMENT = {"target.workload.openshift.io/management": '{"effect": "PreferredDuringScheduling"}'}


def annotated(name: str, annotations: dict[str, str], *, runtime: str = "cri-o", handler: str = "") -> Files:
    """A node with policy ``none`` whose pod has these annotations. :param name: of a container of the pod."""
    files = unmanaged("D-4")
    uid = rows(files)[name]["pod_uid"]
    with part(files, "node.json") as node:
        node["version"]["runtimeName"] = runtime
        for box in node["sandboxes"]["items"]:
            if box["labels"]["io.kubernetes.pod.uid"] == uid:
                box["annotations"] |= annotations
                box["runtimeHandler"] = handler
    return files


def said(files: Files, which: str = "annotations") -> str:
    """What the claims miss of a part."""
    return "; ".join(row["reason"] for row in document(files)["missing"] if row["part"] == which)


@pytest.mark.parametrize("key", ["cpu-quota.crio.io", "cpu-quota.crio.io/main"])
def test_a_quota_that_is_disabled_is_none(key: str) -> None:
    """In the container's cgroup and in its pod's; of another container of the pod it says nothing."""
    before = unmanaged("D-4")
    assert {("applied", OWNER), ("applied", "g1-node1/(pod)")} <= failed(before).keys()
    files = annotated(OWNER, {key: "disable"})
    assert (rows(files)[OWNER]["quota_us"], rows(files)["g1-node1/(pod)"]["quota_us"]) == (-1, -1)
    assert {("applied", OWNER), ("applied", "g1-node1/(pod)")}.isdisjoint(failed(files))
    assert rows(annotated(OWNER, {"cpu-quota.crio.io/other": "disable"}))[OWNER]["quota_us"] == 100_000
    assert rows(annotated(OWNER, {key: "enable"}))[OWNER]["quota_us"] == 100_000


def test_a_quota_that_stays_fails() -> None:
    files = annotated(OWNER, {"cpu-quota.crio.io": "disable"})
    with part(files, "cgroup.json") as tree:
        for path, controls in tree["cpu"].items():
            if path.endswith(rows(files)[OWNER]["id"]):
                controls["cpu.cfs_quota_us"] = "100000"
    assert failed(files)["applied", OWNER] == "the quota was 100 ms / 100 ms, promised no quota"


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        pytest.param(BU, {}, "CRI-O obeys it of containers with whole CPUs in Guaranteed pods alone", id="burstable"),
        pytest.param(OWNER, {"runtime": "containerd"}, "the runtime is containerd", id="another-runtime"),
        pytest.param(OWNER, {"handler": "runc"}, "does not allow it for runtime handler runc", id="not-allowed"),
    ],
)
def test_what_crio_does_not_obey_is_no_promise(name: str, changes: dict[str, str], reason: str) -> None:
    """And is said: the pod's author relies on it."""
    files = annotated(name, {"cpu-quota.crio.io": "disable"}, **changes)
    plain = b'[crio.runtime.runtimes.runc]\nallowed_annotations = ["io.containers.trace-syscall"]\n'
    files[crio.FILE] = crio.kept_configuration([("a", RUNTIMES), ("b", plain)])
    assert rows(files)[name]["quota_us"] == rows(unmanaged("D-4"))[name]["quota_us"]
    assert reason in said(files)


def test_an_allowed_annotation_is_obeyed() -> None:
    files = annotated(OWNER, {"cpu-quota.crio.io": "disable"}, handler="high-performance")
    files[crio.FILE] = crio.kept_configuration([("a", RUNTIMES)])
    assert (rows(files)[OWNER]["quota_us"], said(files)) == (-1, "")


IRQS = """/proc/irq/default_smp_affinity: 1
/proc/irq/9/smp_affinity_list: 0-1
/proc/irq/9/effective_affinity_list: 0
/proc/irq/10/smp_affinity_list: 0
/proc/irq/10/effective_affinity_list:
/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us: n/a
/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor: performance
"""
TUNED = {
    "irq-load-balancing.crio.io": "disable",
    "cpu-c-states.crio.io": "disable",
    "cpu-freq-governor.crio.io": "performance",
}


def tuned(old: str = "", new: str = "") -> Files:
    """A node whose container on CPU 1 has all these annotations. :param old, new: what its machine says otherwise."""
    files = annotated(OWNER, TUNED | {"cpu-quota.crio.io": "disable"})
    with part(files, "node.json") as node:
        node["status"][rows(files)[OWNER]["id"]]["draCpus"] = {"u": "1"}
    files["cdi/dra.k8s.io-cpu_claim-u.json"] = json.dumps(
        {"kind": "dra.k8s.io/cpu", "devices": [{"name": "claim-u", "containerEdits": {"env": ["DRA_CPUSET_u=1"]}}]}
    ).encode()
    assert old in IRQS
    files[CPU_SETTINGS] = IRQS.replace(old, new).encode()
    return files


def test_cpus_that_are_tuned_as_promised() -> None:
    verdict = judged(tuned())["applied", OWNER]
    assert (verdict.outcome, verdict.reason[:1]) == ("passed", str(verdict.measures["files_compared_count"])[:1])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        pytest.param(
            "9/effective_affinity_list: 0",
            "9/effective_affinity_list: 1",
            "the interrupts were not kept away: interrupt 9 goes to CPU 1, and may go to CPUs 0-1",
            id="an-interrupt",
        ),
        pytest.param("smp_affinity: 1", "smp_affinity: 3", "of new devices may go to CPU 1", id="new-devices"),
        pytest.param("n/a", "0", "pm_qos_resume_latency_us of CPU 1 was 0, promised n/a", id="idle-states"),
        pytest.param(": performance", ": powersave", "scaling_governor of CPU 1 was powersave", id="governor"),
    ],
)
def test_cpus_that_are_not(old: str, new: str, reason: str) -> None:
    assert reason in failed(tuned(old, new))["applied", OWNER]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        pytest.param(
            "0\n/proc/irq/10/effective_affinity_list:",
            "1\n/proc/irq/10/effective_affinity_list: 1",
            "interrupt 10 goes to CPU 1 alone",
            id="managed-queue",
        ),
        pytest.param(IRQS, "", "that of CPU 1 was not read", id="nothing-read"),
        pytest.param(IRQS, "/proc/irq/x: \x00\n\n::", "that of CPU 1 was not read", id="nonsense"),
        pytest.param("affinity_list", "affinity", "where they go was not read", id="no-interrupts"),
        pytest.param("cpu1/cpufreq", "cpu0/cpufreq", "that of CPU 1 was not read", id="no-governor"),
    ],
)
def test_what_is_not_known_of_tuned_cpus_is_a_doubt(old: str, new: str, reason: str) -> None:
    files = tuned(old, new) if new else tuned()
    if not new:
        del files[CPU_SETTINGS]
    verdict = judged(files)["applied", OWNER]
    assert verdict.outcome == "undecided"
    assert reason in verdict.reason


def test_what_nothing_judges_is_said() -> None:
    values = {"irq-load-balancing.crio.io": "housekeeping", "cpu-load-balancing.crio.io": "disable"}
    values |= {"cpu-shared.crio.io/main": "enable", "cpu-c-states.crio.io": "max_latency:x"}
    lines = said(annotated(OWNER, values))
    for key in ("irq-load-balancing", "cpu-load-balancing", "cpu-shared", "cpu-c-states"):
        assert f"not judged: {key}.crio.io" in lines


def test_a_management_pod_is_pinned_by_the_partition() -> None:
    """To the workload's CPUs, with the shares of its own annotation."""
    files = annotated(BE, MANAGEMENT | {"resources.workload.openshift.io/main": '{"cpushares": 20}'})
    place(files, rows(files)[BE], "0-1")
    files[crio.FILE] = crio.kept_configuration([("99-workload-pinning.conf", WORKLOADS)])
    row = rows(files)[BE]
    assert (row["cpus"], row["shares"], row["pinned_by"]) == ("0-1", 20, "CRI-O workload management")
    assert judged(files)["layers-agree", BE].outcome == "passed"
    place(files, row, "0")
    assert failed(files)["layers-agree", BE] == "CRI-O workload management and cgroup differ: CPUs 0-1 against 0"


@pytest.mark.parametrize(
    ("configuration", "own", "reason"),
    [
        pytest.param(None, None, "CRI-O's configuration was not read", id="no-configuration"),
        pytest.param(b"", None, "no workload of CRI-O's configuration is activated by it", id="no-workload"),
        pytest.param(WORKLOADS, "{", "not JSON", id="broken-values"),
        pytest.param(WORKLOADS, '{"cpuset": "x"}', "x; expected a list of CPUs", id="no-set"),
    ],
)
def test_a_partition_that_is_not_known_promises_nothing(
    configuration: bytes | None, own: str | None, reason: str
) -> None:
    values = {} if own is None else {"resources.workload.openshift.io/main": own}
    files = annotated(BE, MANAGEMENT | values)
    if configuration is not None:
        files[crio.FILE] = crio.kept_configuration([("a", configuration)])
    assert (rows(files)[BE]["cpus"], rows(files)[BE]["pinned_by"]) == (None, "")
    assert reason in said(files, "pinned")


def test_cpus_that_are_shared_stand_beside_its_own() -> None:
    """The state file has its own alone: more is no drift where CRI-O gives it, and fails where it does not."""
    files = capture("D-4")
    uid = rows(files)[OWNER]["pod_uid"]
    with part(files, "node.json") as node:
        node["version"]["runtimeName"] = "cri-o"
        for box in node["sandboxes"]["items"]:
            if box["labels"]["io.kubernetes.pod.uid"] == uid:
                box["annotations"] |= {"cpu-shared.crio.io/main": "enable"}
    place(files, rows(files)[OWNER], "0-1")
    assert ("layers-agree", OWNER) in failed(files)
    assert "which CPUs these are (shared_cpuset) is not known" in said(files)
    files[crio.FILE] = crio.kept_configuration([("a", b'[crio.runtime]\nshared_cpuset = "0"\n')])
    row = rows(files)[OWNER]
    assert (row["cpus"], row["isolation"], row["pinned_by"]) == ("0-1", "host", "CRI-O's shared_cpuset")
    assert {("layers-agree", OWNER), ("applied", OWNER)}.isdisjoint(failed(files))
    place(files, row, "1")
    assert "CRI-O's shared_cpuset and cgroup differ" in failed(files)["layers-agree", OWNER]


def test_drop_ins_apply_in_their_order() -> None:
    later = b'[crio.runtime.workloads.management]\nresources = { "cpuset" = "2" }\n'
    known = crio.configuration(crio.kept_configuration([("a", WORKLOADS), ("b", later)]).decode())
    found = crio.partitioned(MANAGEMENT, "main", known)
    assert found is not None
    assert str(found.cpus) == "2"
    assert crio.partitioned({}, "main", known) is None


def test_a_configuration_that_is_no_toml_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^99-x\.conf: not TOML") as error:
        crio.kept_configuration([("99-x.conf", SECRET.encode() + b" = [")])
    assert SECRET not in str(error.value)


def test_a_live_node_of_crio() -> None:
    """Its own files and sockets, cgroup v2: what is promised, judged, and kept without secrets."""
    values = {"cpu-load-balancing.crio.io": "disable", "kubectl.kubernetes.io/last-applied-configuration": SECRET}
    values |= {"irq-load-balancing.crio.io": "disable"}
    with made_node() as node:
        own = sandbox("cc" * 32, "u-db", "db") + pairs(6, values) + field(7, "high-performance")
        write(node.root, "etc/crio/crio.conf.d/99-runtimes.conf", RUNTIMES.decode() + f'secret = "{SECRET}"\n')
        write(node.root, "proc/irq/default_smp_affinity", "3\n")
        write(node.root, "proc/irq/7/smp_affinity_list", "0-3\n")
        write(node.root, "proc/irq/7/effective_affinity_list", "2\n")
        write(node.root, f"{KUBEPODS}/podu-db/{DB}/cpuset.cpus.partition", "isolated\n")
        answers = {"ListContainers": node.listing, "ContainerStatus": node.status_of}
        socket = node.root / "o.sock"
        version = field(2, "cri-o") + field(3, "1.33.1")
        with served(socket, CRI, Version=version, ListPodSandbox=field(1, own), **answers):
            places = Places(root=node.root, cri=f"unix://{socket}")
            files, source = node_files(places), KubeletSource(places)
            followed = [source.read().cpu_settings, source.read().cpu_settings]
    assert followed == [settings_of(files[CPU_SETTINGS].decode()), None]  # Once in a while, not each time.
    assert not any(SECRET.encode() in data for data in files.values())
    reading = reading_of(files)
    claims, evidence = evidence_of(reading, node_claims(reading))
    (claim,) = (one for one in claims.claims if one.name == "db/main")
    assert claim.tuning == CpuTuning(by="CRI-O", interrupts_elsewhere=True, partition="isolated")
    verdicts = judge(claims, evidence, [rule_named(name) for name in RULES])
    (applied,) = (one for one in verdicts if (one.rule, one.subject) == ("applied", "db/main"))
    assert applied.reason.startswith("the interrupts were not kept away: interrupt 7 goes to CPU 2, and may go to CPUs")
