"""Whether this is a virtual machine, and on which hypervisor. A hint, in words.

On the running machine systemd-detect-virt(1) is asked, which knows far more machines than we do (bare metal whose
firmware has a cloud's name, for one). Files are read where there is no such command, and of a saved tree.

Source: systemd-detect-virt(1), ``--vm``, and the vendor strings that it documents; the x86 ``hypervisor`` CPU flag
(cpufeatures.h); Documentation/ABI/testing/sysfs-hypervisor-xen; /proc/sysinfo on s390.
"""

from __future__ import annotations

import functools
import re
import subprocess

from toolkit.host.sysfs import PROC_BYTES, SysTree

COMMAND = ("systemd-detect-virt", "--vm")
TIMEOUT_S = 5.0

_DMI = ("sys_vendor", "product_name", "board_vendor", "bios_vendor")
_VENDORS = (
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Google Compute Engine", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("innotek GmbH", "virtualbox"),
    ("VirtualBox", "virtualbox"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
    ("Apple Virtualization", "apple"),
)
_CLOCKS = (("kvm-clock", "kvm"), ("hyperv_clocksource", "microsoft"), ("xen", "xen"))


def read_virtualization(tree: SysTree) -> str:
    """Return ``none``, the hypervisor's name, or ``hypervisor`` when there is one that does not say which."""
    return (_asked() if tree.live else None) or _from_files(tree)


@functools.cache
def _asked() -> str | None:
    """Return what systemd-detect-virt says; ``None`` where it is missing or fails. Asked once: a machine stays."""
    try:
        done = subprocess.run(COMMAND, capture_output=True, check=False, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    word = done.stdout.decode("ascii", "replace").strip()
    # It ends with 1 where it finds none, and says so: only the word counts.
    return word if done.returncode in (0, 1) and re.fullmatch(r"[a-z0-9-]{1,32}", word, re.ASCII) else None


def _from_files(tree: SysTree) -> str:
    cpuinfo = tree.read("proc/cpuinfo", PROC_BYTES) or ""
    flags = next((line.split() for line in cpuinfo.splitlines() if line.startswith("flags")), None)
    if flags is not None and "hypervisor" not in flags:
        # Cloud vendors put their name into the firmware of their bare-metal machines, too: the CPU knows better.
        return "none"
    kind = tree.read("sys/hypervisor/type")
    if kind:
        return kind
    firmware = " ".join(tree.read(f"sys/class/dmi/id/{name}") or "" for name in _DMI)
    if "Amazon EC2" in firmware and ".metal" in (tree.read("sys/class/dmi/id/product_name") or ""):
        # Bare metal; on arm64 no flag of the CPU says so. Source: Amazon EC2's names of instance types.
        return "none"
    clocks = tree.read("sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    for text, table in ((firmware, _VENDORS), (clocks, _CLOCKS)):
        for word, name in table:
            if word in text:
                return name
    sysinfo = tree.read("proc/sysinfo") or ""
    if "Control Program: KVM" in sysinfo:
        return "kvm"
    if "Control Program: z/VM" in sysinfo:
        return "zvm"
    compatible = tree.read("proc/device-tree/hypervisor/compatible")
    if compatible:
        return compatible.split("\0")[0].removeprefix("linux,")
    return "none" if flags is None else "hypervisor"
