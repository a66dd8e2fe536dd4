"""Chooses the launch to validate by a dry run: the plainest that the class's pools would make.

EC2 accepts or refuses a dry run as a whole. With a type that the class cannot boot, one that is not
sold, or a tenancy that no pool requests, the class would fail validation for a launch that never
happens.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.images.families import family_of
from karpenter.cloud.aws.images.images import images_by_type
from karpenter.cloud.aws.launch.fleet import DEDICATED_TENANCY, DEFAULT_TENANCY
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType, Offering, comparable_price
from karpenter.model import labels
from karpenter.model.requirement import RequirementError
from karpenter.model.requirements import Requirements

NO_POOL: Final = "validation"  # the tag of a pool must have a value
_USUAL_TYPES: Final = ("m5.large", "m6g.large")
# The dry run is on demand; a type that is not sold so is the last choice
_PURCHASES: Final = {labels.ON_DEMAND: 0, labels.SPOT: 1, labels.RESERVED: 2}

_Rank = tuple[bool, int, float, str]


@dataclass(frozen=True, slots=True)
class TypicalLaunch:
    """A launch worth rehearsing."""

    kind: InstanceType  # with the one offering that is meant
    zones: frozenset[str]  # where the type can be had
    pool: str = NO_POOL
    tenancy: str = DEFAULT_TENANCY


@dataclass(frozen=True, slots=True)
class _Pool:
    name: str
    requirements: Requirements

    @property
    def asks_for_dedicated(self) -> bool:
        """Whether it requires dedicated tenancy; without a requirement the tenancy is shared."""
        tenancy = self.requirements.get(ec2_labels.INSTANCE_TENANCY)
        if tenancy is None or not tenancy.has(DEDICATED_TENANCY):
            return False
        return not tenancy.complement or not tenancy.has(DEFAULT_TENANCY)


def typical_launch(
    node_class: EC2NodeClass,
    types: Sequence[InstanceType],
    pools: Iterable[NodePool],
    can_use: Callable[[str], bool] = lambda name: True,
) -> TypicalLaunch:
    """Choose a launch.

    Args:
        node_class: what it is launched with.
        types: everything EC2 sells, with all offerings.
        pools: the pools of the class.
        can_use: whether the class can use a type, by its name.

    Raises:
        CloudError: no image of the class runs on any type.
    """
    images = images_by_type(node_class.status.amis, types)
    pictured = [kind for kinds in images.values() for kind in kinds if kind.offerings]
    bootable = [kind for kind in pictured if can_use(kind.name)] or pictured
    if not bootable:
        name = node_class.metadata.name
        raise CloudError(f"no image of EC2NodeClass {name} runs on any of the instance types")
    known = list(_readable(pools))
    asking = [pool for pool in known if pool.asks_for_dedicated]
    others = [pool for pool in known if not pool.asks_for_dedicated]
    if not family_of(node_class).is_windows:
        for tenancy, some in ((DEDICATED_TENANCY, asking), (DEFAULT_TENANCY, others)):
            found = _of_pools(bootable, some)
            if found is not None:
                return _launch(*found, tenancy)
    pool = next((each.name for each in (*asking, *others)), NO_POOL)
    tenancy = DEDICATED_TENANCY if asking else DEFAULT_TENANCY
    return _launch(*_usual(bootable), pool, tenancy)


def _launch(kind: InstanceType, offering: Offering, pool: str, tenancy: str) -> TypicalLaunch:
    zones = frozenset(each.zone for each in kind.offerings if each.is_launchable)
    return TypicalLaunch(kind.with_offerings((offering,)), zones, pool, tenancy)


def _of_pools(
    types: Sequence[InstanceType], pools: Iterable[_Pool]
) -> tuple[InstanceType, Offering, str] | None:
    """The plainest launch that one of the pools would make."""
    best: tuple[_Rank, InstanceType, Offering, str] | None = None
    for pool in pools:
        fits: dict[int, bool] = {}  # offerings of all types share their requirements
        for kind in types:
            if not pool.requirements.intersects(kind.requirements):
                continue
            for offering in kind.offerings:
                held = offering.requirements
                if id(held) not in fits:
                    fits[id(held)] = pool.requirements.intersects(held)
                if not fits[id(held)] or not offering.is_launchable:
                    continue
                rank = _rank(kind, offering)
                if best is None or rank < best[0]:
                    best = (rank, kind, offering, pool.name)
    return None if best is None else best[1:]


def _usual(types: Sequence[InstanceType]) -> tuple[InstanceType, Offering]:
    """A common type, where no pool says which."""
    return min(
        ((kind, offering) for kind in types for offering in kind.offerings),
        key=lambda pair: (
            not pair[1].is_launchable,
            pair[0].name not in _USUAL_TYPES,
            _rank(*pair),
        ),
    )


def _rank(kind: InstanceType, offering: Offering) -> _Rank:
    """The sort key: no devices, on demand, cheap; an unknown price sorts last."""
    price = comparable_price(offering.price) if offering.price else float("inf")
    return (_has_devices(kind), _PURCHASES[offering.capacity_type], price, kind.name)


def _has_devices(kind: InstanceType) -> bool:
    keys = (ec2_labels.INSTANCE_GPU_COUNT, ec2_labels.INSTANCE_ACCELERATOR_COUNT)
    return any(kind.requirements[key].values for key in keys)


def _readable(pools: Iterable[NodePool]) -> Iterator[_Pool]:
    """The pools by name, without unreadable ones: these are reported elsewhere and never launch."""
    for pool in sorted(pools, key=lambda each: each.metadata.name):
        template = pool.spec.template
        try:
            asked = Requirements.from_wire(template.spec.requirements)
        except RequirementError:
            continue
        yield _Pool(pool.metadata.name, asked & Requirements.from_labels(template.metadata.labels))
