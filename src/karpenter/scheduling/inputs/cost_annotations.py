"""What a pool's annotations say about packing it, in place of the settings.

They are annotations of the pool itself, not of its template, so changing one makes no node drift. A
value that cannot be read counts as absent; the pool gets a warning that names it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.scheduling.problem import CostOptions, PackingMode

PACKING: Final = "cost.karpenter.sh/packing"
MIN_TYPES: Final = "cost.karpenter.sh/min-types"
NODE_COST: Final = "cost.karpenter.sh/node-cost"
INVALID_COST_ANNOTATION: Final = "InvalidCostAnnotation"  # the reason of an event


class _CostValueError(ValueError):
    """A value that cannot be read; the text says what it must be."""


def pool_cost(node_pool: NodePool, settings: CostOptions) -> CostOptions:
    """The settings as they hold for one pool."""
    return _read(node_pool.metadata.annotations, settings)[0]


def invalid_annotations(node_pool: NodePool) -> list[str]:
    """One sentence for each annotation of a pool that cannot be read."""
    return _read(node_pool.metadata.annotations, CostOptions())[1]


def _parse_packing(text: str) -> PackingMode:
    """Read a way to pack."""
    try:
        return PackingMode(text.strip())
    except ValueError:
        raise _CostValueError("must be karpenter or cheapest") from None


def _parse_min_types(text: str) -> tuple[int, int]:
    """Read how many types a claim keeps: launched on-demand and on spot, or one number for both."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise _CostValueError("must be one or two whole numbers from 1 on, such as 5,15")
    return int(parts[0]), int(parts[-1])


def _parse_node_cost(text: str) -> float:
    """Read what a node costs beside its price, in dollars per hour."""
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not (math.isfinite(cost) and cost >= 0):
        raise _CostValueError("must be dollars per hour, 0 or more, such as 0.02")
    return cost


def _read(annotations: Mapping[str, str], settings: CostOptions) -> tuple[CostOptions, list[str]]:
    found, invalid = settings, []
    for key in (PACKING, MIN_TYPES, NODE_COST):
        text = annotations.get(key)
        if text is None:
            continue
        try:
            if key == PACKING:
                found = replace(found, packing=_parse_packing(text))
            elif key == MIN_TYPES:
                on_demand, spot = _parse_min_types(text)
                found = replace(found, min_types=on_demand, min_spot_types=spot)
            else:
                found = replace(found, node_cost=_parse_node_cost(text))
        except _CostValueError as error:
            invalid.append(f"annotation {key}: {text!r} {error}; the setting counts instead")
    return found, invalid
