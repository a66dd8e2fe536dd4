"""The keys Karpenter and Kubernetes give a meaning: labels, annotations, taints, finalizers, tags.

Every key the program names stands here once. The module also says which keys are well known to
each provider and which spellings are older names of the same key. What a user may do with a key
is decided in ``label_rules``; guessing what a misspelt key meant is left to ``label_hints``.
"""

from typing import Final

KARPENTER_DOMAIN: Final = "karpenter.sh"
AWS_DOMAIN: Final = "karpenter.k8s.aws"
KWOK_DOMAIN: Final = "karpenter.kwok.sh"

# Labels of every provider
NODEPOOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
REGISTERED: Final = "karpenter.sh/registered"
INITIALIZED: Final = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS: Final = "karpenter.sh/do-not-sync-taints"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
EXCLUDE_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"  # of namespaces

# Values of CAPACITY_TYPE
SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
RESERVED: Final = "reserved"
CAPACITY_TYPES: Final = frozenset({SPOT, ON_DEMAND, RESERVED})

# Labels of the AWS provider
EC2_NODE_CLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
INSTANCE_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
INSTANCE_FAMILY: Final = "karpenter.k8s.aws/instance-family"
INSTANCE_GENERATION: Final = "karpenter.k8s.aws/instance-generation"
INSTANCE_SIZE: Final = "karpenter.k8s.aws/instance-size"
INSTANCE_CPU: Final = "karpenter.k8s.aws/instance-cpu"
INSTANCE_CPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-cpu-manufacturer"
INSTANCE_CPU_CLOCK: Final = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
INSTANCE_MEMORY: Final = "karpenter.k8s.aws/instance-memory"
INSTANCE_EBS_BANDWIDTH: Final = "karpenter.k8s.aws/instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH: Final = "karpenter.k8s.aws/instance-network-bandwidth"
INSTANCE_LOCAL_NVME: Final = "karpenter.k8s.aws/instance-local-nvme"
INSTANCE_HYPERVISOR: Final = "karpenter.k8s.aws/instance-hypervisor"
INSTANCE_ENCRYPTION_IN_TRANSIT: Final = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
INSTANCE_CAPABILITY_FLEX: Final = "karpenter.k8s.aws/instance-capability-flex"
INSTANCE_TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
INSTANCE_GPU_NAME: Final = "karpenter.k8s.aws/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT: Final = "karpenter.k8s.aws/instance-gpu-count"
INSTANCE_GPU_MEMORY: Final = "karpenter.k8s.aws/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME: Final = "karpenter.k8s.aws/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER: Final = "karpenter.k8s.aws/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT: Final = "karpenter.k8s.aws/instance-accelerator-count"
NITRO_SANDBOX: Final = "karpenter.k8s.aws/nitro-sandbox"
CAPACITY_RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
CAPACITY_RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"
CAPACITY_RESERVATION_INTERRUPTIBLE: Final = "karpenter.k8s.aws/capacity-reservation-interruptible"
PLACEMENT_GROUP_ID: Final = "karpenter.k8s.aws/placement-group-id"
PLACEMENT_GROUP_PARTITION: Final = "karpenter.k8s.aws/placement-group-partition"

# Values of INSTANCE_TENANCY
TENANCIES: Final = frozenset({"default", "dedicated"})

# Labels of the KWOK provider
KWOK_NODE_CLASS: Final = "karpenter.kwok.sh/kwoknodeclass"
KWOK_INSTANCE_SIZE: Final = "karpenter.kwok.sh/instance-size"
KWOK_INSTANCE_FAMILY: Final = "karpenter.kwok.sh/instance-family"
KWOK_INSTANCE_CPU: Final = "karpenter.kwok.sh/instance-cpu"
KWOK_INSTANCE_MEMORY: Final = "karpenter.kwok.sh/instance-memory"
KWOK_RESERVATION_ID: Final = "karpenter.kwok.sh/reservation-id"

# Annotations
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DO_NOT_REPAIR: Final = "karpenter.sh/do-not-repair"
DISRUPTION_COST: Final = "karpenter.sh/disruption-cost"
NODEPOOL_HASH: Final = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
EC2_NODE_CLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
EC2_NODE_CLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
REPLACES: Final = "karpenter.sh/nodeclaim-replaces"  # on claims of static pools: another claim
MIN_VALUES_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
REQUESTED_DRA_DRIVERS: Final = "karpenter.sh/requested-dra-drivers"
PRICE_OVERLAY_APPLIED: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_APPLIED: Final = "karpenter.sh/capacity-overlay-applied"
BUFFER_FAKE_POD: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME: Final = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE: Final = "karpenter.sh/capacity-buffer-namespace"
REBOOT_PRE_BOOT_ID: Final = "karpenter.sh/reboot-pre-boot-id"
REBOOT_GRACE_PERIOD: Final = "karpenter.sh/reboot-termination-grace-period"
STORED_VERSION_MIGRATED: Final = "karpenter.sh/stored-version-migrated"
AWS_TAGGED: Final = "karpenter.k8s.aws/tagged"
AWS_INSTANCE_PROFILE_NAME: Final = "karpenter.k8s.aws/instance-profile-name"
AWS_CLUSTER_NAME_TAGGED: Final = "compatibility.karpenter.k8s.aws/cluster-name-tagged"

# Annotations that carry what a conversion cannot express
KEPT_PROVIDER: Final = "compatibility.karpenter.sh/provider"
KEPT_KUBELET: Final = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
KEPT_NODE_CLASS_REF: Final = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
KEPT_ALIAS_VERSION: Final = "compatibility.karpenter.k8s.aws/v1-alias-version"
KEPT_UBUNTU: Final = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"

# Taint keys (their effects stand in ``taints``)
UNREGISTERED: Final = "karpenter.sh/unregistered"
DISRUPTED: Final = "karpenter.sh/disrupted"
REBOOTING: Final = "karpenter.sh/rebooting"
NODE_NOT_READY: Final = "node.kubernetes.io/not-ready"
NODE_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
CLOUD_UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
READINESS_PREFIX: Final = "readiness.k8s.io/"

# Finalizers
TERMINATION: Final = "karpenter.sh/termination"
AWS_TERMINATION: Final = "karpenter.k8s.aws/termination"

# EC2 tags that are not also labels
NODECLAIM_TAG: Final = "karpenter.sh/nodeclaim"
DISCOVERY_TAG: Final = "karpenter.sh/discovery"
EKS_CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
CLUSTER_TAG_PREFIX: Final = "kubernetes.io/cluster/"

# Keys of the alpha and beta generations
PROVISIONER_NAME: Final = "karpenter.sh/provisioner-name"
DO_NOT_EVICT: Final = "karpenter.sh/do-not-evict"
DO_NOT_CONSOLIDATE: Final = "karpenter.sh/do-not-consolidate"
PROVISIONER_HASH: Final = "karpenter.sh/provisioner-hash"
NODE_TEMPLATE_HASH: Final = "karpenter.k8s.aws/nodetemplate-hash"
EMPTINESS_TIMESTAMP: Final = "karpenter.sh/emptiness-timestamp"
LEGACY_NOT_READY: Final = "karpenter.sh/not-ready"
LEGACY_DISRUPTION: Final = "karpenter.sh/disruption"
MANAGED_BY_TAG: Final = "karpenter.sh/managed-by"
LINKED: Final = "karpenter.sh/linked"
INSTANCE_AMI_ID: Final = "karpenter.k8s.aws/instance-ami-id"
INSTANCE_PODS: Final = "karpenter.k8s.aws/instance-pods"
LEGACY_TERMINATION_TIMESTAMP: Final = "karpenter.sh/node-termination-timestamp"

CORE_WELL_KNOWN: Final = frozenset(
    {NODEPOOL, CAPACITY_TYPE, ZONE, REGION, INSTANCE_TYPE, WINDOWS_BUILD, ARCH, OS}
)
AWS_WELL_KNOWN: Final = frozenset(
    {
        ZONE_ID,
        INSTANCE_CATEGORY,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_SIZE,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_CLOCK,
        INSTANCE_MEMORY,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_LOCAL_NVME,
        INSTANCE_HYPERVISOR,
        INSTANCE_ENCRYPTION_IN_TRANSIT,
        INSTANCE_CAPABILITY_FLEX,
        INSTANCE_TENANCY,
        INSTANCE_GPU_NAME,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_COUNT,
        NITRO_SANDBOX,
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    }
)
KWOK_WELL_KNOWN: Final = frozenset(
    {
        KWOK_INSTANCE_SIZE,
        KWOK_INSTANCE_FAMILY,
        KWOK_INSTANCE_CPU,
        KWOK_INSTANCE_MEMORY,
        KWOK_RESERVATION_ID,
    }
)

# What a provider adds to the core's well-known keys, by provider name
_PROVIDER_KEYS: Final = {"aws": AWS_WELL_KNOWN, "kwok": KWOK_WELL_KNOWN}

# Older spelling -> key; the kubelet and storage drivers still write some of them
ALIASES: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "topology.ebs.csi.aws.com/zone": ZONE,
}


def normalise(key: str) -> str:
    """Return the stable spelling of ``key``."""
    return ALIASES.get(key, key)


def well_known(provider: str = "aws") -> frozenset[str]:
    """Return the keys ``provider`` fills in by itself, so nobody has to define them."""
    return CORE_WELL_KNOWN | _PROVIDER_KEYS.get(provider, frozenset())


def domain_of(key: str) -> str:
    """Return the part of ``key`` before its first slash, or nothing when it has none."""
    domain, slash, _ = key.partition("/")
    return domain if slash else ""


def name_of(key: str) -> str:
    """Return the part of ``key`` after its first slash, or all of it when it has none."""
    domain, slash, name = key.partition("/")
    return name if slash else domain
