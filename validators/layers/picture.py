"""Rule ``layers-agree`` on a still picture of a kubelet's node: what is drift, what may be reconcile lag.

The kubelet compares state with its own memory and never reads a cgroup: what it asked for and what is must agree at
once. State and what it asked for may differ for a reconcile period: how long they do is known only where the picture
says when the state file was written. A reconcile never comes while the shared pool is empty, and none for a pod that
has ended. Source: docs/facts.md K-kubelet-1, K-kubelet-2, "Normal on a healthy node"; docs/failures.md F2, F15, F31.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.kubernetes.releases import API_REPORTS_POOL, NEWEST, series_text
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet, cpus_do, cpus_text, nodes_text
from toolkit.model.evidence import Evidence
from toolkit.model.layers import ApiCpus, Layer
from toolkit.model.picture import Picture
from toolkit.model.verdict import Measure, Outcome, Verdict, rank
from validators.layers import metrics, rejections, unseen
from validators.placement import groups
from validators.queries import view

Finding = tuple[Outcome, str]
POOL_OR_OWN = (
    f"{Layer.POD_RESOURCES} reports the shared pool, as kubelets before "
    f"{series_text(API_REPORTS_POOL.until or NEWEST)} do for a container that owns no CPU: "
    "the kubelet's version is not known"
)
LENT = ": the kernel lends it those of the cgroup above"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """What each layer says about one claim; ``None``: nothing."""

    state: CpuSet | None
    api: CpuSet | None
    api_cpus: ApiCpus | None
    plugin: CpuSet | None
    asked: CpuSet | None
    requested: CpuSet | None
    granted: CpuSet | None
    threads: CpuSet | None
    mems_state: CpuSet | None
    mems_plugin: CpuSet | None
    mems_asked: CpuSet | None
    mems_requested: CpuSet | None
    mems_granted: CpuSet | None
    mems_threads: CpuSet | None


def check(rule: str, claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every workload of which two layers speak, and the kubelet's metrics."""
    odd = {verdict.subject: verdict for verdict in unseen.check(rule, claims, evidence)}
    verdicts = []
    for claim in claims.claims:
        if view.is_workload(claim):
            own = _judge(rule, claim, _stated(claim, evidence), claims, evidence)
            verdicts.append(min(own, odd.pop(claim.name, own), key=lambda verdict: rank(verdict.outcome)))
    verdicts += odd.values()
    verdicts += metrics.check(rule, evidence)
    verdicts += rejections.check(rule, evidence)
    if verdicts:
        return tuple(verdicts)
    reason = "no layer speaks about any container"
    return (Verdict(rule=rule, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)


def _stated(claim: Claim, evidence: Evidence) -> _Stated:
    rows = {row.layer: row for row in view.by_claim(evidence.layers).get(claim.name, ())}
    files = view.files_of(evidence.files_before, claim.cgroup)
    masks = view.by_claim(evidence.thread_masks).get(claim.name, ())
    state, asked, api = (rows.get(layer) for layer in (Layer.CHECKPOINT, Layer.RUNTIME, Layer.POD_RESOURCES))
    plugin = rows.get(Layer.PLUGIN)
    return _Stated(
        state=state.cpus if state else None,
        api=api.cpus if api else None,
        api_cpus=api.api_cpus if api else None,
        plugin=plugin.cpus if plugin else None,
        asked=asked.cpus if asked else None,
        requested=files.cpus if files else None,
        granted=files.cpus_effective if files else None,
        threads=_union([mask.cpus_allowed for mask in masks]),
        mems_state=state.mems if state else None,
        mems_plugin=plugin.mems if plugin else None,
        mems_asked=asked.mems if asked else None,
        mems_requested=files.mems if files else None,
        mems_granted=files.mems_effective if files else None,
        mems_threads=_union([mask.mems_allowed for mask in masks if mask.mems_allowed]),
    )


def _union(sets: list[CpuSet]) -> CpuSet | None:
    return CpuSet.union(sets) if sets else None


def _judge(rule: str, claim: Claim, stated: _Stated, claims: ClaimSet, evidence: Evidence) -> Verdict:
    if evidence.picture is not None and claim.name in evidence.picture.being_made:
        reason = "nothing of it runs yet, or any more: the runtime writes its files while it makes it"
        return Verdict(rule=rule, subject=claim.name, outcome=Outcome.SKIPPED, reason=reason, measures={})
    if evidence.picture is not None and claim.name in evidence.picture.perhaps_made:
        reason = "no thread but a runtime's is in it, and no source says whether it runs: it may still be made"
        return Verdict(rule=rule, subject=claim.name, outcome=Outcome.UNDECIDED, reason=reason, measures={})
    said = {
        "checkpoint_cpus": stated.state,
        "pod-resources_cpus": stated.api,
        "plugin_cpus": stated.plugin,
        "cri_cpus": stated.asked,
        "cgroup_cpus": _is(stated),
        "observed_cpus": stated.threads,
        "checkpoint_mems": stated.mems_state,
        "cgroup_mems": stated.mems_requested,
    }
    measures: dict[str, Measure] = {name: str(cpus) for name, cpus in said.items() if cpus is not None}
    owned, owners = unseen.foreign(claim, claims, _is(stated) or CpuSet())
    overlap = (_is(stated) or CpuSet()) & owned
    if overlap:
        measures["overlap_cpus"] = str(overlap)
    still = evidence.picture or Picture()
    offline = CpuSet.of(event.cpu for event in evidence.hotplug)
    findings = [
        finding
        for finding in (
            _drift(claim, stated, still, offline) if stated.plugin is None else _pinned(claim, stated, offline),
            _on_pinned(claim, claims, _is(stated) or CpuSet()),
            _state(
                claim, stated, still, f"{cpus_text(overlap)}, exclusive to {owners}" if overlap else "", claims, offline
            ),
            _count(claim, stated, still),
            _api(claim, stated, evidence),
            _observed(stated),
            _mems(claim, stated),
            _nodes(stated, evidence),
            _unread(claim, stated),
        )
        if finding is not None
    ]
    failed = [text for outcome, text in findings if outcome is Outcome.FAILED]
    open_ = [text for outcome, text in findings if outcome is Outcome.UNDECIDED]
    layers = [name.removesuffix("_cpus") for name in measures if name.endswith("_cpus") and name != "overlap_cpus"]
    outcome, reason = Outcome.PASSED, f"{', '.join(layers)} agree"
    if failed or open_:
        outcome, reason = (Outcome.FAILED, "; ".join(failed)) if failed else (Outcome.UNDECIDED, "; ".join(open_))
    elif len(layers) < 2:
        outcome, reason = Outcome.UNDECIDED, "only one layer states its CPUs: nothing to compare"
    elif stated.plugin is None and stated.state is None and stated.asked is None and stated.api is None:
        outcome, reason = _unpromised(evidence)
    if outcome is not Outcome.FAILED and still.pinners_unread and stated.plugin is None and stated.state is None:
        outcome, reason = Outcome.UNDECIDED, f"what has pinned it is not known: {still.pinners_unread}"
    return Verdict(rule=rule, subject=claim.name, outcome=outcome, reason=reason, measures=measures)


def _is(stated: _Stated) -> CpuSet | None:
    """What the cgroup says: the kernel's grant; its request where only that was read."""
    return stated.granted if stated.granted is not None else stated.requested


def _unpromised(evidence: Evidence) -> tuple[Outcome, str]:
    """No layer that promises speaks: what carries a promise out may agree with itself and be wrong."""
    policy = evidence.state_files[-1].cpu_policy if evidence.state_files else None
    if policy is not None and policy != "static":
        return Outcome.SKIPPED, f"CPU manager policy {policy} promises no CPUs"
    return Outcome.UNDECIDED, "neither the state file nor the runtime speaks about it: what was promised is not known"


def _drift(claim: Claim, stated: _Stated, still: Picture, offline: CpuSet) -> Finding | None:
    """What was requested against what is: a difference is another program's write, at once."""
    found = _is(stated)
    if not stated.asked or found is None or found == stated.asked:
        return None
    if stated.asked <= offline:
        return Outcome.UNDECIDED, f"all that it has, {cpus_text(stated.asked)}, is offline{LENT}"
    if found == stated.asked - offline:
        return None  # The kernel took them out; rule checkpoint names what is assigned and offline.
    text = f"{Layer.RUNTIME} and {Layer.CGROUP} differ: {cpus_text(stated.asked)} against {found or 'none'}: drift"
    late = claim.isolation == "host" and stated.state == stated.asked
    stuck = stated.threads is not None and stated.threads <= found <= stated.asked  # Nothing has reconciled.
    if late and stated.threads is not None and stated.threads <= stated.asked and not stuck:
        return Outcome.UNDECIDED, f"{text}, or a reconcile between the two readings (threads have the new set)"
    if claim.name in still.behind:
        alike = (
            "the cgroup is as the state file says"
            if found == stated.state
            else "all shared containers have the old set"
        )
        return Outcome.UNDECIDED, f"{text}, or a reconcile between the two readings ({alike})"
    return Outcome.FAILED, text


def _pinned(claim: Claim, stated: _Stated, offline: CpuSet) -> Finding | None:
    """What a program beside the kubelet has decided against what is: its runtime writes that at once."""
    found = _is(stated)
    if not stated.plugin or found is None or found in (stated.plugin, stated.plugin - offline):
        return None
    if stated.plugin <= offline:
        return Outcome.UNDECIDED, f"all that it has, {cpus_text(stated.plugin)}, is offline{LENT}"
    text = f"{claim.pinned_by} and {Layer.CGROUP} differ: {cpus_text(stated.plugin)} against {found or 'none'}"
    return Outcome.FAILED, text


def _on_pinned(claim: Claim, claims: ClaimSet, found: CpuSet) -> Finding | None:
    """CPUs that such a program gave to a container of another pod alone: nothing else may run there."""
    others = replace(claims, claims=tuple(one for one in claims.claims if one.pinned_by))
    owned, owners = unseen.foreign(claim, others, found)
    if not found & owned:
        return None
    by = next(one.pinned_by for one in others.claims if one.cpus and one.cpus & found and one.name != claim.name)
    return Outcome.FAILED, f"it may run on {cpus_text(found & owned)}, exclusive to {owners} ({by})"


def _state(
    claim: Claim, stated: _Stated, still: Picture, overlap: str, claims: ClaimSet, offline: CpuSet
) -> Finding | None:
    """What was promised against what was asked for, else against what is."""
    found = _is(stated)
    lower, layer = (stated.asked, Layer.RUNTIME) if stated.asked else (found, Layer.CGROUP)
    if stated.state is None or lower is None:
        return None
    state = cpus_text(stated.state) if stated.state else "no CPU"
    text = f"{Layer.CHECKPOINT} and {layer} differ: {state} against {lower or 'none'}"
    if claim.name in still.ended:
        if overlap:
            return Outcome.FAILED, f"{text}; its pod has ended for the kubelet but it still runs, on {overlap}"
        return Outcome.UNDECIDED, "its pod has ended for the kubelet, it still runs"
    if not stated.state:
        if overlap:
            reserved = (_is(stated) or CpuSet()) & claims.reserved_cpus if claims.strict_reservation else CpuSet()
            more = f", and on reserved {cpus_text(reserved)}" if reserved else ""
            return (
                Outcome.FAILED,
                f"{text}; the shared pool is empty, no reconcile repairs it; it may run on {overlap}{more}",
            )
        return Outcome.UNDECIDED, f"{text}; the shared pool is empty: the manager may not have started yet"
    if layer is Layer.CGROUP and stated.state <= offline:
        return Outcome.UNDECIDED, f"all that it has, {cpus_text(stated.state)}, is offline{LENT}"
    if stated.state == lower or (layer is Layer.CGROUP and stated.state - offline == lower):
        return None
    if claim.isolation != "host" and layer is Layer.CGROUP:
        return Outcome.FAILED, f"{text}; an exclusive set is right from its first sight"
    period_s = claims.reconcile_period_s or 10
    doubt = f"; it may run on {overlap}" if overlap else ""
    lag_s = still.overdue_s.get(claim.name)
    if lag_s is not None and found is not None and found - offline == lower - offline:
        # What the cgroup still has, read right after the state file, is no word of after another change.
        text += f": not reconciled for {lag_s:.0f} s (period {period_s:g} s)"
        if overlap or still.pods_read:
            return Outcome.FAILED, f"{text}{doubt}"
        return Outcome.UNDECIDED, f"{text}; its pod may have ended for the kubelet: its list of pods was not read"
    if not still.runtime_read:
        doubt += "; what the kubelet asked for was not read, so drift cannot be distinguished from lag"
    return (
        Outcome.UNDECIDED,
        f"{text}; the kubelet may not have reconciled yet (period {period_s:g} s){doubt}",
    )


def _count(claim: Claim, stated: _Stated, still: Picture) -> Finding | None:
    """What the pod asks for against what was promised to it: the one layer above the state file."""
    count = still.miscounted.get(claim.name)
    if count is None or not stated.state:
        return None
    text = f"{Layer.MODEL} and {Layer.CHECKPOINT} differ: {count} CPUs requested, assigned: {cpus_text(stated.state)}"
    return Outcome.FAILED, text


def _api(claim: Claim, stated: _Stated, evidence: Evidence) -> Finding | None:
    """What the pod-resources API calls a container's own: its exclusive CPUs; of others nothing, or the shared pool."""
    shares = claim.isolation == "host"
    own = None if shares and stated.api_cpus is not ApiCpus.POOL else stated.state
    if not stated.api or stated.state is None or stated.api == own:
        return None
    text = f"{Layer.CHECKPOINT} and {Layer.POD_RESOURCES} differ: CPUs"
    if shares and stated.api_cpus is ApiCpus.EITHER and stated.api == stated.state:
        return Outcome.UNDECIDED, POOL_OR_OWN
    cpu = evidence.state_files[-1].cpu if evidence.state_files else None
    anew = cpu is not None and not (cpu.entries or cpu.pods)
    if own is None and stated.api == stated.state and not anew:
        return Outcome.FAILED, f"{text} {stated.api} are the shared pool, and reported as its own"
    return Outcome.UNDECIDED, f"{text} {own or 'none'} against {stated.api}; the two are read one after the other"


def _observed(stated: _Stated) -> Finding | None:
    found = _is(stated)
    if stated.threads is None or found is None or stated.threads <= found:
        return None
    text = f"{Layer.CGROUP} and {Layer.OBSERVED} differ: CPUs {found or 'none'} against {stated.threads}"
    known = found | (stated.state or CpuSet()) | (stated.asked or CpuSet())
    if not found or stated.threads <= known:
        return Outcome.UNDECIDED, f"{text}; the set may have changed between the two readings"
    return Outcome.FAILED, text


def _mems(claim: Claim, stated: _Stated) -> Finding | None:
    """Memory nodes never change in a container's life; where the state file says none the runtime's word stands."""
    found = stated.mems_requested or stated.mems_granted
    promised, layer = stated.mems_state, str(Layer.CHECKPOINT)
    if stated.mems_plugin:
        promised, layer = stated.mems_plugin, claim.pinned_by
    if not promised:
        promised, layer = stated.mems_asked, Layer.RUNTIME
    if not promised:
        return None
    if found is not None and found != promised:
        text = f"memory nodes {promised} against {found or 'none'}"
        return Outcome.FAILED, f"{layer} and {Layer.CGROUP} differ: {text}"
    if stated.mems_threads is not None and not stated.mems_threads <= promised:
        text = f"memory nodes {promised} against {stated.mems_threads}"
        return Outcome.FAILED, f"{layer} and {Layer.OBSERVED} differ: {text}"
    return None


def _nodes(stated: _Stated, evidence: Evidence) -> Finding | None:
    """CPUs and memory that were promised on different nodes: the two state files contradict each other."""
    machine = groups.nodes(evidence)
    if not stated.state or not stated.mems_state:
        return None
    if machine is None:
        text = f"the machine was not read: whether {cpus_do(stated.state, 'lies', 'lie')} on a node of its memory"
        return Outcome.UNDECIDED, f"{text} ({nodes_text(stated.mems_state)}) is not known"
    nodes = groups.nodes_of(stated.state, machine)
    if not nodes or nodes & stated.mems_state:
        return None
    where = cpus_do(stated.state, "lies", "lie")
    text = f"{where} on {nodes_text(nodes)}, its memory on {nodes_text(stated.mems_state)}"
    return Outcome.FAILED, f"cpu_manager_state and memory_manager_state differ: {text}"


def _unread(claim: Claim, stated: _Stated) -> Finding | None:
    """What layers promise holds only where the cgroup has it, and nothing read that."""
    if _is(stated) is not None or not (stated.state or stated.asked):
        return None
    return Outcome.UNDECIDED, f"the CPU set of {claim.cgroup} is not known"
