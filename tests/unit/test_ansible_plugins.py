"""The pure parts of the Ansible collection: how a job ended, what a node's archive may do, which wheels fit."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.ansible_plugins import plugin
from toolkit.errors import EXIT_CODES
from toolkit.model.node_record import NodeOutcome

endings = plugin("module_utils/endings")
unpacking = plugin("module_utils/unpacking")
wheels = plugin("filter/wheels_for")


def test_every_word_is_one_of_the_record() -> None:
    """And a play has all words but those of a reader of many records."""
    later = {NodeOutcome.WAIVED, NodeOutcome.STALE, NodeOutcome.NEVER}

    assert set(endings.MEANING) == {str(one) for one in NodeOutcome if one not in later}


@pytest.mark.parametrize("code", EXIT_CODES)
def test_every_exit_code_has_a_word(code: int) -> None:
    """Only 0 is green; a code that means no outcome is `died`."""
    outcome, cause = endings.of_process(code, "", "")

    assert (outcome == "passed") == (code == 0)
    assert (outcome == "died") == (code > 4)
    assert cause


@pytest.mark.parametrize(
    ("code", "stderr", "late", "outcome"),
    [
        (1, "pinproof: runs: No space left on device", None, "failed"),  # what was proved broken stays so
        (1, "", 5.0, "failed"),
        (130, "", 5.0, "timed-out"),
        (-9, "", 5.0, "timed-out"),
        (-9, "", None, "died"),
        (2, "pinproof: runs: No space left on device", None, "no-space"),
        (3, "pinproof: runs: No space left on device", None, "no-space"),
        (0, "pinproof: warning: x: No space left on device", None, "passed"),
        (4, "pinproof: cgroup v1 alone: no identity", None, "unsupported"),
        (4, "pinproof: this node is at work by now: 1 pod runs; nothing more was started", None, "at-work"),
        (127, "No such file", None, "died"),
    ],
)
def test_a_process_ended(code: int, stderr: str, late: float | None, outcome: str) -> None:
    """By exit code, what was said, and whether it was interrupted."""
    assert endings.of_process(code, "", stderr, late)[0] == outcome


@pytest.mark.parametrize(
    ("result", "began", "outcome"),
    [
        ({"unreachable": True, "msg": "Failed to connect: Connection refused"}, False, "unreachable"),
        ({"unreachable": True, "msg": "Shared connection to 10.0.0.1 closed."}, True, "died"),
        ({"unreachable": True, "msg": "mkdir: /root/.ansible/tmp: No space left on device"}, False, "no-space"),
        ({"failed": True, "module_stderr": "/bin/sh: 1: /usr/bin/python3: not found"}, False, "unsupported"),
        ({"failed": True, "msg": "ansible-core requires a minimum of Python version 3.8."}, False, "unsupported"),
        ({"failed": True, "timedout": {"frame": "x"}, "msg": "Timed out after 5 seconds"}, True, "timed-out"),
        ({"failed": True, "msg": "async task did not complete within the requested time - 5s"}, True, "timed-out"),
        ({"failed": True, "msg": "MODULE FAILURE", "module_stdout": "Killed"}, True, "died"),
        ({"failed": True, "outcome": "at-work", "cause": "a kubelet runs"}, True, "at-work"),
        ({}, True, "died"),
    ],
)
def test_a_task_ended(result: dict[str, Any], began: bool, outcome: str) -> None:
    """By what Ansible registered; silence is no outcome."""
    found, cause = endings.of_task(result, began)

    assert found == outcome
    assert cause
    assert "\n" not in cause


def test_a_cause_is_what_ssh_said() -> None:
    """Not what Ansible says of every connection; where ssh said nothing that is what there is."""
    around = 'Task failed: Data could not be sent to remote host "h". Make sure this host can be reached over ssh: '
    _, refused = endings.of_task(
        {"unreachable": True, "msg": around + "ssh: connect to host h: Connection refused"}, False
    )
    _, silent = endings.of_task({"unreachable": True, "msg": around}, True)

    assert refused == "ssh: connect to host h: Connection refused"
    assert silent.endswith("Make sure this host can be reached over ssh")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("check-20261128T233122.889479Z-9ed0fa", True),
        ("gate-20261128T233122.889479Z-before-9ed0fa", True),
        ("conformance-20261128T233122Z-9ed0fa", True),
        ("check-", False),
        ("..", False),
        ("check-20261128T233122Z-9ed0fa/..", False),
        ("home", False),
    ],
)
def test_nothing_but_the_folder_of_a_job_is_fetched_or_removed(name: str, ours: bool) -> None:
    """By its name, which is the module's own."""
    assert (endings.JOB_FOLDER.fullmatch(name) is not None) == ours


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Make an archive as a hostile node could."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """One entry, writable and setuid for all users."""
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, link, 0o6777
    return found


def test_plain_files_are_unpacked_and_nothing_else(tmp_path: Path) -> None:
    """No link, device or name that leads elsewhere; modes are the controller's; a file that comes twice is refused."""
    data = archive(
        (member("runs/r1/result.json"), b"{}"),
        (member("../outside"), b"x"),
        (member("/outside"), b"x"),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (member("hard", tarfile.LNKTYPE, "/etc/passwd"), b""),
        (member("null", tarfile.CHRTYPE), b""),
    )

    left = unpacking.unpack(data, str(tmp_path / "home"), 1000)

    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if not path.is_dir()] == [
        Path("home/runs/r1/result.json")
    ]
    assert (tmp_path / "home/runs/r1/result.json").stat().st_mode & 0o7777 == 0o600
    assert len(left) == 5


@pytest.mark.parametrize(
    "data",
    [b"", b"no archive", archive((member("a"), b"x" * 2000)), archive((member("a"), b"x"), (member("a"), b"y"))],
    ids=["empty", "garbage", "too large", "twice"],
)
def test_a_bad_archive_is_an_error(tmp_path: Path, data: bytes) -> None:
    """One that a caller can name; it ends no play."""
    with pytest.raises(ValueError, match="unpack"):
        unpacking.unpack(data, str(tmp_path / "home"), 1000)


HOUSE = [
    {"path": f"/wheels/{name}"}
    for name in (
        "pinproof-0.1.0-py3-none-any.whl",
        "click-8.1-py2.py3-none-any.whl",
        "PyYAML-6.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "PyYAML-6.0-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "PyYAML-6.0-cp313-cp313-musllinux_1_1_x86_64.whl",
        "PyYAML-6.0-cp313-cp313-macosx_11_0_x86_64.whl",
        "psutil-7.0-cp36-abi3-manylinux2010_x86_64.whl",
        "psutil-7.0-cp36-abi3-manylinux2014_aarch64.whl",
        "protobuf-6.0-cp312-abi3-manylinux2014_x86_64.whl",
        "torn.whl",
    )
]


@pytest.mark.parametrize(
    ("version", "machine", "numbers"),
    [([3, 11], "x86_64", [0, 1, 2, 6]), ([3, 13], "x86_64", [0, 1, 3, 6, 8]), ([3, 13], "aarch64", [0, 1, 7])],
)
def test_a_node_gets_the_wheels_that_fit(version: list[int], machine: str, numbers: list[int]) -> None:
    """By version, machine and glibc; a stable ABI of an older Python fits, of a newer one not."""
    assert wheels.wheels_for(HOUSE, version, machine) == [HOUSE[number] for number in numbers]


def test_what_a_node_lacks_is_seen() -> None:
    """What wheels are there for at all, each once."""
    assert wheels.distributions(HOUSE) == ["click", "pinproof", "protobuf", "psutil", "pyyaml", "torn.whl"]
