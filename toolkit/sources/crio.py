"""What CRI-O does to containers by annotations of their pods, and OpenShift's workload partitioning by them.

Hooks obey ``cpu-quota.crio.io`` and its like in Guaranteed pods, of containers with whole CPUs alone, where the
configuration allows the annotation for the pod's runtime handler. A workload of the configuration pins the containers
of every pod that has its annotation (``target.workload.openshift.io/management``) to the workload's CPUs.

Source: https://github.com/cri-o/cri-o ``internal/runtimehandlerhooks/high_performance_hooks_linux.go``,
``pkg/config/workloads.go``, ``pkg/annotations/v2/annotations.go``; https://github.com/openshift/
cluster-node-tuning-operator ``assets/performanceprofile/configs`` (``99-workload-pinning.conf``, ``99-runtimes.conf``).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolkit.allocation.cgroup_values import MIN_QUOTA_US
from toolkit.errors import InputError
from toolkit.model.cpu_tuning import CpuTuning
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.sources.json_parts import items, load, mapping, number, parsed, text, texts
from toolkit.sources.pinned import Pinned
from toolkit.text.names import printable

RUNTIME = "cri-o"
"""As the runtime calls itself in CRI's ``Version``."""
QUOTA, BALANCING, INTERRUPTS = "cpu-quota.crio.io", "cpu-load-balancing.crio.io", "irq-load-balancing.crio.io"
C_STATES, GOVERNOR, SHARED = "cpu-c-states.crio.io", "cpu-freq-governor.crio.io", "cpu-shared.crio.io"
HOOKS = (QUOTA, BALANCING, INTERRUPTS, C_STATES, GOVERNOR, SHARED)
TARGET, RESOURCES = "target.workload.openshift.io/", "resources.workload.openshift.io/"
PLACES = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d")
"""The configuration, and the folder of what is laid over it, in the order of names."""
FILE = "crio/config.json"
"""Where a capture has what of it is kept."""
WHOLE = 1024
"""Shares of a whole CPU."""
_OFF, _ON = ("disable", "true"), "enable"
_HOUSEKEEPING = "housekeeping"
_MAX_TEXT = 4096


def kept_annotations(annotations: object) -> dict[str, str]:
    """Keep of a pod's annotations those that are read here."""
    return {
        key: value
        for key, value in texts(annotations).items()
        if key.startswith((*HOOKS, TARGET, RESOURCES)) and len(key) + len(value) < _MAX_TEXT
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload of the configuration.

    :param activation: the annotation of its pods. :param prefix: of the annotations with a container's own values.
    """

    name: str
    activation: str
    prefix: str
    resources: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What of it is used.

    :param allowed: annotations by runtime handler. :param to_workloads: those that any workload allows.
    :param shared: CPUs that a container may have beside its own (``shared_cpuset``).
    """

    workloads: tuple[Workload, ...] = ()
    allowed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    to_workloads: tuple[str, ...] = ()
    shared: CpuSet = field(default_factory=CpuSet)


def kept_configuration(files: Sequence[tuple[str, bytes]]) -> bytes:
    """Keep of the files, in their order, what is used: of what comes twice the last.

    :param files: names for messages, and contents.
    :raises InputError: one is no TOML; the message quotes nothing of it.
    """
    workloads: dict[str, Any] = {}
    runtimes: dict[str, Any] = {}
    shared = ""
    for where, data in files:
        try:
            whole = tomllib.loads(data.decode("utf-8", "replace"))
        except (tomllib.TOMLDecodeError, RecursionError):
            raise InputError(where, "not TOML", "CRI-O's configuration") from None
        said = mapping(mapping(whole.get("crio")).get("runtime"))
        shared = text(said.get("shared_cpuset")) or shared
        for name, one in mapping(said.get("workloads")).items():
            keys = ("activation_annotation", "annotation_prefix", "allowed_annotations", "resources")
            workloads[name] = {**workloads.get(name, {}), **{key: v for key, v in mapping(one).items() if key in keys}}
        for name, one in mapping(said.get("runtimes")).items():
            runtimes[name] = runtimes.get(name, {}) | {
                key: value for key, value in mapping(one).items() if key == "allowed_annotations"
            }
    found = {"workloads": workloads, "runtimes": runtimes, "shared_cpuset": shared}
    return json.dumps(found, indent=1, default=str).encode()


@lru_cache(8)
def configuration(data: str) -> Configuration:
    """Read what was kept.

    :raises InputError: it is no such document.
    """
    found = load(data.encode("utf-8", "replace"), FILE)
    if not isinstance(found, dict):
        raise InputError(FILE, "no mapping", "CRI-O's configuration")
    workloads = {name: mapping(one) for name, one in mapping(found.get("workloads")).items()}
    runtimes = {name: mapping(one) for name, one in mapping(found.get("runtimes")).items()}
    return Configuration(
        workloads=tuple(
            Workload(
                name=name,
                activation=text(one.get("activation_annotation")),
                prefix=text(one.get("annotation_prefix")),
                resources=mapping(one.get("resources")),
            )
            for name, one in workloads.items()
        ),
        allowed={name: _words(one.get("allowed_annotations")) for name, one in runtimes.items()},
        shared=parsed(text(found.get("shared_cpuset"))) or CpuSet(),
        to_workloads=tuple(word for one in workloads.values() for word in _words(one.get("allowed_annotations"))),
    )


def _words(value: object) -> tuple[str, ...]:
    return tuple(text(word) for word in items(value))


def partitioned(annotations: Mapping[str, str], container: str, known: Configuration) -> Pinned | None:
    """Return what a workload pins a container to; ``None``: its pod is of none.

    :raises InputError: the pod's annotation, or the workload, is none that CRI-O takes.
    """
    workload = next((one for one in known.workloads if one.activation in annotations), None)
    if workload is None:
        targets = [key for key in annotations if key.startswith(TARGET)]
        if targets:
            raise InputError(printable(targets[0]), "no workload of CRI-O's configuration is activated by it")
        return None
    key = f"{workload.prefix}/{container}"
    own = mapping(load(annotations[key].encode(), printable(key))) if key in annotations else {}
    said = workload.resources | {name: value for name, value in own.items() if value not in (0, "", None)}
    cpus = parsed(text(said.get("cpuset")))
    if cpus is None:
        raise InputError(f"{printable(key)}: cpuset", printable(text(said.get("cpuset")))[:60], "a list of CPUs")
    shares, quota, period = (number(said.get(name)) or 0 for name in ("cpushares", "cpuquota", "cpuperiod"))
    limit = number(own.get("cpulimit")) or 0
    if limit > 0:
        quota = max(limit * (period or 100_000) // 1000, MIN_QUOTA_US)
    return Pinned(
        source=f"CRI-O workload {printable(workload.name)[:40]}",
        cpus=cpus or None,
        shares=shares if MIN_SHARES <= shares <= MAX_SHARES else None,
        quota_us=quota if quota >= MIN_QUOTA_US else None,
        period_us=period if 1000 <= period <= 1_000_000 else None,
        of_reserved=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooked:
    """What CRI-O's hooks promise of a container.

    :param shared: CPUs that it has beside its own, and then a quota that is not known.
    :param unjudged: what is stated and nothing judges, a line each.
    """

    quota_free: bool = False
    shared: CpuSet = field(default_factory=CpuSet)
    tuning: CpuTuning | None = None
    unjudged: tuple[str, ...] = ()


def hooked(
    annotations: Mapping[str, str], container: str, *, handler: str, known: Configuration | None, whole: bool, v2: bool
) -> Hooked:
    """Return it.

    :param handler: of the pod's runtime; empty: the default one. :param known: ``None``: it was not read, so what is
        asked for is taken to be allowed. :param whole: whether it has whole CPUs, in a Guaranteed pod.
    :param v2: whether cpusets are of cgroup v2.
    """
    said = {key: value for key in HOOKS if (value := _value(annotations, key, container)) is not None}
    unjudged = []
    for key in list(said):
        if known is not None and handler in known.allowed and not _allowed(key, handler, known):
            unjudged.append(f"{key}: CRI-O's configuration does not allow it for runtime handler {printable(handler)}")
            del said[key]
    if said and not whole:
        names = ", ".join(said)
        unjudged.append(f"{names}: CRI-O obeys it of containers with whole CPUs in Guaranteed pods alone")
        said = {}
    partition = said.get(BALANCING) in _OFF
    if partition and not v2:
        unjudged.append(f"not judged: {BALANCING}: cpuset.sched_load_balance of cgroup v1 is not read")
    if said.get(INTERRUPTS) == _HOUSEKEEPING:
        unjudged.append(
            f"not judged: {INTERRUPTS}={_HOUSEKEEPING}: which of its CPUs keep interrupts is not worked out"
        )
    shared = known.shared if known is not None and said.get(SHARED) == _ON else CpuSet()
    if shared:
        unjudged.append(f"not judged: {SHARED}: its quota, and that nothing else runs on the CPUs which are its own")
    elif said.get(SHARED) == _ON:
        unjudged.append(f"not judged: {SHARED}: which CPUs these are (shared_cpuset) is not known")
    latency = _latency(said.get(C_STATES, ""))
    if C_STATES in said and not latency:
        unjudged.append(f"not judged: {C_STATES}: {printable(said[C_STATES])[:60]} is no value that CRI-O takes")
    tuning = CpuTuning(
        by="CRI-O",
        interrupts_elsewhere=said.get(INTERRUPTS) in _OFF,
        partition="isolated" if partition and v2 else "",
        resume_latency_us=latency,
        governor=printable(said.get(GOVERNOR, ""))[:64],
    )
    return Hooked(
        quota_free=said.get(QUOTA) in _OFF,
        shared=shared,
        tuning=None if tuning == CpuTuning(by="CRI-O") else tuning,
        unjudged=tuple(unjudged),
    )


def _value(annotations: Mapping[str, str], key: str, container: str) -> str | None:
    """Return a container's own value, else its pod's. C-states and governors are of the pod alone."""
    if key not in (C_STATES, GOVERNOR) and f"{key}/{container}" in annotations:
        return annotations[f"{key}/{container}"]
    return annotations.get(key)


def _allowed(key: str, handler: str, known: Configuration) -> bool:
    return any(key.startswith(word) for word in (*known.allowed[handler], *known.to_workloads) if word)


def _latency(value: str) -> str:
    """Return the text of ``pm_qos_resume_latency_us``; empty: nothing was asked for, or no value that is taken."""
    if value in ("enable", "disable"):
        return "0" if value == "enable" else "n/a"
    most = number(value.removeprefix("max_latency:")) if value.startswith("max_latency:") else None
    return str(most) if most and most > 0 else ""
