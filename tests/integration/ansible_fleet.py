"""A fleet of nodes made of namespaces, for Ansible tests: real sshd, own file system, no address outside.

Each node has its own network, mount, UTS and IPC namespace and an overlay of this machine's root whose writes land in
memory. Most have a PID namespace, too, in which pinproof refuses to run; ``whole`` nodes see all processes. All share
this machine's kernel: this is for the mechanics of roles over ssh, not for what a kernel does. Nodes hang on a bridge
in a namespace of its own (the hub), which is where the controller runs.

Nothing needs cleaning up by name: every namespace, mount and address lives exactly as long as the processes started
here, and those die with the process that runs the tests (PR_SET_PDEATHSIG). What runs on a ``whole`` node is found by
its network namespace and killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
NETWORK = "10.77.0"
NOWHERE = f"{NETWORK}.200"
"""An address of the fleet that no node has."""
START_DEADLINE_S = 60

# The network of this machine has a name there, `outside`.
_HUB = """
mount --bind /proc/self/ns/net "$0"
exec unshare --net --mount --pid --fork --kill-child --mount-proc sleep infinity
"""
_NODE = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
root=$1/root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
for folder in run tmp var/tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
mkdir -p "$root/run/sshd" "$root/run/node" "$root/var/empty"
cp "$2/authorized_keys" "$2/hostkey" "$root/run/node/"
chmod 600 "$root/run/node/hostkey"
if [ -n "$3" ]; then cp -a "$3/usr" "$root/"; fi
grep -q ^sshd: "$root/etc/passwd" || echo 'sshd:x:109:65534::/run/sshd:/usr/sbin/nologin' >>"$root/etc/passwd"
# sshd refuses accounts that are locked with "!"; "*" only means that no password fits.
sed -i 's/^root:!*[^:]*:/root:*:/' "$root/etc/shadow"
hostname "$4"
exec chroot "$root" /usr/sbin/sshd -f /dev/null -D -e -h /run/node/hostkey -o 'Subsystem=sftp internal-sftp' \
  -o UsePAM=no -o PermitRootLogin=prohibit-password -o StrictModes=no -o UseDNS=no -o PidFile=none \
  -o AuthorizedKeysFile=/run/node/authorized_keys
"""


class Fleet:
    """Nodes and a hub, alive between ``__enter__`` and ``__exit__``."""

    def __init__(self, folder: Path, size: int = 2, names: Sequence[str] = (), whole: Sequence[str] = ()) -> None:
        """Describe a fleet. :param names: of its nodes, instead of a size. :param whole: which see all processes."""
        self.folder = folder
        self.names = tuple(names) or tuple(f"node{number}" for number in range(1, size + 1))
        self.whole = frozenset(whole)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Fleet:
        for name in ("unshare", "nsenter", "setpriv", "ip", "ssh", "ssh-keygen"):
            _need(name)
        sshd_tree = _sshd_tree()
        for key in ("id", "hostkey"):
            _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)])
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        (self.folder / "outside").touch()
        try:
            self._start("hub", ["unshare", "--mount", "sh", "-c", _HUB, str(self.folder / "outside")])
            self._ip("hub", "link set lo up")
            self._ip("hub", "link add fleet0 type bridge")
            self._ip("hub", f"addr add {NETWORK}.254/24 dev fleet0")
            self._ip("hub", "link set fleet0 up")
            for name in self.names:
                self._start_node(name, sshd_tree)
            for name in self.names:
                self._wait_for_ssh(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.whole & self._processes.keys():
            self.kill(name)
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def inventory(self, variables: Mapping[str, Mapping[str, object]], at: Mapping[str, str] | None = None) -> Path:
        """Write an inventory of the fleet.

        :param variables: of each host.
        :param at: the nodes that hosts with other names are.
        """
        nodes = {name: name for name in self.names} | dict(at or {})
        hosts = {
            name: {"ansible_host": self._address(nodes[name]) if name in nodes else NOWHERE, **own}
            for name, own in variables.items()
        }
        everyone = {
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(self.folder / "id"),
            "ansible_ssh_common_args": " ".join(self._ssh_options()),
        }
        path = self.folder / "hosts.json"
        path.write_text(json.dumps({"pinproof_nodes": {"hosts": hosts, "vars": everyone}}))
        return path

    def controller(self) -> list[str]:
        """Command prefix that runs a program in the hub, where connections stay open from one play to the next."""
        spaces = f"/proc/{self._processes['hub'].pid}/ns"
        # The hub's process is the one that made its process namespace, not one inside.
        return ["nsenter", f"--net={spaces}/net", f"--mount={spaces}/mnt", f"--pid={spaces}/pid_for_children"]

    def python_outside(self) -> Path:
        """An interpreter for the controller that is on this machine's network: building wheels needs an index."""
        path = self.folder / "python-outside"
        path.write_text(f'#!/bin/sh\nexec nsenter --net={self.folder}/outside {sys.executable} "$@"\n')
        path.chmod(0o755)
        return path

    def files(self, name: str) -> Path:
        """The root folder of a node, as this machine sees it. Its absolute links lead elsewhere."""
        root = Path(f"/proc/{self._processes[name].pid}/root")
        # A whole node's process is its sshd, whose root is the node's already.
        return root if name in self.whole else Path(f"{root}{self.folder}/{name}/root")

    def written(self, name: str) -> list[str]:
        """Every file that a node has written since it was made, with size and time: those over this machine's."""
        upper = f"{self.folder}/{name}/upper"
        into = ["nsenter", "--target", str(self._processes[name].pid), "--mount"]
        done = subprocess.run(
            [*into, "find", upper, "!", "-type", "d", "-printf", "%P %s %T@\\n"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return sorted(done.stdout.splitlines())

    def ssh(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a node."""
        # One connection for all commands, which lives in the hub and no longer than it.
        shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "-o", f"ControlPath={self.folder}/to-%h"]
        options = ["-i", str(self.folder / "id"), *self._ssh_options(), *shared]
        ssh = ["ssh", *options, f"root@{self._address(name)}", *command]
        return subprocess.run(
            [*self.controller(), *ssh],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def pids(self, name: str) -> list[int]:
        """Every process of a node, by its network namespace."""
        mine = _namespace(self._processes[name].pid)
        every = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in every if mine is not None and _namespace(pid) == mine]

    def kill(self, name: str) -> None:
        """End a node as a power failure does: all of its processes at once."""
        self.signal(name, signal.SIGKILL)
        self._processes[name].kill()

    def signal(self, name: str, number: signal.Signals, *, but: str = "") -> None:
        """Send a signal to every process of a node, but those of one program."""
        for pid in self.pids(name):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if Path(f"/proc/{pid}/comm").read_text().strip() != but:
                    os.kill(pid, number)

    def _address(self, name: str) -> str:
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def _ssh_options(self) -> list[str]:
        # One host key for all nodes, known beforehand: a fleet made for a test has no strangers.
        known = self.folder / "known_hosts"
        key = " ".join((self.folder / "hostkey.pub").read_text().split()[:2])
        known.write_text("".join(f"{self._address(name)} {key}\n" for name in self.names))
        return ["-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10"]

    def _start(self, name: str, command: Sequence[str]) -> int:
        log = (self.folder / f"{name}.log").open("wb")
        before = _namespace(os.getpid())
        with log:
            self._processes[name] = process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_DEADLINE_S
        while _namespace(process.pid) in {before, None}:
            self._check_alive(name, deadline)
        return process.pid

    def _start_node(self, name: str, sshd_tree: str) -> None:
        place = self.folder / name
        place.mkdir()
        spaces = ["--net", "--mount", "--uts", "--ipc"]
        if name not in self.whole:
            spaces += ["--pid", "--fork", "--kill-child", "--mount-proc"]
        arguments = [str(place), str(self.folder), sshd_tree, name]
        pid = self._start(name, ["unshare", *spaces, "sh", "-c", _NODE, "node", *arguments])
        port = f"port{self.names.index(name) + 1}"
        self._ip("hub", f"link add {port} type veth peer name eth0 netns {pid}")
        self._ip("hub", f"link set {port} master fleet0 up")
        self._ip(name, "link set lo up")
        self._ip(name, f"addr add {self._address(name)}/24 dev eth0")
        self._ip(name, "link set eth0 up")

    def _ip(self, name: str, arguments: str) -> None:
        _run(["nsenter", "--target", str(self._processes[name].pid), "--net", "ip", *arguments.split()])

    def _wait_for_ssh(self, name: str) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while (answer := self.ssh(name, "hostname")).stdout.strip() != name:
            self._check_alive(name, deadline, answer.stderr)

    def _check_alive(self, name: str, deadline: float, said: str = "") -> None:
        process = self._processes[name]
        if process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)  # between two looks at a condition
            return
        log = (self.folder / f"{name}.log").read_text(errors="replace")
        pytest.fail(f"{name} did not start (exit code {process.returncode}): {said}{log[-2000:]}")


def _namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return None


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def _need(name: str) -> None:
    if shutil.which(name) is None:
        _missing(f"{name} is not installed (ansible/setup.sh test installs it)")


def _sshd_tree() -> str:
    """Where an unpacked sshd lies, or ``""`` if this machine has one installed."""
    if Path("/usr/sbin/sshd").exists():
        return ""
    unpacked = PROJECT / ".cache" / "sshd"
    if not (unpacked / "usr/sbin/sshd").exists():
        _missing("no sshd, installed or unpacked (ansible/setup.sh test unpacks it)")
    return str(unpacked)


def _missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
