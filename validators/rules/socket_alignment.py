"""Rule ``socket-alignment``: CPUs that were promised within one socket lie within one."""

from __future__ import annotations

from toolkit.model.claims import Alignment, ClaimSet, Preference
from toolkit.model.evidence import Evidence
from toolkit.model.measures import levels, sets, words
from toolkit.model.verdict import Verdict
from validators.placement import groups
from validators.placement.alignment import judge_asked, within_one_if_possible
from validators.rule import Rule, RuleDoc, prose
from validators.witness import Witness

ID = "socket-alignment"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised one socket."""
    machine = groups.cpu_groups(evidence, groups.SOCKETS)
    what = ("socket", "sockets")
    return judge_asked(
        ID,
        Alignment.SOCKET,
        claims,
        evidence,
        lambda stand: within_one_if_possible(ID, Preference.SOCKET, stand, evidence, machine, what),
        lambda claim: Alignment.SOCKET in claim.alignments or Preference.SOCKET in claim.preferences,
    )


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="CPUs that were promised within one socket lie within one.",
        how=prose("""
            Each CPU set that held during the window (promised, and granted by the kernel when the window opened and
            closed, if it was promised then) is compared with the packages as sysfs reports them.

            The option align-by-socket is a preference. If the node did not keep it, the verdict is skipped, with that
            reason; if it did, the CPUs must stay there. If a set or the topology was not read the verdict is undecided.
        """),
        tolerance="None.",
        source=prose("""
            Kubernetes documentation, Control CPU Management Policies, option align-by-socket;
            Documentation/admin-guide/cputopology.rst
        """),
        negative_control="Give the cgroup CPUs of two sockets: `echo 0,16 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
        measures=(
            *sets("cpus"),
            *levels("groups_count"),
            *words("preferred"),
        ),
    ),
    check,
)
