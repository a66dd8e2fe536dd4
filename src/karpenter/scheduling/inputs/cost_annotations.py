"""The cost annotations of a pool, which override the settings for it.

They are annotations of the pool itself, not of its template, so changing one makes no node drift. A
value that cannot be read counts as absent; the pool gets a warning that names it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.model import cost_values
from karpenter.scheduling.problem import CostOptions, PackingMode

PACKING: Final = "cost.karpenter.sh/packing"
MIN_TYPES: Final = "cost.karpenter.sh/min-types"
NODE_COST: Final = "cost.karpenter.sh/node-cost"
REBALANCE: Final = "cost.karpenter.sh/rebalance"
INVALID_COST_ANNOTATION: Final = "InvalidCostAnnotation"  # the reason of an event


def pool_cost(node_pool: NodePool, settings: CostOptions) -> CostOptions:
    """The settings with a pool's annotations applied."""
    return _read(node_pool.metadata.annotations, settings)[0]


def invalid_annotations(node_pool: NodePool) -> list[str]:
    """One sentence for each annotation of a pool that cannot be read."""
    return _read(node_pool.metadata.annotations, CostOptions())[1]


def _packing(text: str) -> PackingMode:
    try:
        return PackingMode(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is neither karpenter nor cheapest") from None


def rebalance_annotation(text: str) -> bool:
    """Whether the machines of a pool may be rebalanced.

    Raises:
        ValueError: the text is neither of the two; the message states it.
    """
    known = {"on": True, "off": False}
    if text.strip() not in known:
        raise ValueError(f"{text!r} is neither on nor off")
    return known[text.strip()]


def _read(annotations: Mapping[str, str], settings: CostOptions) -> tuple[CostOptions, list[str]]:
    found, invalid = settings, []
    for key in (PACKING, MIN_TYPES, NODE_COST, REBALANCE):
        text = annotations.get(key)
        if text is None:
            continue
        try:
            if key == PACKING:
                packing = _packing(text)
                found = found if settings.is_forced else replace(found, packing=packing)
            elif key == MIN_TYPES:
                on_demand, spot = cost_values.min_types(text)
                found = replace(found, min_types=on_demand, min_spot_types=spot)
            elif key == NODE_COST:
                found = replace(found, node_cost=cost_values.dollars(text))
            else:
                rebalance_annotation(text)  # read where machines are rebalanced; checked here
        except ValueError as error:
            invalid.append(f"annotation {key}: {error}; the setting counts instead")
    return found, invalid
