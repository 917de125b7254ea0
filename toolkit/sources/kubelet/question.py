"""A kubelet's own files as a scenario: what would it decide for these pods?

Not a scenario to run: it has no workloads and no controls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.allocation.checkpoint.found import Checkpoints
from toolkit.allocation.device.manager import Device
from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.kubelet_fields import field_lines, unread_lines
from toolkit.kubernetes.kubelet_version import is_modelled, is_upstream, series_of, warning
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod_reader import read_offered_pod
from toolkit.kubernetes.releases import DECISIONS, SIDECARS, series_text
from toolkit.model.node_reading import NodeReading
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.sources.json_parts import items, mapping
from toolkit.sources.kubelet.configuration import (
    KubeletConfiguration,
    configuration_in,
    file_names,
    load_configuration,
    unread,
)
from toolkit.sources.kubelet.devices import Owners, devices_held, placed
from toolkit.sources.kubelet.machine import capture_topology
from toolkit.sources.pod_files import checked, load_pods
from toolkit.text.names import printable

NAME = "kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a node's pods hold.

    :param known: how many of the scenario's pods, from the first, the node knows. :param files: its state files.
    :param containers: the runtime's, id to (pod uid, name). :param refused: uid to reason and message of pods that the
        node did not admit. :param ended: names of pods that have ended and that it lists still.
    :param devices: that its plugins have registered. :param owners: whose they are: (pod uid, container) to resource to
        ids.
    :param of_no_place: resources with devices of which nothing says where they sit.
    :param own: whether configuration and machine are the node's own; else a kubelet is started over its state.
    """

    known: int
    files: Checkpoints
    containers: Mapping[str, tuple[str, str]]
    refused: Mapping[str, tuple[str, str]]
    ended: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    owners: Owners = field(default_factory=dict)
    of_no_place: frozenset[str] = frozenset()
    own: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked. :param held: what the node's pods hold; ``None``: an empty node is asked.

    :param topology: the capture's machine, if it is asked for. :param warnings: one line each.
    :param version: of the kubelet; empty: not known. :param cgroup_root: its ``cgroupRoot``.
    """

    scenario: Scenario
    cgroup_root: str = ""
    version: str = ""
    held: Held | None = None
    topology: Topology | None = None
    warnings: tuple[str, ...] = ()


def ask(
    *,
    config: Path | None = None,
    drop_ins: Path | None = None,
    pods: Path | None = None,
    reading: NodeReading | None = None,
    where: str = "",
    version: str = "",
    machine: bool = True,
    drained: bool = False,
) -> Question:
    """Read configuration and pods; what is not given comes from the node.

    :param drop_ins: directory whose files are merged over ``config``.
    :param reading: a node, captured or live. :param where: it, for messages.
    :param version: of the kubelet, where it is known; else that which the node says.
    :param machine: whether the node's machine is asked about, too.
    :param drained: whether an empty node is asked; else one with what its pods hold: ``pods`` come beside these.
    :raises InputError: a file is wrong, or neither given nor known of the node.
    """
    found = load_configuration(config, drop_ins) if config is not None else _captured(reading, where)
    new = load_pods(pods, read_offered_pod) if pods is not None else ()
    state = not drained and reading is not None and bool(reading.pods or pods is None)
    known, over = _parted(_pods(reading, where) if state or pods is None else ())
    wanted, past = _parted(new)
    manifests = (*known, *wanted)
    if not manifests:
        raise InputError(str(pods or where), "only pods that have ended", "one that has not")
    held = None
    if state and reading is not None:
        held = _held(reading, known, over, own=config is None and machine)
    version = version or (_said(reading, where) if reading is not None else "")
    asked = found.node.of_series(series_of(version, "--kubelet-version")) if version else found.node
    fields, warnings = _for_the_model(found.fields, asked.feature_gates, version)
    warnings = (*_of_release(found, asked, manifests, version), *warnings)
    files = where if config is None else file_names(config, drop_ins)
    beside = f"{where} and {pods}" if held is not None and pods is not None else f"{pods or where}"
    title = f"{files}, pods of {beside}"
    scenario = Scenario(
        name=NAME, title=title, kubelet=fields, kubelet_version=version, pods=manifests, of_kubelet=True
    )
    left_out = _left_out((*over, *past) if held is None else past)
    return Question(
        scenario=scenario,
        cgroup_root=found.cgroup_root,
        version=version,
        held=held,
        topology=capture_topology(reading, where) if reading is not None and machine else None,
        warnings=(
            *warnings,
            *left_out,
            *(_not_listed(reading, where) if held is None and not drained else ()),
            *_devices(manifests, held),
        ),
    )


def _held(
    reading: NodeReading, known: Sequence[Mapping[str, Any]], ended: Sequence[Mapping[str, Any]], *, own: bool
) -> Held:
    refused = {}
    for pod in known:
        status = mapping(pod.get("status"))
        if status.get("phase") == "Failed":
            refused[_uid(pod)] = str(status.get("reason") or "Failed"), str(status.get("message") or "")
    names = {(str(pod["metadata"].get("namespace") or "default"), str(pod["metadata"]["name"])): pod for pod in known}
    devices, owners = devices_held(reading, {name: _uid(pod) for name, pod in names.items()})
    stated = reading.allocatable_devices is not None
    return Held(
        known=len(known),
        files=Checkpoints(reading.cpu_state, reading.memory_state),
        containers={one.id: (one.pod_uid, one.name) for one in reading.containers or ()},
        refused=refused,
        ended=tuple(printable(str(pod["metadata"]["name"])) for pod in ended),
        devices=devices if stated else placed(devices),
        owners=owners,
        of_no_place=frozenset(() if stated else (one.resource for one in devices if not one.numa)),
        own=own,
    )


def _uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("uid") or pod["metadata"]["name"])


def _not_listed(reading: NodeReading | None, where: str) -> tuple[str, ...]:
    """Say that a node's state is not begun with, because its pods are not known."""
    if reading is None or reading.cpu_state is None:
        return ()
    return (f"{where}: its pods are not known: the plan begins with an empty node, whatever its state file says",)


def _devices(pods: Sequence[Mapping[str, Any]], held: Held | None) -> Iterator[str]:
    """Name the pods that ask for devices of which nothing says that the node has any: a kubelet, too, admits them as if
    they had not asked. And those whose devices may sit anywhere: an old kubelet says it only of those that are taken.
    """
    registered = held.devices if held is not None else ()
    nodes = {device.resource: device.numa for device in sorted(registered, key=lambda one: len(one.numa))}
    asked: dict[str, set[str]] = {}
    for pod in pods:
        spec = mapping(pod.get("spec"))
        for one in (*items(spec.get("initContainers")), *items(spec.get("containers"))):
            limits = mapping(mapping(mapping(one).get("resources")).get("limits"))
            for name in limits:
                if "/" in name and not name.partition("/")[0].endswith("kubernetes.io"):
                    asked.setdefault(name, set()).add(str(pod["metadata"]["name"]))
    for name, pods_of in sorted(asked.items()):
        listed = ", ".join(map(printable, sorted(pods_of)))
        if name not in nodes:
            yield f"no device {printable(name)} is known here: planned as if it were not asked for: {listed}"
        elif held is not None and name in held.of_no_place:
            place = ", ".join(map(str, nodes[name]))
            where = f"NUMA node {place}, where those in use are" if place else "no NUMA node"
            yield f"where free devices {printable(name)} sit is not known here: planned as if on {where}: {listed}"


def _captured(reading: NodeReading | None, where: str) -> KubeletConfiguration:
    if reading is None:
        raise InputError("--kubelet-config", "not given", "a KubeletConfiguration file, --capture or --kubelet")
    if problem := unread(reading):
        raise InputError(where, problem, "kubelet/config.yaml in it, or --kubelet-config FILE")
    return configuration_in(reading, f"{where}: ")


def _said(reading: NodeReading, where: str) -> str:
    """Return the version that a capture says; one that makes no sense is not known.

    :param where: the capture.
    """
    try:
        series_of(reading.kubelet_version, where)
    except InputError:
        return ""
    return reading.kubelet_version


def _pods(reading: NodeReading | None, where: str) -> tuple[dict[str, Any], ...]:
    """Return the captured pods in the order in which the kubelet saw them."""
    if reading is None:
        raise InputError("--pods", "not given", "Pod manifests, --capture or --kubelet")
    if not reading.pods:
        raise InputError(where, "its pods are not known", "pods.json in a capture, --kubelet-pods URL, or --pods DIR")
    return tuple(sorted(checked(reading.pods, f"{where}: pods.json"), key=_seen))


def _has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether its containers ran and are over: the kubelet admits it no more, and its CPUs are free.

    One that was refused has failed as well, and had no container; it is asked about again.
    """
    status = mapping(pod.get("status"))
    ran = any(items(status.get(key)) for key in ("containerStatuses", "initContainerStatuses"))
    return status.get("phase") == "Succeeded" or (status.get("phase") == "Failed" and ran)


def _parted(
    pods: Sequence[dict[str, Any]],
) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """Return pods that are asked about, and those that have ended."""
    ended = [_has_ended(pod) for pod in pods]
    return (
        tuple(pod for pod, over in zip(pods, ended, strict=True) if not over),
        tuple(pod for pod, over in zip(pods, ended, strict=True) if over),
    )


def _left_out(ended: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if not ended:
        return ()
    names = ", ".join(sorted(printable(str(pod["metadata"]["name"])) for pod in ended))
    return (f"pods that have ended are left out, with what they held while others came: {names}",)


def _seen(pod: Mapping[str, Any]) -> tuple[str, str]:
    status = pod.get("status")
    started = status.get("startTime") if isinstance(status, dict) else None
    return str(started or ""), str(pod["metadata"]["name"])


def _of_release(
    found: KubeletConfiguration, config: NodeConfig, pods: Sequence[Mapping[str, Any]], version: str
) -> tuple[str, ...]:
    """Say what of configuration and pods a kubelet of this release passes over, or decides otherwise than the model."""
    series = series_of(version, "--kubelet-version") if version else None
    lines = [*field_lines(found.odd, series), *unread_lines(found.odd, config.feature_gates)]
    gates = config.feature_gates
    if series is not None and not SIDECARS.of(gates.series) and not gates[SIDECARS.name]:
        names = [printable(str(pod["metadata"]["name"])) for pod in pods if _has_sidecar(pod)]
        if names:
            since = series_text(SIDECARS.since or gates.series)
            text = f"knows no sidecar containers (gate {SIDECARS.name}, on since {since}), and is answered as if it did"
            lines.append(f"{version} {text}: {', '.join(names)}")
    on = {*_switched_on(config), *gates.on}
    unlike = [row for row in DECISIONS if row.of(series) and on.issuperset(row.needs)]
    lines += [f"{version} decides {' with '.join(row.needs)} otherwise: {row.what} ({row.source})" for row in unlike]
    return tuple(lines)


def _switched_on(config: NodeConfig) -> Iterator[str]:
    """Yield the names that a row of the table of releases may need, but for gates."""
    for options in (config.cpu_manager_policy_options, config.topology_manager_policy_options):
        yield from (name for name, value in options.items() if value.casefold() in ("true", "1", "t"))
    yield f"{config.memory_manager_policy} memory"
    yield f"{config.topology_manager_scope} scope"


def _has_sidecar(pod: Mapping[str, Any]) -> bool:
    listed = items(mapping(pod.get("spec")).get("initContainers"))
    return any(mapping(one).get("restartPolicy") == "Always" for one in listed)


def _for_the_model(
    fields: Mapping[str, Any], given: FeatureGates, version: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Leave out the gates that only another kubelet knows, with a warning that names them.

    One of another version, or of a distribution: OpenShift's passes over a gate that is none of Kubernetes and says so
    in its log, and its configurations have such gates. A release of Kubernetes does not start with one: where the
    version says that it is one, a gate that the release is known not to take, or to have locked otherwise, stays, and
    the plan reports it.
    Source: k8s.io/component-base, ``featuregate/feature_gate.go`` (``unsafeSetFromMap``), of v1.36 and, with the patch
    "UPSTREAM: <carry>: warn only about unknown feature gates", of openshift/kubernetes.

    :param given: the gates of the fields, of that release.
    """
    warned: tuple[str, ...] = ()
    if version and not is_modelled(version, "--kubelet-version"):
        left_out = given.unknown if is_upstream(version) else given.refused
        warned = (warning(version, left_out),)
    elif given.unknown and not is_upstream(version):
        left_out, warned = given.unknown, (_foreign(given.unknown),)
    else:
        return dict(fields), ()
    return {**fields, "featureGates": given.without(left_out).given}, warned


def _foreign(gates: Sequence[str]) -> str:
    names = ", ".join(map(printable, gates))
    return (
        f"feature gates that are none of Kubernetes v1.36 are left out: {names}; Kubernetes' own kubelet does not "
        "start with them, what a distribution's changes by them is not known"
    )
