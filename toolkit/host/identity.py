"""What tells one node from another, read from the machine; see :mod:`toolkit.model.identity`.

Source: machine-id(5); Documentation/admin-guide/sysctl/kernel.rst; proc(5) (``/proc/version``, ``/proc/cpuinfo``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from toolkit.host.sysfs import PROC_BYTES, SysTree
from toolkit.model.identity import Identity, digest, hardware_class
from toolkit.model.topology import Topology
from toolkit.text.names import printable

NODE, SALT, JOB = "PINPROOF_NODE", "PINPROOF_FLEET_SALT", "PINPROOF_JOB"
"""Variables of the environment by which whatever starts pinproof says what the machine cannot."""
MAX_CHARACTERS = 253
"""Of a node's name, as of a Kubernetes object's."""
SYSCTLS = (
    "kernel.sched_cfs_bandwidth_slice_us",
    "kernel.sched_rt_period_us",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_schedstats",
    "kernel.numa_balancing",
    "kernel.timer_migration",
    "kernel.watchdog",
    "kernel.perf_event_paranoid",
    "kernel.unprivileged_bpf_disabled",
    "vm.stat_interval",
    "vm.compaction_proactiveness",
    "vm.nr_hugepages",
)
"""Of the scheduler, and of what works on every CPU from time to time."""
_BUILD = re.compile(r"^Linux version \S+ (?:\(.*\) )?(?=#)")


def read_identity(root: Path, topology: Topology, environ: Mapping[str, str] = os.environ) -> Identity:
    """Read the facts below ``root``, each of them without root's rights; what is not there is empty.

    :param topology: the machine, for its class. :param environ: what whatever starts pinproof says.
    """
    tree = SysTree(root)
    machine_id = tree.name("etc/machine-id") or tree.name("var/lib/dbus/machine-id") or ""
    node = environ.get(NODE) or tree.name("proc/sys/kernel/hostname") or ""
    return Identity(
        node=_said(node),
        machine=digest(environ.get(SALT, ""), machine_id) if machine_id else "",
        boot_id=tree.name("proc/sys/kernel/random/boot_id") or "",
        job=_said(environ.get(JOB, "")),
        kernel_build=_BUILD.sub("", tree.name("proc/version") or ""),
        microcode=_microcode(tree),
        sysctls={name: value for name in SYSCTLS if (value := tree.name(f"proc/sys/{name.replace('.', '/')}"))},
        hardware=hardware_class(topology),
    )


def _said(text: str) -> str:
    return printable(text)[:MAX_CHARACTERS]


def _microcode(tree: SysTree) -> str:
    """Return the revision of the first CPU's microcode: x86 alone says it."""
    text = tree.name("sys/devices/system/cpu/cpu0/microcode/version")
    if text:
        return text
    found = re.search(
        rb"^microcode\s*:\s*(\S{1,40})$", tree.read_bytes("proc/cpuinfo", PROC_BYTES) or b"", re.MULTILINE
    )
    return "" if found is None else found[1].decode("ascii", "replace")
