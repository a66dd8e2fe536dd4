"""The providers whose catalogues are available offline, and their instance types.

``plan`` and ``explain`` choose between them by the node classes that pools name, unless the user
names a provider. All code of commands that is specific to these providers is here and in
``aws_catalogue``; every other provider is loaded by its name and called.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karpenter.api.karpenter import NodeClassReference, NodePool
from karpenter.api.meta import kind_of
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.console import output
from karpenter.inquiry.question import CloudOffer
from karpenter.os_errors import os_reason

if TYPE_CHECKING:
    from karpenter.cloud.kwok.faults import OfferingPattern
    from karpenter.cloud.provider import RepairPolicy
    from karpenter.cloud.types import InstanceType
    from karpenter.kube.client import Client
    from karpenter.settings import Settings
    from karpenter.state.snapshot import Snapshot

DEFAULT: Final = "kwok"
_AWS: Final = "aws"
_SERVED_BY: Final = {kind_of(KWOKNodeClass): DEFAULT, kind_of(EC2NodeClass): _AWS}
_BY_PRICE: Final = "cheapest"  # the value of the setting PACKING
_REPAIR: Final = "NodeRepair"


def is_known(provider: str) -> bool:
    """Whether the catalogue of a provider is available offline."""
    return provider in _SERVED_BY.values()


def provider_of(pools: Iterable[NodePool]) -> str:
    """The provider whose node classes most pools name; the simulated one if none is named."""
    kinds = (pool.spec.template.spec.node_class_ref.kind for pool in pools)
    named = Counter(_SERVED_BY[kind] for kind in kinds if kind in _SERVED_BY)
    return max((DEFAULT, *named), key=lambda name: (named[name], name == DEFAULT))


def option_for(kinds: Collection[str]) -> str:
    """The option that plans for pools of one kind of node class; none where it is the default."""
    provider = _SERVED_BY.get(next(iter(kinds)), DEFAULT) if len(kinds) == 1 else DEFAULT
    return f"--provider {provider}" if provider != DEFAULT else ""


def may_be_simulated(provider: str) -> bool:
    """Whether a provider may run inside a sandbox, where only its process can call it."""
    return provider == _AWS


def has_estimates(provider: str) -> bool:
    """Whether instance types and prices of a provider are built in, for who cannot ask its cloud."""
    return provider == _AWS


async def faults_there(kube: "Client") -> Mapping[str, str]:
    """The faults that ``sandbox fault`` has injected into the AWS of a sandbox."""
    from karpenter.api.cluster import ConfigMap
    from karpenter.cloud.aws.simulated.fault_injection import CONFIG_MAP, CONFIG_MAP_NAMESPACE
    from karpenter.kube.errors import NotFoundError

    with suppress(NotFoundError):  # the sandbox runs without AWS
        return (await kube.get(ConfigMap, CONFIG_MAP, CONFIG_MAP_NAMESPACE)).data
    return {}


def offers(
    provider: str, instance_types: str | None, settings: "Settings"
) -> "Callable[[Snapshot], CloudOffer]":
    """What a provider, or the machines of a file in its place, leave to a cluster."""
    if provider == _AWS and instance_types is None:
        return lambda snapshot: simulated(snapshot, settings)
    offer = _listed_offer(instance_types, with_repair=settings.feature_gates[_REPAIR])
    if instance_types is not None and settings.packing == _BY_PRICE:
        _point_out_free_types(instance_types)
    return offer


def _point_out_free_types(file: str) -> None:
    """Warn about machines that cost nothing: packed by price, all pods would go there."""
    free = [each.name for each in _listed(file) if any(way.price == 0 for way in each.offerings)]
    if free:
        more = f" and {len(free) - 1:,} others cost" if len(free) > 1 else " costs"
        missing = "a price that is missing counts as 0"
        output.warning(f"{file}: instance type {free[0]}{more} nothing; {missing}")


def simulated(
    snapshot: "Snapshot", settings: "Settings", fault_injection: Mapping[str, str] | None = None
) -> CloudOffer:
    """What a simulated account of AWS sells to a cluster."""
    from karpenter.inquiry.aws_catalogue import aws_offer

    with output.progress("asking the simulated account"):
        with_repair = settings.feature_gates[_REPAIR]
        return aws_offer(
            snapshot,
            settings,
            os.environ,
            fault_injection=fault_injection or {},
            with_repair=with_repair,
        )


def _listed_offer(file: str | None, *, with_repair: bool) -> "Callable[[Snapshot], CloudOffer]":
    """The machines of a file, or those of the simulated provider; what a cluster leaves of them."""
    from karpenter.cloud.kwok import catalogue
    from karpenter.cloud.kwok.faults import without
    from karpenter.cloud.kwok.reservations import taken_by, what_is_left

    types, facts = catalogue.built_in() if file is None else _listed(file), catalogue.FACTS
    if file is not None:
        facts = replace(catalogue.facts_about(types), node_classes=(), serves_any=True)
    policies = _simulated_policies() if with_repair else ()

    def left_of(snapshot: "Snapshot") -> CloudOffer:
        used = taken_by(machine.labels for machine in snapshot.nodes)
        left = what_is_left(types, used)
        sold_out = _sold_out(snapshot)
        # The same tuple for equal pools: planners compile a catalogue once per object
        shown = {patterns: without(left, patterns) for patterns in {(), *sold_out.values()}}

        def catalogue_of(pool: NodePool) -> "tuple[InstanceType, ...]":
            reference = pool.spec.template.spec.node_class_ref
            return shown[sold_out.get(reference, everywhere)]

        everywhere = sold_out[NodeClassReference()]
        return CloudOffer(catalogue_of, facts, policies)

    return left_of


def _sold_out(
    snapshot: "Snapshot",
) -> "Mapping[NodeClassReference, tuple[OfferingPattern, ...]]":
    """What the environment and node classes declare sold out; what all share under no name."""
    from karpenter.cloud.kwok.faults import PatternError, declared_everywhere, declared_sold_out

    try:
        everywhere = declared_everywhere(os.environ)
    except PatternError as error:
        output.fail(str(error))
    found = {NodeClassReference(): everywhere}
    for reference, node_class in snapshot.node_classes.items():
        if not isinstance(node_class, KWOKNodeClass):
            continue
        try:
            own = declared_sold_out(node_class.metadata.annotations, node_class.metadata.name)
        except PatternError as error:
            output.warning(f"no node can be launched with a node class: {error}")
            continue
        found[reference] = (*everywhere, *own)
    return found


def _simulated_policies() -> "Sequence[RepairPolicy]":
    from karpenter.cloud.kwok.provider import REPAIR_POLICIES

    return REPAIR_POLICIES


def _listed(file: str) -> "tuple[InstanceType, ...]":
    from karpenter.cloud.kwok import catalogue
    from karpenter.cloud.kwok.entries import CatalogueError

    try:
        return catalogue.load(Path(file).read_bytes(), file)
    except CatalogueError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{file}: {os_reason(error)}")
