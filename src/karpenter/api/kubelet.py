"""The kubelet settings that v1beta1 NodePools and Provisioners carried themselves.

A v1 EC2NodeClass holds the kubelet's own, open-ended configuration instead.
"""

from collections.abc import Mapping

import msgspec

from karpenter.api.meta import Model, ResourceMap


class KubeletConfiguration(Model, frozen=True):
    cluster_dns: tuple[str, ...] = msgspec.field(default=(), name="clusterDNS")
    max_pods: int | None = None
    pods_per_core: int | None = None
    system_reserved: ResourceMap = {}
    kube_reserved: ResourceMap = {}
    eviction_hard: Mapping[str, str] = {}
    eviction_soft: Mapping[str, str] = {}
    eviction_soft_grace_period: Mapping[str, str] = {}
    eviction_max_pod_grace_period: int | None = None
    image_gc_high_threshold_percent: int | None = msgspec.field(
        default=None, name="imageGCHighThresholdPercent"
    )
    image_gc_low_threshold_percent: int | None = msgspec.field(
        default=None, name="imageGCLowThresholdPercent"
    )
    cpu_cfs_quota: bool | None = msgspec.field(default=None, name="cpuCFSQuota")
