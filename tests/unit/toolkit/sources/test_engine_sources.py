"""``claims --podman`` and ``--docker``: inspect output of real programs, from files and over a socket."""

from __future__ import annotations

import http.server
import json
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import Ended, pinproof
from toolkit.sources import podman
from toolkit.sources.claims_file import parse_claims
from toolkit.sources.places import Places

RECORDED = Path(__file__).parents[3] / "data/sources/podman-inspect.json"
CRUN = "fce41a52a0ce5aa7572f211cbde732301a3f86340dd04d328a5b4ea50ef43771"
RUNC = "795ade09f3aca6ea87447e810d9116fd97e30ab26225d97eb41d417722628918"
DOCKER: dict[str, Any] = {
    "Id": "ab" * 32,
    "Name": "/db",
    "State": {"Status": "running", "Running": True, "Paused": False, "Pid": 0},
    "HostConfig": {"NanoCpus": 250_000_000, "CpusetCpus": "5,6", "CpuShares": 2048, "Memory": 67_108_864},
}


def document(ended: Ended) -> dict[str, dict[str, Any]]:
    assert ended.exit_code == 0, ended.stderr
    return {row["name"]: row for row in json.loads(ended.stdout)["claims"]}


def test_containers_of_a_real_podman() -> None:
    """The limits that were asked for, on the cgroup that has them: crun writes them into one below its scope."""
    claims = document(pinproof("claims", "--podman", RECORDED, "--json"))
    web, plain = claims["web"], claims["plain"]
    assert web["cgroup"] == f"/machine.slice/libpod-{CRUN}.scope/container"
    assert (web["cpus"], web["mems"], web["quota_us"], web["period_us"]) == ("2-3", "0", 50_000, 100_000)
    assert (web["shares"], web["memory_bytes"], web["contended"]) == (512, 67_108_864, False)
    assert plain["cgroup"] == f"/machine.slice/libpod-{RUNC}.scope"
    assert (plain["cpus"], plain["mems"], plain["quota_us"]) == ("4", None, 33_333)
    assert (plain["shares"], plain["memory_bytes"]) == (None, None)


def test_the_claims_file_of_podman_is_read_back() -> None:
    """What is printed without an option is a claims file."""
    found = parse_claims(pinproof("claims", "--podman", RECORDED).stdout, "printed")
    assert {claim.name for claim in found.claims} == {"web", "plain"}


@pytest.mark.parametrize("option", ["--podman", "--docker"])
def test_every_truncation(tmp_path: Path, option: str) -> None:
    """A list that is cut off is one line and exit code 2."""
    data, file = RECORDED.read_bytes().rstrip(), tmp_path / "inspect"
    for size in range(0, len(data), 1009):
        file.write_bytes(data[:size])
        ended = pinproof("claims", option, file)
        assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr


@pytest.mark.parametrize("text", ["[1]", '{"Id": 5}', '[{"Id": "a", "HostConfig": []}]', "[" * 100_000, '"x"', "\xff"])
def test_nonsense_is_one_line(tmp_path: Path, text: str) -> None:
    """JSON of something else is one line and exit code 2."""
    file = tmp_path / "inspect"
    file.write_text(text)
    ended = pinproof("claims", "--podman", file)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended.stderr


def test_hostile_values(tmp_path: Path) -> None:
    """Names cannot steer a terminal or leave the tree, numbers cannot be what no kernel takes; the rest is claimed."""
    host = {"CpusetCpus": "0-99999999999", "CpuQuota": 3, "Memory": -5, "CpuShares": True}
    evil = DOCKER | {"Id": "x/../../y", "Name": "/a\x1b[2J\n\u202e", "HostConfig": host}
    twice = DOCKER | {"Id": "cd" * 32}
    file = tmp_path / "inspect"
    file.write_text(json.dumps([evil, DOCKER, twice]))
    ended = pinproof("claims", "--docker", file)
    assert ended.exit_code == 0
    assert (ended.stdout + ended.stderr).replace("\n", "").isprintable()
    names = [claim.name for claim in parse_claims(ended.stdout, "printed").claims]
    assert names == ["db", f"db@{'cd' * 6}"]


def test_docker_by_its_driver(tmp_path: Path) -> None:
    """Without a process and without its cgroup on this machine, the path follows from the driver, and that is said."""
    file = tmp_path / "inspect"
    file.write_text(json.dumps([DOCKER, DOCKER | {"Id": "cd" * 32, "State": {"Running": False}}]))
    ended = pinproof("claims", "--docker", file, "--json")
    (db,) = document(ended).values()
    assert db["cgroup"] == f"/system.slice/docker-{'ab' * 32}.scope"
    assert (db["cpus"], db["quota_us"], db["shares"]) == ("5-6", 25_000, 2048)
    assert "its cgroup was not found" in ended.stderr


@contextmanager
def engine(answers: dict[str, Any]) -> Iterator[Path]:
    """A container engine's API on a socket."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path)
            data = json.dumps(found).encode() if not isinstance(found, bytes) else found
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: object) -> None:
            pass

        def address_string(self) -> str:
            return "local"

    with tempfile.TemporaryDirectory(prefix="pp-") as folder:
        path = Path(folder) / "docker.sock"
        with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield path
            server.shutdown()


def test_the_engine_is_asked() -> None:
    """Its containers, one that is gone meanwhile, and its cgroup driver."""
    known = {
        "/containers/json": [{"Id": "ab" * 32}, {"Id": "cd" * 32}, {"Id": "../info"}],
        f"/containers/{'ab' * 32}/json": DOCKER,
        "/info": {"CgroupDriver": "cgroupfs"},
    }
    with engine(known) as path:
        ended = pinproof("claims", "--docker", path, "--json")
    (db,) = document(ended).values()
    assert db["cgroup"] == f"/docker/{'ab' * 32}"
    assert "without an id" in ended.stderr


def test_an_engine_that_answers_nonsense() -> None:
    """One line, exit code 2."""
    with engine({"/containers/json": b"[{"}) as path:
        ended = pinproof("claims", "--docker", path)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


def test_nothing_to_ask(tmp_path: Path) -> None:
    """No socket, no file: which, in one line."""
    for option, where in (("--docker", tmp_path / "none.sock"), ("--podman", tmp_path), ("--slurm", tmp_path / "no")):
        ended = pinproof("claims", option, where)
        assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
        assert str(tmp_path) in ended.stderr
    assert pinproof("claims", "--docker", "--podman").exit_code == 2


def test_a_container_of_a_real_docker(tmp_path: Path) -> None:
    """What docker 20.10 says makes the claim that its cgroup had; the process is not this machine's."""
    recorded = RECORDED.with_name("docker-inspect.json")
    (db,) = document(pinproof("claims", "--docker", recorded, "--proc", tmp_path, "--json")).values()
    container = "91204bfa77e6c36adea0d35732a82aeab0852891324637f4d6b82a54cb5da76d"
    assert db["cgroup"] == f"/system.slice/docker-{container}.scope"
    assert (db["cpus"], db["quota_us"], db["period_us"]) == ("5-6", 25_000, 100_000)
    assert (db["shares"], db["memory_bytes"]) == (2048, 67_108_864)


POD = json.loads(RECORDED.with_name("podman-pod-inspect.json").read_text())


def member(**changes: Any) -> dict[str, Any]:
    """A container of that pod."""
    cgroup = f"{POD['CgroupPath']}/libpod-{DOCKER['Id']}"
    state = {"Running": True, "Pid": 1 << 22, "CgroupPath": cgroup}
    config = {"CgroupManager": "cgroupfs", "CgroupParent": POD["CgroupPath"], "CpusetCpus": "", "CpuQuota": 10_000}
    return DOCKER | {"Pod": POD["Id"], "OCIRuntime": "runc", "State": state, "HostConfig": config} | changes


@pytest.mark.parametrize("together", [True, False], ids=["with-its-container", "alone"])
def test_limits_of_a_pod(tmp_path: Path, together: bool) -> None:
    """They are promised to the pod's own cgroup; its sets bind its containers. What one file says may be of both."""
    file = tmp_path / "inspect"
    file.write_text(json.dumps([member(), POD] if together else POD))
    claims = document(pinproof("claims", "--podman", file, "--json"))
    pod = claims["pp/(pod)"]
    assert pod["cgroup"] == POD["CgroupPath"]
    assert (pod["cpus"], pod["quota_us"], pod["period_us"], pod["memory_bytes"]) == ("0", 50_000, 100_000, 67_108_864)
    assert pod["kind"] == ("pod" if together else "container")
    if together:
        assert (claims["db"]["cpus"], claims["db"]["quota_us"]) == ("0", 10_000)
    assert set(claims) == ({"pp/(pod)", "db"} if together else {"pp/(pod)"})


def test_a_pod_of_which_nothing_is_known(tmp_path: Path) -> None:
    """A file of containers alone says nothing of their pod's limits; a pod without a cgroup has none in force."""
    file = tmp_path / "inspect"
    file.write_text(json.dumps([member()]))
    assert (
        f"not read: {POD['Id'][:12]}: limits of this pod are not in the file"
        in pinproof("claims", "--podman", file).stderr
    )
    bare = {key: value for key, value in POD.items() if key != "CgroupPath"} | {"State": "Running"}
    file.write_text(json.dumps([member(), bare]))
    ended = pinproof("claims", "--podman", file, "--json")
    assert document(ended)["db"]["cpus"] is None
    assert "pp/(pod): it has no cgroup of its own" in ended.stderr


@pytest.mark.parametrize("prefix", ["/v4.3.1/libpod", "/v4.0.0/libpod", "/libpod"])
def test_podmans_own_api_is_asked(prefix: str) -> None:
    """docker's, which it speaks as well, says neither where a container's cgroup is nor what manages it."""
    known = {
        "/containers/json": [{"Id": DOCKER["Id"]}],
        f"/containers/{DOCKER['Id']}/json": DOCKER,
        f"{prefix}/containers/{DOCKER['Id']}/json": member(),
        f"{prefix}/pods/{POD['Id']}/json": POD,
    }
    if "4.3.1" in prefix:
        known["/version"] = {"Version": "4.3.1"}
    with engine(known) as path:
        claims = document(pinproof("claims", "--podman", path, "--json"))
    assert {name: claim["cgroup"] for name, claim in claims.items()} == {
        "db": f"{POD['CgroupPath']}/libpod-{DOCKER['Id']}",
        "pp/(pod)": POD["CgroupPath"],
    }


def test_a_service_without_podmans_api(tmp_path: Path) -> None:
    """The first process says where the cgroup is: nothing names the manager, from which it would follow."""
    place = f"/libpod_parent/libpod-{DOCKER['Id']}"
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711/cgroup").write_text(f"4:cpuset:{place}\n0::{place}\n")
    known = {
        "/containers/json": [{"Id": DOCKER["Id"]}],
        f"/containers/{DOCKER['Id']}/json": DOCKER | {"State": {"Running": True, "Pid": 4711}},
    }
    with engine(known) as path:
        ended = pinproof("claims", "--podman", path, "--proc", tmp_path, "--json")
    assert document(ended)["db"]["cgroup"] == place


def machine_with(root: Path, cgroup: str, **files: str) -> Path:
    """A machine of cgroup v2 with CPUs 0 to 7 on which this cgroup has these files."""
    top = root / "sys/fs/cgroup"
    (top / cgroup.strip("/")).mkdir(parents=True)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n")
    (top / "cgroup.controllers").write_text("cpuset cpu memory\n")
    (top / "cpuset.cpus.effective").write_text("0-7\n")
    for name, text in files.items():
        (top / cgroup.strip("/") / name.replace("__", ".")).write_text(f"{text}\n")
    return root


LIMITED = {"cpuset__cpus": "0-3", "cpuset__cpus__effective": "0-3", "cpu__max": "50000 100000", "memory__max": "max"}
FREE = {"cpuset__cpus": "", "cpuset__cpus__effective": "0-7", "cpu__max": "max 100000", "memory__max": "max"}


@pytest.mark.parametrize("option", ["--docker", "--podman"])
@pytest.mark.parametrize(
    ("parent", "place"), [("shop-db.slice", "/shop.slice/shop-db.slice"), ("/shop/db", "/shop/db")]
)
@pytest.mark.parametrize("files", [LIMITED, FREE], ids=["limited", "free"])
def test_limits_of_the_parent_are_said(
    tmp_path: Path, option: str, parent: str, place: str, files: dict[str, str]
) -> None:
    """``--cgroup-parent``, and compose's, put a container below limits that its engine does not know."""
    root = machine_with(tmp_path / "root", place, **files)
    file = tmp_path / "inspect"
    file.write_text(json.dumps([DOCKER | {"HostConfig": DOCKER["HostConfig"] | {"CgroupParent": parent}}]))
    ended = pinproof("claims", option, file, "--root", root)
    said = f"not read: db: {place}, into which it was put, has a quota and CPUs of its own: not judged here"
    assert (said in ended.stderr) is (files is LIMITED), ended.stderr


def test_a_cgroup_that_differs_from_what_podman_says(tmp_path: Path) -> None:
    """Before 5.0 podman forgets its own update: the line that says so names the first value that differs."""
    place = f"/libpod_parent/libpod-{DOCKER['Id']}"
    root = machine_with(tmp_path / "root", place, **FREE | {"cpuset__cpus": "4", "cpuset__cpus__effective": "4"})
    file = tmp_path / "inspect"
    state = {"Running": True, "CgroupPath": place}
    file.write_text(json.dumps([DOCKER | {"State": state, "HostConfig": {"CpusetCpus": "5,6"}}]))
    ended = pinproof("claims", "--podman", file, "--root", root)
    why = "podman before 5.0 does not record what `podman update` changes, so its word may be old"
    assert f"not read: db: {why}: its cgroup has cpuset.cpus 4, podman says 5-6" in ended.stderr
    for version, named in (("4.9.4", True), ("5.0.0", False)):
        known = {
            "/version": {"Version": version},
            "/containers/json": [{"Id": DOCKER["Id"]}],
            f"/containers/{DOCKER['Id']}/json": DOCKER | {"State": state, "HostConfig": {"CpusetCpus": "5,6"}},
        }
        with engine(known) as path:
            ended = pinproof("claims", "--podman", path, "--root", root)
        assert (f"podman {version} does not record" in ended.stderr) is named


def test_a_pod_that_is_promised_nothing_is_listed(tmp_path: Path) -> None:
    """podman says that it runs, and of no limit: what it was promised before has ended."""
    limits = ("cpu_quota", "cpu_period", "cpu_shares", "memory_limit", "cpuset_cpus", "cpuset_mems")
    (tmp_path / "inspect").write_text(json.dumps([{key: value for key, value in POD.items() if key not in limits}]))
    found = podman.read(tmp_path / "inspect", Places(root=tmp_path))
    assert (found.claims.claims, found.unpromised) == ((), {POD["CgroupPath"]})
