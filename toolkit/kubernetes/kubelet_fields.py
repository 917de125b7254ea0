"""Every field of KubeletConfiguration v1beta1, of all parts of the kubelet, with the release that it came with.

A kubelet reads its configuration leniently: what is no field is logged and left out, and what wrote it believes it set.
Inside a field names are known where the type is the kubelet's own; of mappings, and of types of other libraries
(``logging``, ``tracing``, ``registerWithTaints``), what is inside is not looked at. No field was ever taken away.

Source: kubernetes ``staging/src/k8s.io/kubelet/config/v1beta1/types.go``, the JSON names at the tags v1.18.0 to
v1.36.0, v1.37.0-beta.0 and the main branch of 2026-07-23; ``systemPartition``: KEP-5894. ``cmd/kubelet/app/server.go``
and ``pkg/kubelet/kubeletconfig/util/codec`` ("Using lenient decoding as strict decoding failed").
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.releases import Series, series_text
from toolkit.text.names import printable

OLDEST: Series = (1, 18)
"""What came with it, or before."""
NEWEST_FIELDS: Series = (1, 37)
_BY_SERIES: Mapping[Series, str] = {
    (1, 18): """
    address allowedUnsafeSysctls authentication authentication.anonymous authentication.anonymous.enabled
    authentication.webhook authentication.webhook.cacheTTL authentication.webhook.enabled authentication.x509
    authentication.x509.clientCAFile authorization authorization.mode authorization.webhook
    authorization.webhook.cacheAuthorizedTTL authorization.webhook.cacheUnauthorizedTTL cgroupDriver cgroupRoot
    cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles
    containerLogMaxSize contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerReconcilePeriod
    enableContentionProfiling enableControllerAttachDetach enableDebuggingHandlers enforceNodeAllocatable eventBurst
    eventRecordQPS evictionHard evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod
    evictionSoft evictionSoftGracePeriod failSwapOn featureGates fileCheckFrequency hairpinMode healthzBindAddress
    healthzPort httpCheckFrequency imageGCHighThresholdPercent imageGCLowThresholdPercent imageMinimumGCAge
    iptablesDropBit iptablesMasqueradeBit kubeAPIBurst kubeAPIQPS kubeletCgroups kubeReserved kubeReservedCgroup
    makeIPTablesUtilChains maxOpenFiles maxPods nodeLeaseDurationSeconds nodeStatusReportFrequency
    nodeStatusUpdateFrequency oomScoreAdj podCIDR podPidsLimit podsPerCore port protectKernelDefaults qosReserved
    readOnlyPort registryBurst registryPullQPS reservedSystemCPUs resolvConf rotateCertificates
    runtimeRequestTimeout serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion staticPodPath
    staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved
    systemReservedCgroup tlsCertFile tlsCipherSuites tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy
    volumeStatsAggPeriod
    """,
    (1, 19): """
    enableServer enableSystemLogHandler kernelMemcgNotification logging nodeStatusMaxImages providerID runOnce
    volumePluginDir
    """,
    (1, 20): """
    shutdownGracePeriod shutdownGracePeriodCriticalPods topologyManagerScope
    """,
    (1, 21): """
    enableDebugFlagsHandler enableProfilingHandler memoryManagerPolicy reservedMemory reservedMemory.limits
    reservedMemory.numaNode
    """,
    (1, 22): """
    cpuManagerPolicyOptions memorySwap memorySwap.swapBehavior memoryThrottlingFactor seccompDefault
    """,
    (1, 23): """
    registerNode registerWithTaints shutdownGracePeriodByPodPriority shutdownGracePeriodByPodPriority.priority
    shutdownGracePeriodByPodPriority.shutdownGracePeriodSeconds
    """,
    (1, 25): """
    localStorageCapacityIsolation tracing
    """,
    (1, 26): """
    topologyManagerPolicyOptions
    """,
    (1, 27): """
    containerRuntimeEndpoint enableSystemLogQuery imageServiceEndpoint maxParallelImagePulls
    """,
    (1, 29): """
    imageMaximumGCAge
    """,
    (1, 30): """
    containerLogMaxWorkers containerLogMonitorInterval podLogsDir
    """,
    (1, 31): """
    failCgroupV1
    """,
    (1, 32): """
    crashLoopBackOff crashLoopBackOff.maxContainerRestartPeriod singleProcessOOMKill
    """,
    (1, 33): """
    imagePullCredentialsVerificationPolicy mergeDefaultEvictionSettings preloadedImagesVerificationAllowlist
    userNamespaces userNamespaces.idsPerPod
    """,
    (1, 36): """
    memoryReservationPolicy tlsCurvePreferences
    """,
    (1, 37): """
    defaultPodSysctls systemPartition
    """,
}
SINCE: Mapping[str, Series] = {name: series for series, names in _BY_SERIES.items() for name in names.split()}
"""Field, or ``field.inner``, to the first series that has it."""
UNREAD: Mapping[str, tuple[str, str]] = {
    "systemPartition": (
        "pods of the system have CPUs and cgroups of their own, kubepods/system; KEP-5894",
        "NodeSystemPartition",
    ),
    "memoryThrottlingFactor": ("memory.high of containers; KEP-2570", "MemoryQoS"),
    "memoryReservationPolicy": ("memory.min and memory.low of pods and containers; KEP-2570", "MemoryQoS"),
}
"""Fields that no plan looks at: what they decide, and the gate without which they decide nothing."""
HEAD = frozenset(("apiVersion", "kind"))
_ALIKE = 0.7
"""How alike a name must be to be meant (``difflib``)."""
MAX_ODD = 64
SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OddField:
    """A field that not every kubelet has. :param where: the file. :param since: ``None``: none has it."""

    where: str
    name: str
    since: Series | None


def odd_fields(document: Mapping[str, object], where: str) -> tuple[OddField, ...]:
    """Return the fields of a file that some kubelets do not have, at most :data:`MAX_ODD`."""
    found = [
        OddField(where=where, name=name, since=SINCE.get(name))
        for name in _names(document)
        if SINCE.get(name) != OLDEST and name not in HEAD
    ]
    return tuple(found[:MAX_ODD])


def _names(document: Mapping[str, object], above: str = "") -> Iterator[str]:
    """Yield the names, those inside a field where they are known."""
    for key, value in document.items():
        name = f"{above}{key}"
        yield name
        inner = f"{name}."
        if not any(known.startswith(inner) for known in SINCE):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Mapping):
                yield from _names(one, inner)


def field_words(odd: Iterable[OddField], series: Series | None) -> tuple[tuple[OddField, str, str], ...]:
    """Say of each field what a kubelet does with it, and what may have been meant (empty: nothing is alike).

    :param series: of the kubelet; ``None``: not known.
    """
    found = []
    for one in odd:
        name = printable(one.name[:SHOWN])
        if one.since is None:
            text = f"{name} is no field of KubeletConfiguration: a kubelet goes on without it"
            found.append((one, text, meant(one.name)))
        elif series is not None and series[0] and series < one.since:
            since, own = series_text(one.since), series_text(series)
            found.append((one, f"{name} is a field since {since}: kubelet {own} goes on without it", ""))
    return tuple(found)


def field_lines(odd: Iterable[OddField], series: Series | None) -> tuple[str, ...]:
    """Return the same as lines."""
    return tuple(
        f"{one.where}: {text}{f' (did you mean {close}?)' if close else ''}"
        for one, text, close in field_words(odd, series)
    )


def unread_lines(odd: Iterable[OddField], gates: FeatureGates, known: Container[str] = frozenset()) -> tuple[str, ...]:
    """Name the fields that decide about CPUs or memory of pods and are not modelled, where this kubelet obeys them.

    :param known: names of those that the caller looks at.
    """
    return tuple(
        f"{one.where}: not read: {one.name} ({what})"
        for one in odd
        for what, gate in [UNREAD.get(one.name, ("", ""))]
        if what
        and one.name not in known
        and one.since is not None
        and gates.series >= one.since
        and (not gate or gates[gate])
    )


def meant(name: str) -> str:
    """Return the field that a name is most like; empty: none."""
    above = name.rpartition(".")[0]
    near = {known.casefold(): known for known in SINCE if known.rpartition(".")[0] == above}
    close = difflib.get_close_matches(name.casefold()[:SHOWN], near, n=1, cutoff=_ALIKE)
    return near[close[0]] if close else ""
