"""An interrupt is delivered to a CPU that is another's own.

Source: Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

from toolkit.apply import changes
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.faults.fault import Alternatives, Fault, Scope
from toolkit.faults.injection import Host, Injection, one_cpu
from toolkit.faults.interrupts import affinity, interrupt_counts, numbers
from toolkit.host.cgroup_mounts import read_control


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Move ``irq``, or any interrupt, the busiest first, to the one CPU in ``cpus``."""
    cpu = one_cpu(injection)
    if cpu not in host.online():
        raise InputError("--cpus", f"CPU {cpu} is not online", f"one of {host.online()}")
    counts = interrupt_counts(host.root)
    chosen = numbers(host.root) if injection.irq is None else [injection.irq]
    found = []
    for irq in sorted(chosen, key=lambda number: (-counts.get(number, 0), number)):
        path, before = affinity(host.root, irq)
        effective = (read_control(host.root / f"proc/irq/{irq}/effective_affinity_list") or "").strip()
        if before and irq in counts and not changes.same("smp_affinity_list", before, str(cpu)):
            via = "" if effective in ("", before) else effective
            found.append((HostChange(kind=ChangeKind.CONTROL, path=path, before=before, after=str(cpu), via=via),))
    if not found:
        which = "no interrupt of this host" if injection.irq is None else f"interrupt {injection.irq}"
        raise HostUnsupportedError(f"{which} can be moved to CPU {cpu}: not in use, or bound to it already")
    return tuple(found)


FAULT = Fault(
    id="irq-moved",
    scope=Scope.HOST,
    title="an interrupt is moved onto an exclusive CPU",
    changes="/proc/irq/N/smp_affinity_list of --irq (default: the busiest that can be moved) becomes --cpus",
    field=("F52",),
    rules=("noise",),
    prepare=prepare,
    # Managed interrupts and those that belong to one CPU look like the others until one tries.
    by_trying=True,
    about_a_cpu=True,
    # A budget of nothing: how much an interrupt takes is the machine's affair, that it came is the fault.
    noise_budget_ns_per_s=0,
)
