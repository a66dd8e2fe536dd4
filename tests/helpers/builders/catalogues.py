"""Instance types for tests, and fixture F: the catalogue most scheduling tests share.

Fixture F has zones z1 to z3. Every type is offered as spot in z1 and z2 and on-demand in z1 to z3,
always at 0.1 per cpu and 0.1 per GiB, and one more with an accelerator. 100m of cpu and 10Mi of
memory are reserved on each. The provider's own labels are ``size`` (large with more than 4 cpu and
more than 8Gi, else small), ``special`` (``optional``, on large types only) and ``cores``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.model import labels as keys
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

SIZE: Final = "size"
SPECIAL: Final = "special"
CORES: Final = "cores"
RESERVATION_ID: Final = "karpenter.test.sh/reservation-id"
RESERVED_SYSTEM: Final = Resources.from_wire({"cpu": "100m", "memory": "10Mi"})
SYSTEMS: Final = ("linux", "windows", "darwin")
PLACES: Final = (  # every way to have a type of fixture F
    ("z1", keys.SPOT),
    ("z2", keys.SPOT),
    ("z1", keys.ON_DEMAND),
    ("z2", keys.ON_DEMAND),
    ("z3", keys.ON_DEMAND),
)

FACTS_F: Final = ProviderFacts(
    name="fake",
    node_classes=(("karpenter.test.sh", "TestNodeClass"),),
    well_known_labels=keys.CORE_WELL_KNOWN | {SIZE, SPECIAL, CORES, RESERVATION_ID},
    reservation_id_label=RESERVATION_ID,
)

_GIB: Final = 2**30


def offering(
    zone: str = "z1",
    capacity_type: str = keys.SPOT,
    price: float = 1.0,
    *,
    available: bool = True,
    reservation_id: str = "",
    reservation_capacity: int = 0,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    overhead: Mapping[str, str] | None = None,
) -> Offering:
    """One way to have a type; ``capacity`` and ``overhead`` replace amounts of the type."""
    held = {keys.ZONE: zone, keys.CAPACITY_TYPE: capacity_type} | dict(labels or {})
    if reservation_id:
        held[RESERVATION_ID] = reservation_id
    return Offering(
        requirements=_exactly({key: (value,) for key, value in held.items() if value}),
        price=price,
        available=available,
        reservation_id=reservation_id,
        reservation_capacity=reservation_capacity,
        capacity=Resources.from_wire(capacity) if capacity else None,
        overhead=Resources.from_wire(overhead) if overhead else None,
    )


def reserved(reservation_id: str, count: int, zone: str = "z1", price: float = 0.001) -> Offering:
    """A reservation with room for ``count`` machines."""
    return offering(
        zone,
        keys.RESERVED,
        price,
        reservation_id=reservation_id,
        reservation_capacity=count,
    )


def instance_type(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "4Gi",
    slots: int = 5,
    resources: Mapping[str, str] | None = None,
    arch: str = "amd64",
    systems: Sequence[str] = SYSTEMS,
    price: float | None = None,
    offerings: Iterable[Offering] | None = None,
    reservations: Iterable[Offering] = (),
    labels: Mapping[str, str] | None = None,
    reserved_system: Resources = RESERVED_SYSTEM,
    attach_limits: Mapping[str, int] | None = None,
) -> InstanceType:
    """A type as fixture F makes them.

    Args:
        price: of every default offering; by default what the size costs.
        offerings: instead of the five of fixture F.
        reservations: besides the offerings.
        labels: that the type has besides those of the fixture.
    """
    capacity = Resources.from_wire(
        {"cpu": cpu, "memory": memory, "pods": slots} | dict(resources or {})
    )
    hourly = price_of(capacity) if price is None else price
    ways = tuple(
        offerings if offerings is not None else (offering(z, c, hourly) for z, c in PLACES)
    ) + tuple(reservations)
    large = capacity.cpu > 4000 and capacity.memory > 8 * _GIB
    held: dict[str, Iterable[str]] = {
        keys.INSTANCE_TYPE: (name,),
        keys.ARCH: (arch,),
        keys.OS: systems,
        keys.REGION: (),
        keys.WINDOWS_BUILD: (),
        SIZE: ("large" if large else "small",),
        SPECIAL: ("optional",) if large else (),
        CORES: (str(capacity.cpu // 1000),),
        **{key: (value,) for key, value in (labels or {}).items()},
    }
    for key in (keys.ZONE, keys.CAPACITY_TYPE, RESERVATION_ID):
        held[key] = _values(ways, key)
    return InstanceType(
        name=name,
        requirements=_exactly(held),
        offerings=tuple(_saying_which_reservation(way) for way in ways),
        capacity=capacity,
        overhead=reserved_system,
        volume_attachment_limits=attach_limits or {},
    )


def priced_type(
    name: str,
    cpu: int,
    price: float = 0.0,
    *,
    memory: int | None = None,
    ways: Iterable[Offering] = (),
    resources: Mapping[str, str] | None = None,
    zone: str = "z1",
) -> InstanceType:
    """A type that is all for pods, with 2 GiB per cpu unless said, sold on-demand or in these ways."""
    return instance_type(
        name,
        cpu=str(cpu),
        memory=f"{2 * cpu if memory is None else memory}Gi",
        slots=110,
        resources=resources,
        offerings=tuple(ways) or (offering(zone, keys.ON_DEMAND, price),),
        reserved_system=Resources(),
    )


def fixture_types() -> tuple[InstanceType, ...]:
    """The six types of fixture F: ``std``, ``small``, ``gpu-a``, ``gpu-b``, ``arm``, ``solo``."""
    return (
        instance_type("std"),
        instance_type("small", cpu="2", memory="2Gi"),
        instance_type("gpu-a", resources={"acme/gpu-a": "2"}),
        instance_type("gpu-b", resources={"acme/gpu-b": "2"}),
        instance_type("arm", cpu="16", memory="128Gi", arch="arm64", systems=("ios", *SYSTEMS)),
        instance_type("solo", slots=1),
    )


def ladder(count: int) -> tuple[InstanceType, ...]:
    """Types ``it-0`` … that grow by 1 cpu, 2Gi and 10 pods from each to the next."""
    return tuple(
        instance_type(f"it-{i}", cpu=str(i + 1), memory=f"{2 * (i + 1)}Gi", slots=10 * (i + 1))
        for i in range(count)
    )


def price_of(capacity: Resources) -> float:
    """What a machine of this size costs in fixture F."""
    accelerator = 1.0 if capacity.others else 0.0
    return 0.1 * capacity.cpu / 1000 + 0.1 * capacity.memory / _GIB + accelerator


def _exactly(values: Mapping[str, Iterable[str]]) -> Requirements:
    return Requirements(
        Requirement(key, complement=False, values=frozenset(some)) for key, some in values.items()
    )


def _values(ways: Iterable[Offering], key: str) -> frozenset[str]:
    return frozenset(
        value
        for way in ways
        if (requirement := way.requirements.get(key))
        for value in requirement.values
    )


def _saying_which_reservation(way: Offering) -> Offering:
    if way.requirements.get(RESERVATION_ID) is not None:
        return way
    absent = Requirement(RESERVATION_ID, complement=False)
    return replace(way, requirements=way.requirements & (absent,))
