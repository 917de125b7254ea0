"""Claims files that cannot be judged here are refused in one line, before anything is watched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.probe_lab import cgroup
from toolkit.host.cgroup_mounts import detect

pytestmark = pytest.mark.beside

NAME = f"pinproof-refused-{os.getpid()}"
LEVELS = 23
"""As deep as the ledger sees a claim."""


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """A cgroup with a long row of others below it."""
    with cgroup(NAME) as path:
        unified = detect().unified
        assert unified is not None
        unified.joinpath(path[1:], *(f"l{level}" for level in range(2, LEVELS + 2))).mkdir(parents=True)
        yield path


def below(place: str, level: int) -> str:
    """The cgroup at a level."""
    return "/".join([place, *(f"l{number}" for number in range(2, level + 1))])


def watch(tmp_path: Path, head: str, *claims: str) -> subprocess.CompletedProcess[str]:
    """Watch a second long."""
    path = tmp_path / "claims.yaml"
    path.write_text("\n".join(["apiVersion: pinproof/v1", "kind: Claims", head, "claims:", *claims, ""]))
    return subprocess.run(
        [sys.executable, "-m", "toolkit", "watch", "--claims", path, "--duration", "1", "--output", tmp_path / "runs"],
        capture_output=True,
        text=True,
        check=False,
    )


def claim(place: str, name: str = "a", cpus: str = "0") -> str:
    """One entry."""
    return f'- {{name: {name}, cgroup: {place}, cpus: "{cpus}"}}'


@pytest.mark.parametrize(
    ("head", "entry", "said"),
    [
        (f"podsRoot: /{NAME}.slice", "", f"podsRoot /{NAME}.slice does not exist below "),
        (f"podsRoot: /{NAME}/l2/l3.slice", "", f"(there: /{NAME}/l2/l3)"),
        (f"podsRoot: /{NAME}/L2", "", f"(there: /{NAME}/l2)"),
        ("podsRoot: /", "", "podsRoot /; expected a path below the cgroup root"),
        ('reservedCPUs: "9999"', "", "reservedCPUs: CPUs 9999 do not exist here; expected CPUs within "),
        ("strictReservation: true", "", "strictReservation without reservedCPUs"),
        ("", claim(f"/{NAME}", "b"), f"cgroup '/{NAME}' twice"),
        ("", claim(f"{NAME}/", "b"), f"cgroup '/{NAME}' twice"),
        ("", claim("/", "b"), "claims.1.cgroup: "),
        ("", claim(f"/{NAME}/none", "b"), f"claim 'b': cgroup /{NAME}/none does not exist below "),
        ("", claim(below(f"/{NAME}", LEVELS + 1), "b"), f"lies {LEVELS + 1} levels deep; expected at most {LEVELS}"),
        ("", claim(f"/{NAME}/l2", "b", "9999"), "b: CPUs 9999 do not exist here"),
    ],
    ids=[
        *(
            "slice",
            "what is there",
            "another case",
            "root",
            "no such CPU",
            "strict without CPUs",
            "twice",
            "twice, unclean",
        ),
        *("root again", "none", "too deep", "no CPU of it"),
    ],
)
def test_one_line_and_exit_code_2(tmp_path: Path, place: str, head: str, entry: str, said: str) -> None:
    """It names the file, what is wrong and what there is instead."""
    done = watch(tmp_path, head, claim(place), *([entry] if entry else []))

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith(f"pinproof: {tmp_path / 'claims.yaml'}: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_deepest_claim_is_watched(tmp_path: Path, place: str) -> None:
    """One level less is seen: its task is judged."""
    unified = detect().unified
    assert unified is not None
    deepest = below(place, LEVELS)
    with subprocess.Popen(
        ["sh", "-c", 'echo $$ > "$0"; exec sh -c "while :; do sleep 0.01; done"', f"{unified}{deepest}/cgroup.procs"]
    ) as load:
        try:
            done = watch(tmp_path, "podsRoot: " + place, claim(deepest, "deep", str(min(os.sched_getaffinity(0)))))
        finally:
            load.kill()

    assert done.returncode in (0, 1, 3), done.stderr
    assert "cpuset-containment" in done.stdout
    evidence = next((tmp_path / "runs").glob("*/evidence.json")).read_text()
    assert '"claim": "deep"' in evidence.partition('"cpu_use"')[2].partition('"offenders"')[0]
