"""Which files a running kubelet's command line names, with and without ``=``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.unit.toolkit.sources.made_node import process, write
from toolkit.model.node_reading import KUBELET_STARTED, STATE_REWRITTEN, STATE_WRITTEN
from toolkit.sources.kubelet.configuration import settings
from toolkit.sources.kubelet.files.cgroups import threads
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_live
from toolkit.sources.places import Places

FILE = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: {}\n"


@pytest.mark.parametrize("form", ["--config={}\0--config-dir={}\0", "--config\0{}\0--config-dir\0{}\0"])
@pytest.mark.parametrize("drop_in", [True, False])
def test_the_files_that_flags_name_are_read(tmp_path: Path, form: str, *, drop_in: bool) -> None:
    """Both forms name the same files; a drop-in wins, a directory that is not there changes nothing."""
    file, folder = tmp_path / "own.yaml", tmp_path / "conf.d"
    file.write_text(FILE.format("'1'"))
    if drop_in:
        folder.mkdir()
        (folder / "9.conf").write_text(FILE.format("'3'"))
    process = tmp_path / "proc/42"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    (process / "cmdline").write_text("/usr/bin/kubelet\0" + form.format(file, folder))
    (tmp_path / "kubelet").mkdir()

    names = {"kubelet_root": "kubelet", "cgroup_root": "cgroup", "proc": "proc", "logs": "logs", "sys": "sys"}
    reading = read_live(Places(**{key: tmp_path / name for key, name in names.items()}, cri=str(tmp_path / "none")))

    assert str(settings(reading).reserved) == ("3" if drop_in else "1")


@pytest.mark.parametrize(
    ("arguments", "policy", "reserved"),
    [
        pytest.param(["--cpu-manager-policy=static", "--kube-reserved=cpu=1"], "static", "", id="flags-alone"),
        pytest.param(["--kubeconfig=/x"], "none", "", id="flags-that-say-nothing-of-it"),
        pytest.param([], "static", "3", id="a-command-line-that-is-empty"),
        pytest.param(None, "static", "3", id="no-kubelet-is-seen"),
    ],
)
def test_a_file_that_no_flag_names_is_not_read(
    tmp_path: Path, arguments: list[str] | None, policy: str, reserved: str
) -> None:
    """A kubelet without `--config` reads none, whatever an earlier one has left at the usual place."""
    write(tmp_path, "var/lib/kubelet/config.yaml", FILE.format("'3'") + "cpuManagerPolicy: static\n")
    if arguments is not None:
        process(tmp_path, 42, "kubelet", "/kubelet.service", arguments)
    node = node_claims(read_live(Places(root=tmp_path, cri=str(tmp_path / "none"))))
    assert (node.settings.config.cpu_manager_policy, str(node.settings.reserved)) == (policy, reserved)
    assert "config" not in {part.part for part in node.missing}


@pytest.mark.parametrize("pid", [os.getpid(), None], ids=["seen", "none-runs"])
def test_a_reading_says_since_when_a_kubelet_can_reconcile(tmp_path: Path, pid: int | None) -> None:
    """Where none is seen, from now on at the earliest."""
    began_s = time.time()
    if pid is not None:
        process(tmp_path, pid, "kubelet", "/kubelet.service", [])
        stat = Path(f"/proc/{pid}/stat").read_text()
        (tmp_path / f"proc/{pid}/stat").write_text(stat)
        began_s = psutil.Process(pid).create_time()
    times = read_live(Places(root=tmp_path, cri=str(tmp_path / "none"))).read_at_s
    assert times[KUBELET_STARTED] == pytest.approx(began_s, abs=2)
    assert STATE_REWRITTEN not in times


def test_a_state_file_that_changes_during_the_reading_is_said_to_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read after it may be of the new one."""
    state = tmp_path / "var/lib/kubelet/cpu_manager_state"
    write(tmp_path, "var/lib/kubelet/cpu_manager_state", "{}")
    os.utime(state, (100, 100))

    def answers(*_: object, **__: object) -> tuple[dict[str, bytes], str]:
        os.utime(state, (200, 200))
        return {}, ""

    monkeypatch.setattr("toolkit.sources.kubelet.files.live.runtime_files", answers)
    times = read_live(Places(root=tmp_path)).read_at_s
    assert (times[STATE_WRITTEN], times[STATE_REWRITTEN]) == (100, 200)


@pytest.mark.parametrize("path", ["/" + "a/" * 3000 + "x", "/" + "a" * 5000, "/" + "a/" * 2_000_000])
@pytest.mark.parametrize(
    "flag", ["config", "config-dir", "root-dir", "pod-manifest-path", "container-runtime-endpoint"]
)
def test_a_path_that_no_file_can_have_is_missing(tmp_path: Path, flag: str, path: str) -> None:
    """A command line below another root is a stranger's: deeper than Python's stack, longer than any path."""
    process(tmp_path, 42, "kubelet", "/kubelet.service", [f"--{flag}={path}"])
    write(tmp_path, "var/lib/kubelet/cpu_manager_state", "{}")
    node = node_claims(read_live(Places(root=tmp_path)))
    assert not [part for part in node.missing if "\n" in part.reason]


def test_what_is_not_there_is_named_below_the_root(tmp_path: Path) -> None:
    """Links are followed inside it; behind one that leads nowhere there, nothing is."""
    (tmp_path / "data").mkdir()
    (tmp_path / "var").symlink_to("/data")
    (tmp_path / "data/out").symlink_to("/etc")
    places = Places(root=tmp_path)
    assert places.below("/var/lib/x") == tmp_path / "data/lib/x"
    assert places.below("/var/out/passwd") == tmp_path / "data/out (a link to nothing)/passwd"
    assert places.below("/") == places.below("") == tmp_path


def test_a_first_thread_that_ended_before_the_others_is_left_out() -> None:
    """Its mask stays as it was when the set changes, and v1 shows it at the root: no thread of the container's."""
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as one:
        end = time.monotonic() + 60
        while psutil.Process(one.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < end:
            time.sleep(0.01)
        found = threads({"cgroup/kubepods/pod1/db/cgroup.procs": b"%d\n" % one.pid}, Path("/proc"))[str(one.pid)]
        there = {path.name for path in Path(f"/proc/{one.pid}/task").iterdir()}
        one.kill()
    assert str(one.pid) in there
    assert found["threads"].keys() == there - {str(one.pid)}
    assert found["cgroup"]
