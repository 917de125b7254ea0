"""docker and Slurm as they are in Debian: what they promised, where they put it, and what other programs make of it."""

from __future__ import annotations

import json

import pytest

from tests.lab.harness.guest import Guest
from tests.lab.harness.node import BUSY, CGROUPS, ROOTFS, before_and_after, claims_of, file, windows_around
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.verdicts import assert_clean, failed_of, verdicts_of

SYSTEMD = guests(GuestKind(flavour="systemd"))
DOCKER_RUN = "docker run -d --security-opt apparmor=unconfined --network none --name {} {} lab:1 /bin/sh -c '{}'"
IDLE = "sleep 1000"
SLURM = "/system.slice/lab_slurmstepd.scope"
ANSWERS = 'tries=0; until {}; do tries=$((tries + 1)); [ "$tries" -lt 600 ]; sleep 0.2; done'
"""A shell's wait for a condition."""
RULES = ("cpuset-containment", "applied")


def docker_by(guest: Guest, driver: str) -> None:
    """Start docker with this cgroup driver, and give it an image."""
    settings = json.loads(guest.read("/etc/docker/daemon.json"))
    settings["exec-opts"] = [f"native.cgroupdriver={driver}"]
    guest.put({"daemon.json": json.dumps(settings).encode()}, "/etc/docker")
    guest.sh("systemctl restart docker", timeout_s=300)
    guest.sh(
        f"{ROOTFS} docker image inspect lab:1 >/dev/null 2>&1 || docker import /tmp/rootfs.tar lab:1", timeout_s=300
    )


@SYSTEMD
@pytest.mark.parametrize(
    ("driver", "place"), [("cgroupfs", "/docker/{}"), ("systemd", "/system.slice/docker-{}.scope")]
)
def test_docker(guest: Guest, driver: str, place: str) -> None:
    """A container is claimed where it is, with what its files say, also after an update; a drift behind it fails."""
    docker_by(guest, driver)
    limits = "--cpuset-cpus 5-6 --cpuset-mems 1 --cpus 0.3333 --cpu-shares 2048 --memory 64m"
    number = guest.sh(DOCKER_RUN.format("db", limits, BUSY), timeout_s=300)
    guest.sh(DOCKER_RUN.format("free", "", IDLE), timeout_s=300)
    try:
        claims = claims_of(guest, "--docker")
        db = claims["db"]
        assert db["cgroup"] == place.format(number)
        assert (db["cpus"], db["mems"], db["quota_us"], db["period_us"]) == ("5-6", "1", 33_330, 100_000)
        for name in ("cpus", "mems"):
            assert file(guest, db["cgroup"], f"cpuset.{name}") == db[name]
        assert file(guest, db["cgroup"], "cpu.max") == "33330 100000"
        assert file(guest, db["cgroup"], "memory.max") == str(db["memory_bytes"])
        assert claims["free"].get("cpus") is None
        # docker writes the cgroup, and says so a moment later: that is no drift.
        told = windows_around(guest, "--docker", "docker update --cpuset-cpus 3,6 db", codes=(0, 3))
        assert [one for found in told for one in failed_of(found, "db")] == []
        assert_clean(verdicts_of(told[-1], "applied")["db"])
        assert claims_of(guest, "--docker")["db"]["cpus"] == file(guest, db["cgroup"], "cpuset.cpus") == "3,6"

        honest, broken = before_and_after(guest, "--docker", f"echo 2 > {CGROUPS}{db['cgroup']}/cpuset.cpus")
        for rule in RULES:
            assert_clean(verdicts_of(honest, rule)["db"])
        verdict = verdicts_of(broken, "cpuset-containment")["db"]
        assert (verdict["outcome"], {row["cpu"] for row in verdict["offenders"]}) == ("failed", {2})
        assert verdicts_of(broken, "applied")["db"]["outcome"] == "failed"
    finally:
        guest.sh("docker rm -f db free", timeout_s=300)


@pytest.fixture(scope="module")
def slurm(guest: Guest) -> Guest:
    """Slurm with the guest as its one node. It finds no name where a machine has nothing but a loopback address."""
    guest.sh("ip link set lo up; ip address add 192.0.2.1/32 dev lo")
    guest.sh("systemctl start munge slurmctld slurmd", timeout_s=300)
    guest.sh(ANSWERS.format('[ "$(sinfo -h -o %T)" = idle ]'), timeout_s=200)
    return guest


def submitted(guest: Guest, options: str, command: str = IDLE) -> str:
    """Submit a job; return its number when its script runs."""
    job = guest.sh(f"cd /tmp; sbatch --parsable {options} -o /dev/null --wrap '{command}'", timeout_s=120)
    started = f"grep -rqs . --include=cgroup.procs {CGROUPS}{SLURM}/job_{job}/step_batch/user"
    guest.sh(ANSWERS.format(started), timeout_s=200)
    return job


@SYSTEMD
def test_slurm(slurm: Guest) -> None:
    """Each job is claimed where slurmd puts it, with the CPUs and memory that it wrote; a drift behind it fails."""
    shop, small = submitted(slurm, "-c3 --mem=100"), submitted(slurm, "-c1 --mem=50", BUSY)
    try:
        claims = claims_of(slurm, "--slurm")
        for job in (shop, small):
            claim = claims[f"job-{job}"]
            assert claim["cgroup"] == f"{SLURM}/job_{job}"
            assert file(slurm, claim["cgroup"], "cpuset.cpus") == claim["cpus"]
            assert file(slurm, claim["cgroup"], "memory.max") == str(claim["memory_bytes"])
        assert (claims[f"job-{shop}"]["cpus"], claims[f"job-{small}"]["cpus"]) == ("0-3", "4-5")

        drift = f"for file in $(find {CGROUPS}{SLURM}/job_{small} -name cpuset.cpus); do echo 7 >$file; done"
        honest, broken = before_and_after(slurm, "--slurm", drift)
        for rule in RULES:
            for job in (shop, small):
                assert_clean(verdicts_of(honest, rule)[f"job-{job}"])
            assert_clean(verdicts_of(broken, rule)[f"job-{shop}"])
            assert verdicts_of(broken, rule)[f"job-{small}"]["outcome"] == "failed"
        assert {row["cpu"] for row in verdicts_of(broken, RULES[0])[f"job-{small}"]["offenders"]} == {7}
    finally:
        slurm.sh(f"scancel {shop} {small}", timeout_s=120)
    slurm.sh(ANSWERS.format('[ "$(sinfo -h -o %T)" = idle ]'), timeout_s=200)
    alone = submitted(slurm, "--exclusive")
    try:
        claim = claims_of(slurm, "--slurm")[f"job-{alone}"]
        assert (claim["isolation"], claim["cpus"]) == ("container", file(slurm, claim["cgroup"], "cpuset.cpus"))
    finally:
        slurm.sh(f"scancel {alone}", timeout_s=120)
