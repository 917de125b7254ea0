"""``claims --systemd``: units as the real systemctl of a machine with systemd 252 printed them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from toolkit.sources.claims_file import parse_claims
from toolkit.sources.places import Places
from toolkit.sources.systemd import quota_in_force, read

RECORDED = Path(__file__).parents[3] / "data/sources/systemctl-show.txt"
UNIT = "Id=a.service\nActiveState=active\nControlGroup=/system.slice/a.service\n"


def claims_of(path: Path) -> tuple[dict[str, dict[str, object]], dict[str, str]]:
    ended = pinproof("claims", "--systemd", path, "--json")
    assert ended.exit_code == 0, ended.stderr
    document = json.loads(ended.stdout)
    return {row["name"]: row for row in document["claims"]}, {row["part"]: row["reason"] for row in document["missing"]}


def test_units_of_a_real_systemd() -> None:
    """Units promise what they were configured with; what was written into their cgroups there is beside each value."""
    claims, _ = claims_of(RECORDED)
    a = claims["lab-a.service"]
    assert (a["cgroup"], a["cpus"], a["mems"]) == ("/lab.slice/lab-shop.slice/lab-a.service", "2-3", "0")
    assert (a["quota_us"], a["period_us"]) == (33_300, 100_000)  # cpu.max: 33300 100000
    assert (a["weight"], a["memory_bytes"]) == (250, 67_108_864)  # cpu.weight: 250; memory.max: 67108864
    b = claims["lab-b.service"]
    assert (b["quota_us"], b["period_us"]) == (1000, 200_000)  # cpu.max: 1000 200000, though 20 ms were asked for
    shop = claims["lab-shop.slice"]
    assert (shop["cpus"], shop["quota_us"]) == ("2-5", 150_000)
    assert claims["lab-c.scope"]["cpus"] == "6-7"
    assert set(claims) == {"lab-a.service", "lab-b.service", "lab-c.scope", "lab-shop.slice", "lab-agent.service"}


def test_what_it_prints_is_a_claims_file() -> None:
    """Without an option the output is read back by the reader of claims files, weights included."""
    ended = pinproof("claims", "--systemd", RECORDED)
    found = {claim.name: claim for claim in parse_claims(ended.stdout, "printed").claims}
    assert found["lab-a.service"].weight == 250
    assert str(found["lab-a.service"].cpus) == "2-3"


def test_a_table_for_people() -> None:
    """``--table`` has a row a unit."""
    (row,) = [
        line for line in pinproof("claims", "--systemd", RECORDED, "--table").stdout.splitlines() if "lab-b" in line
    ]
    assert "1000/200000" in row


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ((500_000, None), (50_000, 100_000)),
        ((None, 20_000), (None, 100_000)),
        ((5_000, 20_000), (1000, 200_000)),
        ((500, None), (1000, 1_000_000)),
        ((1_500_000, 10_000), (15_000, 10_000)),
    ],
)
def test_quota_and_period(asked: tuple[int | None, int | None], written: tuple[int | None, int]) -> None:
    """The period grows where the quota in it were below a millisecond, up to a second."""
    assert quota_in_force(*asked) == written


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nothing"),
        ("\0\xff{", "line"),
        ("Id=a.service\nActiveState=act", "without ControlGroup"),
        ("<html>\n</html>", "line"),
        (UNIT + "\n\n=x\n", "line"),
    ],
)
def test_nonsense_is_one_line(tmp_path: Path, text: str, found: str) -> None:
    """What systemctl does not print ends with one line and exit code 2."""
    file = tmp_path / "show"
    file.write_text(text)
    ended = pinproof("claims", "--systemd", file)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert found in ended.stderr


def test_every_truncation(tmp_path: Path) -> None:
    """However much of the file is there: claims, or one line."""
    data, file = RECORDED.read_bytes(), tmp_path / "show"
    for size in range(0, len(data), 997):
        file.write_bytes(data[:size])
        ended = pinproof("claims", "--systemd", file, "--json")
        assert ended.exit_code in (0, 2)
        assert "Traceback" not in ended.stderr


def test_values_that_cannot_be_judged(tmp_path: Path) -> None:
    """Each is said on standard error with its unit, and the rest is claimed."""
    file = tmp_path / "show"
    file.write_text(UNIT + "AllowedCPUs=2-x\nCPUQuotaPerSecUSec=soon\nCPUWeight=0\nMemoryMax=1048576\n")
    claims, missing = claims_of(file)
    assert (claims["a.service"]["cpus"], claims["a.service"]["memory_bytes"]) == (None, 1_048_576)
    assert missing["a.service"]
    ended = pinproof("claims", "--systemd", file)
    for word in ("AllowedCPUs", "CPUQuotaPerSecUSec", "CPUWeight=idle"):
        assert f"pinproof: not read: a.service: {word}" in ended.stderr


@pytest.mark.parametrize(
    ("unit", "delegate", "quota_us"),
    [("a.scope", "yes", None), ("a.scope", "no", 34_000), ("a.service", "yes", 34_000)],
)
def test_the_quota_of_a_delegated_scope(tmp_path: Path, unit: str, delegate: str, quota_us: int | None) -> None:
    """runc writes 33333 us where it tells systemd 34 %: what systemd knows of a container's scope is no promise."""
    file = tmp_path / "show"
    quota = "CPUQuotaPerSecUSec=340ms\nCPUQuotaPeriodUSec=100ms\n"
    text = f"Id={unit}\nActiveState=active\nControlGroup=/{unit}\nAllowedCPUs=2-3\nDelegate={delegate}\n{quota}"
    file.write_text(text)
    claims, missing = claims_of(file)
    assert (claims[unit]["cpus"], claims[unit]["quota_us"]) == ("2-3", quota_us)
    assert (unit in missing) is (quota_us is None)


def shown(path: Path, *units: str) -> Path:
    """What systemctl prints of units: cgroup, then properties, with spaces between them."""
    blocks = []
    for unit in units:
        cgroup, *properties = unit.split()
        name = cgroup.rpartition("/")[2] or "-.slice"
        blocks.append("\n".join((f"Id={name}", "ActiveState=active", f"ControlGroup={cgroup}", *properties)))
    path.write_text("\n\n".join(blocks) + "\n")
    return path


ROOT = "/ EffectiveCPUs=0-7 EffectiveMemoryNodes=0-1"


@pytest.mark.parametrize(
    ("slices", "unit", "cpus", "requested"),
    [
        (("/a.slice AllowedCPUs=0-1",), "AllowedCPUs=0-3", "0-1", "0-3"),
        (("/a.slice AllowedCPUs=0-1",), "AllowedCPUs=0-3 EffectiveCPUs=0-1", "0-1", "0-3"),
        (("/a.slice AllowedCPUs=0-5",), "AllowedCPUs=0-3 EffectiveCPUs=0-3", "0-3", None),
        (("/a.slice EffectiveCPUs=0,2",), "AllowedCPUs=0-3", "0,2", "0-3"),
        ((), "AllowedCPUs=0-3 EffectiveCPUs=0-1", "0-1", "0-3"),
        ((), "AllowedCPUs=6-9", "6-7", "6-9"),
        (("/a.slice AllowedCPUs=0-1",), "AllowedCPUs=2-3 EffectiveCPUs=0-1", None, None),
        ((), "AllowedCPUs=2-3 EffectiveCPUs=0-1", "2-3", None),
        (("/a.slice AllowedCPUs=nonsense",), "AllowedCPUs=0-3", "0-3", None),
    ],
)
def test_what_a_slice_takes_away_is_not_promised(
    tmp_path: Path, slices: tuple[str, ...], unit: str, cpus: str | None, requested: str | None
) -> None:
    """A unit has what its slices leave of what it was given; its own file holds what it was given."""
    file = shown(tmp_path / "show", ROOT, *slices, f"/a.slice/b.service CPUWeight=9 {unit}")
    claims, missing = claims_of(file)
    service = claims["b.service"]
    assert (service["cpus"], service["requested_cpus"]) == (cpus, requested)
    assert ("b.service" in missing) is (requested is not None or cpus is None)
    found = {one.name: one for one in parse_claims(pinproof("claims", "--systemd", file).stdout, "printed").claims}
    assert str(found["b.service"].requested_cpus or None) == str(requested)


def test_memory_nodes_of_a_slice(tmp_path: Path) -> None:
    """The same holds for them."""
    file = shown(tmp_path / "show", ROOT, "/a.slice AllowedMemoryNodes=1", "/a.slice/b.service AllowedMemoryNodes=0-1")
    service = claims_of(file)[0]["b.service"]
    assert (service["mems"], service["requested_mems"]) == ("1", "0-1")


@pytest.mark.parametrize(
    ("unit", "cpus", "said"),
    [
        ("CPUAffinity=1", "1", "CPUAffinity=1 binds its threads by mask, not by cpuset"),
        ("CPUAffinity=0-1,6", "0-1,6", "affinity-mask and cpuset-containment alone judge it"),
        ("CPUAffinity=9", None, "its slice has none of them: not judged"),
        ("CPUAffinity=x", None, "CPUAffinity: "),
        (
            "NUMAPolicy=bind NUMAMask=0",
            None,
            "NUMAPolicy=bind NUMAMask=0: a memory policy of its threads, not a cpuset",
        ),
        ("NUMAPolicy=local NUMAMask=", None, "NUMAPolicy=local: a memory policy"),
    ],
)
def test_what_binds_by_mask_or_by_policy(tmp_path: Path, unit: str, cpus: str | None, said: str) -> None:
    """CPUs are claimed as such, memory is not judged; each is said."""
    file = shown(tmp_path / "show", ROOT, f"/a.service CPUWeight=9 {unit}")
    claims, _ = claims_of(file)
    service = claims["a.service"]
    assert (service["cpus"], service["by_mask"]) == (cpus, cpus is not None)
    ended = pinproof("claims", "--systemd", file)
    assert said in ended.stderr
    (again,) = parse_claims(ended.stdout, "printed").claims
    assert again.by_mask is (cpus is not None)


def test_a_mask_within_a_cpuset(tmp_path: Path) -> None:
    """The cpuset is claimed; that the mask is narrower is said. A unit that sets neither is promised neither."""
    file = shown(
        tmp_path / "show", "/a.service AllowedCPUs=0-3 CPUAffinity=1", "/b.service CPUAffinity= NUMAPolicy=n/a"
    )
    claims, missing = claims_of(file)
    assert (claims["a.service"]["cpus"], claims["a.service"]["by_mask"]) == ("0-3", False)
    assert missing["a.service"].startswith("CPUAffinity=1 binds its threads by mask within AllowedCPUs")
    assert "b.service" not in claims | missing


def test_hostile_names(tmp_path: Path) -> None:
    """A name cannot steer a terminal, nor lead out of the cgroup tree, nor pass for one of our own controls."""
    hostile = "Id=x\x1b[2J\u202e.service\nActiveState=active\nControlGroup=/a\x1b.slice\nCPUWeight=9\n"
    outside = "Id=o.service\nActiveState=active\nControlGroup=/../../etc\nCPUWeight=9\n"
    own = "Id=pinproof-escape\nActiveState=active\nControlGroup=/own\nCPUWeight=9\n"
    file = tmp_path / "show"
    file.write_text("\n".join((hostile, outside, own)))
    ended = pinproof("claims", "--systemd", file)
    assert ended.exit_code == 0
    assert (ended.stdout + ended.stderr).replace("\n", "").isprintable()
    assert [claim.cgroup for claim in parse_claims(ended.stdout, "printed").claims] == ["/a\\x1b.slice"]
    assert "o.service" in ended.stderr
    assert "pinproof-escape" in ended.stderr


def test_watch_of_units_that_are_gone() -> None:
    """``watch`` leaves out what is not on this machine and names it; with nothing left it ends with one line."""
    ended = pinproof("watch", "--systemd", RECORDED)
    assert ended.exit_code == 2
    assert (
        "not watched: lab-a.service: its cgroup /lab.slice/lab-shop.slice/lab-a.service does not exist" in ended.stderr
    )
    assert ended.stderr.splitlines()[-1].endswith(
        "nothing runs here that was promised anything; expected systemd's units"
    )


def test_one_source_is_needed() -> None:
    """None, or two, is a usage error."""
    for words in ((), ("--systemd", RECORDED, "--slurm", RECORDED), ("--systemd", RECORDED, "--claims", RECORDED)):
        assert pinproof("watch", *words).exit_code == 2


def test_a_unit_that_is_promised_nothing_any_more_is_listed(tmp_path: Path) -> None:
    """``set-property AllowedCPUs=``: a list without it would say that its promise goes on as long as it has tasks."""
    file = shown(tmp_path / "show", ROOT, "/a.service AllowedCPUs=0", "/b.service AllowedCPUs=")
    found = read(file, Places(root=tmp_path))
    assert ([claim.cgroup for claim in found.claims.claims], found.unpromised) == (["/a.service"], {"/b.service"})
