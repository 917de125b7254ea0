"""Rule ``layers-agree``: all layers of the node say the same about a claim; the first pair that differs is named."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from toolkit.model import measures as kinds
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Evidence, ThreadMask
from toolkit.model.layers import Layer, LayerView
from toolkit.model.measures import Better, amounts, levels
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.layers import live, picture
from validators.queries import file_history, hotplug, timeline, view, writers
from validators.queries.life import whole
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "layers-agree"
GIVEN = (Layer.MODEL, Layer.CHECKPOINT, Layer.POD_RESOURCES, Layer.CLAIM)
"""Layers that decide or promise; the others carry it out."""
RECONCILES = 2
"""Periods that a difference must outlive: the kubelet updates at the end of one, and each layer is read by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What a layer said first and last, and when. ``held``: what was observed, each with how long it was seen (ns)."""

    layer: Layer
    first: CpuSet
    last: CpuSet
    first_at_ns: int
    last_at_ns: int
    held: tuple[tuple[CpuSet, int], ...] = ()


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim about which two layers or more speak, one of them a promise."""
    if evidence.picture is not None:
        return picture.check(ID, claims, evidence)
    if evidence.following is not None:
        return live.check(ID, claims, evidence)
    rows = view.by_claim(evidence.layers)
    masks = view.by_claim(evidence.thread_masks)
    verdicts = []
    for claim in claims.claims:
        sides = {
            "CPUs": _cpus(claim, evidence, rows.get(claim.name, []), masks.get(claim.name, [])),
            "memory nodes": _mems(claim, evidence, rows.get(claim.name, []), masks.get(claim.name, [])),
        }
        spoken = {what: words for what, words in sides.items() if any(word.layer in GIVEN for word in words)}
        if spoken:
            verdicts.append(_judge(claim, claims, evidence, spoken))
    if verdicts:
        return tuple(verdicts)
    reason = "no layer states the CPUs of any claim"
    return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)


def _judge(claim: Claim, claims: ClaimSet, evidence: Evidence, sides: dict[str, list[_Word]]) -> Verdict:
    measures: dict[str, Measure] = {}
    for what, words in sides.items():
        for word in words:
            measures[f"{word.layer}_{'cpus' if what == 'CPUs' else 'mems'}"] = str(word.last)
    verdict = Judgement(ID, claim.name, measures)
    drift = _drift(claim, evidence, measures)
    if drift:
        return verdict(Outcome.FAILED, drift)
    if all(len(words) < 2 for words in sides.values()):
        return verdict(Outcome.UNDECIDED, "only one layer states its CPUs: nothing to compare")
    doubt = ""
    changes = view.mask_changes(claim.name, evidence.transitions)
    for what, words in sides.items():
        for upper, lower in pairwise(words):
            if _same(upper.last, lower.last, lower.layer):
                continue
            text = (
                f"{upper.layer} and {lower.layer} differ: {what} {upper.last or 'none'} against {lower.last or 'none'}"
            )
            if changes and min(upper.last_at_ns, lower.last_at_ns) <= changes[-1].end_at_ns:
                doubt = doubt or f"{text}; its set changed while the layers were read"
            elif Layer.CGROUP in (upper.layer, lower.layer) and _by_hotplug(claim, evidence, what, upper, lower):
                doubt = doubt or f"{text}; CPUs of it went or came"
            elif not _lasting(upper, lower, claims.reconcile_period_s):
                doubt = doubt or f"{text}; the kubelet may not have reconciled yet"
            else:
                return verdict(Outcome.FAILED, text + _author(claim, evidence, what, upper, lower, measures))
    if doubt:
        return verdict(Outcome.UNDECIDED, doubt)
    for what, words in sides.items():
        for layer in (Layer.CGROUP, Layer.OBSERVED):
            if all(word.layer is not layer for word in words):
                return verdict(Outcome.UNDECIDED, f"the {layer} layer was not read, or does not speak about {what}")
    names = dict.fromkeys(word.layer for words in sides.values() for word in words)
    return verdict(Outcome.PASSED, f"{', '.join(names)} agree")


def _author(
    claim: Claim, evidence: Evidence, what: str, upper: _Word, lower: _Word, measures: dict[str, Measure]
) -> str:
    """Return what made the lower layer differ, where that is one that was watched."""
    if lower.layer is Layer.CGROUP:
        differed = not _same(upper.first, lower.first, lower.layer)
        seen_ns, after_ns = (0, writers.EVER_NS) if differed else (evidence.duration_ns, 0)
        files = writers.CPUS if what == "CPUs" else writers.MEMS
        return writers.of(claim, evidence, files, measures, seen_ns=seen_ns, after_ns=after_ns)
    if lower.layer is not Layer.OBSERVED or what != "CPUs":
        return ""
    masks = view.by_claim(evidence.thread_masks).get(claim.name, ())
    wide = [mask for mask in masks if not mask.cpus_allowed <= upper.last]
    first = min(wide, key=lambda mask: (mask.first_at_ns, mask.tid), default=None)
    if first is None:
        return ""
    outside, seen_ns = first.cpus_allowed - upper.last, first.first_at_ns
    return writers.placed(claim, evidence, first.tid, outside, measures, seen_ns=seen_ns, comm=first.comm)


def _drift(claim: Claim, evidence: Evidence, measures: dict[str, Measure]) -> str:
    """Return what the cgroup said for a time although it had said, and the claim still says, something else.

    Nothing was late there: a write took away what had been granted.
    """

    def cpus_differ(files: CgroupFiles, promised: CpuSet | None) -> str:
        return _difference("CPUs", promised, files.cpus_effective)

    def mems_differ(files: CgroupFiles, _promised: CpuSet | None) -> str:
        return _difference("memory nodes", claim.mems, files.mems_effective)

    hotplug_ns = None if claim.cpus is None else hotplug.first_change_ns(claim.cpus, evidence)
    for problem, files, changed_ns in ((cpus_differ, writers.CPUS, hotplug_ns), (mems_differ, writers.MEMS, None)):
        for drift in file_history.deviations(whole(claim, evidence), problem):
            if changed_ns is not None and drift.from_ns >= changed_ns:
                continue  # the kernel may have taken them, and given them back
            if drift.sound_before:
                writer = writers.of(claim, evidence, files, measures, seen_ns=drift.from_ns, after_ns=drift.after_ns)
                return f"{Layer.CLAIM} and {Layer.CGROUP} differed {drift.when}: {drift.text}{writer}"
    return ""


def _difference(what: str, said: CpuSet | None, found: CpuSet | None) -> str:
    if said is None or found is None or said == found:
        return ""
    return f"{what} {said or 'none'} against {found or 'none'}"


def _by_hotplug(claim: Claim, evidence: Evidence, what: str, upper: _Word, lower: _Word) -> bool:
    """Return whether two layers that agreed differ since CPUs of the claim went or came."""
    if what != "CPUs" or claim.cpus is None or hotplug.first_change_ns(claim.cpus, evidence) is None:
        return False
    if _same(upper.first, lower.first, lower.layer):
        return True
    masks = view.by_claim(evidence.thread_masks).get(claim.name, [])
    wide = [mask for mask in masks if not mask.cpus_allowed <= upper.first]
    return lower.layer is Layer.OBSERVED and hotplug.is_lent(claim.cpus, wide, evidence)


def _same(upper: CpuSet, lower: CpuSet, layer: Layer) -> bool:
    """Tasks may use less than they have; every other layer must repeat the set."""
    return lower <= upper if layer is Layer.OBSERVED else lower == upper


def _lasting(upper: _Word, lower: _Word, period_s: float | None) -> bool:
    if period_s is None:
        return True
    wait_ns = RECONCILES * period_s * view.NANOSECONDS
    if lower.layer is Layer.OBSERVED:
        return any(length_ns >= wait_ns and not allowed <= upper.last for allowed, length_ns in lower.held)
    span = max(upper.last_at_ns, lower.last_at_ns) - min(upper.first_at_ns, lower.first_at_ns)
    differed = not _same(upper.first, lower.first, lower.layer)
    return differed and span >= wait_ns


def _word(layer: Layer, said: list[tuple[int, CpuSet]]) -> list[_Word]:
    if not said:
        return []
    said = sorted(said, key=lambda entry: entry[0])
    (first_at, first), (last_at, last) = said[0], said[-1]
    return [_Word(layer=layer, first=first, last=last, first_at_ns=first_at, last_at_ns=last_at)]


def _given(rows: list[LayerView], layer: Layer, *, cpus: bool) -> list[_Word]:
    said = [(row.at_ns, row.cpus if cpus else row.mems) for row in rows if row.layer is layer]
    return _word(layer, [(at, found) for at, found in said if found is not None])


def _claimed(first: CpuSet | None, last: CpuSet | None, evidence: Evidence) -> list[_Word]:
    ends = ((0, first), (evidence.duration_ns, last))
    return _word(Layer.CLAIM, [(at, found) for at, found in ends if found is not None])


def _read(evidence: Evidence, claim: Claim) -> list[tuple[int, CgroupFiles]]:
    """Return the control files at both ends of the window; nothing if one of them was not read."""
    ends = ((0, evidence.files_before), (evidence.duration_ns, evidence.files_after))
    found = [(at, view.files_of(files, claim.cgroup)) for at, files in ends]
    return [(at, files) for at, files in found if files is not None] if all(files for _, files in found) else []


def _cpus(claim: Claim, evidence: Evidence, rows: list[LayerView], masks: list[ThreadMask]) -> list[_Word]:
    changes = view.mask_changes(claim.name, evidence.transitions)
    words = [word for layer in GIVEN[:-1] for word in _given(rows, layer, cpus=True)]
    words += _claimed(view.set_at_epoch(claim, changes, 0), view.set_at_epoch(claim, changes, len(changes)), evidence)
    granted = [(at, files.cpus_effective) for at, files in _read(evidence, claim)]
    words += _word(Layer.CGROUP, [(at, cpus) for at, cpus in granted if cpus is not None])
    rows_ran = view.by_claim(timeline.asked(evidence).rows).get(claim.name, ())
    ran = CpuSet.of(row.cpu for row in rows_ran if any(row.steady))
    if not ran:
        return words
    # After a planned change only what belongs to the new set is compared.
    had = view.ever_allowed(claim, changes) if changes else CpuSet()
    return words + _observed([(mask, mask.cpus_allowed) for mask in masks if mask.epoch >= len(changes)], ran - had)


def _mems(claim: Claim, evidence: Evidence, rows: list[LayerView], masks: list[ThreadMask]) -> list[_Word]:
    words = [word for layer in GIVEN[:-1] for word in _given(rows, layer, cpus=False)]
    words += _claimed(claim.mems, claim.mems, evidence)
    granted = [(at, files.mems_effective) for at, files in _read(evidence, claim)]
    words += _word(Layer.CGROUP, [(at, mems) for at, mems in granted if mems is not None])
    return words + _observed([(mask, mask.mems_allowed) for mask in masks], CpuSet())


def _observed(masks: list[tuple[ThreadMask, CpuSet]], ran: CpuSet) -> list[_Word]:
    """What threads may use by their masks, and where they ran. Where no mask was read the layer is silent."""
    if not masks:
        return []
    allowed = ran
    for _, cpus in masks:
        allowed = allowed | cpus
    return [
        _Word(
            layer=Layer.OBSERVED,
            first=allowed,
            last=allowed,
            first_at_ns=min(mask.first_at_ns for mask, _ in masks),
            last_at_ns=max(mask.last_at_ns for mask, _ in masks),
            held=tuple((cpus, mask.last_at_ns - mask.first_at_ns) for mask, cpus in masks),
        )
    ]


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Model, checkpoint, pod-resources API, claim, cgroup and what was observed agree.",
        how=prose("""
            The layers that exist are compared in the order in which a decision travels: model, checkpoint,
            pod-resources, claim, cgroup (effective), observed (thread masks, and CPUs where tasks ran). Each must
            repeat the one before it, the cgroup in every reading (see `applied`); observed may be a subset. The first
            pair that differs is named: the fault lies between the two.

            On a node that is followed (`watch --kubelet`) four layers of each container are compared through the whole
            window: what the state file assigns, what the kubelet requested through CRI, what the cgroup is set to, what
            the threads' masks are. Checkpoint and CRI may differ until a reconcile; CRI and cgroup may not differ at
            all: that is drift. The verdict names the pair, since when, and the bound. While the state file cannot be
            read, the last known claims apply. A container that requests exclusive CPUs and has a set of its own, but
            has no entry in the state file, is not taken for one of the shared pool: model and checkpoint differ. That
            fails after the bound and 30 s (the time in which a pod ends). It is undecided if no source reports whether
            the pod has ended. With `--kubelet-metrics` the kubelet's gauges (`kubelet metrics`) are compared with its
            state file every 10 s: a difference of 3 s or more fails. So does a counter of assigned containers
            (`resource_manager_container_assignments`) that grows by fewer than came into the state file.

            One reading of a node (`judge --capture`) also compares the kubelet's gauges with its state file, and the
            reasons of refused pods with the documented ones. It is undecided without a layer that promises, without the
            cgroup's CPUs, and if memory nodes are promised and the machine was not read. Checkpoint and CRI that differ
            there are undecided, and fail where the capture shows that a reconcile is overdue.

            A layer that was not given, or that states nothing about the claim, is left out. The verdict is undecided if
            the cgroup's files were not read at both ends, if no thread mask was read, or if no task was seen to run. On
            a followed node it is undecided if the cgroup's CPUs were not read, or if no thread mask was read of a
            container that existed during the whole window; a container that slept all the time leaves no doubt.
        """),
        tolerance=prose("""
            Without a kubelet: none.

            With its reconcile period: a difference must last for two of them, between readings that far apart, because
            the kubelet writes cgroups at the end of a period and the layers are read one after the other. A cgroup that
            was right and became wrong while the promise stayed is not late, so it gets no tolerance. On a followed node
            the tolerance is one period and 5 s. It counts from the time at which the kubelet wrote its state file (the
            file's time, between the two readings around it), however much later the file was read. A container that
            still runs on CPUs which were its own and now belong to another pod has no tolerance, since no reconcile
            repairs that. A shared pool that grows late is not a failure. A cgroup that became what the runtime says
            within 5 s was written by the runtime: CRI-O says so when its program has returned. Where the cgroup has
            what the checkpoint promises, and did not change while the runtime said otherwise, the runtime's word is an
            old one: CRI-O that restarts says again what the container was made with. The verdict is undecided if layers
            differ and the last reading of one of them came before a change of the claim's set was complete.
            After a CPU of the claim went offline or came online (dated up to 0.5 s late), the cgroup's CPUs in readings
            within the window are not compared.
        """),
        source=prose("""
            docs/principles.md, docs/failures.md F1-F7, F13-F15, F31, docs/facts.md K-kubelet-1, "Normal on a healthy
            node"
        """),
        negative_control="Write another set behind the kubelet's back: `echo 0-1 > cpuset.cpus`.",
        witnesses=(Witness.FILES, Witness.MASKS, Witness.SWITCHES),
        measures=(
            *levels("forgotten_ms", "lag_ms", "overlap_ms", better=Better.LESS),
            *levels("requested_cpus_count"),
            *amounts("allocation_errors", better=Better.LESS),
            *kinds.words("*_cpus", "*_mems"),
            *writers.MEASURES,
            *writers.PLACED,
        ),
    ),
    check,
)
