"""Rule ``smt-alignment``: the claim has whole cores, and no foreign workload ran on any thread of them."""

from __future__ import annotations

from toolkit.model.claims import Alignment, Claim, ClaimSet, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.measures import sets, words
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from validators.credibility.trust import is_still
from validators.intruders import foreign, ownership, placing, possession
from validators.placement import groups
from validators.placement.alignment import judge_asked, not_given, sets_in_force
from validators.placement.promised import Stand
from validators.queries import view
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.witness import Witness
from validators.wording import listed, plural

ID = "smt-alignment"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised whole cores."""
    return judge_asked(ID, Alignment.SMT, claims, evidence, lambda stand: _judge(stand, claims, evidence), _asked)


def _asked(claim: Claim) -> bool:
    wanted = {Alignment.SMT, Alignment.SMT_POD}
    return bool(wanted & set(claim.alignments)) or Preference.CORES in claim.preferences


def _judge(stand: Stand, claims: ClaimSet, evidence: Evidence) -> Verdict:
    claim = stand.claim
    if Preference.CORES in claim.preferences:
        return _distinct(stand, evidence)
    cores = groups.cpu_groups(evidence, groups.CORES)
    sets = sets_in_force(stand, evidence)
    measures: dict[str, Measure] = {"cpus": str(claim.cpus or "")}
    strangers: list[Offender] = []
    verdict = Judgement(ID, claim.name, measures, strangers)
    if cores is None:
        return verdict(Outcome.UNDECIDED, "the machine's cores are not known")
    if isinstance(sets, str):
        return verdict(Outcome.UNDECIDED, sets)
    now = next(one for one in claims.claims if one.name == claim.name)
    owned = ownership.owned(claims, now, evidence.transitions).between(stand.begin_ns, stand.end_ns)
    own = owned.cpus | (claim.cpus or sets[-1][1])
    text = owned.text if owned.changed else str(own)
    mine = [core for core in cores if core & own]
    threads = CpuSet.union(mine)
    if owned.changed:
        measures["cpus"] = text
    measures["cores_count"] = len(mine)
    measures["sibling_cpus"] = str(threads - own)
    seen = foreign.foreign_use(
        claims,
        evidence,
        threads,
        lambda other, _cpu: view.same_pod(claim, other) or view.inside(other, claim),
        _held(claim, owned, mine, evidence),
    )
    strangers += [*seen.workload, *seen.of(OwnerClass.FOREIGN_POD)]
    measures |= seen.measures()
    # Containers of a pod with a budget of its own share the pod's cores.
    whole = Alignment.SMT in claim.alignments
    for name, cpus in sets if whole else ():
        for core in cores:
            if core & cpus and not core <= cpus:
                return verdict(Outcome.FAILED, f"CPUs {cpus} ({name}) have only {core & cpus} of the core {core}")
    if strangers:
        strays = sorted({stay.claim if stay.claim != foreign.UNCLAIMED else stay.comm for stay in strangers})
        spent = foreign.total_ns(strangers) / 1e6
        return verdict(Outcome.FAILED, f"{', '.join(strays[:3])} ran {spent:.3f} ms on threads {threads} of its cores")
    known = CpuSet.union(cores)
    for name, cpus in sets:
        if not cpus <= known:
            return verdict(Outcome.UNDECIDED, f"the core of CPUs {cpus - known} ({name}) is not known")
    kind = ("whole core", "whole cores") if whole else ("core of the pod", "cores of the pod")
    if is_still(evidence):
        still = f"CPUs {text} are {plural(len(mine), *kind)}; which tasks ran there was not observed"
        return verdict(Outcome.PASSED, still)
    unknown = _unknown(evidence, seen)
    if unknown:
        return verdict(Outcome.UNDECIDED, unknown)
    excused = seen.excused()
    but = f" but {listed(excused)}" if excused else ""
    return verdict(Outcome.PASSED, f"CPUs {text} are {plural(len(mine), *kind)}, where no foreign workload ran{but}")


def _held(claim: Claim, owned: ownership.Ownership, mine: list[CpuSet], evidence: Evidence) -> foreign.Held:
    """Return when the threads were the claim's: as long as a CPU of their core was."""
    through = {cpu: core & owned.cpus for core in mine if core & owned.cpus for cpu in core}
    spans = {cpu: placing.union(owned.spans[one] for one in those) for cpu, those in through.items()}
    partly = ownership.Ownership(spans=spans).partly(evidence.duration_ns)
    gained = possession.changed_hands(claim, evidence.transitions) | partly
    return foreign.Held(owner=claim, spans=spans, gained=gained, through=through)


def _unknown(evidence: Evidence, seen: foreign.ForeignUse) -> str:
    """Return what keeps an innocent claim from passing."""
    if evidence.coverage.switches_judged <= 0:
        return "no switch was judged: which tasks ran on its cores is not known"
    if seen.blurred:
        return seen.blurred[0]
    if seen.of(OwnerClass.UNKNOWN):
        return f"the owner of task {seen.of(OwnerClass.UNKNOWN)[0].comm} is not known"
    return ""


def _distinct(stand: Stand, evidence: Evidence) -> Verdict:
    """Judge CPUs that are preferred on different cores: as many of these as there are CPUs, or cores."""
    claim = stand.claim
    cores = groups.cpu_groups(evidence, groups.CORES)
    sets = sets_in_force(stand, evidence)
    measures: dict[str, Measure] = {"cpus": str(claim.cpus or ""), "preferred": True}
    verdict = Judgement(ID, claim.name, measures)
    if cores is None:
        return verdict(Outcome.UNDECIDED, "the machine's cores are not known")
    if isinstance(sets, str):
        return verdict(Outcome.UNDECIDED, sets)
    for name, cpus in sets:
        used = sum(1 for core in cores if core & cpus)
        if used < min(len(cpus), len(cores)):
            text = f"CPUs {cpus} ({name}) are on {plural(used, 'core', 'cores')} only"
            if name == "promised":
                return not_given(ID, claim, text, measures)
            return verdict(Outcome.FAILED, text)
    return verdict(Outcome.PASSED, f"CPUs {claim.cpus or sets[-1][1]} lie on different cores")


RULE = Rule(
    RuleDoc(
        id=ID,
        claim=prose("""
            A full-pcpus-only container has whole cores, and no foreign workload ran on a thread of them; CPUs that were
            spread over different cores stay on different cores.
        """),
        how=prose("""
            Each CPU set that held during the window (promised, and granted by the kernel when the window opened and
            closed, if it was promised then) must be a union of whole cores, of which the online threads count. Then
            every switch on these cores is judged: a task of another pod on any of their threads is a failure; system
            tasks and kernel threads are measured. In a pod with a budget of its own the cores are the pod's: its
            containers may share one.

            distribute-cpus-across-cores is a preference. If the CPUs were given on fewer cores than possible, the
            verdict is skipped, with that reason; if they were given on different cores, they must stay there.

            One reading of a node (`judge --capture`) answers the first half only.

            The verdict is undecided if a set or the topology was not read, if no switch was judged, or if the owner of
            a task is unknown.
        """),
        tolerance=prose("""
            None. The cores of every CPU that was the claim's at any time of the window are judged, for as long as it
            was, and for as long as whole cores were promised: where a resize ends or begins that within the window, the
            reason says until when or from when on. Time that cannot be dated makes the verdict undecided. A runtime
            that makes a container on a node that is followed is judged as in exclusive-cpus.
        """),
        source=prose("""
            Kubernetes documentation, Control CPU Management Policies, option full-pcpus-only;
            docs/catalogue.md C21-C31, docs/failures.md F32
        """),
        negative_control=prose("""
            Take one thread of a core away: `echo 2 > cpuset.cpus` where 2 and 6 are one core; or pin a task of
            another pod to the sibling.
        """),
        witnesses=(Witness.FILES, Witness.SWITCHES),
        measures=(
            *sets("cpus"),
            *foreign.SEEN,
            *words("cores_count", "sibling_cpus", "preferred"),
        ),
    ),
    check,
    needs=needs_switches,
    of_others=True,
)
