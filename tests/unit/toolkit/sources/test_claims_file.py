"""The claims file: what it accepts, and the one line that it answers to anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.model.claims import NO_QUOTA, ExclusivePolicy, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.memory_units import NO_LIMIT
from toolkit.sources.claims_file import check_host, load_claims, parse_claims
from toolkit.sources.claims_yaml import claims_yaml

HEAD = """
apiVersion: pinproof/v1
kind: Claims
reservedCPUs: "0"
strictReservation: true
policy: k8s
claims:
  - name: db
    cgroup: /kubepods/poda/db
    cpus: "2-5"
    isolation: container
    quota: none
    mems: "0"
"""


def test_reads_the_documents_example() -> None:
    """The example of the design document becomes the values it describes."""
    claims = parse_claims(HEAD, "claims.yaml")

    db = claims.claims[0]
    assert (CpuSet.parse("0"), True, ExclusivePolicy.K8S) == (
        claims.reserved_cpus,
        claims.strict_reservation,
        claims.policy,
    )
    assert (CpuSet.parse("2-5"), Isolation.CONTAINER, NO_QUOTA, CpuSet.parse("0")) == (
        db.cpus,
        db.isolation,
        db.quota_us,
        db.mems,
    )


@pytest.mark.parametrize(("text", "found"), [("none", NO_LIMIT), ("0", 0), ("4096", 4096)])
def test_a_limit_of_memory_or_none(text: str, found: int) -> None:
    """As a quota: that there is none is a promise as well, and is written as it is read."""
    entry = f"{{name: a, cgroup: /a, memoryBytes: {text}}}"
    claims = parse_claims(f"apiVersion: pinproof/v1\nkind: Claims\nclaims: [{entry}]\n", "f")

    assert claims.claims[0].memory_bytes == found
    assert parse_claims(claims_yaml(claims), "f") == claims


def test_reads_a_quota_and_an_unquoted_cpu() -> None:
    """A bandwidth in camelCase, and a CPU that YAML reads as a number."""
    entry = "  - {name: web, cgroup: web, cpus: 7, quota: {quotaUs: 50000, periodUs: 20000, burstUs: 10}}\n"

    web = parse_claims(HEAD + entry, "claims.yaml").claims[1]

    assert ("/web", CpuSet.parse("7"), 50_000, 20_000, 10) == (
        web.cgroup,
        web.cpus,
        web.quota_us,
        web.period_us,
        web.burst_us,
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "0 YAML documents", id="empty"),
        pytest.param("a: [", "line 1", id="not-yaml"),
        pytest.param("- 1", "a list", id="not-a-mapping"),
        pytest.param(HEAD.replace("pinproof/v1", "v1"), "apiVersion", id="other-api"),
        pytest.param(HEAD + "  - {name: x, cgroup: /x, colour: red}", "unknown key claims.1.colour", id="unknown-key"),
        pytest.param(HEAD + "  - {name: x}", "claims.1.cgroup is missing", id="no-cgroup"),
        pytest.param(HEAD + "  - {name: x, cgroup: /x, cpus: 5-3}", "reversed range", id="reversed"),
        pytest.param(HEAD + "  - {name: x, cgroup: /x, cpus: '1-99999999'}", "claims.1.cpus", id="huge-range"),
        pytest.param(
            HEAD + "  - {name: x, cgroup: /x, cpus: 5-6, isolation: container}", "'db' and 'x'", id="overlapping"
        ),
        pytest.param(HEAD + "  - {name: x, cgroup: /x, isolation: container}", "without cpus", id="exclusive-no-cpus"),
        pytest.param(HEAD + "  - {name: db, cgroup: /x}", "name 'db' twice", id="name-twice"),
        pytest.param(HEAD + "  - {name: x, cgroup: /kubepods/poda/db}", "twice", id="cgroup-twice"),
        pytest.param(HEAD + "  - {name: x, cgroup: /a/../../x}", "/a/../../x", id="climbing-path"),
        pytest.param(HEAD + "  - {name: x, cgroup: /x, quota: {quotaUs: 10}}", "claims.1.quota", id="tiny-quota"),
        pytest.param(HEAD + "  - {name: x, name: y, cgroup: /x}", "key 'name' twice", id="key-twice"),
        pytest.param("a: &x [1]\nb: *x", "alias", id="alias"),
        pytest.param("[" * 5000, "not YAML", id="deep"),
        pytest.param("!!python/object/apply:os.system [true]", "not YAML", id="python-tag"),
        pytest.param(HEAD.split("claims:")[0] + "claims: []", "no claims", id="none"),
        *(
            pytest.param(
                HEAD + f"  - {{name: x, cgroup: /x, cpus: {cpus}}}\n",
                f"line {HEAD.count(chr(10)) + 1}: claims[1].cpus: {cpus}; expected a plain decimal number",
                id=cpus,
            )
            for cpus in ("010", "1_0", "1:0", "0x10", "0b10", "-010", "1_0.0")
        ),
        pytest.param(
            HEAD + "  - {name: x, cgroup: /x, quota: {quotaUs: 050000}}", "quotaUs: 050000;", id="octal-quota"
        ),
        pytest.param(HEAD + "  - {name: x, cgroup: /x, hugepages: {0x1000: 0}}", "0x1000: 0x1000;", id="hex-key"),
    ],
)
def test_refuses_in_one_line(text: str, complaint: str) -> None:
    """Whatever is wrong is told in one line that names the file."""
    with pytest.raises(InputError) as caught:
        parse_claims(text, "claims.yaml")

    assert complaint in str(caught.value)
    assert str(caught.value).startswith("claims.yaml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "folder", "binary"])
def test_refuses_files_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    """A missing file, a folder and bytes that are no text are input errors with the path."""
    path = tmp_path / "claims.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(InputError, match=r"claims\.yaml: "):
        load_claims(path)


def test_refuses_cpus_that_the_machine_does_not_have() -> None:
    """CPUs that do not exist are an input error; the message names them and those that do."""
    claims = parse_claims(HEAD, "claims.yaml")

    check_host(claims, CpuSet.parse("0-7"), "claims.yaml")
    with pytest.raises(InputError, match=r"db: CPUs 4-5 do not exist here; expected CPUs within 0-3"):
        check_host(claims, CpuSet.parse("0-3"), "claims.yaml")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("quota: 50000", ["claim 'web'", "found '50000'", "quotaUs", "periodUs", "burstUs", "`none`"]),
        ("quota: 0.5", ["claim 'web'", "found '0.5'", "quotaUs", "periodUs", "burstUs", "`none`"]),
        ("quota: half", ["claim 'web'", "found 'half'", "quotaUs", "periodUs"]),
        ("quota: [50000, 100000]", ["claim 'web'", "a mapping is expected", "quotaUs"]),
        ("quota: {quota: 5}", ["claim 'web'", "quotaUs", "microseconds"]),
        ("quota: {quotaUs: 5000, period: 5}", ["claim 'web'", "unknown key", "one of quotaUs, periodUs, burstUs"]),
        ("memoryBytes: 1Gi", ["claim 'web'", "found '1Gi'", "a number of bytes"]),
        ("isolation: own", ["claim 'web'", "`container`", "`pod`", "`host`"]),
        ("Cpus: 1", ["claim 'web'", "unknown key", "one of name, cgroup, pod"]),
    ],
)
def test_a_wrong_value_of_a_claim_names_the_claim_and_what_is_expected(entry: str, words: list[str]) -> None:
    """Not the kind of file: that was right."""
    with pytest.raises(InputError) as caught:
        parse_claims(HEAD + f"  - {{name: web, cgroup: /web, {entry}}}\n", "claims.yaml")

    assert [word for word in words if word not in str(caught.value)] == []
    assert "and 1 more" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_of_the_file_names_those_that_are_known() -> None:
    """As ``reservedCpus``."""
    with pytest.raises(InputError, match="unknown key reservedCpus; expected one of apiVersion, kind, reservedCPUs"):
        parse_claims(HEAD.replace("reservedCPUs", "reservedCpus"), "claims.yaml")
