"""What the runtime and the pod-resources socket said, from the JSON of a capture. Formats: docs/capture-bundle.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolkit.errors import InputError
from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.claims import AssignedDevice
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.node_reading import Asked, CgroupHierarchies, PodResourcesContainer, RuntimeContainer
from toolkit.sources.kubelet.json_parts import entries, items, mapping, number, text, texts
from toolkit.sources.kubelet.pod_paths import CONTAINER_ID, place_of
from toolkit.text.names import printable
from toolkit.text.wording import kind_of

POD_UID, POD_NAME, POD_NAMESPACE = (f"io.kubernetes.pod.{what}" for what in ("uid", "name", "namespace"))
CONTAINER_NAME = "io.kubernetes.container.name"
POD_RESOURCES = "podresources.json"
NONE_LISTED = "the runtime's answer lists no containers"


def listed(data: object) -> tuple[RuntimeContainer, ...]:
    """Read ``containers.json``: id to labels, cgroup path and the resources of the runtime's specification."""
    found = []
    for key, value in mapping(data).items():
        entry = mapping(value)
        labels = texts(entry.get("labels"))
        cpu = mapping(mapping(entry.get("resources")).get("cpu"))
        found.append(
            RuntimeContainer(
                id=text(key),
                pod_uid=labels.get(POD_UID, ""),
                name=labels.get(CONTAINER_NAME, ""),
                pod_name=labels.get(POD_NAME, ""),
                pod_namespace=labels.get(POD_NAMESPACE, ""),
                sandbox="sandbox" in (entry.get("type"), labels.get("io.cri-containerd.kind")),
                cgroups_path=text(entry.get("cgroupsPath")),
                asked=_asked(mapping(entry.get("resources"))) if cpu else None,
                huge_sizes=_huge_sizes(entry.get("resources")),
                labels=labels,
            )
        )
    return tuple(found)


def _asked(resources: dict[str, Any]) -> Asked:
    cpu, memory = mapping(resources.get("cpu")), mapping(resources.get("memory"))
    return Asked(
        cpus=text(cpu.get("cpus")),
        mems=text(cpu.get("mems")),
        quota_us=number(cpu.get("quota")),
        period_us=number(cpu.get("period")),
        shares=number(cpu.get("shares")),
        memory_bytes=number(memory.get("limit")),
        memory_high_bytes=_high(resources),
    )


def _high(resources: dict[str, Any]) -> int | None:
    word = texts(resources.get("unified")).get("memory.high")
    return None if word is None else NO_LIMIT if word.strip() == "max" else number(word.strip())


def _huge_sizes(resources: object) -> tuple[str, ...] | None:
    """Return of which sizes of huge pages a specification has limits. A runtime may leave them out of it: containerd's
    ``disable_hugetlb_controller``, which is on by default.
    """
    if not isinstance(resources, dict):
        return None
    return tuple(text(mapping(one).get("pageSize")) for one in items(resources.get("hugepageLimits")))


def from_cri(node: object) -> tuple[RuntimeContainer, ...]:
    """Read the CRI's answers in ``node.json``: ListContainers, ListPodSandbox, ContainerStatus (verbose)."""
    data = mapping(node)
    status = mapping(data.get("status"))
    found = [_sandbox(mapping(item)) for item in items(mapping(data.get("sandboxes")).get("items"))]
    listed = [mapping(item) for item in items(mapping(data.get("containers")).get("containers"))]
    # Protobuf's JSON leaves out the default; a list in which no entry has a state has none to say.
    default = {"state": "CONTAINER_CREATED"} if any("state" in entry for entry in listed) else {}
    found += [_container({**default, **entry}, mapping(status.get(text(entry.get("id"))))) for entry in listed]
    return tuple(found)


def driver(node: object) -> str:
    """Return the cgroup driver by ``RuntimeConfig`` in ``node.json``, as a configuration spells it; else nothing."""
    linux = mapping(mapping(mapping(node).get("runtimeConfig")).get("linux"))
    named = text(linux.get("cgroupDriver")).lower()
    return named if named in (CgroupManager.SYSTEMD, CgroupManager.CGROUPFS) else ""


def checked_cri(node: object, groups: CgroupHierarchies | None) -> tuple[tuple[RuntimeContainer, ...] | None, str]:
    """Read the same, and say what is missing in it; ``None``: there is no list of containers.

    :param groups: the cgroups: protobuf's JSON leaves out a list that is empty, and they show whether it can be.
    """
    answer, data = mapping(node).get("containers"), mapping(node)
    if answer is None:
        return None, NONE_LISTED
    try:
        for what, key in (("containers", "containers"), ("sandboxes", "items")):
            said = data.get(what)
            if said is not None and not isinstance(said, dict):
                raise InputError(f"node.json: {what}", kind_of(said), "a mapping")
            _identified(entries(mapping(said).get(key), f"node.json: {what}"), f"node.json: {what}")
    except InputError as error:
        return None, str(error)
    found = from_cri(node)
    if not _believed(found, groups):
        return None, NONE_LISTED
    asked = [entry.asked for entry in found if entry.state == "running"]
    silent = bool(asked) and all(one is None for one in asked)
    return found, "no status of a running container was read" if silent else ""


def checked_list(
    containers: object, groups: CgroupHierarchies | None
) -> tuple[tuple[RuntimeContainer, ...] | None, str]:
    """Read ``containers.json``, and say what is missing in it, as :func:`checked_cri` does of the other file."""
    data = mapping(containers)
    wrong = next((value for value in data.values() if not isinstance(value, dict)), None)
    if wrong is not None or None in data.values():
        return None, f"containers.json: {kind_of(wrong)} in it; expected mappings"
    found = listed(data)
    if not _believed(found, groups):
        return None, NONE_LISTED
    workloads = [entry for entry in found if not entry.sandbox]
    silent = bool(workloads) and all(one.asked is None for one in workloads)
    return found, "the resources of no container were read" if silent else ""


def _identified(found: list[dict[str, Any]], where: str) -> None:
    if not all(text(entry.get("id")) for entry in found):
        raise InputError(where, "an entry without an id", "an id in each")


def _believed(found: Iterable[RuntimeContainer], groups: CgroupHierarchies | None) -> bool:
    """Whether a list may be that of the node: where there are cgroups of containers, it has containers, and one of the
    cgroups is of what it lists. What is in a pod without a runtime's id is none of a container.
    """
    ids = {place.id for tree in (groups or {}).values() for path in tree if (place := place_of(path)) and place.id}
    if not ids:
        return True
    own = {one for one in ids if CONTAINER_ID.fullmatch(one)}
    entries = list(found)
    return any(not one.sandbox for one in entries) and (not own or any(one.id in own for one in entries))


def _sandbox(entry: dict[str, Any]) -> RuntimeContainer:
    labels, metadata = texts(entry.get("labels")), mapping(entry.get("metadata"))
    return RuntimeContainer(
        id=text(entry.get("id")),
        pod_uid=labels.get(POD_UID) or text(metadata.get("uid")),
        pod_name=labels.get(POD_NAME) or text(metadata.get("name")),
        pod_namespace=labels.get(POD_NAMESPACE) or text(metadata.get("namespace")),
        sandbox=True,
        # Protobuf's JSON leaves out the default, which is that it is ready.
        ready=text(entry.get("state")) != "SANDBOX_NOTREADY",
        created_at_ns=number(entry.get("createdAt")),
        labels=labels,
        annotations=texts(entry.get("annotations")),
    )


def _container(entry: dict[str, Any], verbose: dict[str, Any]) -> RuntimeContainer:
    labels, status = texts(entry.get("labels")), mapping(verbose.get("status"))
    linux = mapping(mapping(status.get("resources")).get("linux"))
    asked = None
    if linux:
        asked = Asked(
            cpus=text(linux.get("cpusetCpus")),
            mems=text(linux.get("cpusetMems")),
            quota_us=number(linux.get("cpuQuota")),
            period_us=number(linux.get("cpuPeriod")),
            shares=number(linux.get("cpuShares")),
            memory_bytes=number(linux.get("memoryLimitInBytes")),
            memory_high_bytes=_high(linux),
        )
    elif isinstance(verbose.get("resources"), dict):
        asked = _asked(mapping(verbose.get("resources")))
    return RuntimeContainer(
        id=text(entry.get("id")),
        pod_uid=labels.get(POD_UID, ""),
        name=labels.get(CONTAINER_NAME) or text(mapping(entry.get("metadata")).get("name")),
        pod_name=labels.get(POD_NAME, ""),
        pod_namespace=labels.get(POD_NAMESPACE, ""),
        sandbox_id=text(entry.get("podSandboxId")),
        state=text(entry.get("state")).removeprefix("CONTAINER_").lower(),
        pid=number(verbose.get("pid")),
        cgroups_path=text(verbose.get("cgroupsPath")),
        asked=asked,
        huge_sizes=_huge_sizes(verbose.get("resources")),
        dra_cpus=texts(verbose.get("draCpus")),
        log_path=text(status.get("logPath")),
        created_at_ns=number(entry.get("createdAt")),
        started_at_ns=number(status.get("startedAt")) or None,
        labels=labels,
        annotations=texts(entry.get("annotations")),
    )


def pod_resources(data: object) -> tuple[PodResourcesContainer, ...]:
    """Read the answer of ``List``.

    :raises InputError: it is none.
    """
    if not isinstance(data, dict):
        raise InputError(f"{POD_RESOURCES}: List", kind_of(data), "a mapping")
    return tuple(
        PodResourcesContainer(
            pod_name=text(pod.get("name")),
            pod_namespace=text(pod.get("namespace")),
            container=text(container.get("name")),
            cpus=cpu_ids(container),
            devices=(*devices(container), *_of_claims(container)),
        )
        for pod in entries(mapping(data).get("podResources"), f"{POD_RESOURCES}: podResources")
        for container in entries(pod.get("containers"), f"{POD_RESOURCES}: containers")
    )


def cpu_ids(data: object) -> tuple[int, ...]:
    """Read ``cpuIds``, numbers or texts of numbers.

    :raises InputError: they are no such list.
    """
    said = mapping(data).get("cpuIds")
    if not isinstance(data, dict) or not isinstance(said, list | None):
        raise InputError(f"{POD_RESOURCES}: cpuIds", kind_of(said if isinstance(data, dict) else data), "a list")
    found = {number(value) for value in said or ()}
    if any(value is None or value < 0 for value in found):
        raise InputError(f"{POD_RESOURCES}: cpuIds", "an entry that is no CPU's number", "numbers of CPUs")
    return tuple(sorted(value for value in found if value is not None))


def devices(data: object) -> tuple[AssignedDevice, ...]:
    """Read the devices that plugins gave: of a container, or all that can be allocated.

    A kubelet lists a device with its NUMA nodes, and one of several nodes once for each: each is one here.

    :raises InputError: they are no such list.
    """
    nodes: dict[tuple[str, str], set[int]] = {}
    for entry in entries(mapping(data).get("devices"), f"{POD_RESOURCES}: devices"):
        resource, ids = printable(text(entry.get("resourceName"))), entry.get("deviceIds")
        if not isinstance(ids, list | None) or not all(isinstance(one, str) for one in ids or ()):
            raise InputError(f"{POD_RESOURCES}: deviceIds", kind_of(ids), "a list of texts")
        stated = _numa_nodes(entry)
        for one in ids or ():
            nodes.setdefault((resource, printable(text(one))), set()).update(stated)
    return tuple(
        AssignedDevice(id=one, resource=resource, numa_nodes=tuple(sorted(stated)))
        for (resource, one), stated in sorted(nodes.items())
    )


def _numa_nodes(entry: dict[str, Any]) -> set[int]:
    """Return the nodes of an entry's ``topology``; JSON of protocol buffers leaves out the number of node 0."""
    listed = mapping(entry.get("topology")).get("nodes")
    where = f"{POD_RESOURCES}: topology"
    if not isinstance(listed, list | None):
        raise InputError(where, kind_of(listed), "a list of NUMA nodes")
    found = {number(one.get("ID", 0) if isinstance(one, dict) else one) for one in listed or ()}
    if None in found:
        raise InputError(where, "an entry that is no NUMA node", "numbers of NUMA nodes")
    return {node for node in found if node is not None and node >= 0}


def _of_claims(container: dict[str, Any]) -> Iterable[AssignedDevice]:
    """Yield the devices of claims of DRA; kubelets before v1.34 name only what the runtime is given (CDI)."""
    for claim in entries(container.get("dynamicResources"), f"{POD_RESOURCES}: dynamicResources"):
        name = "/".join(printable(text(claim.get(key))) for key in ("claimNamespace", "claimName"))
        for one in entries(claim.get("claimResources"), f"{POD_RESOURCES}: claimResources"):
            cdi = tuple(printable(text(mapping(device).get("name"))) for device in items(one.get("cdiDevices")))
            parts = [printable(text(one.get(key))) for key in ("driverName", "poolName", "deviceName")]
            yield AssignedDevice(id="/".join(filter(None, parts)) or " ".join(cdi) or name, claim=name, cdi=cdi)
