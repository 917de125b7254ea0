"""Runs a director's script, and ``pinproof watch`` beside it as a user does: what the membership tests are made of."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from tests.integration.account import Action, Deed, deed
from tests.integration.account_compared import Seen
from tests.integration.probe_lab import cgroup, remove, wait_for
from tests.json_lines import result_in
from toolkit.host import cgroupfs


def identity(path: str) -> Path:
    """Return where a cgroup gives identity (v2)."""
    return cgroupfs.identity_dir(cgroupfs.detect(), path)


def procs(path: str = "/") -> str:
    """Return the file by which tasks join a cgroup's identity."""
    return str(identity(path) / "cgroup.procs")


def cpuset_mount() -> Path | None:
    """Return where the v1 hierarchy of the cpuset controller is mounted, if there is one."""
    return dict(cgroupfs.detect().legacy).get("cpuset")


@contextlib.contextmanager
def legacy_cpuset(name: str, cpus: int | str) -> Iterator[str]:
    """Make ``/name`` in the v1 hierarchy of the cpuset controller, with these CPUs; yields its ``cgroup.procs``."""
    mount = cpuset_mount()
    assert mount is not None
    directory = mount / name
    directory.mkdir()
    try:
        (directory / "cpuset.mems").write_text("0")
        (directory / "cpuset.cpus").write_text(str(cpus))
        yield str(directory / "cgroup.procs")
    finally:
        remove(directory)


def direct(program: Path, script: list[Action], cpu: int, while_it_runs: float = 60.0) -> list[Deed]:
    """Let a director perform a script and return what it did. All its actors are gone then."""
    text = "".join(action.line() + "\n" for action in script)
    done = subprocess.run(
        [str(program), str(cpu)], input=text, capture_output=True, text=True, timeout=while_it_runs, check=False
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, len(script)), f"{done.returncode} {done.stderr} {lines[-1:]}"
    return [deed(action, json.loads(line)) for action, line in zip(script, lines, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What ``pinproof watch`` said: exit code, result (--json), and the evidence that it saved."""

    code: int
    result: dict[str, Any]
    evidence: dict[str, Any]
    stderr: str

    def verdict(self, rule: str, subject: str = "") -> dict[str, Any]:
        """Return the one verdict of a rule about a subject."""
        found = [
            one for one in self.result["verdicts"] if one["rule"] == rule and (not subject or one["subject"] == subject)
        ]
        assert len(found) == 1, found
        verdict: dict[str, Any] = found[0]
        return verdict

    def outcome(self, rule: str, subject: str = "") -> str:
        """Return its outcome."""
        return str(self.verdict(rule, subject)["outcome"])

    def outside(self) -> list[Seen]:
        """Return which thread ran outside for how long, by the evidence."""
        return [Seen(claim=row["claim"], tid=row["tid"], ns=row["total_ns"]) for row in self.evidence["offenders"]]


class Watch:
    """``pinproof watch --json`` as a child process; its window is open when this is entered.

    It serves metrics as soon as its window is open, not before: that the port accepts is the word for it.
    """

    def __init__(self, claims: dict[str, Any], folder: Path) -> None:
        self._claims, self._folder = claims, folder

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "claims.yaml"
        path.write_text(yaml.safe_dump({"apiVersion": "pinproof/v1", "kind": "Claims", **self._claims}))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [str(Path(sys.executable).with_name("pinproof")), "watch", "--claims", str(path), "--json"]
        command += ["--metrics-detail", "claim", "--metrics-port", str(port), "--output", str(self._folder / "runs")]
        self._stdout = (self._folder / "stdout").open("w+")
        self._stderr = (self._folder / "stderr").open("w+")
        self.process = subprocess.Popen(command, stdout=self._stdout, stderr=self._stderr, start_new_session=True)
        try:
            wait_for(lambda: self._open(port), "the window is open", 60.0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self, port: int) -> bool:
        assert self.process.poll() is None, (self._folder / "stderr").read_text()
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    def answer(self) -> Answer:
        """End the window, as a user does with Ctrl-C or systemd with SIGTERM, and return what is said."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        errors = (self._folder / "stderr").read_text()
        text = (self._folder / "stdout").read_text()
        assert text, f"exit code {code}: {errors}"
        (run,) = (self._folder / "runs").iterdir()
        evidence = json.loads((run / "evidence.json").read_text())
        return Answer(code=code, result=result_in(text), evidence=evidence, stderr=errors)

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._stdout.close()
        self._stderr.close()


__all__ = ["Answer", "Watch", "cgroup", "cpuset_mount", "direct", "identity", "legacy_cpuset", "procs"]
