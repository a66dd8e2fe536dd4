"""A simulated machine: which one a claim gets, and the Node object that is all there is of it.

Everything here follows from the claim alone. Whatever is random is drawn from the claim's uid, so
that the same claim gets the same machine however often, and by whichever process, it is launched.
"""

import random
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import ResourceMap
from karpenter.api.nodes import Node
from karpenter.cloud.provider import CreateError, Instance, InsufficientCapacityError
from karpenter.cloud.types import (
    InstanceType,
    Offering,
    comparable_price,
    is_within,
    price_ceiling,
)
from karpenter.model import labels
from karpenter.model.requirement import Operator, Requirement, RequirementError
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from karpenter.model.taints import UNREGISTERED

PROVIDER_PREFIX: Final = "kwok://"
SIMULATED: Final = "kwok.x-k8s.io/node"  # annotation and label; "fake" is its value
PARTITION: Final = "kwok-partition"
ONLY_PARTITION: Final = "a"
PRICE: Final = "eks-node-viewer/instance-price"

# On a KWOKNodeClass: the image of its machines. On claim and Node: the image they were launched with
IMAGE: Final = "karpenter.kwok.sh/image"

LAUNCH_FAILED: Final = "LaunchFailed"
_NAMED: Final = 5  # types in the text of an error
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_ALPHANUMERIC: Final = string.ascii_lowercase + string.digits
_MANNERS: Final = (
    "brisk",
    "calm",
    "clear",
    "fair",
    "firm",
    "keen",
    "kind",
    "mild",
    "neat",
    "quick",
)
_THINGS: Final = ("anvil", "birch", "comet", "ember", "fjord", "grove", "heron", "inlet", "maple")
# Resources that every type defines; others may have been added by a NodeOverlay
_OF_EVERY_TYPE: Final = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class Machine:
    """A Node that exists, or that will."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: ResourceMap
    allocatable: ResourceMap

    def body(self) -> dict[str, Any]:
        """The Node object to create."""
        return {
            "metadata": {
                "name": self.name,
                "labels": dict(self.labels),
                "annotations": dict(self.annotations),
            },
            "spec": {
                "providerID": PROVIDER_PREFIX + self.name,
                "taints": [{"key": UNREGISTERED.key, "effect": UNREGISTERED.effect}],
            },
            "status": {
                "phase": "Pending",
                "capacity": dict(self.capacity),
                "allocatable": dict(self.allocatable),
            },
        }

    def instance(self, created_at: datetime | None) -> Instance:
        """The machine as the controllers' ``Instance``."""
        return Instance(
            provider_id=PROVIDER_PREFIX + self.name,
            labels=self.labels,
            annotations=self.annotations,
            capacity=self.capacity,
            allocatable=self.allocatable,
            created_at=created_at,
        )


def instance_of(node: Node) -> Instance:
    """An existing Node as the controllers' ``Instance``; a pending deletion is not shown."""
    return Instance(
        provider_id=node.spec.provider_id,
        labels=node.metadata.labels,
        annotations=node.metadata.annotations,
        capacity=node.status.capacity,
        allocatable=node.status.allocatable,
        created_at=node.metadata.creation_timestamp,
    )


def node_name_of(claim: NodeClaim) -> str:
    """The name of the claim's Node: the one its status names, else the one it will have."""
    promised = claim.status.provider_id
    if promised.startswith(PROVIDER_PREFIX):
        return promised.removeprefix(PROVIDER_PREFIX)
    chance = _chance(claim, "name")
    words = f"{chance.choice(_MANNERS)}-{chance.choice(_THINGS)}"
    letters = "".join(chance.choices(_ALPHANUMERIC, k=10))
    # The number stands for the attempts of a launch, of which there is only one per claim
    ending = f"-{words}-1-{letters}-{chance.getrandbits(32)}"
    beginning = f"kwok-{claim.metadata.name.lower()}"[: _LONGEST_NAME - len(ending)]
    return beginning.rstrip("-.") + ending


def requirements_of(claim: NodeClaim) -> Requirements:
    """What a claim asks of its machine.

    Raises:
        CreateError: a requirement makes no sense.
    """
    try:
        return Requirements.from_wire(claim.spec.requirements)
    except RequirementError as error:
        raise CreateError(LAUNCH_FAILED, str(error)) from error


def listed_types(claim: NodeClaim, sold: Collection[str]) -> list[str]:
    """The names of the types a claim lists, in its order.

    Raises:
        CreateError: it lists none, or one that is not sold at all.
    """
    wanted = requirements_of(claim).get(labels.INSTANCE_TYPE)
    if wanted is None or wanted.operator is not Operator.IN:
        raise CreateError(LAUNCH_FAILED, "instance type requirement not found")
    listed = dict.fromkeys(
        value
        for entry in claim.spec.requirements
        if labels.normalise(entry.key) == labels.INSTANCE_TYPE
        for value in entry.values
        if wanted.has(value)
    )
    for name in listed:
        if name not in sold:
            raise CreateError(LAUNCH_FAILED, f"instance type {name} not found")
    return list(listed)


def choose(
    claim: NodeClaim, types: Sequence[InstanceType], well_known: frozenset[str]
) -> tuple[InstanceType, Offering]:
    """The machine a claim gets: the cheapest offering, of the first listed type among equals.

    Among equally cheap offerings of that type the choice is random, which spreads nodes over zones.

    Raises:
        InsufficientCapacityError: no offering that the claim allows is available, or none within
            its price ceiling.
    """
    wanted = requirements_of(claim)
    requests = Resources.from_wire(claim.spec.resources.requests)
    best: tuple[InstanceType, list[Offering]] | None = None
    lowest = float("inf")
    for kind in types:
        offerings = [
            offering
            for offering in kind.offerings
            if offering.is_launchable
            and wanted.is_compatible(offering.requirements, well_known)
            and _holds(kind.allocatable_of(offering), requests)
        ]
        if not offerings or not wanted.intersects(kind.requirements):
            continue
        price = min(comparable_price(offering.price) for offering in offerings)
        if best is None or price < lowest:
            equals = [o for o in offerings if comparable_price(o.price) == price]
            best, lowest = (kind, equals), price
    if best is None:
        names = ", ".join(kind.name for kind in types[:_NAMED])
        more = f" and {len(types) - _NAMED} other types" if len(types) > _NAMED else ""
        raise InsufficientCapacityError(f"no offering of {names}{more} can be had for this claim")
    ceiling = price_ceiling(claim.metadata.annotations)
    if not is_within(ceiling, lowest):
        raise InsufficientCapacityError(
            f"nothing is on sale within the claim's price ceiling of ${ceiling:g} per hour; the"
            f" cheapest of {len(types)} instance types costs ${lowest:g}"
        )
    kind, offerings = best
    return kind, _chance(claim, "offering").choice(offerings)


def image_of(annotations: Mapping[str, str]) -> str:
    """The image in the annotations of a KWOKNodeClass, or of a claim; empty if there is none."""
    return annotations.get(IMAGE, "")


def machine_for(
    claim: NodeClaim, kind: InstanceType, offering: Offering, image: str = ""
) -> Machine:
    """The machine of a claim that becomes ``kind`` by way of ``offering``."""
    requests = {name: str(amount) for name, amount in claim.spec.resources.requests.items()}
    # Without the keys that the offering decides: the type lists the values of all its offerings
    own = Requirements(r for r in kind.requirements if offering.requirements.get(r.key) is None)
    return _machine(
        claim,
        {
            **claim.metadata.labels,
            **_decided(requirements_of(claim)),
            labels.INSTANCE_TYPE: kind.name,
            **_decided(own),
            **_decided(offering.requirements),
            PRICE: f"{offering.price:.6f}",
        },
        # A requested resource that the type lacks comes from a NodeOverlay, so the node has it
        capacity=requests | kind.capacity.to_wire(),
        allocatable=requests | kind.allocatable_of(offering).to_wire(),
        image=image,
    )


def machine_promised_to(claim: NodeClaim) -> Machine:
    """The machine of a claim that has been launched, as its status and labels describe it."""
    status, image = claim.status, image_of(claim.metadata.annotations)
    return _machine(claim, claim.metadata.labels, status.capacity, status.allocatable, image)


def _machine(
    claim: NodeClaim,
    known: Mapping[str, str],
    capacity: ResourceMap,
    allocatable: ResourceMap,
    image: str,
) -> Machine:
    return Machine(
        name=node_name_of(claim),
        labels={
            **known,
            PARTITION: ONLY_PARTITION,
            labels.HOSTNAME: claim.metadata.name[:_LONGEST_LABEL].rstrip("-."),
            SIMULATED: "fake",
        },
        annotations={
            **claim.metadata.annotations,
            SIMULATED: "fake",
            **({IMAGE: image} if image else {}),
        },
        capacity=capacity,
        allocatable=allocatable,
    )


def _decided(requirements: Requirements) -> dict[str, str]:
    """The labels that can have one value only."""
    return {each.key: each.any() for each in requirements if _has_one_value(each)}


def _has_one_value(requirement: Requirement) -> bool:
    return not requirement.complement and len(requirement.values) == 1


def _holds(room: Resources, requests: Resources) -> bool:
    return all(requests[name] <= room[name] for name in _OF_EVERY_TYPE)


def _chance(claim: NodeClaim, purpose: str) -> random.Random:
    return random.Random(f"{claim.metadata.uid}/{purpose}")  # noqa: S311 names are no secrets
