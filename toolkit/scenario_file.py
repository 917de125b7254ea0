"""The scenario file (``apiVersion: pinproof/v1, kind: Scenario``): YAML as users write it, to a Scenario.

Source: docs/principles.md. The catalogue that ships in ``validators/scenarios`` uses the same format.
"""

from __future__ import annotations

import difflib
import functools
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel

from toolkit import presence
from toolkit.errors import InputError
from toolkit.faults.registry import WORDS
from toolkit.kubernetes.documents import Part, absent, check_kind, expected, needed, read_document
from toolkit.kubernetes.node_config import FIELDS
from toolkit.model.claims import ExclusivePolicy, pod_claim_name, qos_claim_name
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.plan import QOS_CGROUPS
from toolkit.model.sandbox import Workload, WorkloadKind
from toolkit.model.scenario import (
    Adjustment,
    Expectation,
    NegativeControl,
    Requirements,
    ResizeBehaviour,
    Scenario,
    Tier,
)
from toolkit.model.serde import first_problem, read_text
from toolkit.scenario_parts import ExpectationPart, RequiresPart, ScenarioPart
from toolkit.scenario_references import all_pods, kubelet_settings
from toolkit.text.yaml_text import MAX_BYTES, parse_document

QOS_CLAIMS = {qos_claim_name(cgroup) for cgroup in QOS_CGROUPS.values()}
"""What negative controls call the cgroups of QoS classes."""
EXPECTED = "a scenario file (apiVersion: pinproof/v1, kind: Scenario)"
AS_A_KUBELET = frozenset({"kubelet", "pods", "resizes"})
"""Keys whose values are read as a kubelet reads them: YAML 1.1, in which ``defaultMode: 0644`` is common."""
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""RFC 1123 label: what Kubernetes accepts as a name; it also keeps names harmless as cgroup path parts."""
Name = Annotated[str, StringConstraints(pattern=f"^{DNS_LABEL.pattern}$")]


def _known_fault(word: str) -> str:
    if word not in WORDS:
        *most, last = (repr(known) for known in WORDS)
        raise ValueError(f"Input should be {', '.join(most)} or {last}")
    return word


FaultWord = Annotated[str, AfterValidator(_known_fault), WithJsonSchema({"enum": list(WORDS), "type": "string"})]


class _Named(Part):
    name: Annotated[Name, expected("a name: a DNS label such as web-1")] = needed()


_Containers = Annotated[
    list[Annotated[_Named, expected("a container")]], expected("a list of containers"), absent(list)
]


class _PodContainers(Part):
    model_config = ConfigDict(alias_generator=to_camel)
    init_containers: _Containers = Field(default_factory=list)
    containers: _Containers = Field(default_factory=list)
    ephemeral_containers: _Containers = Field(default_factory=list)


class _PodOutline(Part):
    """The names in a pod, which other parts of the scenario refer to; the pod itself is read when it is planned."""

    metadata: Annotated[_Named, expected("a mapping with the pod's name")] = needed()
    spec: Annotated[_PodContainers, expected("a mapping with the pod's containers")] = needed()


class _Workload(ScenarioPart):
    kind: WorkloadKind
    threads: int = Field(default=1, ge=1, le=4096)
    memory_bytes: int = Field(default=16 * 1024 * 1024, ge=4096, le=2**63 - 1)
    page_bytes: Literal[2_097_152, 1_073_741_824] = 2_097_152


class _Control(ScenarioPart):
    rule: str
    fault: FaultWord
    target: str = ""
    subject: str = ""
    quota_us: int | None = None
    period_us: int | None = None
    shares: int | None = Field(default=None, ge=MIN_SHARES, le=MAX_SHARES)
    transition_limit_ms: float | None = Field(default=None, ge=0, le=86_400_000)
    noise_budget_ns_per_s: int | None = Field(default=None, ge=0, le=1_000_000_000)
    kubelet: dict[str, Any] = Field(default_factory=dict)
    pods: tuple[dict[str, Any], ...] = Field(default=(), max_length=1024)
    requires: RequiresPart = Field(default_factory=RequiresPart)


class _KubeletRestart(ScenarioPart):
    kubelet: dict[str, Any] = Field(default_factory=dict)
    refused: str = ""


class _Adjuster(ScenarioPart):
    name: Literal["clearcfs"]
    qos_classes: tuple[Literal["Guaranteed", "Burstable", "BestEffort"], ...] = ("Guaranteed",)


class ScenarioDocument(ScenarioPart):
    """The file as it is written; its JSON Schema ships with pinproof."""

    api_version: Literal["pinproof/v1"]
    kind: Literal["Scenario"]
    name: Name
    title: str
    shows: str = ""
    catalogue: tuple[str, ...] = ()
    tier: Tier = Tier.FULL
    requires: RequiresPart = Field(default_factory=RequiresPart)
    policy: ExclusivePolicy = ExclusivePolicy.K8S
    kubelet_config: str = ""
    kubelet: dict[str, Any] = Field(default_factory=dict)
    pod_files: tuple[str, ...] = Field(default=(), max_length=1024)
    pods: tuple[dict[str, Any], ...] = Field(default=(), min_length=1, max_length=1024)
    devices: Literal["udev"] | tuple[dict[str, Any], ...] = Field(default=(), max_length=4096)
    cpu_plugins: dict[str, dict[str, Any]] = Field(default_factory=dict, max_length=16)
    adjusters: tuple[_Adjuster, ...] = Field(default=(), max_length=16)
    dra_claims: dict[str, dict[Name, str]] = Field(default_factory=dict, max_length=1024)
    workloads: dict[str, tuple[_Workload, ...]] = Field(default_factory=dict)
    duration_seconds: float = Field(default=3.0, gt=0, le=86_400)
    departures: tuple[str, ...] = ()
    arrivals: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    kubelet_restart: _KubeletRestart | None = None
    restarts: tuple[str, ...] = ()
    resizes: tuple[dict[str, Any], ...] = Field(default=(), max_length=1024)
    resize_behaviour: ResizeBehaviour = ResizeBehaviour.V1_36
    rejected_resizes: dict[str, str] = Field(default_factory=dict)
    pile_ups: tuple[str, ...] = ()
    transition_limit_ms: float | None = Field(default=None, ge=0, le=86_400_000)
    noise_budget_ns_per_s: int | None = Field(default=None, ge=0, le=1_000_000_000)
    weights: bool = False
    state_files: bool = False
    rejected_pods: tuple[str, ...] | dict[str, str] = ()
    expect: dict[str, ExpectationPart] = Field(default_factory=dict)
    negative_controls: tuple[_Control, ...] = ()


def parse_scenario(text: str, where: str, folder: Path | None = None, *, own: bool = False) -> Scenario:
    """Read a scenario document.

    :param folder: where the paths in it begin; ``None``: it cannot name other files.
    :param own: it is one of the catalogue's.
    :raises InputError: one line that names the place, what was found and what was expected.
    """
    data = parse_document(text, where, decimal_but=AS_A_KUBELET, own=own)
    check_kind(data, "Scenario", where, EXPECTED)
    try:
        document = ScenarioDocument.model_validate(data)
    except ValidationError as error:
        raise InputError(where, first_problem(error), EXPECTED) from None
    rejected = document.rejected_pods
    scenario = Scenario(
        name=document.name,
        title=document.title,
        shows=document.shows.strip(),
        catalogue=document.catalogue,
        tier=document.tier,
        requires=Requirements(**document.requires.model_dump()),
        policy=document.policy,
        kubelet=kubelet_settings(document.kubelet_config, document.kubelet, folder, where),
        pods=all_pods(document.pod_files, document.pods, folder, where),
        devices=() if document.devices == "udev" else document.devices,
        devices_of_host=document.devices == "udev",
        cpu_plugins=document.cpu_plugins,
        adjusters=tuple(Adjustment(**one.model_dump()) for one in document.adjusters),
        dra_claims=document.dra_claims,
        workloads={
            name: tuple(Workload(**load.model_dump()) for load in loads) for name, loads in document.workloads.items()
        },
        duration_s=document.duration_seconds,
        departures=document.departures,
        arrivals=document.arrivals,
        leaves=document.leaves,
        kubelet_restart=None if document.kubelet_restart is None else document.kubelet_restart.kubelet,
        refused_restart="" if document.kubelet_restart is None else document.kubelet_restart.refused,
        restarts=document.restarts,
        resizes=document.resizes,
        resize_behaviour=document.resize_behaviour,
        rejected_resizes=document.rejected_resizes,
        pile_ups=document.pile_ups,
        transition_limit_ms=document.transition_limit_ms,
        noise_budget_ns_per_s=document.noise_budget_ns_per_s,
        weights=document.weights,
        state_files=document.state_files,
        rejected_pods=dict.fromkeys(rejected, "") if isinstance(rejected, tuple) else rejected,
        expect={name: Expectation(**one.model_dump()) for name, one in document.expect.items()},
        negative_controls=tuple(_control(control) for control in document.negative_controls),
    )
    if not scenario.pods:
        raise InputError(where, "pods: none", "at least one in pods or in podFiles")
    parts = (scenario.kubelet, scenario.kubelet_restart or {})
    for part in (*parts, *(control.kubelet for control in scenario.negative_controls)):
        _check_kubelet(part, where)
    _check_names(scenario, where)
    return scenario


def _control(part: _Control) -> NegativeControl:
    fields = part.model_dump()
    return NegativeControl(**{**fields, "requires": Requirements(**fields["requires"])})


def _check_kubelet(settings: dict[str, Any], where: str) -> None:
    """Refuse what the model would skip: a promise that rests on a misspelt option is none."""
    for key in settings:
        if key not in FIELDS:
            close = difflib.get_close_matches(key, sorted(FIELDS), n=1)
            expected = close[0] if close else f"one of {', '.join(sorted(FIELDS))}"
            raise InputError(where, f"unknown key kubelet.{key[:80]}", expected)


def _check_names(scenario: Scenario, where: str) -> None:
    """Refuse workloads, controls and the like of pods and containers that do not exist."""
    own = _containers(scenario.pods, "pods", where)
    resized = _containers(scenario.resizes, "resizes", where)
    added = [
        _containers(control.pods, f"negativeControls[{i}].pods", where)
        for i, control in enumerate(scenario.negative_controls)
    ]
    containers = {name for names in own.values() for name in names}
    anywhere = containers | {name for group in added for names in group.values() for name in names}
    wanted = {
        "workloads": (set(scenario.workloads), anywhere),
        "negativeControls": (
            {n for c in scenario.negative_controls for n in (c.target, c.subject) if "/" in n},
            anywhere | {pod_claim_name(pod) for pods in (own, *added) for pod in pods} | QOS_CLAIMS,
        ),
        "draClaims": (set(scenario.dra_claims), containers),
        "restarts": (set(scenario.restarts), containers),
        "resizes": (set(resized) | {name for names in resized.values() for name in names}, containers | set(own)),
        "rejectedResizes": (set(scenario.rejected_resizes), set(resized)),
        "pileUps": (set(scenario.pile_ups), containers),
        "departures": (set(scenario.departures), containers | set(own)),
        "arrivals": (set(scenario.arrivals), set(own)),
        "leaves": (set(scenario.leaves), set(own)),
        "rejectedPods": (set(scenario.rejected_pods), set(own)),
        "expect": (set(scenario.expect), {name for pod in set(own) - set(scenario.rejected_pods) for name in own[pod]}),
        "expect.sameAs": ({one.same_as for one in scenario.expect.values() if one.same_as}, containers),
    }
    for name, one in scenario.expect.items():
        if one.same_as == name:
            raise InputError(where, f"expect.{name}.sameAs: {name}", "another container")
    for part, (named, known) in wanted.items():
        for name in sorted(named - known):
            what = "container" if "/" in name else "pod"
            raise InputError(
                where,
                f"{part}: {what} {name[:80]!r}",
                f"one of {', '.join(sorted(known)) or 'none: there are no containers'}",
            )


def _containers(pods: tuple[dict[str, Any], ...], part: str, where: str) -> dict[str, list[str]]:
    """Return the names of each pod's containers, as ``pod/container``."""
    found: dict[str, list[str]] = {}
    for i, manifest in enumerate(pods):
        pod = read_document(_PodOutline, manifest, f"{where}: {part}[{i}]", "apiVersion: v1, kind: Pod")
        name = pod.metadata.name
        if name in found:
            raise InputError(where, f"pod {name!r} twice", "each pod once")
        entries = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
        found[name] = [f"{name}/{entry.name}" for entry in entries]
    return found


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file; see :func:`parse_scenario`."""
    return parse_scenario(read_text(path, EXPECTED, MAX_BYTES), str(path), path.parent)


@functools.cache
def load_catalogue() -> tuple[Scenario, ...]:
    """Read the scenarios that ship with pinproof, in file name order; once in a process, for they do not change.

    What some of them name (a kubelet's configuration, Pod manifests) lies in folders beside them.
    """
    with resources.as_file(resources.files("validators") / "scenarios") as folder:
        return tuple(
            parse_scenario(one.read_text(encoding="utf-8"), one.name, folder, own=True)
            for one in presence.below(folder, "*.yaml")
        )
