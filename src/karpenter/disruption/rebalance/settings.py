"""The settings of rebalancing, and the annotation of a pool that overrides them.

It is an annotation of the pool itself, not of its template, so changing it makes no node drift.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.scheduling.inputs.cost_annotations import REBALANCE, rebalance_annotation


class RebalanceMode(StrEnum):
    """What rebalancing does."""

    OFF = "Off"
    PREVIEW = "Preview"  # its commands are shown, but not carried out
    ON = "On"


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    """How much rebalancing may disturb, and for what."""

    mode: RebalanceMode = RebalanceMode.OFF
    moves: float = 0.05  # of all reschedulable pods, in any hour
    payback: timedelta = timedelta(hours=24)  # savings over this time must repay the disruption
    pod_cost: float = 0.02  # dollars that one unit of eviction cost stands for
    cooldown: timedelta = timedelta(hours=1)  # how long the machines and workloads stay untouched
    binds_pods: bool = False  # moved pods are bound to the places of the plan where that is safe


# How long moves count towards the limit
MOVES_WINDOW: Final = timedelta(hours=1)


def mode_of(pool: NodePool, setting: RebalanceMode) -> RebalanceMode:
    """What rebalancing does with the machines of a pool; its annotation overrides the setting."""
    text = pool.metadata.annotations.get(REBALANCE)
    try:
        stated = None if text is None else rebalance_annotation(text)
    except ValueError:
        stated = None  # the pool gets a warning, and the setting counts
    if stated is None:
        return setting
    return RebalanceMode.ON if stated else RebalanceMode.OFF


def is_wanted(pools: Iterable[NodePool], setting: RebalanceMode) -> bool:
    """Whether any pool is rebalanced, or a preview of it is made."""
    return any(mode_of(pool, setting) is not RebalanceMode.OFF for pool in pools)
