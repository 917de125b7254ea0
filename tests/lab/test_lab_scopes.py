"""runc and crun by themselves with systemd's cgroup driver: scopes in slices, rounded quotas, and ``daemon-reload``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.lab.harness.guest import Guest
from tests.lab.harness.node import BUSY, CGROUPS, ROOTFS, claims_of, file, watched
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.verdicts import assert_clean, verdicts_of
from toolkit.apply.oci import config
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest

SYSTEMD = guests(GuestKind(flavour="systemd"))
CPUS = {"runc": "2-3", "crun": "5"}
QUOTA_US, PERIOD_US = 33_333, 100_000
SLICE = "/lab.slice/lab-oci.slice"
PLACES = {"runc": f"{SLICE}/oci-by-runc.scope", "crun": f"{SLICE}/oci-by-crun.scope/container"}
"""Where each runtime writes the limits: crun makes a cgroup in its scope."""
RULES = ("cpuset-containment", "applied", "quota-throttling")


@pytest.fixture(scope="module")
def scopes(guest: Guest) -> Iterator[Guest]:
    """A container of each runtime, in scopes of one slice, and a claims file with what was asked for."""
    for runtime, cpus in CPUS.items():
        request = CgroupRequest(path="c", cpus=CpuSet.parse(cpus), quota_us=QUOTA_US, period_us=PERIOD_US)
        place = f"lab-oci.slice:oci:by-{runtime}"
        document = config(
            argv=("/bin/sh", "-c", BUSY), cgroups_path=place, resources=request, binds=(), hostname=f"by-{runtime}"
        )
        guest.put({"config.json": json.dumps(document).encode()}, f"/tmp/by-{runtime}")
        folders = " ".join(f"/tmp/by-{runtime}/rootfs/{name}" for name in ("proc", "dev", "sys", "tmp"))
        guest.sh(f"{ROOTFS} cp -a /tmp/rootfs /tmp/by-{runtime}/; mkdir -p {folders}")
        start = f"run -d --bundle /tmp/by-{runtime} by-{runtime} </dev/null >/tmp/by-{runtime}.log 2>&1"
        guest.sh(f"{runtime} --systemd-cgroup {start} || {{ cat /tmp/by-{runtime}.log >&2; exit 1; }}", timeout_s=120)
    quota = {"quotaUs": QUOTA_US, "periodUs": PERIOD_US}
    # Each with a quota of its own: one that two have would be an alias, which is refused.
    claims = [{"name": name, "cgroup": PLACES[name], "cpus": cpus, "quota": {**quota}} for name, cpus in CPUS.items()]
    asked = {"apiVersion": "pinproof/v1", "kind": "Claims", "claims": claims}
    guest.put({"claims.yaml": yaml.safe_dump(asked).encode()}, "/tmp")
    yield guest
    for runtime in CPUS:
        guest.sh(f"{runtime} --systemd-cgroup delete -f by-{runtime}", timeout_s=120)


@SYSTEMD
def test_what_the_runtimes_and_systemd_write(scopes: Guest) -> None:
    """Both write the quota that was asked for; a reload rounds up that of which systemd knows, and nothing else."""
    for runtime, cpus in CPUS.items():
        assert file(scopes, PLACES[runtime], "cpuset.cpus") == cpus
        assert file(scopes, PLACES[runtime], "cpu.max") == f"{QUOTA_US} {PERIOD_US}"


@SYSTEMD
def test_the_rounding_is_no_fault(scopes: Guest) -> None:
    """As asked for before a reload, rounded after it: both are what was promised; a third value is not."""
    before = watched(scopes, "--claims", "/tmp/claims.yaml")
    for rule in RULES:
        for name in CPUS:
            assert_clean(verdicts_of(before, rule)[name])
    scopes.sh("systemctl daemon-reload", timeout_s=120)
    rounded = f"{CGROUPS}{PLACES['runc']}/cpu.max"
    scopes.sh(f"until [ \"$(cat {rounded})\" = '34000 100000' ]; do sleep 0.2; done", timeout_s=60)
    assert file(scopes, PLACES["crun"], "cpu.max") == f"{QUOTA_US} {PERIOD_US}"
    scopes.sh(f"echo '35000 100000' >{CGROUPS}{PLACES['crun']}/cpu.max")
    after = watched(scopes, "--claims", "/tmp/claims.yaml", code=1)
    for rule in RULES:
        assert_clean(verdicts_of(after, rule)["runc"])
    verdict = verdicts_of(after, "applied")["crun"]
    assert verdict["outcome"] == "failed"
    assert "35 ms" in verdict["reason"]


@SYSTEMD
def test_a_slice_of_scopes(scopes: Guest) -> None:
    """What systemd was told about the runtimes' scopes and their slice is no promise that their healthy files break."""
    scopes.sh("systemctl set-property --runtime lab-oci.slice AllowedCPUs=2-5 CPUQuota=150%", timeout_s=60)
    claims = claims_of(scopes, "--systemd")
    assert claims["lab-oci.slice"]["cgroup"] == SLICE
    assert (claims["lab-oci.slice"]["cpus"], claims["lab-oci.slice"]["quota_us"]) == ("2-5", 150_000)
    assert claims["oci-by-runc.scope"]["cpus"] == CPUS["runc"]
    found = watched(scopes, "--systemd")
    for name in ("lab-oci.slice", "oci-by-runc.scope"):
        for rule in ("cpuset-containment", "applied"):
            assert_clean(verdicts_of(found, rule)[name])
