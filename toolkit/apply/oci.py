"""The OCI configuration of a container, as a pure function of what it is given.

Source: opencontainers/runtime-spec config.md and config-linux.md (version 1.0.2): "Namespaces", "Resources", "Cgroups
Path", "Default Devices".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.model.claims import NO_QUOTA
from toolkit.model.sandbox import CgroupRequest

SPEC_VERSION = "1.0.2"
LOAD_MOUNT = "/pinproof"
"""Where a container sees the workload programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A directory or file of the host, seen read-only at the same or another place."""

    source: str
    target: str


def config(
    *,
    argv: tuple[str, ...],
    cgroups_path: str,
    resources: CgroupRequest,
    binds: tuple[Bind, ...],
    hostname: str,
) -> Mapping[str, object]:
    """Describe a container with namespaces of its own, no capabilities and a read-only root.

    :param cgroups_path: absolute below the cgroup root, ``/pinproof-r1/poda/db``.
    :param resources: ``None`` fields are left out: the runtime then leaves the files alone.
    """
    return {
        "ociVersion": SPEC_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/"],
            "cwd": "/tmp",  # noqa: S108 - a tmpfs of the container's own
            "capabilities": {name: [] for name in ("bounding", "effective", "permitted")},
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": hostname,
        "mounts": [*_SYSTEM_MOUNTS, *(_bind(bind) for bind in binds)],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network", "cgroup")],
            "cgroupsPath": cgroups_path,
            "resources": _resources(resources),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
        },
    }


_SYSTEM_MOUNTS: tuple[Mapping[str, object], ...] = (
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {
        "destination": "/dev",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
    },
    {
        "destination": "/dev/shm",  # noqa: S108 - a tmpfs of the container's own
        "type": "tmpfs",
        "source": "shm",
        "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
    },
    {
        "destination": "/tmp",  # noqa: S108 - a tmpfs of the container's own
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "nodev", "mode=1777", "size=65536k"],
    },
)


def _bind(bind: Bind) -> Mapping[str, object]:
    options = ["rbind", "ro", "nosuid", "nodev", "rprivate"]
    return {"destination": bind.target, "type": "bind", "source": bind.source, "options": options}


def _resources(request: CgroupRequest) -> Mapping[str, object]:
    cpu: dict[str, object] = {}
    if request.cpus:
        cpu["cpus"] = str(request.cpus)
    if request.mems:
        cpu["mems"] = str(request.mems)
    if request.quota_us is not None:
        cpu["quota"] = request.quota_us
        cpu["period"] = request.period_us
    if request.shares is not None:
        cpu["shares"] = request.shares
    resources: dict[str, object] = {"devices": [{"allow": False, "access": "rwm"}], "cpu": cpu}
    if request.memory_max_bytes is not None:
        resources["memory"] = {"limit": request.memory_max_bytes}
    return resources


def update_options(request: CgroupRequest) -> tuple[str, ...]:
    """Return the options of ``runc update`` and ``crun update`` for a changed request."""
    options: list[str] = []
    if request.cpus:
        options += ["--cpuset-cpus", str(request.cpus)]
    if request.quota_us is not None:
        options += ["--cpu-period", str(request.period_us), "--cpu-quota", str(request.quota_us)]
    assert request.quota_us is None or request.quota_us >= NO_QUOTA
    return tuple(options)
