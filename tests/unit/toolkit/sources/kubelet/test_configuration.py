"""A kubelet's configuration: a real file, drop-ins over it, flags over both; bad input is one line."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.recordings import CAPTURES
from toolkit.errors import InputError
from toolkit.sources.kubelet.configuration import load_configuration, read_configuration, read_flags

CAPTURED = Path(__file__).parents[4] / "data/kubelet/config.yaml"
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_a_real_file() -> None:
    """The file of a kubelet v1.36 that ran; fields of other parts of the kubelet are skipped."""
    found = load_configuration(CAPTURED)

    assert found.node.cpu_manager_policy == "static"
    assert found.node.cpu_manager_policy_options == {"full-pcpus-only": "true", "strict-cpu-reservation": "true"}
    assert found.node.reserved_system_cpus == "0-1"
    assert found.node.eviction_hard["memory.available"] == "100Mi"
    assert [(r.numa_node, str(r.limits["memory"])) for r in found.node.reserved_memory] == [(0, "300Mi"), (1, "200Mi")]
    assert (found.node.topology_manager_policy, found.node.topology_manager_scope) == ("single-numa-node", "container")
    assert found.reconcile_period_s == 10.0
    assert found.static_pod_path == "/var/lib/node/manifests"
    assert found.container_runtime_endpoint == "unix:///var/lib/node/run/containerd.sock"
    assert found.root_directory == "/var/lib/kubelet"


def test_captured_files() -> None:
    """Every configuration that lies plainly on a captured node is read."""
    assert CAPTURES
    for archive in CAPTURES:
        with tarfile.open(archive) as bundle:
            for member in bundle:
                stream = bundle.extractfile(member) if member.name.endswith("kubelet/config.yaml") else None
                if stream is not None:
                    found = read_configuration((archive.name, stream.read().decode()))
                    assert found.node.cpu_manager_policy == "static"
                    assert found.reconcile_period_s in (5.0, 10.0)


def test_without_any_file_the_defaults_hold() -> None:
    """A kubelet without file or flags has the documented defaults, its eviction threshold among them."""
    found = read_configuration(None)

    assert found.node.cpu_manager_policy == "none"
    assert found.node.eviction_hard == {"memory.available": "100Mi"}
    assert found.reconcile_period_s == 10.0


def test_drop_ins_by_name(tmp_path: Path) -> None:
    """Later names win, folders among them; mappings merge, lists are replaced, null takes back; no other endings."""
    base = tmp_path / "config.yaml"
    base.write_text(
        HEAD + "cpuManagerPolicy: static\nkubeReserved: {cpu: 500m, memory: 1Gi}\nreservedSystemCPUs: '0'\n"
    )
    folder = tmp_path / "conf.d"
    (folder / "20-x").mkdir(parents=True)
    (folder / "10-a.conf").write_text(HEAD + "kubeReserved: {cpu: '1'}\nreservedSystemCPUs: 0-1\n")
    (folder / "20-x/a.conf").write_text(
        HEAD + "reservedSystemCPUs: 0-2\ntopologyManagerScope: pod\ncpuManagerReconcilePeriod: 1m30s\n"
    )
    (folder / "30-b.conf").write_text(
        HEAD + "cpuManagerPolicy: null\nevictionHard: {nodefs.available: 5%}\ntopologyManagerScope: container\n"
    )
    (folder / "40-no.yaml").write_text("kind: nonsense")

    found = load_configuration(base, folder)

    assert found.node.kube_reserved == {"cpu": "1", "memory": "1Gi"}
    assert found.node.reserved_system_cpus == "0-2"
    assert found.node.cpu_manager_policy == "none"
    assert found.node.eviction_hard == {"memory.available": "100Mi", "nodefs.available": "5%"}
    assert found.node.topology_manager_scope == "container"
    assert found.reconcile_period_s == 90.0


def test_a_drop_in_takes_back_one_key_of_a_mapping() -> None:
    """``null`` there is no value, at any depth; one in the main file is a value that the kubelet would refuse."""
    base = HEAD + "cpuManagerPolicyOptions: {full-pcpus-only: 'true', strict-cpu-reservation: 'true'}\n"
    took = HEAD + "cpuManagerPolicyOptions: {strict-cpu-reservation: null, align-by-socket: null}\n"

    found = read_configuration(("main", base), [("20.conf", took)])

    assert found.node.cpu_manager_policy_options == {"full-pcpus-only": "true"}
    with pytest.raises(InputError, match="strict-cpu-reservation"):
        read_configuration(("main", took))
    with pytest.raises(InputError, match=r"20\.conf"):
        read_configuration(("main", base), [("20.conf", "- 1\n")])


def test_flags_over_files() -> None:
    """A flag replaces what the files say, a mapping as a whole; feature gates alone are merged."""
    text = HEAD + (
        "cpuManagerPolicy: none\nkubeReserved: {cpu: 500m, memory: 1Gi}\ncpuCFSQuota: true\n"
        "featureGates: {PodLevelResources: true, CPUManagerPolicyAlphaOptions: false}\n"
    )
    line = (
        "--node-labels a=b --v=4 -v 2 --cpu_manager_policy static --cpu-manager-policy-options=full-pcpus-only=true "
        "--cpu-manager-policy-options strict-cpu-reservation=true --kube-reserved=cpu=1,ephemeral-storage=1Gi "
        "--kube-reserved pid=9 --feature-gates CPUManagerPolicyAlphaOptions=true --cpu-cfs-quota=false "
        "--reserved-memory 0:memory=1Gi,hugepages-2Mi=2Mi;1:memory=2Gi --root-dir /data --reserved-cpus 0,4 "
        "--eviction-hard memory.available<5% --cpu-cfs-quota-period=50ms --config /etc/k.yaml --config-dir=/etc/k.d "
        "--max-pods 250 --pods-per-core=4 --pod-manifest-path=/m "
        "--container-runtime-endpoint=unix:///crio.sock -- --cpu-manager-policy=none"
    )
    flags = read_flags(line.split())
    found = read_configuration(("config.yaml", text), (), flags)
    node = found.node

    assert (flags.config_file, flags.config_directory, found.root_directory) == ("/etc/k.yaml", "/etc/k.d", "/data")
    assert node.cpu_manager_policy == "static"
    assert node.cpu_manager_policy_options == {"full-pcpus-only": "true", "strict-cpu-reservation": "true"}
    assert node.kube_reserved == {"cpu": "1", "ephemeral-storage": "1Gi", "pid": "9"}
    assert node.feature_gates.given == {"PodLevelResources": True, "CPUManagerPolicyAlphaOptions": True}
    assert (node.cpu_cfs_quota, node.cpu_cfs_quota_period_us) == (False, 50_000)
    assert [(r.numa_node, {k: str(v) for k, v in r.limits.items()}) for r in node.reserved_memory] == [
        (0, {"memory": "1Gi", "hugepages-2Mi": "2Mi"}),
        (1, {"memory": "2Gi"}),
    ]
    assert node.eviction_hard == {"memory.available": "5%"}
    assert node.reserved_system_cpus == "0,4"
    assert (node.max_pods, node.pods_per_core) == (250, 4)
    assert (found.static_pod_path, found.container_runtime_endpoint) == ("/m", "unix:///crio.sock")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "cpuManagerPolicy: [1]", "f.cpuManagerPolicy: a list; expected a"),
        (HEAD + "cpuManagerReconcilePeriod: fast", "f.cpuManagerReconcilePeriod: 'fast'; expected a duration"),
        (HEAD + "cpuManagerReconcilePeriod: .nan", "f.cpuManagerReconcilePeriod: nan; expected a"),
        (HEAD + "staticPodPath: 7", "f.staticPodPath: 7; expected a string"),
        ("kind: Pod", "f: no apiVersion, kind 'Pod'; expected a KubeletConfiguration"),
        ("", "f: 0 YAML documents; expected one"),
        ("null", "f: nothing; expected a KubeletConfiguration"),
        ("[" * 5000, "f: not YAML"),
        (HEAD + "a: &a [1]\nb: [*a, *a]", "f: not YAML"),
        (HEAD + "featureGates: {X: maybe}", "f.featureGates.X: 'maybe'; expected true or false"),
    ],
)
def test_a_bad_file_is_one_line(text: str, line: str) -> None:
    """Where, what was found, what is expected; the base and a drop-in alike."""
    for base, drop_ins in ((("f", text), ()), (None, [("f", text)])):
        with pytest.raises(InputError) as raised:
            read_configuration(base, drop_ins)
        assert str(raised.value).startswith(line)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("argument", "place"),
    [
        ("--cpu-manager-policy", "--cpu-manager-policy: nothing"),
        ("--cpu-cfs-quota=maybe", "--cpu-cfs-quota: 'maybe'"),
        ("--max-pods=many", "--max-pods: 'many'"),
        ("--max-pods=9999999999", ".maxPods: 9999999999"),
        (f"--pods-per-core={'9' * 5000}", "--pods-per-core: '999"),
        ("--kube-reserved=cpu", "--kube-reserved: 'cpu'"),
        ("--feature-gates=A=2", "--feature-gates: A: '2'"),
        ("--reserved-memory=x:memory=1", "--reserved-memory: 'x:memory=1'"),
        (f"--reserved-memory={'9' * 5000}:memory=1", "--reserved-memory: '999"),
        ("--reserved-memory=0:memory=lots", ".reservedMemory[0].limits.memory"),
        ("--cpu-cfs-quota-period=\x1b[31m", ".cpuCFSQuotaPeriod"),
    ],
)
def test_a_bad_flag_is_one_line(argument: str, place: str) -> None:
    """The command line is named, and the flag or the field that it sets."""
    with pytest.raises(InputError) as raised:
        read_configuration(None, (), read_flags([argument]))

    assert str(raised.value).startswith("the kubelet's command line")
    assert place in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    """What cannot be read is refused, as a kubelet does."""
    with pytest.raises(InputError, match=r"none\.d: No such file"):
        load_configuration(None, tmp_path / "none.d")
    (tmp_path / "x.conf").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"x\.conf: no such file"):
        load_configuration(None, tmp_path)
