"""The AWS catalogue for plans of manifests, from the tables of a simulated account.

Neither the network nor an account of the user is accessed. The region is the one whose zones the
manifests name, else that of the environment.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import SystemClock
from karpenter.cloud.aws.interruption.repair_policies import REPAIR_POLICIES
from karpenter.cloud.aws.settings import RESERVED_CAPACITY, AwsSettings, read_settings
from karpenter.cloud.aws.simulated.account import (
    CLUSTER,
    ENDPOINT,
    REGION,
    SimulationMissingError,
)
from karpenter.cloud.aws.simulated.fault_injection import listed, sold_out
from karpenter.cloud.aws.simulated.offline import FoundClass, offline_aws, usual_class
from karpenter.cloud.aws.types.labels import FACTS
from karpenter.cloud.kwok.faults import OfferingPattern, without
from karpenter.cloud.provider import CloudError
from karpenter.cloud.registry import ProviderError
from karpenter.cloud.types import InstanceType
from karpenter.console import output
from karpenter.console.quiet import run_quietly
from karpenter.inquiry.question import CloudOffer
from karpenter.model import labels
from karpenter.settings import Settings
from karpenter.state.snapshot import Snapshot

_ZONE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-[0-9])[a-z]")


def aws_offer(
    snapshot: Snapshot,
    settings: Settings,
    environment: Mapping[str, str],
    *,
    fault_injection: Mapping[str, str],
    with_repair: bool,
) -> CloudOffer:
    """What the pools of a cluster could buy on AWS, or end the command with one sentence.

    ``fault_injection`` is the data of the ConfigMap with the faults of a sandbox's account.
    """
    policies = REPAIR_POLICIES if with_repair else ()
    needed = _needed(snapshot)
    if not needed:
        return CloudOffer(lambda pool: (), FACTS, policies)
    region = region_of(snapshot, environment)
    own = {"CLUSTER_NAME": CLUSTER, "CLUSTER_ENDPOINT": ENDPOINT}
    try:
        provider_settings = read_settings({**environment, **own})
        sold = run_quietly(_sold(snapshot, needed, settings, provider_settings, region))
    except (SimulationMissingError, ProviderError, CloudError) as error:
        output.fail(str(error))
    output.note(
        f"note: instance types are those of a simulated AWS account in {region}, at estimated"
        " prices"
    )
    for note in sold.notes:
        output.note(f"note: {note}")
    left = _left_by(fault_injection, sold.types)
    return CloudOffer(lambda pool: left.get(pool.metadata.name, ()), FACTS, policies)


def _left_by(
    fault_injection: Mapping[str, str], types: Mapping[str, tuple[InstanceType, ...]]
) -> Mapping[str, tuple[InstanceType, ...]]:
    """The types of pools without sold-out offerings; pools that share a catalogue still do."""
    gone = [
        OfferingPattern(each.instance_type, each.zone, each.capacity_type)
        for each in sold_out(listed(fault_injection))
    ]
    shown = {id(each): without(each, gone) for each in types.values()}
    return {pool: shown[id(each)] for pool, each in types.items()}


def region_of(snapshot: Snapshot, environment: Mapping[str, str]) -> str:
    """The region that most zones in a cluster's objects are of, else that of the environment."""
    named = Counter(
        found[1] for zone in _zones(snapshot) if (found := _ZONE.fullmatch(zone)) is not None
    )
    if named:
        return min(named, key=lambda region: (-named[region], region))
    chosen = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    return chosen or REGION


def _zones(snapshot: Snapshot) -> Iterator[str]:
    for pool in snapshot.node_pools.values():
        template = pool.spec.template
        yield template.metadata.labels.get(labels.ZONE, "")
        for wanted in template.spec.requirements:
            if wanted.key == labels.ZONE:
                yield from wanted.values
    for node_class in _classes(snapshot).values():
        yield from (subnet.zone for subnet in node_class.status.subnets)
    for machine in snapshot.nodes:
        yield machine.labels.get(labels.ZONE, "")
    for pod in snapshot.pods.values():
        yield pod.spec.node_selector.get(labels.ZONE, "")


def _classes(snapshot: Snapshot) -> dict[str, EC2NodeClass]:
    found = snapshot.node_classes.values()
    return {each.metadata.name: each for each in found if isinstance(each, EC2NodeClass)}


@dataclass(frozen=True, slots=True)
class _Sold:
    """The instance types of pools, and notes about them."""

    types: Mapping[str, tuple[InstanceType, ...]]  # by pool
    notes: Sequence[str]


async def _sold(
    snapshot: Snapshot,
    node_classes: Iterable[EC2NodeClass],
    settings: Settings,
    provider_settings: AwsSettings,
    region: str,
) -> _Sold:
    aws = await offline_aws(
        SystemClock(),
        provider_settings,
        region=region,
        uses_reservations=settings.feature_gates[RESERVED_CAPACITY],
    )
    found = {each.metadata.name: await aws.find(each) for each in node_classes}
    notes = [note for name, each in sorted(found.items()) if (note := _assumptions(name, each))]
    types: dict[str, tuple[InstanceType, ...]] = {}
    for name, pool in sorted(snapshot.node_pools.items()):
        node_class = found.get(_class_name(pool))
        if node_class is None:
            continue
        try:
            types[name] = await aws.types(node_class, pool.metadata.annotations)
        except CloudError as error:
            notes.append(f"NodePool {name}: its instance types cannot be listed: {error}")
    return _Sold(types, notes)


def _needed(snapshot: Snapshot) -> list[EC2NodeClass]:
    """The node classes of pools; a default one where the cluster has none at all."""
    known = _classes(snapshot)
    names = sorted(filter(None, map(_class_name, snapshot.node_pools.values())))
    wanted = dict.fromkeys(names)
    if known or not wanted:
        return [known[name] for name in wanted if name in known]
    output.note(
        f"note: there is no EC2NodeClass in the input, so {_listed(wanted)} is taken to run the"
        " latest AL2023 with default settings"
    )
    return [usual_class(name, CLUSTER) for name in wanted]


def _class_name(pool: NodePool) -> str:
    reference = pool.spec.template.spec.node_class_ref
    return reference.name if FACTS.serves(reference) else ""


def _assumptions(name: str, found: FoundClass) -> str:
    """What a plan assumes of a class, in one sentence; nothing if there is nothing to say."""
    said = []
    if found.assumed:
        where = f", in {_listed(found.zones)}" if "subnets" in found.assumed else ""
        said.append(
            f"the simulated account has none of the {_listed(found.assumed)} it selects, so they"
            f" are assumed to exist{where}"
        )
    if found.left_out:
        said.append(f"the plan is made without the {_listed(found.left_out)} it selects")
    if found.problem:
        said.append(found.problem)
    return f"EC2NodeClass {name}: {'; '.join(said)}" if said else ""


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
