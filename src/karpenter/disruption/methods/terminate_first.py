"""Terminate first: where all capacity is in use, a machine must be deleted before its replacement.

That is so when its reservation is full and its pool allows nothing else, or when a static pool has
as many nodes as its limit allows.
"""

from collections.abc import Iterator, Mapping

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.disruption.candidates import Candidate
from karpenter.model import labels
from karpenter.scheduling.compiled.templates import template_requirements


def credit_for(candidate: Candidate, facts: ProviderFacts) -> dict[str, int]:
    """The slot that deleting a machine frees in its reservation; empty when it holds none."""
    reservation = reservation_of(candidate, facts)
    return {reservation: 1} if reservation else {}


def reservation_of(candidate: Candidate, facts: ProviderFacts) -> str:
    """The reservation of a machine, or nothing."""
    if candidate.capacity_type != labels.RESERVED or not facts.reservation_id_label:
        return ""
    return candidate.machine.labels.get(facts.reservation_id_label, "")


def is_full(pool: NodePool, types: Mapping[str, InstanceType]) -> bool:
    """Whether a pool allows only reservations, and all of these are used up.

    Other offerings that are sold out may become available again, so such a pool is not full.
    """
    return not any(
        not offering.is_reserved or offering.is_launchable for offering in _possible(pool, types)
    )


def holds_slot(
    candidate: Candidate, types: Mapping[str, InstanceType], facts: ProviderFacts
) -> bool:
    """Whether a machine holds a slot of a reservation that is still on offer."""
    reservation = reservation_of(candidate, facts)
    return bool(reservation) and any(
        offering.available and offering.reservation_id == reservation
        for offering in _possible(candidate.node_pool, types)
    )


def _possible(pool: NodePool, types: Mapping[str, InstanceType]) -> Iterator[Offering]:
    """The offerings that a pool's requirements allow, sold out or not."""
    wanted = template_requirements(pool)
    for instance_type in types.values():
        if not instance_type.requirements.intersects(wanted):
            continue
        for offering in instance_type.offerings:
            if offering.requirements.intersects(wanted):
                yield offering
