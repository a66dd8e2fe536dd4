"""Write the table of instance types that plans without an AWS account are made of.

    .venv/bin/python tools/instance_type_facts.py          (needs moto, as `make install` brings it)

moto carries what EC2 answered to DescribeInstanceTypes and DescribeInstanceTypeOfferings. Of that
only the figures are kept that nodes and offerings depend on; a test compares the two type by type.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from karpenter.cloud.aws.simulated.moto_gaps import described_types, offered_types, zone_ids
from karpenter.cloud.aws.types.facts import TypeFacts, facts_of, is_usable
from karpenter.cloud.aws.types.tables import ZONE_DIGITS

TARGET: Final = Path(__file__).parent.parent / "src/karpenter/cloud/aws/tables/instance_types.json"
_ABOUT: Final = (
    "What EC2 told of its instance types, as moto {} (Apache-2.0, github.com/getmoto/moto) carries"
    " it, and the p3 family; written by tools/instance_type_facts.py. A type is the fields of"
    " TypeFacts in their order; sold has a digit for every type, in the order of types."
)


def main() -> None:
    """Write the table."""
    facts = sorted(
        (facts_of(entry) for entry in described_types().values() if is_usable(entry)),
        key=lambda each: each.name,
    )
    zones = zone_ids()
    head = {
        "about": _ABOUT.format(version("moto")),
        "zones": zones,
        "sold": {region: _digits(region, tuple(zones[region]), facts) for region in zones},
    }
    lines = [f"{_json(key)}:{_json(value)}," for key, value in head.items()]
    rows = ",\n".join(_json(each) for each in facts)
    TARGET.write_text("{" + "\n".join(lines) + f'\n"types":[\n{rows}\n]}}\n', "utf-8")
    print(f"{TARGET}: {len(facts)} types, {TARGET.stat().st_size / 1000:.0f} kB")


def _digits(region: str, zones: tuple[str, ...], facts: list[TypeFacts]) -> str:
    masks = dict.fromkeys((each.name for each in facts), 0)
    for offering in offered_types(region, "availability-zone"):
        if offering["InstanceType"] in masks:
            masks[offering["InstanceType"]] |= 1 << zones.index(offering["Location"])
    return "".join(ZONE_DIGITS[mask] for mask in masks.values())


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


if __name__ == "__main__":
    main()
