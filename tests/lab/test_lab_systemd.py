"""systemd as first process: its units, podman under it, and what it does to files that another program wrote."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.harness.guest import Guest
from tests.lab.harness.node import BUSY, CGROUPS, ROOTFS, claims_of, file, watched, windows_around
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.verdicts import assert_clean, failed_of, verdicts_of
from toolkit.session.conformance import REPEATS, repeat_undecided

SYSTEMD = guests(GuestKind(flavour="systemd"))
RULES = ("cpuset-containment", "applied")


def decided(guest: Guest, source: str) -> dict[str, Any]:
    """Watch what a source claims; again, as conformance does, where the host kept the observer from looking, or the
    source from answering: what it promised by then is not known.
    """

    def undecided(found: dict[str, Any]) -> str | None:
        verdicts = (verdict for rule in RULES for verdict in verdicts_of(found, rule).values())
        return next((verdict["reason"] for verdict in verdicts if verdict["outcome"] == "undecided"), None)

    return repeat_undecided(lambda: watched(guest, source), undecided, REPEATS)[0]


@SYSTEMD
def test_systemd_is_the_first_process(guest: Guest) -> None:
    """systemd 252 runs the guest, on cgroup v2 alone, and nothing of it failed."""
    assert guest.read("/proc/1/comm").strip() == "systemd"
    assert guest.sh("systemctl --version").startswith("systemd 252 ")
    assert guest.sh("grep -c cgroup /proc/mounts") == "1"
    assert guest.read("/proc/self/cgroup").strip() == "0::/system.slice/lab-agent.service"
    assert guest.sh("systemctl --failed --plain --no-legend") == ""


@SYSTEMD
@pytest.mark.parametrize(
    ("quota", "period"),
    [("33.3%", "100ms"), ("0.5%", "20ms"), ("12.34%", "7ms"), ("150%", "1s"), ("0.05%", "100ms"), ("200%", "1ms")],
)
def test_a_quota_is_what_systemd_writes(guest: Guest, quota: str, period: str) -> None:
    """The claim about a unit's quota equals cpu.max, however systemd rounds the quota and stretches the period."""
    properties = f"-p CPUQuota={quota} -p CPUQuotaPeriodSec={period}"
    guest.sh(f"systemd-run --unit lab-quota {properties} sleep 1000", timeout_s=120)
    try:
        claim = claims_of(guest, "--systemd")["lab-quota.service"]
        assert file(guest, claim["cgroup"], "cpu.max") == f"{claim['quota_us']} {claim['period_us']}"
    finally:
        guest.sh("systemctl stop lab-quota", timeout_s=120)


@SYSTEMD
def test_units_scopes_and_slices(guest: Guest) -> None:
    """Services, scopes and slices promise what their cgroups have; one in a slice lies below it."""
    shop = "-p AllowedCPUs=2-3 -p AllowedMemoryNodes=0 -p CPUWeight=250 -p MemoryMax=64M"
    guest.sh(
        f"systemd-run --unit lab-a --slice lab-shop.slice {shop} sleep 1000;"
        "systemctl set-property --runtime lab-shop.slice AllowedCPUs=2-5;"
        "systemd-run --scope --unit lab-c -p AllowedCPUs=6,7 sh -c 'sleep 1000 >/dev/null 2>&1 &'",
        timeout_s=200,
    )
    try:
        claims = claims_of(guest, "--systemd")
        a, shop_slice, scope = claims["lab-a.service"], claims["lab-shop.slice"], claims["lab-c.scope"]
        assert a["cgroup"] == f"{shop_slice['cgroup']}/lab-a.service"
        for claim in (a, shop_slice, scope):
            assert file(guest, claim["cgroup"], "cpuset.cpus") == claim["cpus"]
        assert file(guest, a["cgroup"], "cpuset.mems") == a["mems"]
        assert file(guest, a["cgroup"], "cpu.weight") == str(a["weight"])
        assert file(guest, a["cgroup"], "memory.max") == str(a["memory_bytes"])
    finally:
        guest.sh("systemctl stop lab-a.service lab-c.scope lab-shop.slice", timeout_s=200)


@SYSTEMD
def test_watch_of_units(guest: Guest) -> None:
    """A unit on its CPUs passes; after its cpuset was written behind systemd's back it fails, with the CPUs."""
    command = f"systemd-run --unit lab-w -p AllowedCPUs=3 -p CPUQuota=50% sh -c '{BUSY}'"
    guest.sh(command, timeout_s=120)
    try:
        assert_clean(verdicts_of(decided(guest, "--systemd"), "cpuset-containment")["lab-w.service"])
        moved = windows_around(
            guest, "--systemd", "systemctl set-property --runtime lab-w.service AllowedCPUs=6", codes=(0, 3)
        )
        assert [one for found in moved for one in failed_of(found, "lab-w.service")] == []
        assert_clean(verdicts_of(moved[-1], "applied")["lab-w.service"])
        guest.sh(f"echo 5 > {CGROUPS}/system.slice/lab-w.service/cpuset.cpus")
        found = decided(guest, "--systemd")
        verdict = verdicts_of(found, "cpuset-containment")["lab-w.service"]
        assert (verdict["outcome"], {row["cpu"] for row in verdict["offenders"]}) == ("failed", {5}), verdict
        assert verdicts_of(found, "applied")["lab-w.service"]["outcome"] == "failed"
    finally:
        guest.sh("systemctl kill -s KILL lab-w; systemctl reset-failed lab-w || true", timeout_s=120)


@SYSTEMD
def test_a_unit_that_begins_anew_under_its_name(guest: Guest) -> None:
    """Its cgroup is there again, with another set, before systemd was asked: neither it nor a control has failed."""
    start = "systemd-run --unit lab-n -p AllowedCPUs={} sleep 1000"
    guest.sh(start.format(3), timeout_s=120)
    try:
        act = f"systemctl stop lab-n; {start.format(6)}"
        found = windows_around(guest, "--systemd", act, codes=(0, 3))
        assert [one for window in found for name in ("node", "lab-n.service") for one in failed_of(window, name)] == []
        assert_clean(verdicts_of(found[-1], "applied")["lab-n.service"])
    finally:
        guest.sh("systemctl stop lab-n", timeout_s=120)


@SYSTEMD
def test_a_reload_takes_back_what_others_wrote(guest: Guest) -> None:
    """``daemon-reload`` writes a unit's own values over those that were written behind systemd's back."""
    properties = "-p AllowedCPUs=2-3 -p CPUQuota=33% -p CPUWeight=250"
    guest.sh(f"systemd-run --unit lab-d {properties} sleep 1000", timeout_s=120)
    try:
        claim = claims_of(guest, "--systemd")["lab-d.service"]
        names = ("cpuset.cpus", "cpu.max", "cpu.weight")
        promised = [claim["cpus"], f"{claim['quota_us']} {claim['period_us']}", str(claim["weight"])]
        assert [file(guest, claim["cgroup"], name) for name in names] == promised
        guest.sh(f"cd {CGROUPS}{claim['cgroup']}; echo 0-7 >cpuset.cpus; echo 7000 10000 >cpu.max; echo 9 >cpu.weight")
        guest.sh("systemctl daemon-reload", timeout_s=120)
        guest.sh(f'until [ "$(cat {CGROUPS}{claim["cgroup"]}/cpu.weight)" = 250 ]; do sleep 0.2; done', timeout_s=60)
        assert [file(guest, claim["cgroup"], name) for name in names] == promised
    finally:
        guest.sh("systemctl stop lab-d", timeout_s=120)


@SYSTEMD
def test_podman_by_crun_and_runc(guest: Guest) -> None:
    """Each runtime's container is claimed where its limits are; a reload rounds runc's quota, and that is no fault."""
    guest.sh(f"{ROOTFS} podman import /tmp/rootfs.tar localhost/lab:1", timeout_s=300)
    run = "run -d --name {name} --cpuset-cpus {cpus} --cpu-quota 33333 localhost/lab:1 /bin/sh -c '" + BUSY + "'"
    guest.sh("podman " + run.format(name="by-crun", cpus="2-3"), timeout_s=300)
    guest.sh("podman --runtime runc " + run.format(name="by-runc", cpus="5"), timeout_s=300)
    try:
        claims = claims_of(guest, "--podman")
        for name, cpus in (("by-crun", "2-3"), ("by-runc", "5")):
            assert claims[name]["cpus"] == cpus
            assert file(guest, claims[name]["cgroup"], "cpuset.cpus") == cpus
            assert file(guest, claims[name]["cgroup"], "cpu.max") == "33333 100000"
        guest.sh("systemctl daemon-reload", timeout_s=120)
        runc = f"{CGROUPS}{claims['by-runc']['cgroup']}/cpu.max"
        guest.sh(f"until [ \"$(cat {runc})\" = '34000 100000' ]; do sleep 0.2; done", timeout_s=60)
        assert claims_of(guest, "--podman")["by-runc"]["quota_us"] == 33_333
        found = decided(guest, "--podman")
        for rule in RULES:
            for name in ("by-crun", "by-runc"):
                assert_clean(verdicts_of(found, rule)[name])
    finally:
        guest.sh("podman rm -f -t 0 by-crun by-runc", timeout_s=300)
