"""The fields of the kubelet's configuration file, ``kubelet.config.k8s.io/v1beta1``, by type.

The newest fields are listed too: which of them a kubelet supports depends on the node's Kubernetes
version, which the node class does not state.
"""

from karpenter.admission.shapes import Fields, ListOf, MapOf, Scalar

_BOOLS = (
    "cgroupsPerQOS",
    "cpuCFSQuota",
    "enableContentionProfiling",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "failCgroupV1",
    "failSwapOn",
    "kernelMemcgNotification",
    "localStorageCapacityIsolation",
    "makeIPTablesUtilChains",
    "mergeDefaultEvictionSettings",
    "protectKernelDefaults",
    "registerNode",
    "rotateCertificates",
    "runOnce",
    "seccompDefault",
    "serializeImagePulls",
    "serverTLSBootstrap",
    "singleProcessOOMKill",
)
_STRINGS = (
    "address",
    "apiVersion",
    "cgroupDriver",
    "cgroupRoot",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxSize",
    "containerRuntimeEndpoint",
    "contentType",
    "cpuManagerPolicy",
    "hairpinMode",
    "healthzBindAddress",
    "imagePullCredentialsVerificationPolicy",
    "imageServiceEndpoint",
    "kind",
    "kubeReservedCgroup",
    "kubeletCgroups",
    "memoryManagerPolicy",
    "memoryReservationPolicy",
    "podCIDR",
    "podLogsDir",
    "providerID",
    "reservedSystemCPUs",
    "resolvConf",
    "showHiddenMetricsForVersion",
    "staticPodPath",
    "staticPodURL",
    "systemCgroups",
    "systemReservedCgroup",
    "tlsCertFile",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "volumePluginDir",
)
_INT32S = (
    "containerLogMaxFiles",
    "containerLogMaxWorkers",
    "eventBurst",
    "eventRecordQPS",
    "evictionMaxPodGracePeriod",
    "healthzPort",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "iptablesDropBit",
    "iptablesMasqueradeBit",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "maxParallelImagePulls",
    "maxPods",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "oomScoreAdj",
    "podsPerCore",
    "port",
    "readOnlyPort",
    "registryBurst",
    "registryPullQPS",
)
_DURATIONS = (
    "containerLogMonitorInterval",
    "cpuCFSQuotaPeriod",
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "runtimeRequestTimeout",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
    "volumeStatsAggPeriod",
)
_STRING_LISTS = (
    "allowedUnsafeSysctls",
    "clusterDNS",
    "enforceNodeAllocatable",
    "preloadedImagesVerificationAllowlist",
    "tlsCipherSuites",
)
_STRING_MAPS = (
    "cpuManagerPolicyOptions",
    "evictionHard",
    "evictionMinimumReclaim",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "kubeReserved",
    "qosReserved",
    "systemReserved",
    "topologyManagerPolicyOptions",
)

_TAINT = Fields(dict.fromkeys(("key", "value", "effect", "timeAdded"), Scalar.STRING))
_AUTHENTICATION = Fields(
    {
        "anonymous": Fields({"enabled": Scalar.BOOL}),
        "webhook": Fields({"enabled": Scalar.BOOL, "cacheTTL": Scalar.DURATION}),
        "x509": Fields({"clientCAFile": Scalar.STRING}),
    }
)
_AUTHORIZATION = Fields(
    {
        "mode": Scalar.STRING,
        "webhook": Fields(
            {"cacheAuthorizedTTL": Scalar.DURATION, "cacheUnauthorizedTTL": Scalar.DURATION}
        ),
    }
)
_LOG_STREAM = Fields({"splitStream": Scalar.BOOL, "infoBufferSize": Scalar.QUANTITY})
_LOGGING = Fields(
    {
        "flushFrequency": Scalar.DURATION_OR_NANOSECONDS,
        "format": Scalar.STRING,
        "options": Fields({"json": _LOG_STREAM, "text": _LOG_STREAM}),
        "verbosity": Scalar.UINT32,
        "vmodule": ListOf(Fields({"filePattern": Scalar.STRING, "verbosity": Scalar.UINT32})),
    }
)
_SYSTEM_PARTITION = Fields(
    {
        "cpuset": Scalar.STRING,
        "memoryLimit": Scalar.QUANTITY,
        "namespaces": ListOf(Scalar.STRING),
    }
)

KUBELET_CONFIGURATION = Fields(
    {
        **dict.fromkeys(_BOOLS, Scalar.BOOL),
        **dict.fromkeys(_STRINGS, Scalar.STRING),
        **dict.fromkeys(_INT32S, Scalar.INT32),
        **dict.fromkeys(_DURATIONS, Scalar.DURATION),
        **dict.fromkeys(_STRING_LISTS, ListOf(Scalar.STRING)),
        **dict.fromkeys(_STRING_MAPS, MapOf(Scalar.STRING)),
        "authentication": _AUTHENTICATION,
        "authorization": _AUTHORIZATION,
        "crashLoopBackOff": Fields({"maxContainerRestartPeriod": Scalar.DURATION}),
        "featureGates": MapOf(Scalar.BOOL),
        "logging": _LOGGING,
        "maxOpenFiles": Scalar.INT64,
        "memorySwap": Fields({"swapBehavior": Scalar.STRING}),
        "memoryThrottlingFactor": Scalar.NUMBER,
        "podPidsLimit": Scalar.INT64,
        "registerWithTaints": ListOf(_TAINT),
        "reservedMemory": ListOf(
            Fields({"limits": MapOf(Scalar.QUANTITY), "numaNode": Scalar.INT32})
        ),
        "shutdownGracePeriodByPodPriority": ListOf(
            Fields({"priority": Scalar.INT32, "shutdownGracePeriodSeconds": Scalar.INT64})
        ),
        "staticPodURLHeader": MapOf(ListOf(Scalar.STRING)),
        "systemPartition": _SYSTEM_PARTITION,
        "tlsCurvePreferences": ListOf(Scalar.INT32),
        "tracing": Fields({"endpoint": Scalar.STRING, "samplingRatePerMillion": Scalar.INT32}),
        "userNamespaces": Fields({"idsPerPod": Scalar.INT64}),
    }
)
