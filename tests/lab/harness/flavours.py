"""What is in a guest besides the common packages: nothing, or systemd as first process and what makes cgroups with it.

Maintainer scripts do not run when the image is made, so what they would have made (users, the way a unit is started at
boot) is written here. Source: bootup(7), systemd.special(7), sysusers.d(5); ``postinst`` of dbus, munge and slurmd.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.lab.harness.architecture import AMD64, ARM64, Architecture

_AGENT = """[Unit]
Description=The lab's command agent
DefaultDependencies=no
After=basic.target dbus.socket

[Service]
Environment=PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 PYTHONPATH=/opt/python
ExecStart=/bin/sh -c 'exec /usr/bin/python3 /opt/lab/agent.py $$(cat /run/lab-imports)'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
KillMode=process
CPUWeight=300
LimitMEMLOCK=infinity
"""
_TARGET = """[Unit]
Description=A guest of the lab
Requires=basic.target lab-agent.service
Wants=dbus.socket
After=basic.target
AllowIsolate=yes
"""
_PODMAN = """[containers]
netns = "none"
log_driver = "k8s-file"
[engine]
cgroup_manager = "systemd"
events_logger = "file"
"""
_STORAGE = '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/run/containers/graph"\n'
_DOCKER = """{"storage-driver": "vfs", "data-root": "/run/docker-data", "iptables": false, "ip6tables": false,
 "bridge": "none", "exec-opts": ["native.cgroupdriver=systemd"]}
"""
_SLURM = """ClusterName=lab
SlurmctldHost=lab
AuthType=auth/munge
SlurmUser=root
StateSaveLocation=/run/slurm-state
SlurmdSpoolDir=/run/slurmd
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmctldParameters=enable_configless
NodeName=lab CPUs=8 Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1000 State=UNKNOWN
PartitionName=lab Nodes=lab Default=YES MaxTime=INFINITE State=UP
"""
_CGROUP = "CgroupPlugin=cgroup/v2\nConstrainCores=yes\nConstrainRAMSpace=yes\n"
_MASKED = (
    *("systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udev-settle.service"),
    *("systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-hwdb-update.service"),
    *("ldconfig.service", "systemd-journal-catalog-update.service", "systemd-journal-flush.service"),
    *("systemd-update-utmp.service", "systemd-random-seed.service", "systemd-sysusers.service"),
    *("systemd-remount-fs.service", "systemd-firstboot.service", "systemd-update-done.service"),
    *("systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service", "timers.target"),
    *("systemd-binfmt.service", "systemd-boot-system-token.service", "modprobe@.service", "systemd-pstore.service"),
)
_USERS = {"messagebus": 101, "munge": 102, "slurm": 103, "systemd-network": 104, "systemd-resolve": 105}
_GROUPS = {"docker": 106, "systemd-journal": 107, "tty": 5, "adm": 4, "utmp": 43, "kmem": 15, "disk": 6, "input": 108}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """What an image has of its own.

    :param packages: Debian packages beside those of every guest.
    :param kernels: names of the architecture's kernels; empty: all of them.
    :param users: name and number of users, each with a group of that name.
    :param files: path below the root and text; ``links``: path and where it leads.
    :param folders: owned by the user.
    """

    name: str
    packages: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    mib: int = 2600
    architecture: Architecture = AMD64
    users: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


PLAIN = Flavour(name="plain")
SYSTEMD = Flavour(
    name="systemd",
    packages=("systemd", "systemd-sysv", "dbus", "podman", "conmon", "docker.io", "slurmd", "slurmctld", "munge"),
    kernels=("6.1", "6.12"),
    mib=3400,
    users=_USERS,
    groups=_GROUPS,
    files={
        "etc/systemd/system/lab-agent.service": _AGENT,
        "etc/systemd/system/lab.target": _TARGET,
        "etc/containers/containers.conf": _PODMAN,
        "etc/containers/storage.conf": _STORAGE,
        "etc/docker/daemon.json": _DOCKER,
        "etc/slurm/slurm.conf": _SLURM,
        "etc/slurm/cgroup.conf": _CGROUP,
        "etc/munge/munge.key": "this key is no secret: guests of the lab have no network at all\n" * 16,
    },
    links={
        "etc/systemd/system/default.target": "lab.target",
        "var/run": "/run",
        **{f"usr/sbin/{program}": f"{program}-wlm" for program in ("slurmctld", "slurmd", "slurmstepd")},
        **{f"etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED},
    },
    folders={"etc/munge": "munge", "var/lib/munge": "munge", "var/log/munge": "munge", "var/log/slurm": "slurm"},
)
ARM = Flavour(name="arm64", architecture=ARM64)
USUAL = (PLAIN, SYSTEMD)
"""Those that ``make lab`` runs in."""
BY_NAME = {flavour.name: flavour for flavour in (*USUAL, ARM)}
KERNELS = tuple(sorted({kernel for flavour in BY_NAME.values() for kernel in flavour.architecture.kernels}))
"""Names of kernels that a guest of some flavour boots."""
