"""Which label keys the API server lets through in which place.

It compares domains by their end alone, so ``notkarpenter.sh/x`` is refused like ``karpenter.sh/x``;
the controllers look closer, later.
"""

POOL_LABEL = "v1-NodePool-label"
POOL_REQUIREMENT = "v1-NodePool-requirement"
CLAIM_REQUIREMENT = "v1-NodeClaim-requirement"
OVERLAY_REQUIREMENT = "v1alpha1-NodeOverlay-requirement"
OLD_POOL_LABEL = "v1beta1-NodePool-label"
OLD_POOL_REQUIREMENT = "v1beta1-NodePool-requirement"
OLD_CLAIM_REQUIREMENT = "v1beta1-NodeClaim-requirement"

LABELS = frozenset({POOL_LABEL, OLD_POOL_LABEL})
V1 = frozenset({POOL_LABEL, POOL_REQUIREMENT, CLAIM_REQUIREMENT, OVERLAY_REQUIREMENT})
OLD = frozenset({OLD_POOL_LABEL, OLD_POOL_REQUIREMENT, OLD_CLAIM_REQUIREMENT})
EVERYWHERE = V1 | OLD
NOWHERE: frozenset[str] = frozenset()
NOT_IN_POOLS = frozenset({CLAIM_REQUIREMENT, OVERLAY_REQUIREMENT, OLD_CLAIM_REQUIREMENT})
NOT_IN_OVERLAYS = EVERYWHERE - {OVERLAY_REQUIREMENT}
# The rule for the simulated cloud stands in requirements of pools and claims only
NOT_JUDGED_FOR_KWOK = LABELS | {OVERLAY_REQUIREMENT}

_INSTANCE_FACTS = [
    "category",
    "family",
    "generation",
    "size",
    "cpu",
    "cpu-manufacturer",
    "cpu-sustained-clock-speed-mhz",
    "memory",
    "ebs-bandwidth",
    "network-bandwidth",
    "local-nvme",
    "hypervisor",
    "encryption-in-transit-supported",
    "capability-flex",
    "gpu-name",
    "gpu-manufacturer",
    "gpu-count",
    "gpu-memory",
    "accelerator-name",
    "accelerator-manufacturer",
    "accelerator-count",
]
_LAUNCH_FACTS = [
    "instance-tenancy",
    "capacity-reservation-id",
    "capacity-reservation-type",
    "capacity-reservation-interruptible",
    "placement-group-id",
    "placement-group-partition",
]

WELL_KNOWN: dict[str, frozenset[str]] = {
    "karpenter.sh/capacity-type": EVERYWHERE,
    "topology.kubernetes.io/zone": EVERYWHERE,
    "topology.kubernetes.io/region": EVERYWHERE,
    "topology.k8s.aws/zone-id": EVERYWHERE,
    "node.kubernetes.io/instance-type": EVERYWHERE,
    "node.kubernetes.io/windows-build": EVERYWHERE,
    "kubernetes.io/arch": EVERYWHERE,
    "kubernetes.io/os": EVERYWHERE,
    "karpenter.k8s.aws/nitro-sandbox": EVERYWHERE,
    **{f"karpenter.k8s.aws/instance-{fact}": EVERYWHERE for fact in _INSTANCE_FACTS},
    **{f"karpenter.k8s.aws/{fact}": NOT_IN_OVERLAYS for fact in _LAUNCH_FACTS},
    "karpenter.kwok.sh/instance-size": EVERYWHERE,
    "karpenter.kwok.sh/instance-family": EVERYWHERE,
    "karpenter.kwok.sh/instance-cpu": EVERYWHERE,
    "karpenter.kwok.sh/instance-memory": EVERYWHERE,
    "karpenter.kwok.sh/reservation-id": EVERYWHERE,
}

OTHER: dict[str, frozenset[str]] = {
    # Aliases, which are translated later
    "failure-domain.beta.kubernetes.io/zone": EVERYWHERE,
    "failure-domain.beta.kubernetes.io/region": EVERYWHERE,
    "beta.kubernetes.io/arch": EVERYWHERE,
    "beta.kubernetes.io/os": EVERYWHERE,
    "beta.kubernetes.io/instance-type": EVERYWHERE,
    "topology.ebs.csi.aws.com/zone": EVERYWHERE,
    # Keys of one's own
    "team": EVERYWHERE,
    "example.com/team": EVERYWHERE,
    "karpenter.sh.example.com/team": EVERYWHERE,
    "example.com/karpenter.sh": EVERYWHERE,
    # karpenter.sh
    "karpenter.sh/nodepool": NOT_IN_POOLS,
    "karpenter.sh/registered": NOWHERE,
    "karpenter.sh/provisioner-name": NOWHERE,
    "karpenter.sh/custom": NOWHERE,
    "sub.karpenter.sh/custom": NOWHERE,
    "notkarpenter.sh/custom": NOWHERE,
    "karpenter.sh": NOWHERE,
    "my-karpenter.sh": NOWHERE,
    # karpenter.k8s.aws
    "karpenter.k8s.aws/ec2nodeclass": NOT_IN_OVERLAYS,
    "karpenter.k8s.aws/custom": NOWHERE,
    "karpenter.k8s.aws/instance-pods": NOWHERE,
    "sub.karpenter.k8s.aws/custom": NOWHERE,
    "notkarpenter.k8s.aws/custom": NOWHERE,
    "karpenter.k8s.aws": NOWHERE,
    # karpenter.kwok.sh
    "karpenter.kwok.sh/kwoknodeclass": EVERYWHERE,
    "karpenter.kwok.sh/custom": NOT_JUDGED_FOR_KWOK,
    "notkarpenter.kwok.sh/custom": NOT_JUDGED_FOR_KWOK,
    # kubernetes.io and k8s.io
    "kubernetes.io/hostname": NOWHERE,
    "kubernetes.io/custom": V1,
    "sub.kubernetes.io/custom": V1,
    "notkubernetes.io/custom": V1,
    "node.kubernetes.io/custom": EVERYWHERE,
    "sub.node.kubernetes.io/custom": EVERYWHERE,
    "node-restriction.kubernetes.io/custom": EVERYWHERE,
    "k8s.io/custom": V1,
    "sub.k8s.io/custom": V1,
    "kops.k8s.io/custom": EVERYWHERE,
    "sub.kops.k8s.io/custom": EVERYWHERE,
}

PLACES_OF_KEY = {**WELL_KNOWN, **OTHER}


def refused_keys(place: str) -> list[str]:
    """The keys of the table that ``place`` refuses."""
    return [key for key, places in PLACES_OF_KEY.items() if place not in places]
