"""Rule ``layers-agree`` on a node that is followed: four layers of each container, each through the window.

State file (promised), runtime (asked for last), cgroup (is), threads (hold). The kubelet updates what it asked for at
the end of a reconcile period: until then state and runtime may differ. What was asked for and what is agree at once,
because the kubelet compares with its own memory and repairs no cgroup. A layer is read by itself, so a pair is compared
by what each said within :data:`GUARD_NS` of the other. Source: docs/facts.md K-kubelet-1, "Normal on a healthy node".
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.layers import ApiCpus, Layer
from toolkit.model.state_files import CPU_FILE
from toolkit.model.verdict import Measure, Outcome, Verdict, together
from validators.layers import metrics, owed, picture
from validators.layers.claim_layers import FOLLOWS_NS, ClaimLayers, Stretch, carried_out, claim_layers
from validators.layers.owed import Finding
from validators.queries import file_history, hotplug, view, writers
from validators.queries.life import Life, lives
from validators.wording import moment, seconds

GUARD_NS = 3 * view.NANOSECONDS
"""A layer is read when a sign of it changes, and every 2 s (on a node of hundreds of containers every 6 s); a control
file every second."""
OLD_WORD = "the cgroup has what was promised: the runtime's word is an old one"
UNSEEN = ", which the window's end left unseen"
TOO_SHORT = "the window, which opened on it, is too short for"
CONFIRM_NS = view.NANOSECONDS
"""So long after a cgroup changed the runtime must still say the other thing: an update changes both."""


def check(rule: str, claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every workload of which a layer speaks."""
    verdicts = []
    for claim in claims.claims:
        if view.is_workload(claim):
            now, before = lives(claim, claims, evidence)
            found = [_present(rule, now, claims)]
            found += [] if before is None else [_earlier(rule, before, claims)]
            known = [verdict for verdict in found if verdict is not None]
            verdicts += [together(known)] if known else []
    verdicts += metrics.check_live(rule, evidence)
    if verdicts:
        return tuple(verdicts)
    reason = "no layer speaks about any container"
    return (Verdict(rule=rule, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)


def _present(rule: str, life: Life, claims: ClaimSet) -> Verdict | None:
    layers = _layers(life)
    if layers is None:
        return None
    verdict = _judge(rule, life, claims, layers)
    return verdict if life.masks else _without_threads(life, verdict)


def _earlier(rule: str, life: Life, claims: ClaimSet) -> Verdict | None:
    """Judge the life before, of which no thread need have been read, if its cgroup was."""
    layers = _layers(life)
    if layers is None or not layers.cgroup:
        return None
    return life.named(_judge(rule, life, claims, layers))


def _layers(life: Life) -> ClaimLayers | None:
    """Return what the layers state of a claim; ``None``: nothing."""
    return claim_layers(life) if any(row.cpus is not None for row in life.layers) else None


def _without_threads(life: Life, verdict: Verdict) -> Verdict:
    """What is promised holds only if threads hold it, and nothing read one: undecided where ``affinity-mask`` is, too.

    One that came or went was gone between two readings. A container that slept for the whole window has threads all the
    same: that none ran is no doubt here.
    """
    if verdict.outcome is not Outcome.PASSED or life.claim.cpus is None or life.passing:
        return verdict
    reason = f"{verdict.reason}; no thread of it was read: whether {Layer.OBSERVED} agrees is not known"
    return replace(verdict, outcome=Outcome.UNDECIDED, reason=reason)


def _judge(rule: str, life: Life, claims: ClaimSet, layers: ClaimLayers) -> Verdict:
    claim, evidence = life.claim, life.evidence
    limit_ns = int((claims.reconcile_period_s or 0.0) * view.NANOSECONDS) + _slack_ns(evidence)
    held = CpuSet.union(mask.cpus_allowed for mask in layers.masks)
    by_layer = {
        "checkpoint": layers.state[-1].cpus if layers.state else None,
        # It is compared with the state file, whose CPUs it names.
        "pod-resources": layers.api[-1].cpus if layers.api and layers.state else None,
        "plugin": layers.plugin[-1].cpus if layers.plugin else None,
        "cri": layers.asked[-1].cpus if layers.asked else None,
        "cgroup": layers.cgroup[-1].cpus if layers.cgroup else None,
        "observed": held if layers.masks else None,
    }
    measures: dict[str, Measure] = {f"{name}_cpus": str(cpus) for name, cpus in by_layer.items() if cpus is not None}
    # Without the runtime's word drift looks like lag: what is must be what was promised within the bound.
    pairs = [Layer.RUNTIME, Layer.POD_RESOURCES] if layers.asked else [Layer.CGROUP, Layer.POD_RESOURCES]
    findings = [
        *owed.forgotten(life, limit_ns, measures),
        *owed.overlap(life, layers, claims, measures),
        *(finding for lower in pairs for finding in _lag(layers, lower, life, limit_ns, measures)),
        *_pool_as_own(layers, claim, limit_ns),
        *(_drift(life, layers, limit_ns, measures) if layers.asked else ()),
        *_pinned(life, layers, measures),
        *_unread(life, layers),
        *_held(claim, evidence, layers, measures),
        *_mems(life),
    ]
    spoke = [name for name, cpus in by_layer.items() if cpus is not None]
    for outcome in (Outcome.FAILED, Outcome.UNDECIDED):
        texts = [text for found, text in findings if found is outcome]
        if texts:
            return Verdict(rule=rule, subject=claim.name, outcome=outcome, reason="; ".join(texts), measures=measures)
    notes = [text for found, text in findings if found is Outcome.PASSED]
    if len(spoke) < 2:
        reason = f"only {spoke[0] if spoke else 'pod-resources'} speaks about it in this window: nothing to compare"
        return Verdict(rule=rule, subject=claim.name, outcome=Outcome.SKIPPED, reason=reason, measures=measures)
    # A difference that may be is one: what differs is not said to agree.
    names = ", ".join(spoke)
    reason = f"{names} differ for no longer than they may: {'; '.join(notes)}" if notes else f"{names} agree"
    return Verdict(rule=rule, subject=claim.name, outcome=Outcome.PASSED, reason=reason, measures=measures)


def _lag(layers: ClaimLayers, lower: Layer, life: Life, limit_ns: int, measures: dict[str, Measure]) -> list[Finding]:
    """What the state file promised against what carries it out at the end of a period, at any time of the window.

    Since when something must be given back is known also where the window does not reach back so far.
    """
    claim, evidence = life.claim, life.evidence
    carries = {Layer.RUNTIME: layers.asked, Layer.POD_RESOURCES: layers.api, Layer.CGROUP: layers.cgroup}[lower]
    found: list[Finding] = []
    for promised in layers.state:
        for carried in carries:
            last = promised is layers.state[-1] and carried is carries[-1]
            since_ns = max(promised.first_ns, carried.first_ns)
            lasted_ns = max(0, min(promised.last_ns, carried.sure_ns) - since_ns)
            if promised.cpus == carried.cpus or not (last or lasted_ns > limit_ns):
                continue
            text = (
                f"{Layer.CHECKPOINT} and {lower} differ since {moment(since_ns)}: CPUs {promised.cpus or 'none'} "
                f"against {carried.cpus or 'none'}, for {seconds(lasted_ns)}"
            )
            bound = f"{seconds(limit_ns)}: the reconcile period and {seconds(_slack_ns(evidence))}"
            until_ns, online = min(promised.last_ns, carried.last_ns), _online(evidence, since_ns)
            old = lower is Layer.RUNTIME and lasted_ns > limit_ns and layers.kept(since_ns, until_ns, online)
            if last and not old:
                measures["lag_ms"] = lasted_ns / 1e6
            if not promised.cpus:
                # K-kubelet-2: it skips empty sets, so what shared keeps CPUs that are all another's.
                text += "; the shared pool is empty, and no reconcile repairs it"
            if claim.isolation is Isolation.HOST and carried.cpus and carried.cpus <= promised.cpus:
                found.append((Outcome.PASSED, f"{text}; it may have more than it has: growing late is no fault"))
            elif old:
                found.append((Outcome.PASSED, f"{text}; {OLD_WORD}"))
            elif lasted_ns <= limit_ns and last and since_ns <= 0 and not life.owed:
                found.append((Outcome.UNDECIDED, f"{text}, or longer: {TOO_SHORT} a reconcile, which may take {bound}"))
            elif lasted_ns <= limit_ns:
                found.append((Outcome.PASSED, f"{text}; a reconcile may take {bound}{UNSEEN if last else ''}"))
            else:
                # The state file's word is the later one: what wrote it says why.
                file = (
                    writers.of_state(evidence, CPU_FILE, measures, seen_ns=since_ns)
                    if evidence.state_writes and promised.first_ns >= carried.first_ns
                    else ""
                )
                found.append((Outcome.FAILED, f"{text} (bound {bound}){file}"))
    return found


def _pool_as_own(layers: ClaimLayers, claim: Claim, limit_ns: int) -> list[Finding]:
    """The shared pool, reported as the CPUs of a container that owns none: some releases do that, others must not."""
    if claim.isolation is not Isolation.HOST or layers.api_cpus not in (ApiCpus.OWN, ApiCpus.EITHER):
        return []
    pools = {promised.cpus for promised in layers.state if promised.cpus}
    said = next((run for run in layers.api if run.cpus in pools), None)
    if said is None:
        return []
    if layers.api_cpus is ApiCpus.EITHER:
        return [(Outcome.UNDECIDED, picture.POOL_OR_OWN)]
    text = (
        f"{Layer.CHECKPOINT} and {Layer.POD_RESOURCES} differ since {moment(said.first_ns)}: CPUs {said.cpus} are the "
        "shared pool, and reported as its own"
    )
    outcome = Outcome.FAILED if said.sure_ns - said.first_ns > limit_ns else Outcome.PASSED
    return [(outcome, text)]


def _unread(life: Life, layers: ClaimLayers) -> list[Finding]:
    """Nothing is known of what the cgroup has; one that came or went may have been gone before it was read."""
    if layers.cgroup or life.passing or not (layers.state or layers.plugin or layers.asked):
        return []
    return [(Outcome.UNDECIDED, f"the CPU set of {life.claim.cgroup} was not read")]


def _pinned(life: Life, layers: ClaimLayers, measures: dict[str, Measure]) -> list[Finding]:
    """What a program beside the kubelet has decided against what is, at any time of the window."""
    claim, evidence = life.claim, life.evidence
    found: list[Finding] = []
    words = [word for word in layers.plugin if word.first_ns <= life.end_ns]
    for number, run in enumerate(layers.cgroup):
        # What the program says just after the window it may have written in it.
        wrote = any(
            carried_out(word.cpus, run.cpus, _online(evidence, run.last_ns)) for word in layers.plugin[len(words) :]
        )
        for said in words:
            last = said is words[-1] and run is layers.cgroup[-1] and not wrote
            since_ns, until_ns = max(said.first_ns, run.first_ns), min(said.last_ns, run.sure_ns)
            unread = until_ns < since_ns
            # Else the next word, or the next set of the cgroup, is what is compared.
            if (unread and not last) or carried_out(said.cpus, run.cpus, _online(evidence, since_ns)):
                continue
            # The program says it first. What it has said for so long, before the window too, the cgroup has followed:
            # what is otherwise, and read so again, was written by something else since.
            said_ns = said.last_ns - said.first_ns if unread else until_ns - said.first_ns
            text = (
                f"{claim.pinned_by} and {Layer.CGROUP} differ {_when(run, life)}: CPUs {said.cpus or 'none'}, said "
                f"for {seconds(said_ns)}, against {run.cpus or 'none'}"
            )
            if said_ns <= FOLLOWS_NS or until_ns - since_ns < CONFIRM_NS:
                found.append(_not_yet(said, text, followed=said_ns > FOLLOWS_NS, last=last))
                continue
            after_ns = layers.cgroup[number - 1].first_ns if number else writers.EVER_NS
            author = writers.of(
                claim, evidence, writers.CPUS, measures, seen_ns=run.first_ns, after_ns=after_ns, end_ns=life.end_ns
            )
            found.append((Outcome.FAILED, f"{text} (bound {seconds(FOLLOWS_NS)}){author}"))
    return found


def _not_yet(said: Stretch, text: str, *, followed: bool, last: bool) -> Finding:
    """Judge a program's word and a cgroup that differ for so short that it may be no fault.

    :param followed: the word has stood for so long that the cgroup had followed it: since then either has changed.
    :param last: nothing later is known of either.
    """
    if followed:
        doubt = "which of them changed was not seen: they were not read again together"
        return (
            Outcome.UNDECIDED if last else Outcome.PASSED
        ), f"{text}; {doubt if last else f'for less than {seconds(CONFIRM_NS)}'}"
    if last and said.first_ns <= 0:
        return (
            Outcome.UNDECIDED,
            f"{text}, or longer: {TOO_SHORT} a cgroup that may follow within {seconds(FOLLOWS_NS)}",
        )
    return Outcome.PASSED, f"{text}; it may follow within {seconds(FOLLOWS_NS)}{UNSEEN if last else ''}"


def _drift(life: Life, layers: ClaimLayers, limit_ns: int, measures: dict[str, Measure]) -> list[Finding]:
    """What was asked for against what is: a difference is another program's write, or the kernel's."""
    claim, evidence = life.claim, life.evidence
    for number, run in enumerate(layers.cgroup):
        online = _online(evidence, run.first_ns)
        for one in layers.asked:
            if carried_out(one.cpus, run.cpus, online) or not one.cpus & online or layers.wrote_itself(run, one):
                continue
            if layers.is_old(one, run, limit_ns, online):
                continue
            last = one is layers.asked[-1] and run.last_ns >= life.end_ns
            outcome, why = _apart(run, one, last=last)
            if outcome is Outcome.PASSED and not last:
                continue
            text = (
                f"{Layer.RUNTIME} and {Layer.CGROUP} differ {_when(run, life)}: CPUs {one.cpus} asked for against "
                f"{run.cpus or 'none'}"
            )
            if run.cpus < one.cpus:
                text += " (a cpuset that lost CPUs while they were offline does not get them back by itself)"
            if outcome is Outcome.PASSED:
                return [(outcome, f"{text}{why}")]
            after_ns = layers.cgroup[number - 1].first_ns if number else writers.EVER_NS
            writer = writers.of(
                claim, evidence, writers.CPUS, measures, seen_ns=run.first_ns, after_ns=after_ns, end_ns=life.end_ns
            )
            return [(outcome, f"{text}{why}{writer}")]
    return []


def _apart(run: Stretch, one: Stretch, *, last: bool) -> Finding:
    """Judge a cgroup's value beside another one that the runtime was asked for; passed: the one followed the other.

    :param last: both are the last that is known of them, and the cgroup's holds to the end of the window.
    """
    # The file changed while what was asked for stayed: the kubelet and its runtime change both.
    older = one.first_ns <= run.first_ns
    changed = older and run.first_ns > 0
    if changed and one.last_ns >= run.first_ns + CONFIRM_NS:
        return Outcome.FAILED, ": drift, no bound"
    # What stood when the window opened is compared with how long the same has been asked for, before the window too:
    # the guard is longer than some windows.
    stood = older and not changed and one.last_ns >= CONFIRM_NS
    if min(run.sure_ns, one.last_ns) - (one.first_ns if stood else max(run.first_ns, one.first_ns)) > GUARD_NS:
        return Outcome.FAILED, ": drift, a runtime writes what it was asked for at once"
    if changed and last:
        return Outcome.UNDECIDED, "; the runtime was not asked again in this window"
    if older and last:
        return Outcome.UNDECIDED, "; not for long enough to know that neither follows the other"
    return Outcome.PASSED, f"; a runtime writes it within {seconds(GUARD_NS)}{UNSEEN}"


def _held(claim: Claim, evidence: Evidence, layers: ClaimLayers, measures: dict[str, Measure]) -> list[Finding]:
    """What is against what threads hold: the kernel moves them when the file is written."""
    if not layers.cgroup:
        return []
    always = layers.always
    for mask in layers.masks:
        if mask.cpus_allowed <= always or mask.last_at_ns - mask.first_at_ns < GUARD_NS:
            continue
        since_ns = mask.last_at_ns - GUARD_NS
        granted = CpuSet.union(
            run.cpus for run in layers.making if run.last_ns >= since_ns and run.first_ns <= mask.last_at_ns + GUARD_NS
        )
        if granted and not mask.cpus_allowed <= granted:
            text = (
                f"{Layer.CGROUP} and {Layer.OBSERVED} differ since {moment(mask.first_at_ns)}: CPUs {granted} "
                f"against {mask.cpus_allowed} of thread {mask.tid} ({mask.comm})"
            )
            outside = mask.cpus_allowed - granted
            author = writers.placed(claim, evidence, mask.tid, outside, measures, seen_ns=mask.first_at_ns)
            return [(Outcome.FAILED, text + author)]
    return []


def _mems(life: Life) -> list[Finding]:
    claim = life.claim
    readings = [files.mems_effective for _, files in file_history.readings(life.evidence, claim.cgroup, life.end_ns)]
    known = [mems for mems in readings if mems is not None]
    if not claim.mems or not known or known[-1] == claim.mems:
        return []
    text = f"memory nodes {claim.mems} against {known[-1] or 'none'}"
    return [(Outcome.FAILED, f"{Layer.CHECKPOINT} and {Layer.CGROUP} differ: {text}")]


def _slack_ns(evidence: Evidence) -> int:
    return evidence.following.slack_ns if evidence.following else 0


def _online(evidence: Evidence, at_ns: int) -> CpuSet:
    cpus = evidence.environment.cpus_online
    for event in sorted(evidence.hotplug, key=lambda event: event.at_ns):
        if event.at_ns <= at_ns + hotplug.LATE_NS:
            cpus = cpus | CpuSet.of([event.cpu]) if event.online else cpus - CpuSet.of([event.cpu])
    return cpus


def _when(run: Stretch, life: Life) -> str:
    if run.last_ns >= life.end_ns:
        return f"from {moment(run.first_ns)} on" if run.first_ns > 0 else "in the whole window"
    return f"from {moment(run.first_ns)} to {moment(run.last_ns)}"
