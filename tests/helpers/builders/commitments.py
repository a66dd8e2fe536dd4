"""Commitments, and the ledger that a planner makes of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from helpers.builders.parts import NOW
from karpenter.api.karpenter import Commitment, CommitmentSpec, NodeRequirement
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.commitments import Book, Ledger, running_machines
from karpenter.scheduling.inputs.commitments import read_commitments
from karpenter.scheduling.problem import PoolCatalogue
from karpenter.state.nodes import StateNode


def savings_plan(
    name: str = "plan",
    hourly: str = "1",
    *,
    types: Sequence[str] = (),
    discount: str | None = "25%",
    rates: Mapping[str, str] | None = None,
    share: str | None = None,
    expires: datetime | None = None,
) -> Commitment:
    """A Savings Plan for some instance types, or for all of them."""
    spec = CommitmentSpec(
        type="SavingsPlan",
        requirements=_of_types(types),
        hourly=hourly,
        discount=None if rates else discount,
        rates=rates or {},
        share=share,
        expires=expires,
    )
    return Commitment(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=spec)


def reserved_instances(
    name: str = "reserved",
    *,
    types: Sequence[str] = (),
    instances: int | None = None,
    units: str | None = None,
    share: str | None = None,
    zone: str = "",
) -> Commitment:
    """Reserved instances of some types, in machines or in units of size."""
    wanted = _of_types(types)
    if zone:
        wanted += (NodeRequirement(key=keys.ZONE, operator="In", values=(zone,)),)
    spec = CommitmentSpec(
        type="ReservedInstance", requirements=wanted, instances=instances, units=units, share=share
    )
    return Commitment(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=spec)


def book_of(commitments: Iterable[Commitment], types: Iterable[InstanceType]) -> Book:
    """Commitments matched with a catalogue; all of them must be valid."""
    terms, refused = read_commitments(commitments, now=NOW)
    assert [] == refused
    return Book(terms, types)


def ledger_of(
    commitments: Iterable[Commitment], pools: Sequence[PoolCatalogue], nodes: Iterable[StateNode]
) -> Ledger | None:
    """The ledger that a pass would begin with; None without commitments."""
    given = list(commitments)
    if not given:
        return None
    by_pool = {
        pool.node_pool.metadata.name: {each.name: each for each in pool.instance_types}
        for pool in pools
    }
    kinds = [each for pool in pools for each in pool.instance_types]
    return Ledger(book_of(given, kinds), running_machines(nodes, by_pool))


def _of_types(types: Sequence[str]) -> tuple[NodeRequirement, ...]:
    if not types:
        return ()
    return (NodeRequirement(key=keys.INSTANCE_TYPE, operator="In", values=tuple(types)),)
