"""Rule ``llc-alignment``: CPUs that were promised behind one last-level cache lie behind one."""

from __future__ import annotations

from toolkit.model.claims import Alignment, Claim, ClaimSet, Preference
from toolkit.model.evidence import Evidence
from toolkit.model.measures import levels, sets, words
from toolkit.model.verdict import Verdict
from validators.placement import groups
from validators.placement.alignment import judge_asked, not_in_a_guest, within_one_if_possible
from validators.placement.promised import Stand
from validators.rule import Rule, RuleDoc, prose
from validators.witness import Witness

ID = "llc-alignment"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised one last-level cache."""
    return judge_asked(ID, Alignment.LLC, claims, evidence, lambda stand: _judge(stand, evidence), _asked)


def _asked(claim: Claim) -> bool:
    return Alignment.LLC in claim.alignments or Preference.LLC in claim.preferences


def _judge(stand: Stand, evidence: Evidence) -> Verdict:
    skipped = not_in_a_guest(ID, stand.claim, evidence, "its cache ids are the hypervisor's, not the hardware's")
    if skipped is not None:
        return skipped
    machine = groups.cpu_groups(evidence, groups.L3)
    what = ("level 3 cache", "level 3 caches")
    return within_one_if_possible(ID, Preference.LLC, stand, evidence, machine, what)


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="CPUs that were promised behind one last-level cache lie behind one.",
        how=prose("""
            Each CPU set that held during the window (promised, and granted by the kernel when the window opened and
            closed, if it was promised then) is compared with the CPUs that share a level 3 cache as sysfs reports them.

            The option prefer-align-cpus-by-uncorecache is a preference. If the node did not keep it, the verdict is
            skipped, with that reason; if it did, the CPUs must stay there.

            Skipped in a virtual machine, whose cache ids prove nothing. If a set or the topology was not read the
            verdict is undecided.
        """),
        tolerance="None.",
        source=prose("""
            Kubernetes documentation, Control CPU Management Policies, option prefer-align-cpus-by-uncorecache;
            Documentation/ABI/testing/sysfs-devices-system-cpu (cache/index*/shared_cpu_list);
            docs/principles.md
        """),
        negative_control="Give the cgroup CPUs behind two caches: `echo 0,4 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
        measures=(
            *sets("cpus"),
            *levels("groups_count"),
            *words("preferred"),
        ),
    ),
    check,
)
