"""Prices from NodeOverlays, for types that AWS has no price of.

Such an overlay names instance types and a price, and nothing else. Without it, a type without a
price cannot be launched.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from karpenter.api.karpenter import NodeOverlay
from karpenter.model import labels
from karpenter.model.conditions import FALSE, READY, status_of

NONE_SUPPLIED: Final[Mapping[str, float]] = {}


def supplied_prices(overlays: Iterable[NodeOverlay]) -> Mapping[str, float]:
    """The prices by type; of several, the heaviest overlay decides, then the last by name."""
    prices: dict[str, float] = {}
    ordered = sorted(overlays, key=lambda each: (each.spec.weight or 0, each.metadata.name))
    for overlay in ordered:
        price = overlay.spec.price
        if price is None or _is_refused(overlay):
            continue
        for name in _types_alone(overlay):
            prices[name] = float(price)
    return prices or NONE_SUPPLIED


def _types_alone(overlay: NodeOverlay) -> tuple[str, ...]:
    """The types an overlay is for, if it asks for nothing else."""
    if len(overlay.spec.requirements) != 1:
        return ()
    (wanted,) = overlay.spec.requirements
    is_of_types = wanted.key == labels.INSTANCE_TYPE and wanted.operator == "In"
    return wanted.values if is_of_types else ()


def _is_refused(overlay: NodeOverlay) -> bool:
    return status_of(overlay.status.conditions, READY) == FALSE
