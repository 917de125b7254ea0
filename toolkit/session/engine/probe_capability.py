"""Whether this kernel takes the probes' programs: it is asked by loading them; they are attached to nothing.

What they are made of may all be there, and the kernel's verifier still refuse one: a helper that such a program may not
call yet (Linux 5.10), a type that is laid out otherwise.

Source: bpf(2), ``BPF_PROG_LOAD``; docs/principles.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from probes import unit
from probes.composition import build_request
from probes.loader import load
from probes.options import ObserveOptions
from toolkit.errors import HostUnsupportedError
from toolkit.host.capabilities import Capability, HostReport, working_verbs
from toolkit.verbs import VERBS, Need

NAME, CACHE = "probes", "probe-cache"
_AFTER = "bcc"


def with_probes(report: HostReport, root: Path = Path("/")) -> HostReport:
    """Return the report with what the kernel says to the programs, behind the compiler's row.

    Where something is missing that every observation needs it is not asked: that is the cause, and has its remedy.
    A compiler is not needed where programs for this kernel are kept.
    """
    if report.verbs["watch"] not in ((), (_AFTER,)):
        return report
    programs = try_programs(root)
    found = [
        replace(fact, needed_by=(), detail=f"{fact.detail}; programs for this kernel are kept")
        if fact.name == _AFTER and not fact.available and programs.available
        else fact
        for fact in report.capabilities
    ]
    at = next((number for number, fact in enumerate(found, 1) if fact.name == _AFTER), len(found))
    found[at:at] = [programs, _cache(root)]
    capabilities = tuple(found)
    return replace(report, capabilities=capabilities, verbs=working_verbs(capabilities))


def _cache(root: Path) -> Capability:
    """Where compiled probes are kept for the next start."""
    problem = unit.strange(root)
    detail = f"{problem}: {unit.UNUSED}" if problem else f"/{unit.CACHE}: root's alone, or not made yet"
    return Capability(name=CACHE, available=not problem, detail=detail, remedy=unit.REMEDY if problem else "")


def try_programs(root: Path = Path("/")) -> Capability:
    """Load the programs of all witnesses, and let them go. Seconds, where no earlier start has compiled them."""
    needed_by = tuple(name for name, verb in VERBS.items() if verb.needs >= Need.OBSERVE)
    try:
        loaded = load(build_request(root, ObserveOptions()), root, keep=False)
    except HostUnsupportedError as error:
        remedy = (
            "a kernel that takes them (5.10, 6.1 and later are tested), or a bcc whose compiler is tested (LLVM 14 to "
            "22): the words above name both; if these should do, report it with these words"
        )
        return Capability(name=NAME, available=False, detail=str(error), remedy=remedy, needed_by=needed_by)
    count, refused = len(loaded.programs), loaded.left_out
    loaded.close()
    without = "".join(f"; without {name} ({why})" for name, why in sorted(refused.items()))
    detail = f"tried, works: {count} programs{without}"
    return Capability(name=NAME, available=True, detail=detail, needed_by=needed_by)
