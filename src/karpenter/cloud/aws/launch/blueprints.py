"""The launch templates that a launch needs: one for each different boot configuration.

Types that boot the same image with the same settings share a template; the template does not name
the types.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.images.families import CUSTOM, alias_of, family_of
from karpenter.cloud.aws.images.images import images_by_type
from karpenter.cloud.aws.images.user_data.inputs import BootInputs, boot_labels, boot_taints
from karpenter.cloud.aws.images.user_data.render import render
from karpenter.cloud.aws.launch.fleet import reservation_of
from karpenter.cloud.aws.launch.template_data import Blueprint, ReservationChoice
from karpenter.cloud.aws.network.cluster import ClusterFacts
from karpenter.cloud.aws.types.capacity import EFA, RAID0
from karpenter.cloud.aws.types.kubelet import KUBE_RESERVED, MAX_PODS, SYSTEM_RESERVED, TypeKubelet
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType, Offering
from karpenter.model.resources import Resources

NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"
_BOTTLEROCKET: Final = "bottlerocket"


@dataclass(frozen=True, slots=True)
class Boot:
    """What all instances of one launch have in common."""

    cluster: ClusterFacts
    region: str
    claim: NodeClaim
    node_class: EC2NodeClass
    tags: Mapping[str, str]
    capacity_type: str
    tenancy: str = "default"
    placement_group: str = ""
    partition: str = ""
    chooses_reservations: bool = True


@dataclass(frozen=True, slots=True)
class _Difference:
    """The fields in which two templates of the same launch differ."""

    image_id: str
    max_pods: int
    efa_count: int
    kube_reserved: tuple[tuple[str, str], ...]
    system_reserved: tuple[tuple[str, str], ...]
    reservation: ReservationChoice | None


def blueprints(
    boot: Boot, types: Sequence[InstanceType], kubelets: Mapping[str, TypeKubelet]
) -> list[tuple[Blueprint, tuple[InstanceType, ...]]]:
    """The templates of a launch, each with the types and offerings that use it.

    Args:
        boot: what they have in common.
        types: what may be launched, with only the offerings to request.
        kubelets: the settings of the kubelet on each type, by its name.

    Raises:
        CloudError: no image runs on any of the types.
        UserDataError: the user data of the node class cannot be merged with ours.
        NodeClassNotReadyError: something the boot script must hold is not known yet.
    """
    grouped: dict[_Difference, dict[str, tuple[InstanceType, list[Offering]]]] = {}
    for image_id, kinds in images_by_type(boot.node_class.status.amis, types).items():
        for kind in kinds:
            for offering in kind.offerings:
                difference = _difference(boot, image_id, kind, kubelets[kind.name], offering)
                users = grouped.setdefault(difference, {})
                users.setdefault(kind.name, (kind, []))[1].append(offering)
    if not grouped:
        name = boot.node_class.metadata.name
        raise CloudError(f"no image of EC2NodeClass {name} runs on any of the instance types")
    return [
        (_blueprint(boot, difference), tuple(_narrowed(users.values())))
        for difference, users in grouped.items()
    ]


def _narrowed(
    users: Iterable[tuple[InstanceType, list[Offering]]],
) -> Iterator[InstanceType]:
    return (kind.with_offerings(tuple(offerings)) for kind, offerings in users)


def _difference(
    boot: Boot, image_id: str, kind: InstanceType, kubelet: TypeKubelet, offering: Offering
) -> _Difference:
    requests = boot.claim.spec.resources.requests
    wants_efa = bool(Resources.from_wire(requests)[EFA])
    return _Difference(
        image_id=image_id,
        max_pods=kind.capacity.pods if kubelet.max_pods is None else kubelet.max_pods,
        efa_count=kind.capacity[EFA] if wants_efa else 0,
        kube_reserved=tuple(sorted(kubelet.kube_reserved.items())),
        system_reserved=tuple(sorted(kubelet.system_reserved.items())),
        reservation=reservation_of(offering),
    )


def _blueprint(boot: Boot, difference: _Difference) -> Blueprint:
    node_class, cluster = boot.node_class, boot.cluster
    family = family_of(node_class)
    inputs = BootInputs(
        cluster_name=cluster.name,
        endpoint=cluster.endpoint,
        ca_bundle=cluster.ca_bundle,
        cluster_dns=cluster.dns_address,
        service_cidr=cluster.service_cidr,
        kubelet=_kubelet(node_class, difference),
        labels=boot_labels(
            boot.claim.metadata.labels,
            capacity_type=boot.capacity_type,
            syncs=family.name == CUSTOM,
        ),
        taints=boot_taints(boot.claim.spec.taints, boot.claim.spec.startup_taints),
        user_data=node_class.spec.user_data,
        is_raid0=node_class.spec.instance_store_policy == RAID0,
        image_version=bottlerocket_version(node_class),
    )
    rendered = render(family, inputs)
    return Blueprint(
        region=boot.region,
        node_class=node_class,
        tags=boot.tags,
        image_id=difference.image_id,
        user_data=rendered.text,
        ignored_settings=rendered.ignored,
        capacity_type=boot.capacity_type,
        tenancy=boot.tenancy,
        efa_count=difference.efa_count,
        reservation=difference.reservation,
        chooses_reservations=boot.chooses_reservations,
        placement_group=boot.placement_group,
        partition=boot.partition,
        has_enclave=NITRO_SANDBOX in boot.claim.spec.resources.requests,
        is_ipv6=inputs.is_ipv6,
    )


def _kubelet(node_class: EC2NodeClass, difference: _Difference) -> dict[str, Any]:
    kubelet: dict[str, Any] = msgspec.to_builtins(dict(node_class.spec.kubelet))
    kubelet[MAX_PODS] = difference.max_pods
    for name, amounts in (
        (KUBE_RESERVED, difference.kube_reserved),
        (SYSTEM_RESERVED, difference.system_reserved),
    ):
        if amounts:
            kubelet[name] = dict(amounts)
    return kubelet


def bottlerocket_version(node_class: EC2NodeClass) -> str:
    """The version of Bottlerocket of the images; empty if neither alias nor names show it."""
    alias = alias_of(node_class.spec)
    if alias is not None:
        return alias[1]
    names = [term.name for term in node_class.spec.ami_selector_terms if term.name]
    names += [image.name for image in node_class.status.amis]
    for name in names:
        # bottlerocket-aws-k8s-1.31-x86_64-v1.46.0-1a2b3c4d
        parts = name.split("-")
        versions = [part for part in parts if part.startswith("v") and part[1:2].isdigit()]
        if parts[0] == _BOTTLEROCKET and versions:
            return versions[0]
    return ""
