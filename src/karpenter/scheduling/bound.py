"""A price below which no plan can go, found without planning.

Whatever the packing, the machines bought must together have each resource the pods ask for. So for
every resource, the amount asked for at the cheapest price per unit anyone offers is a lower bound,
and the largest of these bounds is one too. The scarcest resource decides.
"""

from collections.abc import Sequence

from karpenter.model.resources import Resources
from karpenter.scheduling.universe import Universe


def lower_bound(requested: Resources, universes: Sequence[Universe]) -> float:
    """The least that machines for ``requested`` can cost per hour."""
    bounds = []
    for name, amount in requested.items():
        most = max((universe.most_per_dollar(name) for universe in universes), default=0.0)
        if most:
            bounds.append(amount / most)
    return max(bounds, default=0.0)
