"""The OCI configuration, field by field."""

from __future__ import annotations

import json
from typing import Any

from toolkit.apply import oci
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest


def config(request: CgroupRequest, binds: tuple[oci.Bind, ...] = ()) -> Any:
    made = oci.config(argv=("/bin/x", "y"), cgroups_path="/p/c", resources=request, binds=binds, hostname="h")
    return json.loads(json.dumps(made))


def test_every_resource_is_named_as_the_specification_does() -> None:
    """cpus and mems are list strings, quota and period microseconds, shares v1 units, limit bytes."""
    request = CgroupRequest(
        path="c",
        cpus=CpuSet.parse("1,3-4"),
        mems=CpuSet.parse("0"),
        quota_us=50_000,
        period_us=100_000,
        shares=512,
        memory_max_bytes=1 << 26,
    )
    made = config(request)
    assert made["linux"]["cgroupsPath"] == "/p/c"
    assert made["linux"]["resources"] == {
        "devices": [{"allow": False, "access": "rwm"}],
        "cpu": {"cpus": "1,3-4", "mems": "0", "quota": 50_000, "period": 100_000, "shares": 512},
        "memory": {"limit": 1 << 26},
    }


def test_what_is_not_asked_for_is_left_out() -> None:
    """``None`` and the empty set mean "leave the file alone": an empty string would mean something to a runtime."""
    assert config(CgroupRequest(path="c", cpus=CpuSet()))["linux"]["resources"]["cpu"] == {}
    assert "memory" not in config(CgroupRequest(path="c"))["linux"]["resources"]


def test_no_quota_is_minus_one() -> None:
    """A container promised no quota is told so explicitly."""
    assert config(CgroupRequest(path="c", quota_us=-1))["linux"]["resources"]["cpu"]["quota"] == -1


def test_the_container_is_confined() -> None:
    """Own namespaces, no capabilities, no new privileges, read-only root, host directories read-only."""
    made = config(CgroupRequest(path="c"), (oci.Bind(source="/usr", target="/usr"),))
    kinds = {namespace["type"] for namespace in made["linux"]["namespaces"]}
    assert kinds == {"pid", "mount", "ipc", "uts", "network", "cgroup"}
    assert all(made["process"]["capabilities"][name] == [] for name in ("bounding", "effective", "permitted"))
    assert made["process"]["noNewPrivileges"] is True
    assert made["root"] == {"path": "rootfs", "readonly": True}
    (bind,) = [mount for mount in made["mounts"] if mount["type"] == "bind"]
    assert bind["destination"] == "/usr"
    assert {"ro", "nosuid", "nodev"} <= set(bind["options"])


def test_update_options() -> None:
    """``runc update`` gets only what changed."""
    assert oci.update_options(CgroupRequest(path="", cpus=CpuSet.parse("0-1"))) == ("--cpuset-cpus", "0-1")
    quota = oci.update_options(CgroupRequest(path="", quota_us=-1, period_us=50_000))
    assert quota == ("--cpu-period", "50000", "--cpu-quota", "-1")
