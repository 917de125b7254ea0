"""Every feature gate that some component of Kubernetes v1.36 knows: a kubelet refuses to start with any other.

A kubelet knows the gates of the libraries that it is built with. Which of the few of other components it takes is not
distinguished here: accepting one too many is a lesser fault than refusing one that a real kubelet accepts. Names
only; what the resource managers depend on is in :mod:`toolkit.kubernetes.feature_gates`. Distributions add gates of
their own (OpenShift's kubelet takes any name and logs it), which an upstream kubelet refuses.
Source: Kubernetes v1.36.2, ``test/compatibility_lifecycle/reference/versioned_feature_list.yaml``, and the names that
its constants have in ``pkg/features``, ``apiserver/pkg/features``, ``client-go/features``, ``component-base``.
"""

from __future__ import annotations

KNOWN = frozenset(
    """
    APIResponseCompression APIServerIdentity APIServerTracing APIServingWithRoutine
    AggregatedDiscoveryRemoveBetaType AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
    AllowOverwriteTerminationGracePeriodSeconds AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs
    AllowUnsafeMalformedObjectDeletion AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AtomicFIFO
    AuthorizeNodeWithSelectors AuthorizePodWebsocketUpgradeCreatePermission AuthorizeWithSelectors BtreeWatchCache
    CBORServingAndStorage CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CPUManagerPolicyOptions
    CRDObservedGenerationTracking CRDValidationRatcheting CRIListStreaming CSIServiceAccountTokenSecrets
    CSIVolumeHealth ChangeContainerStatusOnKubeletRestart ClearingNominatedNodeNameAfterBinding
    ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ClusterTrustBundle
    ClusterTrustBundleProjection ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode ConsistentListFromCache
    ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContainerStopSignals ContextualLogging
    ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection CrossNamespaceVolumeDataSource
    CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors DRAAdminAccess DRAConsumableCapacity
    DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAListTypeAttributes
    DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList DRAResourceClaimDeviceStatus
    DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DRASchedulerFilterTimeout
    DRAWorkloadResourceClaims DeclarativeValidation DeclarativeValidationBeta DeclarativeValidationTakeover
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableAllocatorDualWrite
    DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion DynamicResourceAllocation EnvFiles EventedPLEG
    ExecProbeTimeout ExtendWebSocketsToKubelet ExternalServiceAccountTokenSigner GangScheduling GenericWorkload
    GitRepoVolumeDriver GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
    HPAScaleToZero HostnameOverride ImageMaximumGCAge ImageVolume ImageVolumeWithDigest InOrderInformers
    InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InPlacePodVerticalScalingInitContainers InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy
    JobPodReplacementPolicy JobSuccessPolicy KMSv1 KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPodResourcesListUseActivePods
    KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
    KubeletTracing ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown
    LoggingAlphaOptions LoggingBetaOptions LoggingStableOptions ManifestBasedAdmissionControlConfig
    MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    MaxUnavailableStatefulSet MemoryQoS MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
    MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
    MutatingAdmissionPolicy NFTablesProxyMode NativeHistograms NodeDeclaredFeatures
    NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap NominatedNodeNameForExpectation OpenAPIEnums
    OpportunisticBatching OrderedNamespaceDeletion PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime
    PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost PodLevelResourceManagers PodLevelResources
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodLogsQuerySplitStreams PodObservedGenerationTracking
    PodReadyToStartContainersCondition PodSchedulingReadiness PodTopologyLabelsAdmission PodsAPI
    PortForwardWebsockets PreferSameTrafficDistribution PreventStaticPodAPIReferences ProcMountType QOSReserved
    RecoverVolumeExpansionFailure RecursiveReadOnlyMounts ReduceDefaultCrashLoopBackOffDecay
    RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation
    ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
    ResilientWatchCacheInitialization ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RetryGenerateName RotateKubeletServerCertificate RuntimeClassInImageCriApi
    SELinuxChangePolicy SELinuxMount SELinuxMountReadWriteOncePod SchedulerAsyncAPICalls SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ SchedulerQueueingHints SeparateCacheWatchRPC SeparateTaintEvictionController
    ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo ServiceCIDRStatusFieldWiping
    ShardedListAndWatch SidecarContainers SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
    StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
    StatefulSetSemanticRevisionComparison StorageCapacityScoring StorageNamespaceIndex StorageVersionAPI
    StorageVersionHash StorageVersionMigrator StreamingCollectionEncodingToJSON
    StreamingCollectionEncodingToProtobuf StrictIPCIDRValidation StructuredAuthenticationConfiguration
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    SupplementalGroupsPolicy SystemdWatchdog TaintTolerationComparisonOperators
    TokenRequestServiceAccountUIDValidation TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
    TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions TranslateStreamCloseWebsocketRequests
    UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
    UserNamespacesHostNetworkSupport UserNamespacesSupport VolumeAttributesClass VolumeLimitScaling
    WatchCacheInitializationPostStartHook WatchList WatchListClient WinDSR WinOverlay WindowsCPUAndMemoryAffinity
    WindowsGracefulNodeShutdown WindowsHostNetwork WorkloadAwarePreemption WorkloadWithJob
    """.split()  # noqa: SIM905 - one name a line would be 240 lines
)
"""Names of all gates, without the groups ``AllAlpha`` and ``AllBeta``."""

LOCKED_ON = frozenset(
    """
    APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
    AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
    CRDValidationRatcheting CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors
    DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DisableNodeKubeProxyVersion
    DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume
    InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
    KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
    KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
    MutableCSINodeAllocatableCount NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
    OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
    PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
    VolumeAttributesClass WinDSR WinOverlay
    """.split()  # noqa: SIM905 - one name a line would be 240 lines
)
"""Gates that v1.36 no longer lets anything switch off."""

LOCKED_OFF = frozenset(["AllowOverwriteTerminationGracePeriodSeconds", "GitRepoVolumeDriver", "SeparateCacheWatchRPC"])
"""Gates that v1.36 no longer lets anything switch on."""
