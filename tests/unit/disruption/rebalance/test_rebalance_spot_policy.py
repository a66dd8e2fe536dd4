"""Rebalancing beside the spot policy: ratios hold, and fallbacks do not return too early."""

from typing import Final

from helpers.builders import offering, priced_type
from helpers.disruption import going, only
from helpers.disruption_objects import pool
from helpers.rebalancing import pods_of, rebalanced, running
from karpenter.api.karpenter import NodePool
from karpenter.model import labels as keys
from karpenter.scheduling.spot.annotations import SPOT_PERCENTAGE
from karpenter.scheduling.spot.fallback import RETURN_TO_SPOT
from karpenter.state.nodes import StateNode

TWELVE: Final = priced_type("twelve", 12, 0.55)
SIXTEEN: Final = priced_type(
    "sixteen",
    16,
    ways=[offering("z1", keys.ON_DEMAND, 0.60), offering("z1", keys.SPOT, 0.20)],
)
TYPES: Final = (TWELVE, SIXTEEN)


def machines(annotations: dict[str, str] | None = None) -> list[StateNode]:
    """Three on-demand machines of 12 cpu whose pods fit on two of 16."""
    return [
        running(
            f"n{n}",
            TWELVE,
            pods_of(5, f"p{n}-", cpu="2"),
            TYPES,
            claim_annotations=annotations or {},
        )
        for n in range(3)
    ]


def ways(asks: NodePool) -> set[str]:
    command = only(rebalanced(*machines(), types=TYPES, pools=[asks]))
    return {claim.launch.capacity_type for claim in command.replacements if claim.launch}


def test_replacements_stay_within_the_ratio_of_the_pool() -> None:
    assert {keys.SPOT} == ways(pool())
    assert {keys.ON_DEMAND} == ways(pool(annotations={SPOT_PERCENTAGE: "0"}))


def test_machines_that_fell_back_are_not_moved_to_spot_before_they_are_due() -> None:
    fallen = machines({keys.FELL_BACK: "2026-01-01T00:00:00Z"})
    asks = pool(annotations={RETURN_TO_SPOT: "30m"})

    assert [] == going(rebalanced(*fallen, types=TYPES, pools=[asks]))
    assert 3 == len(going(rebalanced(*fallen, types=TYPES, pools=[pool()])))
