"""What was promised of a claim's CPUs as hardware against what the machine's files say of them. Facts only.

An interrupt may go where its mask says, and goes where the kernel has put it. One that a driver manages, a queue of a
disk for each CPU, cannot be moved: where its mask has no other CPU that is a doubt, and no broken promise.
Source: Documentation/core-api/irq/irq-affinity.rst; kernel/irq/manage.c (``irq_can_set_affinity_usr``).
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.claims import Claim
from toolkit.model.cpu_tuning import CpuSettings
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence
from toolkit.text.wording import and_more

UNKNOWN = "not known"
"""How a problem begins that is a doubt."""
INTERRUPTS = "the interrupts"


def problems(claim: Claim, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield what was promised, and what is wrong with it: empty if nothing is, from :data:`UNKNOWN` on if in doubt."""
    tuning, settings = claim.tuning, evidence.cpu_settings
    if tuning is None or not claim.cpus:
        return
    for name, promised, found in (
        ("pm_qos_resume_latency_us", tuning.resume_latency_us, settings.resume_latency_us if settings else {}),
        ("scaling_governor", tuning.governor, settings.governors if settings else {}),
    ):
        if promised:
            yield name, _texts(claim.cpus, promised, found)
    if tuning.interrupts_elsewhere:
        yield INTERRUPTS, _interrupts(claim.cpus, settings)


def _texts(cpus: CpuSet, promised: str, found: dict[int, str]) -> str:
    for cpu in cpus:
        if found.get(cpu, promised) != promised:
            return f"of CPU {cpu} was {found[cpu]}, promised {promised}"
    unread = CpuSet.of(cpu for cpu in cpus if cpu not in found)
    return f"{UNKNOWN}: that of {cpus_text(unread)} was not read" if unread else ""


def _interrupts(cpus: CpuSet, settings: CpuSettings | None) -> str:
    if settings is None or settings.interrupts is None:
        return f"{UNKNOWN}: where they go was not read"
    here = [one for one in settings.interrupts if (one.may if one.goes is None else one.goes) & cpus]
    free = [one for one in here if not one.may <= cpus]
    if free:
        first, more = free[0], and_more(len(free) - 1, aside=True)
        where = cpus_text((first.may if first.goes is None else first.goes) & cpus)
        return f"were not kept away: interrupt {first.irq} goes to {where}, and may go to {cpus_text(first.may)}{more}"
    default = settings.default_interrupts
    if default is not None and default & cpus:
        return f"of new devices may go to {cpus_text(default & cpus)}: /proc/irq/default_smp_affinity"
    if here:
        more = and_more(len(here) - 1, aside=True)
        return (
            f"{UNKNOWN}: interrupt {here[0].irq} goes to {cpus_text(here[0].may & cpus)} alone{more}, where its driver "
            "or something else has put it"
        )
    return ""
