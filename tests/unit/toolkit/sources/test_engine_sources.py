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
from toolkit.sources.claims_file import parse_claims

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
