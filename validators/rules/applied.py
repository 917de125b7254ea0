"""Rule ``applied``: the cgroup's control files hold what was promised, in every reading of the window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolkit.model.cgroup_manager import systemd_wrote
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpu_units import weights_of_shares
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import CgroupFiles, Evidence
from toolkit.model.measures import amounts, words
from toolkit.model.memory_units import NO_LIMIT, whole_pages
from toolkit.model.verdict import Outcome, Verdict, together
from toolkit.text.wording import and_more, count
from validators.queries import cpus_in_time, file_history, hotplug, in_time, side, tuned, view, writers
from validators.queries.compared import Compared, Wrong
from validators.queries.life import Life, lives
from validators.quota import bandwidth
from validators.quota.kept_quota import has_kept_quota, unread
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "applied"
_FILES = {
    "cpuset.cpus": writers.CPUS,
    "cpuset.mems": writers.MEMS,
    "the quota": writers.QUOTA,
    "the burst": writers.BURST,
    side.IDLE: writers.IDLE,
    "the weight": writers.WEIGHT,
    "the memory limit": writers.MEMORY,
    side.HIGH: writers.HIGH,
}


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge the control files of every claim."""
    return tuple(_judge_lives(claim, claims, evidence) for claim in claims.claims)


def _judge_lives(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Verdict:
    """Judge the present life, and what broke a promise of the one before: files of a cgroup that goes are not all read
    to its end, which is no doubt about the claim.
    """
    now, before = lives(claim, claims, evidence)
    present = _judge(now, claims)
    if before is None or before.claim.cgroup == claim.cgroup:
        return present
    earlier = _judge(before, claims)
    return together([present, before.named(earlier)]) if earlier.outcome is Outcome.FAILED else present


def _judge(life: Life, claims: ClaimSet) -> Verdict:
    claim, evidence, promised = life.claim, life.evidence, life.promised(claims)
    changes = view.mask_changes(claim.name, life.transitions)
    reading, in_setup = Compared(), ""
    for before, files, epoch in ((True, evidence.files_before, 0), (False, evidence.files_after, len(changes))):
        found, when = view.files_of(files, claim.cgroup), "before" if before else "after"
        at_ns = in_time.read_at(found, life) if before else life.end_ns
        cpus = None if _elsewhere(life) else cpus_in_time.promised(life, changes, epoch, at_ns, found)
        one = Compared()
        if found is not None:
            _compare(one, in_time.promised_at(at_ns, promised), found, cpus, before=before)
        # Values that are right while they are being written are right; those that are not yet prove nothing.
        if (not one.sound and file_history.explained(at_ns, life.transitions, changes)) or (
            found is None and in_time.made_later(at_ns, life.transitions)
        ):
            in_setup = f"its cgroup was being made or changed {when} the window"
        elif found is None:
            reading.unread.append(f"the files of {claim.cgroup} were not read {when} the window")
        else:
            reading.add(one)
    _compare_tuned(reading, claim, evidence)
    reading.measures["files_compared_count"] = reading.compared
    drifts = _drifts(reading, life, promised)
    remade = file_history.lives(life.transitions)
    verdict = Judgement(ID, claim.name, reading.measures)
    if drifts and not reading.wrong_before:
        reading.measures["deviations_count"] = len(drifts)
        reading.measures["deviation_from_ms"] = drifts[0].from_ns / 1e6
        reading.wrong = _drifted(drifts)
    if reading.wrong:
        if evidence.picture:  # One reading of the node stands at both ends.
            reading.wrong = list(dict.fromkeys(Wrong(what=one.what) for one in reading.wrong))
        offline = CpuSet.of(event.cpu for event in evidence.hotplug if not event.online) & (claim.cpus or CpuSet())
        if offline and all(name.startswith("cpuset.cpus") for name in reading.names):
            earlier = _before_offline(offline, evidence, reading, drifts)
            if not earlier:
                return verdict(Outcome.UNDECIDED, f"{cpus_text(offline)} went offline: {reading.wrong[0].text}")
            reading.wrong = list(dict.fromkeys([*earlier, *reading.wrong]))
        more = and_more(len(reading.wrong) - 1, aside=True)
        by = f" (by {claim.pinned_by})" if claim.pinned_by and reading.names[0].startswith("cpuset.cpus") else ""
        why = by + more + remade + _writer(reading, life, drifts) + view.older_word(claim, evidence)
        return verdict(Outcome.FAILED, reading.wrong[0].text + why)
    if reading.unread:  # Files of one cgroup go one after the other, in each hierarchy by itself.
        gone = view.passing_pod(claim, claims, evidence)
        return verdict(Outcome.SKIPPED if gone else Outcome.UNDECIDED, reading.unread[0])
    if in_setup and not reading.compared and _promises(life):
        # One that came with the last moments of a window is judged in the next one.
        outcome = Outcome.SKIPPED if life.passing else Outcome.UNDECIDED
        return verdict(outcome, f"{in_setup}, and nothing was read at its other end")
    if not reading.compared:
        return verdict(Outcome.SKIPPED, "no control file holds anything that was promised")
    times = evidence.coverage.file_readings
    between = f", {count(times, 'time')} in between" if times else ""
    ends = "" if evidence.picture else f", before{between} and after"
    beside = side.words(claim, evidence, reading.measures)
    return verdict(Outcome.PASSED, f"{reading.compared} values read back as promised{ends}{remade}{beside}")


def _promises(life: Life) -> bool:
    """Return whether a control file holds anything of what was promised."""
    nothing = CgroupFiles(cgroup=life.claim.cgroup, at_ns=0)
    cpus = None if _elsewhere(life) else life.claim.cpus
    return any(True for _ in _problems(Compared(), (life.claim,), nothing, cpus))


def _elsewhere(life: Life) -> bool:
    """Return whether no control file of its own has its CPUs, or ``layers-agree`` judges them in time."""
    return life.claim.by_mask or life.layered


def _before_offline(
    offline: CpuSet, evidence: Evidence, reading: Compared, drifts: tuple[file_history.Deviation, ...]
) -> list[Wrong]:
    """Return what was wrong before the first of these CPUs went offline: the kernel did not do that."""
    since_ns = hotplug.first_offline_ns(offline, evidence) or 0
    found = [one for one in reading.wrong if one.before and since_ns > 0]
    return found + _drifted(drift for drift in drifts if drift.from_ns < since_ns)


def _drifted(drifts: Iterable[file_history.Deviation]) -> list[Wrong]:
    return [Wrong(what=drift.text, when=drift.when) for drift in drifts]


def _writer(reading: Compared, life: Life, drifts: tuple[file_history.Deviation, ...]) -> str:
    """Return the writer of the first wrong value, if the kernel reported it."""
    claim, evidence = life.claim, life.evidence
    files = _FILES.get(reading.names[0].removesuffix(".effective"), ())
    if reading.wrong_before:
        return writers.of(claim, evidence, files, reading.measures, seen_ns=0, after_ns=writers.EVER_NS)
    after_ns, seen_ns = (drifts[0].after_ns, drifts[0].from_ns) if drifts else (0, life.end_ns)
    return writers.of(claim, evidence, files, reading.measures, seen_ns=seen_ns, after_ns=after_ns, end_ns=life.end_ns)


def _drifts(reading: Compared, life: Life, promised: tuple[ClaimChange, ...]) -> tuple[file_history.Deviation, ...]:
    """Return when a value was another one between the two ends of the window."""
    layered = _elsewhere(life)
    wanted = life.claim.cgroup.rstrip("/") or "/"

    def problem(files: CgroupFiles, cpus: CpuSet | None) -> str:
        cpus = None if layered else cpus
        at_ns = 0 if files in view.files_by_cgroup(life.evidence.files_before).get(wanted, ()) else files.at_ns
        problems = _problems(reading, in_time.promised_at(at_ns, promised), files, cpus)
        wrong = [(name, what) for name, what in problems if what]
        reading.names += [name for name, _ in wrong]
        found = [f"{name} was {what}" for name, what in wrong]
        return "; ".join(found)

    return file_history.deviations(life, problem)


def _compare(
    reading: Compared, good: tuple[Claim, ...], files: CgroupFiles, cpus: CpuSet | None, *, before: bool
) -> None:
    when = "before" if before else "after"
    for name, problem in _problems(reading, good, files, cpus):
        reading.compared += 1
        if problem is None:
            reading.unread.append(unread(name, good[-1], files, when))
        elif problem:
            reading.wrong.append(Wrong(what=f"{name} was {problem}", when=f"{when} the window", before=before))
            reading.names.append(name)


def _compare_tuned(reading: Compared, claim: Claim, evidence: Evidence) -> None:
    """Add what was promised of the claim's CPUs as hardware: the machine's files were read last in the window."""
    for name, problem in tuned.problems(claim, evidence):
        reading.compared += 1
        if problem.startswith(tuned.UNKNOWN):
            reading.unread.append(f"{name} {problem}")
        elif problem:
            reading.wrong.append(Wrong(what=f"{name} {problem}", when="after the window"))
            reading.names.append(name)


def _problems(
    reading: Compared, good: tuple[Claim, ...], files: CgroupFiles, cpus: CpuSet | None
) -> Iterator[tuple[str, str | None]]:
    """Yield each promised value: its file, and what is wrong (``""`` nothing, ``None`` not read).

    :param good: versions of the claim by one of which each value must be right; the last one first of all. CPU sets
        have epochs.
    """
    if cpus is not None:
        wider = tuple(claim.requested_cpus for claim in good if claim.cpus == cpus)
        yield from _set_problems(reading, "cpuset.cpus", cpus, files.cpus, files.cpus_effective, wider)
    found = [dict(_values(reading, claim, files)) for claim in reversed(good)]
    for name in dict.fromkeys(name for values in found for name in values):
        # Nothing was promised about it by one of the versions: then whatever it is is right.
        answers = [values.get(name, "") for values in found]
        yield name, "" if "" in answers else answers[0]


def _values(reading: Compared, claim: Claim, files: CgroupFiles) -> Iterator[tuple[str, str | None]]:
    if claim.mems is not None:
        wider = (claim.requested_mems,)
        yield from _set_problems(reading, "cpuset.mems", claim.mems, files.mems, files.mems_effective, wider)
    if claim.quota_us is not None:
        yield "the quota", _quota_problem(reading, claim, files)
        if claim.quota_us >= 0 and (claim.burst_us or files.burst_us is not None):
            yield "the burst", _equal(claim.burst_us, files.burst_us)
    if claim.weight is not None or claim.shares is not None:
        yield from side.idle_problem(claim, files)
        yield "the weight", _weight_problem(reading, claim, files)
    if claim.shares_between is not None:
        yield from side.idle_problem(claim, files)
        yield "the weight", _between_problem(claim.shares_between, files)
    if claim.memory_bytes is not None:
        yield "the memory limit", _memory_problem(claim.memory_bytes, files.memory_max_bytes)
    yield from side.high_problem(claim, files)
    if claim.tuning is not None and claim.tuning.partition:
        yield "cpuset.cpus.partition", _equal(claim.tuning.partition, files.partition)


def _set_problems(
    reading: Compared,
    name: str,
    promised: CpuSet,
    requested: CpuSet | None,
    effective: CpuSet | None,
    wider: tuple[CpuSet | None, ...],
) -> Iterator[tuple[str, str | None]]:
    if requested is not None and not requested and effective == promised:
        # cgroup v2: an empty request inherits what the parent has.
        reading.measures[f"{name.replace('.', '_')}_inherited"] = True
        yield name, ""
    elif requested is not None and any(wider):
        # It asks for what a cgroup above takes away again: what is left is what was promised.
        yield name, "" if requested in wider else _equal(wider[-1], requested)
    else:
        yield name, _equal(promised, requested)
    yield f"{name}.effective", _equal(promised, effective)


def _equal(promised: object, found: object) -> str | None:
    if found is None:
        return None
    return "" if found == promised else f"{_shown(found)}, promised {_shown(promised)}"


def _shown(value: object) -> str:
    return str(value) if str(value) else "empty"


def _quota_problem(reading: Compared, claim: Claim, files: CgroupFiles) -> str | None:
    promised = claim.quota_us if claim.quota_us is not None else -1
    if files.no_cpu_controller:
        return _lacking(files, bandwidth.shown(promised, claim.period_us)) if promised >= 0 else ""
    if files.quota_us is None or (promised >= 0 and files.period_us is None) or has_kept_quota(claim, files):
        return None
    by_systemd = systemd_wrote(files.cgroup, files.manager)
    if not bandwidth.same_limit(promised, claim.period_us, files.quota_us, files.period_us, by_systemd=by_systemd):
        found = bandwidth.shown(files.quota_us, files.period_us)
        return f"{found}, promised {bandwidth.shown(promised, claim.period_us)}"
    if promised >= 0 and files.quota_us != promised:
        reading.measures["quota_rounded_us"] = files.quota_us
    return ""


def _weight_problem(reading: Compared, claim: Claim, files: CgroupFiles) -> str | None:
    """Compare in the unit that the hierarchy has; shares become a weight by one of two published formulas."""
    if files.no_cpu_controller:
        return _lacking(files, f"{claim.shares} shares" if claim.weight is None else str(claim.weight))
    if files.weight is not None and claim.weight is not None:
        return _equal(claim.weight, files.weight)
    if files.shares is not None and claim.shares is not None:
        return _equal(claim.shares, files.shares)
    if files.weight is not None and claim.shares is not None:
        formulas = weights_of_shares(claim.shares)
        name = next((name for name, weight in formulas.items() if weight == files.weight), None)
        if name is None:
            return f"{files.weight}, promised {claim.shares} shares ({' or '.join(map(str, formulas.values()))})"
        reading.measures["weight_formula"] = name
        return ""
    return None


def _between_problem(bounds: tuple[int, int], files: CgroupFiles) -> str | None:
    least, most = bounds
    promised = f"promised {least} to {most} shares"
    if files.no_cpu_controller:
        return _lacking(files, promised.removeprefix("promised "))
    if files.shares is not None:
        return "" if least <= files.shares <= most else f"{files.shares}, {promised}"
    if files.weight is None:
        return None
    low, high = (set(weights_of_shares(shares).values()) for shares in bounds)
    within = min(low) <= files.weight <= max(high)
    return "" if within else f"{files.weight}, {promised} (a weight of {min(low)} to {max(high)})"


def _lacking(files: CgroupFiles, promised: str) -> str:
    return f"none, promised {promised}: the cgroup has no cpu controller ({files.no_cpu_controller})"


def _memory_problem(promised: int, found: int | None) -> str | None:
    if found is None:
        return None
    shown = ["none" if limit == NO_LIMIT else f"{limit} bytes" for limit in (found, promised)]
    return "" if found in whole_pages(promised) else f"{shown[0]}, promised {shown[1]}"


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The cgroup's control files hold what was promised, requested and effective, before and after.",
        how=prose("""
            The control files are read when the window opens, about once a second while it is open, and when it closes:
            cpuset.cpus and cpuset.mems (what was requested and what the kernel grants), the CFS quota, period and
            burst, the weight or shares, and the memory limit. With hundreds of claims, files that are written to are
            read at once, and every file at least every 30 s. A value that was changed and put back between two readings
            is not judged.

            A value that differs in a reading is a failure, even if it was changed back later; the verdict gives the
            time of that reading and by what it was changed, if the kernel reports it. A cgroup with tasks that has no
            cpu controller (no such cgroup in the v1 cpu hierarchy; cpu missing in the parent's cgroup.subtree_control)
            has no quota and no weight: it is read as none. The verdict is undecided if a
            value could not be read, if files were for more than 3 s neither read nor known to be unwritten, if a file
            was written to during every reading, or if cpuset.cpus differs only since one of its CPUs went offline
            (dated up to 0.5 s late).

            Other files hold no promise, but decide what one is worth; they are read at both ends of the window and when
            a write to one is reported. A claim with a weight fails while cpu.idle is 1: its tasks then run only where
            nothing else wants the CPU. A claim that says how low memory.high may be (`memoryHighBytes`) fails below
            it: of a kubelet's container that is what its release asks for with MemoryQoS (docs/facts.md K-high), else
            `max`, unless its runtime was told another value (`unified`). cpuset.cpus.partition, cpu.uclamp.min and
            .max, memory.high without a promise, memory.min, memory.low and memory.swap.max are measures, also of the
            cgroups above, and the reason names what limits the tasks: an isolated partition, in which the kernel
            balances nothing, or one that is invalid; a cap of utilisation below 100 %; a memory.high. Kernels without
            one of these files are judged as if it said nothing.

            Where CRI-O's annotations promise it, the machine's own files are compared, read last in the window:
            cpuset.cpus.partition (`isolated`), pm_qos_resume_latency_us and scaling_governor of each CPU, and where
            interrupts go. An interrupt that goes to one of the CPUs and may go elsewhere is a failure, and so is
            /proc/irq/default_smp_affinity with one of them; one that may go nowhere else is undecided: a driver manages
            it, or something has put it there.

            The weight of a kubelet's Burstable class is the sum of its pods' requests, brought up to date once a
            minute: it fails below the sum of those whose sandboxes have run for 90 s, where the kubelet is known to
            have run for as long (one that starts writes the least there is first), and above what the CPUs of the
            machine are worth.

            The cgroup of all pods has the weight of the CPUs that are not reserved (judged unless one is offline), and
            the limit of memory that goes with it, where the Memory Manager's file says how much the kubelet found.

            On a kubelet's node no limit of memory is promised to a pod's cgroup where the pod has none, and to a
            container that has none and whose runtime was told none: one that stands there is a failure. On a followed
            node (`watch --kubelet`) `layers-agree` judges the CPU sets, because it knows what the kubelet requested and
            when.

            Where a cgroup above gives less than the cgroup itself asks for (`requestedCpus`), cpuset.cpus must be what
            it asks for and cpuset.cpus.effective what is promised. CPUs that masks alone bind (`byMask`) are in no
            file.

            A change by pinproof or the followed source changes the promise as well. Nothing is compared during such a
            change, or in the first 2 s of a cgroup, while the runtime sets it up. When a promise changes, the new value
            is accepted from 15 s before the change was read (the longest that a node may go unread; also where it was
            read just after the window) and the old value until 2 s after it. Any third value is a failure. If a
            container restarts in another cgroup, wrong values of the life before are a failure, too.
        """),
        tolerance=prose("""
            None but for these roundings, which are reported as measures:

            A quota rounded up to 1 % of a CPU where systemd wrote it (a scope, slice or service with systemd's mark).
            Shares converted to a weight by the kubelet's linear or the runtimes' logarithmic formula. A memory limit
            rounded down to whole pages (of 4 to 64 KiB). On cgroup v2, an empty cpuset.cpus that inherits exactly the
            promised CPUs.
        """),
        source="Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/cpusets.rst; scheduler/sched-bwc.rst; "
        "docs/failures.md F10, F13-F15, F57, F60-F63, docs/facts.md K14-K16, K-quota, K-weight",
        negative_control="Write another value behind the claim's back: `echo 0 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
        measures=(
            *amounts("deviations_count"),
            *words("files_compared_count", "deviation_from_ms", "quota_rounded_us", "weight_formula", "*_inherited"),
            *side.MEASURES,
            *writers.MEASURES,
        ),
    ),
    check,
)
