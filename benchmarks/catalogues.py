"""Instance types for the solver's benchmarks: three catalogues, each the same on every run."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.model import labels
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

NODE_CLASS_GROUP: Final = "karpenter.test.sh"
NODE_CLASS_KIND: Final = "TestNodeClass"
ZONES: Final = ("test-zone-1", "test-zone-2", "test-zone-3")
EC2_ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")

SIZE: Final = "size"
SPECIAL: Final = "special"
INTEGER: Final = "integer"

FACTS: Final = ProviderFacts(
    name="fake",
    node_classes=((NODE_CLASS_GROUP, NODE_CLASS_KIND),),
    well_known_labels=labels.CORE_WELL_KNOWN | {SIZE, SPECIAL, INTEGER},
)
EC2_FACTS: Final = ProviderFacts(
    name="aws",
    node_classes=((NODE_CLASS_GROUP, NODE_CLASS_KIND),),
    well_known_labels=labels.CORE_WELL_KNOWN
    | {ec2_labels.INSTANCE_CATEGORY, ec2_labels.INSTANCE_GENERATION, ec2_labels.INSTANCE_CPU},
)

_GIB: Final = 2**30
_MIB: Final = 2**20
_RESERVED_SYSTEM: Final = Resources(cpu=100, memory=10 * _MIB)
_SYSTEMS: Final = ("linux", "windows", "darwin")
_PLACES: Final = (  # where and how a type of the ladder is sold
    (ZONES[0], labels.SPOT),
    (ZONES[1], labels.SPOT),
    (ZONES[0], labels.ON_DEMAND),
    (ZONES[1], labels.ON_DEMAND),
    (ZONES[2], labels.ON_DEMAND),
)
_RATIOS: Final = (2, 4, 8, 16)  # GiB of memory for each vCPU
_CORES: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_GENERATIONS: Final = 10
_SPOT_SHARE: Final = 0.35  # of the on-demand price, roughly


def ladder(count: int) -> tuple[InstanceType, ...]:
    """Types as Karpenter's fake provider makes them: each 1 cpu, 2 GiB and 10 pods larger."""
    return tuple(_rung(number) for number in range(1, count + 1))


def cloud(families: int = 80) -> tuple[InstanceType, ...]:
    """Ten sizes of each family, in three zones, spot and on-demand, each with its own price."""
    return tuple(_cloud_type(family, cores) for family in range(families) for cores in _CORES)


def ec2(catalogue: Path) -> tuple[InstanceType, ...]:
    """The on-demand types of us-east-1, in three zones, from a file of the traces."""
    return tuple(_ec2_type(entry) for entry in json.loads(catalogue.read_bytes()))


def _rung(number: int) -> InstanceType:
    memory = 2 * number * _GIB
    price = 0.1 * number + 0.1 * memory / 1e9
    large = number > 4
    return InstanceType(
        name=f"fake-it-{number - 1}",
        requirements=_exactly(
            {
                labels.INSTANCE_TYPE: (f"fake-it-{number - 1}",),
                labels.ARCH: ("amd64",),
                labels.OS: _SYSTEMS,
                labels.ZONE: ZONES,
                labels.CAPACITY_TYPE: (labels.SPOT, labels.ON_DEMAND),
                SIZE: ("large" if large else "small",),
                SPECIAL: ("optional",) if large else (),
                INTEGER: (str(number),),
            }
        ),
        offerings=tuple(_offering(zone, sold, price) for zone, sold in _PLACES),
        capacity=Resources(cpu=1000 * number, memory=memory, pods=10 * number),
        overhead=_RESERVED_SYSTEM,
    )


def _cloud_type(family: int, cores: int) -> InstanceType:
    ratio = _RATIOS[family % len(_RATIOS)]
    generation = 1 + family // len(_RATIOS) % _GENERATIONS
    arch = "arm64" if family // (len(_RATIOS) * _GENERATIONS) else "amd64"
    memory = cores * ratio * _GIB
    hourly = (0.03 * cores + 0.004 * cores * ratio) * (1.2 - 0.02 * generation)
    hourly *= 0.8 if arch == "arm64" else 1.0
    name = f"f{family}.{cores}x"
    offerings = [_offering(zone, labels.ON_DEMAND, round(hourly, 5)) for zone in ZONES]
    for number, zone in enumerate(ZONES):
        wobble = (
            (family * 7 + cores * 3 + number * 5) % 11 / 40
        )  # prices differ from place to place
        offerings.append(_offering(zone, labels.SPOT, round(hourly * (_SPOT_SHARE + wobble), 5)))
    return InstanceType(
        name=name,
        requirements=_exactly(
            {
                labels.INSTANCE_TYPE: (name,),
                labels.ARCH: (arch,),
                labels.OS: ("linux",),
                labels.ZONE: ZONES,
                labels.CAPACITY_TYPE: (labels.SPOT, labels.ON_DEMAND),
                SIZE: ("large" if cores > 4 else "small",),
                INTEGER: (str(cores),),
            }
        ),
        offerings=tuple(offerings),
        capacity=Resources(cpu=1000 * cores, memory=memory, pods=min(250, 20 + 10 * cores)),
        overhead=Resources(cpu=60 + 5 * cores, memory=(255 + 11 * min(250, 10 * cores)) * _MIB),
    )


def _ec2_type(entry: Mapping[str, str | int | float]) -> InstanceType:
    name = str(entry["name"])
    return InstanceType(
        name=name,
        requirements=_exactly(
            {
                labels.INSTANCE_TYPE: (name,),
                labels.ARCH: (str(entry["arch"]),),
                labels.OS: ("linux",),
                labels.ZONE: EC2_ZONES,
                labels.CAPACITY_TYPE: (labels.ON_DEMAND,),
                ec2_labels.INSTANCE_CATEGORY: (str(entry["cat"]),),
                ec2_labels.INSTANCE_GENERATION: (str(entry["gen"]),),
                ec2_labels.INSTANCE_CPU: (str(entry["vcpu"]),),
            }
        ),
        offerings=tuple(
            _offering(zone, labels.ON_DEMAND, float(entry["price"])) for zone in EC2_ZONES
        ),
        capacity=Resources(  # the file holds what is left for pods
            cpu=int(entry["cpu"]), memory=int(entry["mem"]) * _MIB, pods=int(entry["pods"])
        ),
    )


def _offering(zone: str, capacity_type: str, price: float) -> Offering:
    held: dict[str, Sequence[str]] = {labels.ZONE: (zone,), labels.CAPACITY_TYPE: (capacity_type,)}
    return Offering(_exactly(held), price)


def _exactly(values: Mapping[str, Iterable[str]]) -> Requirements:
    return Requirements(
        Requirement(key, complement=False, values=frozenset(some)) for key, some in values.items()
    )
