"""The keys with a meaning to Karpenter and Kubernetes: labels, annotations, taints, finalizers.

Every key that does not depend on a provider is defined here once; those of a provider are beside
its node class. The module also lists which keys every provider sets, and older spellings of a key.
What a user may do with a key is decided in ``label_rules``; corrections of misspelt keys are made
in ``suggestions``.
"""

from typing import Final

KARPENTER_DOMAIN: Final = "karpenter.sh"

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

# Annotations
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"  # Cluster Autoscaler's
DO_NOT_REPAIR: Final = "karpenter.sh/do-not-repair"
DISRUPTION_COST: Final = "karpenter.sh/disruption-cost"
NODEPOOL_HASH: Final = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
REPLACES: Final = "karpenter.sh/nodeclaim-replaces"  # on claims of static pools: another claim
MIN_VALUES_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
REQUESTED_DRA_DRIVERS: Final = "karpenter.sh/requested-dra-drivers"
PRICE_OVERLAY_APPLIED: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_APPLIED: Final = "karpenter.sh/capacity-overlay-applied"
BUFFER_FAKE_POD: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME: Final = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE: Final = "karpenter.sh/capacity-buffer-namespace"
PRICE_CEILING: Final = "cost.karpenter.sh/price-ceiling"  # dollars per hour of a launch
MOVED_BY_REBALANCE: Final = "cost.karpenter.sh/moved-by-rebalance"  # when, and how many pods
AWAITS_PODS: Final = "cost.karpenter.sh/awaits-pods"  # taint, and an annotation that says which
SPOT_PRICE: Final = "cost.karpenter.sh/spot-price"  # the least its pods would cost on spot
FELL_BACK: Final = "cost.karpenter.sh/fell-back"  # since when: on-demand, although spot was cheaper
SPOT_ON_SALE: Final = "cost.karpenter.sh/spot-on-sale"  # since when, and which types
RETURN_FAILED: Final = "cost.karpenter.sh/return-failed"  # how many returns to spot have failed
REBOOT_PRE_BOOT_ID: Final = "karpenter.sh/reboot-pre-boot-id"
REBOOT_GRACE_PERIOD: Final = "karpenter.sh/reboot-termination-grace-period"
STORED_VERSION_MIGRATED: Final = "karpenter.sh/stored-version-migrated"

# Annotations that keep fields which a conversion cannot express in the other version
KEPT_PROVIDER: Final = "compatibility.karpenter.sh/provider"
KEPT_KUBELET: Final = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
KEPT_NODE_CLASS_REF: Final = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"

# Taint keys (their effects are in ``taints``)
UNREGISTERED: Final = "karpenter.sh/unregistered"
DISRUPTED: Final = "karpenter.sh/disrupted"
REBOOTING: Final = "karpenter.sh/rebooting"
NODE_NOT_READY: Final = "node.kubernetes.io/not-ready"
NODE_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
CLOUD_UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
READINESS_PREFIX: Final = "readiness.k8s.io/"

# Finalizers
TERMINATION: Final = "karpenter.sh/termination"

# Keys of the alpha and beta generations
PROVISIONER_NAME: Final = "karpenter.sh/provisioner-name"
DO_NOT_EVICT: Final = "karpenter.sh/do-not-evict"
DO_NOT_CONSOLIDATE: Final = "karpenter.sh/do-not-consolidate"
PROVISIONER_HASH: Final = "karpenter.sh/provisioner-hash"
EMPTINESS_TIMESTAMP: Final = "karpenter.sh/emptiness-timestamp"
LEGACY_NOT_READY: Final = "karpenter.sh/not-ready"
LEGACY_DISRUPTION: Final = "karpenter.sh/disruption"
LINKED: Final = "karpenter.sh/linked"
LEGACY_TERMINATION_TIMESTAMP: Final = "karpenter.sh/node-termination-timestamp"

# Labels that every provider sets, so that pools need not define them
CORE_WELL_KNOWN: Final = frozenset(
    {NODEPOOL, CAPACITY_TYPE, ZONE, REGION, INSTANCE_TYPE, WINDOWS_BUILD, ARCH, OS}
)

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


def domain_of(key: str) -> str:
    """Return the part of ``key`` before its first slash, or nothing when it has none."""
    domain, slash, _ = key.partition("/")
    return domain if slash else ""


def name_of(key: str) -> str:
    """Return the part of ``key`` after its first slash, or all of it when it has none."""
    domain, slash, name = key.partition("/")
    return name if slash else domain
