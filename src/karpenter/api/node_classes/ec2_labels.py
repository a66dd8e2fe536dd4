"""The keys of the AWS provider: labels, annotations, finalizers and EC2 tags.

They stand beside the wire models of its kinds, because admission and conversion of those kinds need
them as much as the provider itself does. The keys of every provider are in ``model.labels``.
"""

from typing import Final

DOMAIN: Final = "karpenter.k8s.aws"

# Labels
NODE_CLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
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

# Annotations
NODE_CLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
NODE_CLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
TAGGED: Final = "karpenter.k8s.aws/tagged"
INSTANCE_PROFILE_NAME: Final = "karpenter.k8s.aws/instance-profile-name"
CLUSTER_NAME_TAGGED: Final = "compatibility.karpenter.k8s.aws/cluster-name-tagged"

# Annotations that keep fields which a conversion cannot express in the other version
KEPT_ALIAS_VERSION: Final = "compatibility.karpenter.k8s.aws/v1-alias-version"
KEPT_UBUNTU: Final = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"

# Finalizers
TERMINATION: Final = "karpenter.k8s.aws/termination"

# EC2 tags that are not also labels
NODECLAIM_TAG: Final = "karpenter.sh/nodeclaim"
DISCOVERY_TAG: Final = "karpenter.sh/discovery"
EKS_CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
CLUSTER_TAG_PREFIX: Final = "kubernetes.io/cluster/"

# Keys of the alpha and beta generations
NODE_TEMPLATE_HASH: Final = "karpenter.k8s.aws/nodetemplate-hash"
MANAGED_BY_TAG: Final = "karpenter.sh/managed-by"
INSTANCE_AMI_ID: Final = "karpenter.k8s.aws/instance-ami-id"
INSTANCE_PODS: Final = "karpenter.k8s.aws/instance-pods"

# Labels that this provider sets, besides those that every provider sets
WELL_KNOWN: Final = frozenset(
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

# Labels that are set per launch, after prices and capacities were compared
SETTLED_AT_LAUNCH: Final = frozenset(
    {
        INSTANCE_TENANCY,
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    }
)
