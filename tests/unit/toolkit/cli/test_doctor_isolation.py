"""``pinproof doctor --isolation``: configuration that breaks isolation, found on made trees of kernel files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.host.sysroots import CPU, cpu, node, write

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}
reservedSystemCPUs: "0-1"
"""
CGROUP = "sys/fs/cgroup"
HEALTHY: dict[str, str | int] = {
    f"{CPU}/online": "0-7",
    f"{CPU}/isolated": "",
    f"{CPU}/nohz_full": "(null)",
    "proc/cmdline": "quiet",
    "proc/meminfo": "MemTotal: 8388608 kB",
    "proc/sys/kernel/osrelease": "6.12.1",
    "proc/irq/default_smp_affinity": "3",
    "proc/irq/24/smp_affinity_list": "0-7",
    "proc/irq/24/effective_affinity_list": "1",
    "proc/77/comm": "sshd",
    "sys/devices/virtual/workqueue/cpumask": "3",
    f"{CGROUP}/cgroup.controllers": "cpuset",
    f"{CGROUP}/kubepods/cpuset.cpus.effective": "0-7",
    f"{CGROUP}/kubepods/cpuset.cpus.partition": "member",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A healthy machine: four cores of two threads, on which nothing disturbs CPUs 2-7."""
    machine = tmp_path / "machine"
    for number in range(8):
        core = number // 2
        siblings = f"{core * 2}-{core * 2 + 1}"
        write(machine, cpu(number, core=core, thread_siblings_list=siblings, thread_siblings=f"{3 << core * 2:x}"))
    node(machine, 0, tuple(range(8)), 8 << 20, "10")
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    return write(machine, HEALTHY)


def doctor(root: Path, *more: object) -> tuple[int, dict[str, dict[str, Any]]]:
    """Look at the machine, and return the exit code and the findings by id."""
    config = root.parent / "kubelet.yaml"
    ended = pinproof("doctor", "--isolation", "--sysroot", root, "--kubelet-config", config, "--json", *more)
    assert ended.stderr == ""
    data = json.loads(ended.stdout)
    return ended.exit_code, {finding["id"]: finding for finding in data["findings"]}


def test_a_healthy_machine_has_no_finding(root: Path) -> None:
    """Nothing disturbs the CPUs that can become exclusive: exit code 0."""
    assert doctor(root) == (0, {})


@pytest.mark.parametrize(
    ("files", "name", "code", "told"),
    [
        ({f"{CPU}/isolated": "4-7", "proc/cmdline": "rcu_nocbs=4-7"}, "isolcpus-in-shared-pool", 1, "4-7"),
        ({f"{CPU}/isolated": "1", "proc/cmdline": "rcu_nocbs=all"}, "isolcpus-reserved", 1, "1"),
        ({f"{CPU}/nohz_full": "0-3"}, "nohz-full-reserved", 1, "0-1"),
        ({f"{CPU}/isolated": "4-7", "proc/cmdline": "isolcpus=4-7 rcu_nocbs=4,5"}, "rcu-callbacks", 1, "6-7"),
        ({"proc/irq/24/effective_affinity_list": "5"}, "irq-affinity", 3, "5"),
        ({"proc/irq/default_smp_affinity": "ff"}, "irq-default-affinity", 3, "2-7"),
        ({"proc/88/comm": "irqbalance"}, "irqbalance", 3, "2-7"),
        (
            {"proc/88/comm": "irqbalance", "etc/default/irqbalance": 'IRQBALANCE_BANNED_CPUS="00000f0"'},
            "irqbalance",
            3,
            "2-3",
        ),
        ({"sys/devices/virtual/workqueue/cpumask": "ff"}, "workqueue-mask", 3, "2-7"),
        (
            {f"{CGROUP}/db.slice/cpuset.cpus.partition": "isolated", f"{CGROUP}/db.slice/cpuset.cpus": "6-7"},
            "cpuset-partition",
            1,
            "6-7",
        ),
        (
            {f"{CGROUP}/db.slice/cpuset.cpus.partition": "root invalid (Cpu list in cpuset.cpus not exclusive)"},
            "cpuset-partition",
            3,
            "invalid",
        ),
        ({f"{CGROUP}/kubepods/cpuset.cpus.effective": "0-5"}, "kubepods-cpuset", 1, "6-7"),
        ({"proc/sys/kernel/osrelease": "4.19.60-generic"}, "kernel-quota-slices", 3, "4.19.60"),
    ],
)
def test_each_thing_that_breaks_isolation_is_found(
    root: Path, files: dict[str, str | int], name: str, code: int, told: str
) -> None:
    """One change of the healthy machine: its finding names the CPUs, and sets the exit code."""
    write(root, files)
    exit_code, found = doctor(root)
    assert exit_code == code
    assert told in found[name]["breaks"] + found[name]["value"]
    assert found[name]["remedy"]


@pytest.mark.parametrize("pods", ["kubelet/kubepods", "kubelet.slice/kubelet-kubepods.slice"])
def test_the_pods_are_below_the_cgroup_root_of_the_configuration(root: Path, pods: str) -> None:
    """Under both drivers. Another kubelet's pods are not this one's, and partitions of pods are no other program's."""
    pod = f"{CGROUP}/{pods}/pod1/cpuset.cpus"
    write(root, {f"{CGROUP}/{pods}/cpuset.cpus.effective": "0-5", pod: "6-7", f"{pod}.partition": "root"})
    assert doctor(root) == (0, {})
    (root.parent / "kubelet.yaml").write_text(f"{KUBELET}cgroupRoot: /kubelet\n")
    exit_code, found = doctor(root)
    assert (exit_code, list(found)) == (1, ["kubepods-cpuset"])


@pytest.mark.parametrize(
    "files",
    [
        {"proc/88/comm": "irqbalance", "etc/sysconfig/irqbalance": "IRQBALANCE_BANNED_CPULIST=2-7"},
        {"proc/irq/24/effective_affinity_list": "garbage", "proc/irq/24/smp_affinity_list": "0"},
        {f"{CGROUP}/db.slice/cpuset.cpus.partition": "member", f"{CGROUP}/db.slice/cpuset.cpus": "6-7"},
    ],
)
def test_what_only_looks_alike_is_no_finding(root: Path, files: dict[str, str | int]) -> None:
    """A ban that covers the CPUs, a mended kernel, an unreadable mask: no false alarm."""
    write(root, files)
    assert doctor(root) == (0, {})


@pytest.mark.parametrize(
    ("old", "new", "name", "code"),
    [
        ('"0-1"', '"0"', "reserved-half-core", 3),
        ("{strict-cpu-reservation", "{x", "kubelet-does-not-start", 1),
        ('{strict-cpu-reservation: "true"}', "{}", "reserved-cpus-shared", 3),
        ('"true"}', '"true", distribute-cpus-across-numa: "true"}', "option-without-effect", 0),
        ("cpuManagerPolicy: static", "cpuManagerPolicy: none", "no-exclusive-cpus", 0),
    ],
)
def test_options_against_the_machine(root: Path, old: str, new: str, name: str, code: int) -> None:
    """The kubelet's configuration is held against the machine it is for."""
    (root.parent / "kubelet.yaml").write_text(KUBELET.replace(old, new))
    if name == "no-exclusive-cpus":
        (root.parent / "kubelet.yaml").write_text(KUBELET.replace(old, new).replace("cpuManagerPolicyOptions", "x"))
    exit_code, found = doctor(root)
    assert name in found
    assert exit_code == code


@pytest.mark.parametrize(
    ("release", "defects"),
    [
        ("4.14.153", {"kernel-quota-drift", "kernel-masks-reset"}),
        ("5.15.160", {"kernel-masks-reset", "kernel-burst-lost"}),
        ("5.15.161", {"kernel-masks-reset"}),
        ("6.1.93", {"kernel-masks-reset"}),
        ("6.6.32", {"kernel-burst-lost"}),
        ("6.6.33", set()),
        ("6.7.12", {"kernel-burst-lost"}),
        ("3.10.0-1160.el7", {"kernel-quota-drift", "kernel-masks-reset"}),
        ("4.14.154", {"kernel-masks-reset"}),
        ("4.19.83", {"kernel-quota-slices", "kernel-masks-reset"}),
        ("4.19.84", {"kernel-masks-reset"}),
        ("5.3.9", {"kernel-masks-reset"}),
        ("5.4.0", {"kernel-masks-reset"}),
        ("5.14.0", {"kernel-masks-reset", "kernel-burst-lost"}),
        ("6.1.0-31-amd64", {"kernel-masks-reset", "kernel-burst-lost"}),
        ("6.2", {"kernel-burst-lost"}),
        ("6.9.12", set()),
        ("6.10.0", set()),
        ("6.12.99", set()),
        ("6.13.0", {"kernel-groups-starve"}),
        ("6.18.44", {"kernel-groups-starve"}),
        ("6.18.45", set()),
        ("7.1.0", set()),
        ("made-up", set()),
    ],
)
def test_kernels_with_known_defects(root: Path, release: str, defects: set[str]) -> None:
    """By the version's number, with what each breaks and from which version it is mended."""
    write(root, {"proc/sys/kernel/osrelease": release})
    exit_code, found = doctor(root)
    assert set(found) == defects
    assert exit_code == (3 if defects else 0)
    assert all(
        one["remedy"].startswith("Use ") and "distributions may carry it" in one["remedy"] for one in found.values()
    )


@pytest.mark.parametrize(("patch", "lost"), [(90, True), (128, False)])
def test_debians_release_hides_the_version(root: Path, patch: int, lost: bool) -> None:
    """It names the interface; the version is in the build."""
    build = f"#1 SMP PREEMPT_DYNAMIC Debian 6.1.{patch}-1 (2025-02-07)"
    write(root, {"proc/sys/kernel/osrelease": "6.1.0-31-amd64", "proc/sys/kernel/version": build})

    assert ("kernel-burst-lost" in doctor(root)[1]) is lost


ALPHA = "featureGates: {CPUManagerPolicyAlphaOptions: true}\n"
CLOSEST = 'topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}\n'
ALIGNED = "topologyManagerPolicy: best-effort\n"


@pytest.mark.parametrize(
    ("more", "idle"),
    [
        (CLOSEST, {"prefer-closest-numa-nodes": "policy is none"}),
        (ALIGNED + CLOSEST, {"prefer-closest-numa-nodes": "equally close"}),
        (
            ALIGNED + 'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "9"}\n',
            {"max-allowable-numa-nodes": "up to 8"},
        ),
        (ALPHA + 'cpuManagerPolicyOptions: {distribute-cpus-across-cores: "true"}\n', {}),
        (
            ALPHA + 'cpuManagerPolicyOptions: {align-by-socket: "true"}\n',
            {"align-by-socket": "number of sockets is 1"},
        ),
    ],
    ids=["no policy", "one node", "few nodes", "cores with siblings", "one socket"],
)
def test_options_that_change_nothing_here(root: Path, more: str, idle: dict[str, str]) -> None:
    """Options of both managers are held against the machine, and against the Topology Manager's policy."""
    old = [line for line in KUBELET.splitlines(keepends=True) if "Options" not in line or "Options" not in more]
    (root.parent / "kubelet.yaml").write_text("".join(old) + more)
    config = ("--kubelet-config", root.parent / "kubelet.yaml")
    ended = pinproof("doctor", "--isolation", "--sysroot", root, *config, "--json")
    found = [one for one in json.loads(ended.stdout)["findings"] if one["id"] == "option-without-effect"]

    assert [one["value"] for one in found] == list(idle)
    assert all(idle[one["value"]] in one["breaks"] for one in found)


def test_cpus_can_be_named_without_a_kubelet(root: Path) -> None:
    """``--exclusive`` says which CPUs must be free of others; offline ones are refused."""
    write(root, {"proc/irq/24/effective_affinity_list": "5"})
    look = ("doctor", "--isolation", "--sysroot", root, "--exclusive")
    assert pinproof(*look, "6-7").exit_code == 0
    ended = pinproof(*look, "4-5")
    assert ended.exit_code == 3
    assert "interrupts 24 on 5" in ended.stdout
    assert max(len(line) for line in ended.stdout.splitlines()) <= 80
    assert pinproof(*look, "99").exit_code == 2
    assert pinproof("doctor", "--exclusive", "1").exit_code == 2


def test_what_is_not_known_is_no_empty_set(root: Path) -> None:
    """Without a kubelet's configuration shared CPUs are not known; without exclusive CPUs nothing says all is well."""
    look = ("doctor", "--isolation", "--sysroot", root)
    named = pinproof(*look, "--exclusive", "6")
    assert named.stdout.startswith("Exclusive CPU 6, shared pool and reserved CPUs unknown (--exclusive).\n")
    assert "Nothing was found that breaks or disturbs isolation." in named.stdout
    unnamed = pinproof(*look)
    assert unnamed.exit_code == 0
    assert "no CPU is known to be exclusive" in unnamed.stdout
    configured = pinproof(*look, "--kubelet-config", root.parent / "kubelet.yaml")
    assert " ".join(configured.stdout.split()).startswith("Exclusive CPUs 2-7, shared pool 2-7, reserved 0-1 (")


def test_hostile_text_forges_no_line(root: Path) -> None:
    """What a saved machine says about itself cannot steer a terminal."""
    write(root, {f"{CGROUP}/a/cpuset.cpus.partition": "isolated\x1b[2J", f"{CGROUP}/a/cpuset.cpus": "6-7"})
    ended = pinproof("doctor", "--isolation", "--sysroot", root, "--exclusive", "6-7")
    assert ended.exit_code == 1
    assert "\x1b" not in ended.stdout


def test_drop_ins_go_over_the_configuration(root: Path) -> None:
    """`--config-dir`, as a kubelet merges them: the last one reserves CPUs 2-3, and an interrupt lies on CPU 1."""
    folder = root.parent / "kubelet.d"
    write(folder, {"10-a.conf": KUBELET.replace("0-1", "6-7"), "20-b.conf": KUBELET.replace("0-1", "2-3")})
    code, found = doctor(root, "--config-dir", folder)
    assert (code, found["irq-affinity"]["outcome"]) == (3, "undecided")
    config = ("--kubelet-config", root.parent / "kubelet.yaml", "--config-dir", folder)
    said = "".join(pinproof("doctor", "--isolation", "--sysroot", root, *config).stdout.split())
    assert "reserved2-3" in said
    assert f"kubelet.yamlwith{folder}" in said, "wrapped wherever the path's length puts it"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--isolation", "--config-dir", "{}"], "--config-dir goes with --kubelet-config"),
        (["--isolation", "--kubelet-config", "{}/kubelet.yaml", "--config-dir", "{}/none"], "No such file"),
        (["--kubelet-config", "{}/kubelet.yaml", "--config-dir", "{}"], "go with --isolation"),
    ],
)
def test_a_drop_in_directory_needs_what_it_goes_over(root: Path, options: list[str], words: str) -> None:
    """One line, exit code 2."""
    ended = pinproof("doctor", "--sysroot", root, *[option.format(root.parent) for option in options])
    assert (ended.exit_code, words in ended.stderr, "Traceback" in ended.stderr) == (2, True, False)


ISOLATED: dict[str, str | int] = {f"{CPU}/isolated": "2-7", f"{CPU}/possible": "0-7"}


def without_a_kubelet(root: Path, *more: object) -> tuple[int, dict[str, dict[str, Any]]]:
    """Look at the machine for CPUs 2-7; return the exit code and the findings by id."""
    ended = pinproof("doctor", "--isolation", "--sysroot", root, "--exclusive", "2-N", "--json", *more)
    assert ended.stderr == ""
    data = json.loads(ended.stdout)
    assert data["roles"]["exclusive"] == "2-7", "the option is read as the kernel reads a list"
    return ended.exit_code, {finding["id"]: finding for finding in data["findings"]}


@pytest.mark.parametrize(
    ("text", "uncovered"),
    [
        ("rcu_nocbs=2-N", ""),
        ("rcu_nocbs=all", ""),
        ("rcu-nocbs=ALL:7/8", "7"),
        ('rcu_nocbs="2-5,6-N"', ""),
        ("rcu_nocbs=2-N:1/2", "3,5,7"),
        ("rcu_nocbs=N", "2-6"),
        ("rcu_nocbs=2-7 rcu_nocbs=2-3", "4-7"),
        ("rcu_nocbs", "2-7"),
        ("quiet", "2-7"),
        ("quiet -- rcu_nocbs=2-N", "2-7"),
        ("isolcpus=managed_irq,domain,2-N", "2-7"),
    ],
)
def test_the_kernels_own_cpu_lists_are_read(root: Path, text: str, uncovered: str) -> None:
    """``N`` is the last CPU, ``all`` is 0-N, a stride takes a part of each group; the last parameter counts."""
    write(root, ISOLATED | {"proc/cmdline": text})
    code, found = without_a_kubelet(root)
    assert code == (3 if uncovered else 0)
    assert found.get("rcu-callbacks", {"remedy": "="})["remedy"].split("=")[1].split(" ")[0] == uncovered


@pytest.mark.parametrize(
    ("files", "path", "what"),
    [
        ({"proc/cmdline": "rcu_nocbs=2-x"}, "/proc/cmdline rcu_nocbs", "RCU callbacks"),
        ({"proc/cmdline": "rcu_nocbs=N-2"}, "/proc/cmdline rcu_nocbs", "RCU callbacks"),
        ({f"{CPU}/isolated": "two"}, f"/{CPU}/isolated", "which CPUs are isolated"),
        ({f"{CPU}/nohz_full": "0-"}, f"/{CPU}/nohz_full", "which CPUs are tickless"),
        ({"proc/irq/default_smp_affinity": "xyz"}, "/proc/irq/default_smp_affinity", "interrupts of new devices"),
        ({"proc/irq/24/effective_affinity_list": "?", "proc/irq/24/smp_affinity_list": "?"}, "/proc/irq/24", "goes"),
        ({"sys/devices/virtual/workqueue/cpumask": ""}, "/sys/devices/virtual/workqueue/cpumask", "kernel workers"),
        (
            {f"{CGROUP}/db.slice/cpuset.cpus.partition": "isolated", f"{CGROUP}/db.slice/cpuset.cpus": "a-b"},
            f"/{CGROUP}/db.slice/cpuset.cpus",
            "which CPUs the partition has",
        ),
        ({f"{CGROUP}/kubepods/cpuset.cpus.effective": "0..7"}, f"/{CGROUP}/kubepods", "pods' cgroup"),
    ],
)
def test_what_cannot_be_read_is_not_none(root: Path, files: dict[str, str | int], path: str, what: str) -> None:
    """It is undecided, with the reason: no advice to add what may be there, and no clean bill."""
    write(root, ISOLATED | {"proc/cmdline": "rcu_nocbs=2-N"} | files)
    code, found = without_a_kubelet(root)
    assert (code, set(found)) == (3, {"cannot-be-read"})
    assert found["cannot-be-read"]["path"].startswith(path)
    assert what in found["cannot-be-read"]["breaks"]


UNIT = """
[Unit]
Environment=IRQBALANCE_BANNED_CPULIST=0-7
[Service]
EnvironmentFile=-/usr/lib/irqbalance/defaults.env
EnvironmentFile=-/etc/default/irqbalance
ExecStart=/usr/sbin/irqbalance --foreground
"""
DROP_IN = "etc/systemd/system/irqbalance.service.d"


@pytest.mark.parametrize(
    ("files", "value", "open_to_it"),
    [
        ({}, "bans none", "2-7"),
        ({"proc/88/environ": "A=1\0IRQBALANCE_BANNED_CPULIST=2-7\0"}, "", ""),
        ({"proc/88/environ": "IRQBALANCE_BANNED_CPUS=fc\0"}, "", ""),
        ({"proc/88/environ": "IRQBALANCE_BANNED_CPUS=0c\0IRQBALANCE_BANNED_CPULIST=2-7\0"}, "which wins over", "4-7"),
        ({"proc/88/environ": "IRQBALANCE_BANNED_CPUS=\0IRQBALANCE_BANNED_CPULIST=2-7\0"}, "", ""),
        ({"proc/88/environ": "IRQBALANCE_BANNED_CPULIST=-\0"}, "CPULIST=-", "2-7"),
        ({"proc/88/environ": "X=1\0", "etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=2-7\n"}, "bans none", "2-7"),
        ({"etc/default/irqbalance": "export IRQBALANCE_BANNED_CPULIST='2-7' # ours\n"}, "", ""),
        ({"etc/default/irqbalance": "#IRQBALANCE_BANNED_CPULIST=2-7\n"}, "bans none", "2-7"),
        ({"lib/systemd/system/irqbalance.service": UNIT}, "bans none", "2-7"),
        (
            {
                "lib/systemd/system/irqbalance.service": UNIT,
                "etc/default/irqbalance": 'IRQBALANCE_BANNED_CPULIST="2-7"\n',
            },
            "",
            "",
        ),
        (
            {
                "lib/systemd/system/irqbalance.service": UNIT,
                "etc/default/irqbalance": "export IRQBALANCE_BANNED_CPULIST=2-7\n",
            },
            "bans none",
            "2-7",
        ),
        (
            {
                "usr/lib/systemd/system/irqbalance.service": UNIT,
                f"{DROP_IN}/10-ban.conf": '[Service]\nEnvironment="X=1 2" \\\n  IRQBALANCE_BANNED_CPULIST=2-7\n',
            },
            "",
            "",
        ),
        (
            {
                f"{DROP_IN}/10-ban.conf": "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7\n",
                f"{DROP_IN}/20-no.conf": "[Service]\nEnvironment=\n",
            },
            "bans none",
            "2-7",
        ),
        (
            {
                "lib/systemd/system/irqbalance.service": UNIT,
                f"{DROP_IN}/10-ban.conf": "[Service]\nEnvironment=IRQBALANCE_BANNED_CPULIST=2-7\n",
                "etc/default/irqbalance": "IRQBALANCE_BANNED_CPULIST=2-3\n",
            },
            "IRQBALANCE_BANNED_CPULIST=2-3",
            "4-7",
        ),
        (
            {
                "run/systemd/system/irqbalance.service.d/10-ban.conf": "[Service]\nEnvironmentFile=/etc/ban\n",
                "etc/ban": "; a comment\nIRQBALANCE_BANNED_CPUS=fc\n",
            },
            "",
            "",
        ),
        (
            {
                f"{DROP_IN}/10.conf": "[Service]\nEnvironment=IRQBALANCE_BANNED_CPUS=0\n"
                "UnsetEnvironment=IRQBALANCE_BANNED_CPUS\n"
            },
            "bans none",
            "2-7",
        ),
    ],
)
def test_what_irqbalance_bans(root: Path, files: dict[str, str | int], value: str, open_to_it: str) -> None:
    """The running process's environment, else its unit with drop-ins, else the file of its init script."""
    write(root, {"proc/88/comm": "irqbalance"} | files)
    code, found = without_a_kubelet(root)
    assert (code, set(found)) == ((3, {"irqbalance"}) if open_to_it else (0, set()))
    if open_to_it:
        assert value in found["irqbalance"]["value"]
        assert f"exclusive CPUs {open_to_it} at any time" in found["irqbalance"]["breaks"]


def test_without_a_list_irqbalance_leaves_out_what_the_kernel_isolates(root: Path) -> None:
    """And with an empty mask it does not."""
    write(root, ISOLATED | {"proc/cmdline": "rcu_nocbs=all", "proc/88/comm": "irqbalance"})
    assert without_a_kubelet(root) == (0, {})
    write(root, {"proc/88/environ": "IRQBALANCE_BANNED_CPUS=0\0"})
    assert set(without_a_kubelet(root)[1]) == {"irqbalance"}


@pytest.mark.parametrize(
    "value",
    ["IRQBALANCE_BANNED_CPULIST=2-N", "IRQBALANCE_BANNED_CPULIST=2-7:1/2", "IRQBALANCE_BANNED_CPUS=0xfc"],
)
def test_what_irqbalance_cannot_read_is_not_known(root: Path, value: str) -> None:
    """It knows no ``N``, no strides and no ``0x``; it was seen to ban nothing then, or a part."""
    write(root, {"proc/88/comm": "irqbalance", "proc/88/environ": f"{value}\0"})
    code, found = without_a_kubelet(root)
    assert code == 3
    assert "which CPUs it bans is not known" in found["irqbalance"]["breaks"]
    assert found["irqbalance"]["value"] == value


def kubelet_runs(root: Path, *arguments: str) -> None:
    """Let a kubelet run there."""
    write(root, {"proc/42/comm": "kubelet", "proc/42/cgroup": "0::/system.slice/kubelet.service"})
    write(root, {"proc/42/cmdline": "\0".join(("/usr/bin/kubelet", *arguments)) + "\0"})


def found_alone(root: Path) -> tuple[int, dict[str, Any]]:
    """Look at a machine of which nothing is told."""
    ended = pinproof("doctor", "--isolation", "--sysroot", root, "--json")
    assert ended.stderr == ""
    return ended.exit_code, json.loads(ended.stdout)


def test_the_running_kubelet_is_found(root: Path) -> None:
    """With the file that its command line names, its drop-ins and its flags."""
    kubelet_runs(root, "--config=/etc/k/config.yaml", "--config-dir=/etc/k/d", "--cgroup-root=/")
    write(root, {"etc/k/config.yaml": KUBELET, "etc/k/d/10.conf": KUBELET.replace("0-1", "0-3")})
    write(root, {"var/lib/kubelet/config.yaml": KUBELET.replace("0-1", "6-7")})
    code, data = found_alone(root)
    assert (code, data["findings"]) == (0, [])
    assert (data["roles"]["exclusive"], data["roles"]["reserved"]) == ("4-7", "0-3")
    assert data["roles"]["source"] == "the running kubelet's /etc/k/config.yaml with 1 drop-ins"
    assert data["kubelet"] == {"version": None}
    told = " ".join(pinproof("doctor", "--isolation", "--sysroot", root).stdout.split())
    assert "The kubelet's version is not known: what it decides is answered as" in told


def test_a_configuration_without_a_kubelet_is_taken_and_said(root: Path) -> None:
    """A saved tree has no processes; a machine without either is told apart by what the kernel isolates."""
    code, data = found_alone(root)
    assert "no kubelet was found" in data["roles"]["source"]
    write(root, {"var/lib/kubelet/config.yaml": KUBELET})
    code, data = found_alone(root)
    assert (code, data["roles"]["exclusive"]) == (0, "2-7")
    assert data["roles"]["source"] == "/var/lib/kubelet/config.yaml, no kubelet runs here"


@pytest.mark.parametrize("text", [None, "cpuManagerPolicy: ["])
def test_a_kubelet_whose_configuration_is_not_known(root: Path, text: str | None) -> None:
    """Which CPUs are exclusive is not known then, and never that none is."""
    kubelet_runs(root, "--config=/etc/k/config.yaml")
    if text is not None:
        write(root, {"etc/k/config.yaml": text})
    code, data = found_alone(root)
    assert (code, [one["id"] for one in data["findings"]]) == (3, ["kubelet-not-read"])
    assert "/etc/k/config.yaml" in data["findings"][0]["value"]


def test_a_kubelet_inside_another_program(root: Path) -> None:
    """K3s runs one in its own process: its configuration is not read."""
    write(
        root,
        {"proc/42/comm": "k3s-server", "proc/42/cgroup": "0::/system.slice/k3s.service", "proc/42/cmdline": "k3s\0"},
    )
    code, data = found_alone(root)
    assert (code, data["findings"][0]["id"]) == (3, "kubelet-not-read")


def test_a_field_that_is_none_is_said(root: Path) -> None:
    """It changes nothing, so no promise breaks; the person who wrote it believes otherwise."""
    (root.parent / "kubelet.yaml").write_text(KUBELET + "reservedCpus: 0-4\nmemorySwap: {swapBehaviour: NoSwap}\n")
    ended = pinproof(
        *("doctor", "--isolation", "--sysroot", root, "--kubelet-config", root.parent / "kubelet.yaml", "--json")
    )
    found = [one for one in json.loads(ended.stdout)["findings"] if one["id"] == "no-such-field"]
    assert [one["remedy"] for one in found] == [
        "Did you mean reservedSystemCPUs?",
        "Did you mean memorySwap.swapBehavior?",
    ]
    assert ended.exit_code == 0
