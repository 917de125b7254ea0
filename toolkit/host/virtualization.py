"""Whether this is a virtual machine, and whose: steal time and missing counters come with it. A hint, in words.

Source: the x86 ``hypervisor`` CPU flag (cpufeatures.h); Documentation/ABI/testing/sysfs-hypervisor-xen;
the vendor strings that systemd-detect-virt(1) documents; /proc/sysinfo on s390.
"""

from __future__ import annotations

from toolkit.host.sysfs import PROC_BYTES, SysTree

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
    cpuinfo = tree.read("proc/cpuinfo", PROC_BYTES) or ""
    flags = next((line.split() for line in cpuinfo.splitlines() if line.startswith("flags")), None)
    if flags is not None and "hypervisor" not in flags:
        # Cloud vendors put their name into the firmware of their bare-metal machines, too: the CPU knows better.
        return "none"
    kind = tree.read("sys/hypervisor/type")
    if kind:
        return kind
    firmware = " ".join(tree.read(f"sys/class/dmi/id/{name}") or "" for name in _DMI)
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
