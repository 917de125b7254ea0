"""``pinproof plan`` of a kubelet's own files, and what changes with an option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import validators
from tests.unit.toolkit.cli.command_line import Ended, pinproof
from tests.unit.toolkit.host.sysroots import cpu, node, write
from toolkit.sources.kubelet.files.capture import read_bundle_files

DATA = Path(__file__).resolve().parents[3] / "data"
CAPTURE = DATA / "captures" / "B1-4-gmix-and-rejections.tar.gz"
"""Two nodes of four CPUs; full-pcpus-only, single-numa-node, 0-1 reserved."""
PARTITION = "systemPartition: {cpuset: '0'}\nfeatureGates: {NodeSystemPartition: true}\n"
EMPTY = ("--capture", CAPTURE, "--drained", "--kubelet-config", DATA / "kubelet" / "config.yaml")
"""The same node without what its pods hold: a configuration that is given is asked about as of an empty node."""
SCENARIOS = Path(validators.__file__).parent / "scenarios"
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: odd}
spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "1", memory: 64Mi}}}]}
---
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: whole}
    spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "2", memory: 64Mi}}}]}
"""


def plan(*arguments: object) -> Ended:
    """Run the verb."""
    return pinproof("plan", *arguments)


def answer(*arguments: object) -> dict[str, Any]:
    """Run the verb with ``--json``, and return its one document."""
    result = plan(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    assert len(found) == 1
    return found[0]


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    """A folder with a file of two pods, and one that is not read."""
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "10-both.yaml").write_text(PODS)
    (tmp_path / "pods" / "notes.txt").write_text("no pod")
    return tmp_path / "pods"


def cpus(document: dict[str, Any]) -> dict[str, str]:
    """Return the exclusive CPUs by pod and container."""
    return {
        f"{pod['name']}/{container['name']}": container["cpus"]
        for pod in document["pods"]
        for container in pod["containers"]
        if container["isolation"] == "container"
    }


@pytest.mark.parametrize("name", ["B1-4-gmix-and-rejections", "A-2-g1-just-started"])
def test_a_captured_node_is_planned_as_its_kubelet_decided(name: str) -> None:
    """From configuration, machine and pods alone the plan gives what the node's real kubelet wrote down."""
    document = answer("--capture", DATA / "captures" / f"{name}.tar.gz")
    truth = json.loads((DATA / "captures" / f"{name}.truth.json").read_text())
    rows = truth["containers"] if isinstance(truth, dict) else truth
    real = {f"{row['pod']}/{row['container']}": row["state_cpus"] for row in rows if row["in_state"]}
    assert real
    assert cpus(document["plan"]) == real
    assert document["model"] == "v1.36.2"


def test_configuration_and_pods_of_files_on_another_machine(pods: Path) -> None:
    """What is given goes before what the capture holds; a pod that the kubelet refuses is an answer."""
    document = answer(
        "--capture", CAPTURE, "--drained", "--kubelet-config", DATA / "kubelet" / "config.yaml", "--pods", pods
    )
    first, second = document["plan"]["pods"]
    assert (first["name"], first["admitted"], first["reason"]) == ("odd", False, "SMTAlignmentError")
    assert second["containers"][0]["cpus"] == "2-3"


def test_what_changes_with_an_option(pods: Path) -> None:
    """Without full-pcpus-only the odd pod comes in, and takes half a core from the other."""
    document = answer("--capture", CAPTURE, "--pods", pods, "--drained", "--diff", "full-pcpus-only=false")
    rows = {
        (row["pod"], row["container"], row["what"]): (row["before"], row["after"]) for row in document["differences"]
    }
    assert rows["odd", None, "admission"][1] == "admitted"
    assert rows["odd", "main", "CPUs"] == (None, "2")
    assert rows["(node)", None, "shared pool"] == ("4-7", "3,6-7")
    assert rows["whole", "main", "CPUs"] == ("2-3", "4-5")
    text = plan("--capture", CAPTURE, "--pods", pods, "--drained", "--diff", "full-pcpus-only=false").stdout
    assert "SMTAlignmentError" in text
    assert "v1.36.2" in text
    assert max(len(line) for line in text.splitlines() if "  " in line) <= 80


def test_an_option_that_changes_nothing(pods: Path) -> None:
    """Where both plans are equal the answer is a sentence, and an empty list."""
    arguments = ("--capture", CAPTURE, "--pods", pods, "--drained", "--diff", "full-pcpus-only=true")
    assert answer(*arguments)["differences"] == []
    assert "Nothing changes" in plan(*arguments).stdout


def test_an_option_that_changes_a_guarantee_alone(pods: Path) -> None:
    """The pod has whole cores with and without the option, which guarantees them: that is not nothing."""
    arguments = ("--capture", CAPTURE, "--drained", "--pods", pods / "10-both.yaml", "--diff", "full-pcpus-only=false")
    (pods / "10-both.yaml").write_text(PODS.replace('"1"', '"2"'))
    rows = answer(*arguments)["differences"]
    assert {(row["what"], row["before"], row["after"]) for row in rows} == {("guaranteed", "smt, numa", "numa")}
    assert "Nothing changes" not in plan(*arguments).stdout


def test_pods_of_one_name(tmp_path: Path) -> None:
    """Each is named by its namespace, in every table; by its UID where that is the same, too."""
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main"}]}}
    names = [{"namespace": "one"}, {"namespace": "two", "uid": "a"}, {"namespace": "two", "uid": "b"}]
    found = [{**pod, "metadata": {"name": "db", **name}} for name in names]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
    arguments = (*EMPTY, "--pods", tmp_path)
    expected = ["one/db", "two/db (a)", "two/db (b)"]
    assert [pod["name"] for pod in answer(*arguments)["plan"]["pods"]] == expected
    assert all(f"{name}/main: " in plan(*arguments).stdout for name in expected)


@pytest.mark.parametrize(
    ("phase", "ran", "left_out"),
    [
        ("Succeeded", True, True),
        ("Failed", True, True),
        ("Failed", False, False),
        ("Running", True, False),
        ("Pending", False, False),
    ],
)
def test_a_pod_that_has_ended_holds_no_cpus(tmp_path: Path, phase: str, *, ran: bool, left_out: bool) -> None:
    """A kubelet admits it no more; one that it refused is asked about again."""
    status = {"phase": phase, "containerStatuses": [{"name": "main"}] if ran else []}
    first, second = (
        {"name": name, "image": "x", "resources": {"limits": {"cpu": "2", "memory": "64Mi"}}}
        for name in ("main", "other")
    )
    pods = [
        {"metadata": {"name": "job"}, "spec": {"containers": [first]}, "status": status},
        {"metadata": {"name": "next"}, "spec": {"containers": [second]}},
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": pods}))
    arguments = (*EMPTY, "--pods", tmp_path)
    document = answer(*arguments)
    assert cpus(document["plan"])["next/other"] == ("2-3" if left_out else "4-5")
    assert ("warnings" in document) is left_out
    warned = "pinproof: pods that have ended are left out, with what they held while others came: job\n"
    assert plan(*arguments).stderr == (warned if left_out else "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("full-pcpu-only=true", "expected full-pcpus-only"),
        ("full-pcpus-only", "expected OPTION=VALUE"),
        ("PodLevelResources=yes", "expected true or false"),
        ("kubeReserved=1", "expected kubeReserved.KEY=VALUE"),
        ("distribute-cpus-across-cores=true", "the kubelet does not start"),
        ("reservedSystemCPUs=99", "the kubelet does not start"),
    ],
)
def test_options_that_cannot_be_switched_on(pods: Path, change: str, message: str) -> None:
    """One line, exit code 2: a misspelt option, no value, a wrong one, a kubelet that would not start."""
    result = plan("--capture", CAPTURE, "--pods", pods, "--drained", "--diff", change)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("version", [[], ["--kubelet-version", "v1.36.1+f67aeb3"]])
def test_gates_of_a_distribution_are_warned_of(pods: Path, tmp_path: Path, version: list[str]) -> None:
    """As OpenShift's kubelet does, which starts with them; the plan is that of the configuration without them."""
    config, own = tmp_path / "config.yaml", (DATA / "kubelet" / "config.yaml").read_text()
    arguments = ("--capture", CAPTURE, "--drained", "--kubelet-config", config, "--pods", pods, *version)
    config.write_text(own + "featureGates: {GatewayAPI: true, AzureWorkloadIdentity: false, PodLevelResources: true}\n")
    made = plan(*arguments)
    assert made.exit_code == 0
    assert made.stderr == (
        "pinproof: feature gates that are none of Kubernetes v1.36 are left out: AzureWorkloadIdentity, GatewayAPI; "
        "Kubernetes' own kubelet does not start with them, what a distribution's changes by them is not known\n"
    )
    config.write_text(own + "featureGates: {PodLevelResources: true}\n")
    assert made.stdout == plan(*arguments).stdout
    config.write_text(own + "featureGates: {GatewayAPI: true, InPlacePodVerticalScaling: false}\n")
    locked = plan(*arguments)
    assert (locked.exit_code, "InPlacePodVerticalScaling to false, feature is locked" in locked.stderr) == (2, True)


def test_a_mistyped_gate_of_a_scenario_is_an_error(tmp_path: Path) -> None:
    """It is written for the model, which is of Kubernetes' own kubelet."""
    scenario = tmp_path / "typo.yaml"
    lines = (SCENARIOS / "adjuster-other-class.yaml").read_text().split("kubelet:\n", 1)
    scenario.write_text("kubelet:\n  featureGates: {PodLevelResourceManager: true}\n".join(lines))
    result = plan(scenario)
    assert (result.exit_code, "unrecognized feature gate: PodLevelResourceManager" in result.stderr) == (2, True)


def test_a_kubelet_of_another_version_is_warned_of(pods: Path, tmp_path: Path) -> None:
    """Its own feature gates are left out with a warning; a v1.36 with them would not start."""
    config = tmp_path / "config.yaml"
    config.write_text((DATA / "kubelet" / "config.yaml").read_text() + "featureGates: {OfTomorrow: true}\n")
    arguments = ("--capture", CAPTURE, "--drained", "--kubelet-config", config, "--pods", pods)
    same = plan(*arguments, "--kubelet-version", "v1.36.0")
    assert same.exit_code == 2
    assert "unrecognized feature gate: OfTomorrow" in same.stderr
    other = plan(*arguments, "--kubelet-version", "v1.37.0")
    assert other.exit_code == 0
    assert other.stderr == (
        "pinproof: the kubelet is v1.37.0, the model is of v1.36.2: the decisions of v1.37.0 may differ; "
        "feature gates that v1.36 does not take are left out: OfTomorrow\n"
    )
    ends = "the decisions of v1.37.0 may differ. Gates that it has on by default, and are not modelled: MemoryQoS."
    assert " ".join(other.stdout.split()).endswith(ends)
    known = plan("--capture", CAPTURE, "--pods", pods, "--kubelet-version", "v1.36.0")
    assert "other v1.36\nreleases are taken to agree." in known.stdout


ACROSS_CORES = """
cpuManagerPolicyOptions: {distribute-cpus-across-cores: "true"}
featureGates: {CPUManagerPolicyAlphaOptions: true}
"""


def planned_as(version: str, tmp_path: Path, config: str, pod: str) -> Any:
    """The plan of one pod as a kubelet of a release, on the captured machine."""
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "config.yaml").write_text(head + "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n" + config)
    (tmp_path / "pod.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {pod}\n")
    arguments = (
        "--capture",
        CAPTURE,
        "--drained",
        "--kubelet-config",
        tmp_path / "config.yaml",
        "--pods",
        tmp_path / "pod.yaml",
    )
    return plan(*arguments, "--kubelet-version", version, "--json")


@pytest.mark.parametrize(
    ("version", "quota"), [("1.28.0", 400000), ("1.32.5", 400000), ("1.33.1", -1), ("1.36.2", -1), ("1.37.0", -1)]
)
def test_owners_of_cpus_have_a_quota_until_v133(version: str, quota: int, tmp_path: Path) -> None:
    """The container's and its pod's. Source: docs/catalogue.md C39; gate DisableCPUQuotaWithExclusiveCPUs."""
    amounts = "{cpu: '4', memory: 64Mi}"
    pod = f"{{containers: [{{name: c, image: x, resources: {{requests: {amounts}, limits: {amounts}}}}}]}}"
    (made,) = json.loads(planned_as(version, tmp_path, "", pod).stdout)[0]["plan"]["pods"]
    assert (made["quota_us"], made["containers"][0]["quota_us"], made["containers"][0]["period_us"]) == (
        quota,
        quota,
        100000,
    )
    assert made["containers"][0]["isolation"] == "container"


@pytest.mark.parametrize(("version", "quota"), [("1.32.0", -1), ("1.33.4", -1), ("1.34.0", 100000), ("1.37.1", 100000)])
def test_a_pods_budget_counts_since_v134(version: str, quota: int, tmp_path: Path) -> None:
    """Before, its containers alone say what it asks for, unless the gate is set."""
    amounts = "{cpu: '1', memory: 64Mi}"
    pod = f"{{resources: {{requests: {amounts}, limits: {amounts}}}, containers: [{{name: c, image: x}}]}}"
    (made,) = json.loads(planned_as(version, tmp_path, "", pod).stdout)[0]["plan"]["pods"]
    assert (made["quota_us"], made["qos_class"]) == (quota, "BestEffort" if quota < 0 else "Guaranteed")
    given = planned_as(version, tmp_path, "featureGates: {PodLevelResources: true}\n", pod)
    assert json.loads(given.stdout)[0]["plan"]["pods"][0]["quota_us"] == 100000


@pytest.mark.parametrize(
    ("version", "config", "line"),
    [
        ("v1.37.0", PARTITION, "not read: systemPartition (pods of the system have CPUs"),
        ("v1.37.0", "memoryThrottlingFactor: 0.8\n", "not read: memoryThrottlingFactor (memory.high"),
        ("v1.37.0", "memoryReservationPolicy: TieredReservation\n", "not read: memoryReservationPolicy (memory.min"),
        ("v1.36.2", "memoryThrottlingFactor: 0.8\n", ""),
        ("v1.36.2", "systemPartition: {cpus: '0'}\n", "systemPartition is a field since v1.37"),
        ("v1.38.0", "cpuManagerPolicyOptions: {distribute-cpus-across-numa: 'true'}\n", "140766"),
        (
            "v1.38.0",
            ACROSS_CORES,
            "v1.38.0 decides distribute-cpus-across-cores otherwise: CPUs are taken by topology, not by number",
        ),
    ],
)
def test_what_a_release_passes_over_or_decides_otherwise_is_named(
    version: str, config: str, line: str, tmp_path: Path
) -> None:
    """Only where it makes a difference: the field is obeyed, the option is on."""
    made = planned_as(version, tmp_path, config, "{containers: [{name: c, image: x}]}")
    assert made.exit_code == 0
    if "140766" in line:
        assert line not in made.stderr
    elif line:
        assert line in made.stderr
    else:
        assert made.stderr == ""


def test_options_and_gates_that_a_release_does_not_have_are_refused(tmp_path: Path) -> None:
    """As its kubelet would: it does not start with them."""
    pod = "{containers: [{name: c, image: x}]}"
    option = planned_as("1.30.0", tmp_path, "cpuManagerPolicyOptions: {distribute-cpus-across-cores: 'true'}\n", pod)
    assert (option.exit_code, "unknown CPU Manager Policy option" in option.stderr) == (2, True)
    beta = planned_as("1.34.0", tmp_path, "cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}\n", pod)
    assert beta.exit_code == 0
    early = planned_as("1.32.0", tmp_path, "cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}\n", pod)
    assert "Alpha-level Options not enabled" in early.stderr
    period = planned_as("1.35.0", tmp_path, "cpuCFSQuotaPeriod: 50ms\n", pod)
    assert "50ms requires feature gate CustomCPUCFSQuotaPeriod" in period.stderr
    assert planned_as("1.36.0", tmp_path, "cpuCFSQuotaPeriod: 50ms\n", pod).exit_code == 0
    given = "cpuCFSQuotaPeriod: 50ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}\n"
    assert planned_as("1.28.0", tmp_path, given, pod).exit_code == 0
    gate = planned_as("1.35.0", tmp_path, "featureGates: {PodLevelResourceManagers: true}\n", pod)
    assert (gate.exit_code, "unrecognized feature gate: PodLevelResourceManagers" in gate.stderr) == (2, True)


def test_sidecars_before_there_were_any_are_named(tmp_path: Path) -> None:
    """A plan has them all the same, and says so."""
    pod = "{initContainers: [{name: s, image: x, restartPolicy: Always}], containers: [{name: c, image: x}]}"
    assert "1.27.0 knows no sidecar containers" in planned_as("1.27.0", tmp_path, "", pod).stderr
    assert "sidecar" not in planned_as("1.29.0", tmp_path, "", pod).stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Deployment\napiVersion: apps/v1\n", "kind 'Deployment'"),
        ("", "no Pod"),
        ("apiVersion: v1\nkind: List\nitems: 3\n", "expected a list of Pods"),
        ("apiVersion: v1\nkind: PodList\nitems: [3]\n", ".items[0]"),
        ("a: [", "not YAML"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: web-}\nspec: {containers: [{name: a}]}\n",
            ".metadata: no name, only generateName; expected a name: the API server",
        ),
    ],
)
def test_files_that_are_no_pods(tmp_path: Path, text: str, message: str) -> None:
    """They are refused in one line that names the file."""
    (tmp_path / "pod.yaml").write_text(text)
    result = plan("--capture", CAPTURE, "--pods", tmp_path / "pod.yaml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert str(tmp_path) in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_capture_without_a_machine_needs_one(pods: Path) -> None:
    """A capture that says nothing of the CPUs is planned on a machine that is given."""
    capture = DATA / "captures" / "D-5-be-main-tampered-0-1.tar.gz"
    result = plan("--capture", capture, "--pods", pods)
    assert result.exit_code == 2
    assert "--topology DIR" in result.stderr


def test_a_kubelet_that_is_configured_by_flags_alone(pods: Path, tmp_path: Path) -> None:
    """It has no file, and is planned; one whose file was not captured is not."""
    folder = tmp_path / "capture"
    cmdline = folder / "kubelet" / "cmdline"
    cmdline.parent.mkdir(parents=True)
    for name in ("sysfs.txt", "pods.json"):
        (folder / name).write_bytes(read_bundle_files(CAPTURE)[name])
    cmdline.write_text("kubelet\0--cpu-manager-policy=static\0--reserved-cpus=0-1\0")
    document = answer("--capture", folder, "--pods", pods)
    assert document["plan"]["reserved_cpus"] == "0-1"
    cmdline.write_text("kubelet\0--config=/etc/kubelet.yaml\0--cpu-manager-policy=static\0")
    refused = plan("--capture", folder, "--pods", pods)
    assert refused.exit_code == 2
    assert "/etc/kubelet.yaml was not read" in refused.stderr


def test_a_scenario_names_files_beside_it(pods: Path, tmp_path: Path) -> None:
    """``kubeletConfig`` and ``podFiles`` are relative to the scenario; its own settings go over the file's."""
    (tmp_path / "kubelet.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
        'reservedSystemCPUs: "0"\ntopologyManagerScope: pod\nport: 10250\n'
    )
    scenario = tmp_path / "scenario.yaml"
    head = "apiVersion: pinproof/v1\nkind: Scenario\nname: one\ntitle: One\n"
    scenario.write_text(f"{head}kubeletConfig: kubelet.yaml\nkubelet: {{cpuManagerPolicy: none}}\npodFiles: [pods]\n")
    document = answer(scenario)
    assert document["plan"]["cpu_manager_policy"] == "none"
    assert [pod["name"] for pod in document["plan"]["pods"]] == ["odd", "whole"]
    assert answer(scenario, "--diff", "cpuManagerPolicy=static")["after"]["reserved_cpus"] == "0"
    scenario.write_text(f"{head}podFiles: [../nowhere.yaml]\n")
    assert "no such file" in plan(scenario).stderr
    scenario.write_text(head)
    assert "pods: none" in plan(scenario).stderr


def test_one_question_at_a_time(pods: Path) -> None:
    """Scenarios and a kubelet's files at once, or neither, is a usage error."""
    assert plan().exit_code == 2
    assert plan("scenario.yaml", "--pods", pods).exit_code == 2


def test_a_mistyped_field_is_said(tmp_path: Path, pods: Path) -> None:
    """The plan is that of a kubelet, which goes on without it; what was meant is named, of the drop-ins as well."""
    config, folder = tmp_path / "config.yaml", tmp_path / "d"
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    folder.mkdir()
    config.write_text(f"{head}cpuManagerPolicy: static\nreservedCpus: 0-4\nkubeReserved: {{cpu: 500m}}\n")
    (folder / "10.conf").write_text(f"{head}topologyManagerPolicies: restricted\n")
    ended = plan("--capture", CAPTURE, "--drained", "--kubelet-config", config, "--config-dir", folder, "--pods", pods)
    assert ended.exit_code == 0
    assert f"{config}: reservedCpus is no field of KubeletConfiguration: a kubelet goes on without it" in ended.stderr
    assert "(did you mean reservedSystemCPUs?)" in ended.stderr
    assert f"{folder / '10.conf'}: topologyManagerPolicies is no field" in ended.stderr
    assert "reserved CPU 0," in ended.stdout


def test_the_remedy_fits_a_machine_with_two_kinds_of_cores(tmp_path: Path) -> None:
    """Nothing is offline there: whole cores are reserved, and then the finding is gone; else SMT is what can go."""
    machine = tmp_path / "machine"
    for number in range(12):
        core, siblings = (
            (number // 2, f"{number // 2 * 2}-{number // 2 * 2 + 1}") if number < 4 else (number, str(number))
        )
        write(
            machine,
            cpu(
                number,
                core=core,
                thread_siblings_list=siblings,
                thread_siblings=f"{3 << core * 2 if number < 4 else 1 << number:x}",
            ),
        )
    node(machine, 0, tuple(range(12)), 8 << 20, "10")
    write(
        machine,
        {"sys/devices/system/cpu/online": "0-11", "proc/cmdline": "quiet", "proc/meminfo": "MemTotal: 8388608 kB"},
    )
    config, pod = tmp_path / "config.yaml", tmp_path / "pod.yaml"
    pod.write_text(PODS.split("---")[0].replace('cpu: "1"', 'cpu: "2"'))
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
    found = {}
    for reserved in ("0", "0-1"):
        config.write_text(f"{head}reservedSystemCPUs: '{reserved}'\n")
        (data,) = json.loads(plan("--kubelet-config", config, "--pods", pod, "--sysroot", machine, "--json").stdout)
        found[reserved] = {one["id"]: one["remedy"] for one in data.get("findings", [])}
    assert found["0"]["reserved-cpus-owned"] == "Reserve whole cores (reservedSystemCPUs: 0-1), and plan again."
    assert found["0"]["reserved-half-core"] == "Reserve whole cores (reservedSystemCPUs: 0-1)."
    assert not {"reserved-cpus-owned", "reserved-half-core"} & set(found["0-1"])
    assert not [one for one in found["0"].values() if "offline" in one]
