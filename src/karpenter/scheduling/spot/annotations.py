"""The annotations of the spot policy, on NodePools and on pods.

Those of a pool are annotations of the pool itself, not of its template, so changing one makes no
node drift. A value that cannot be read counts as absent, and its object gets a warning that names
it.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodePool
from karpenter.model import labels
from karpenter.model.quantity import QuantityError, millis
from karpenter.model.requirements import Requirements

ON_DEMAND_BASE: Final = "cost.karpenter.sh/on-demand-base"
SPOT_PERCENTAGE: Final = "cost.karpenter.sh/spot-percentage"
SPOT_RATIO_IGNORED: Final = "SpotRatioIgnored"  # the reason of an event
_ALL: Final = 100.0


@dataclass(frozen=True, slots=True)
class SpotRatio:
    """How much may run on spot: nothing of the base, and at most a share of what is beyond it."""

    base: int = 0  # millicores of a pool's nodes, or pods of a workload
    percent: float = _ALL

    def allowed(self, total: float) -> float:
        """How much of a total may be spot."""
        return self.percent / _ALL * max(0.0, total - self.base)

    def excess(self, total: float, spot: float) -> float:
        """By how much spot exceeds what is allowed; nothing for differences of rounding."""
        beyond = spot - self.allowed(total)
        return beyond if beyond > 1e-6 else 0.0

    def on_demand_of(self, pods: int) -> int:
        """How many of so many pods must not be on spot."""
        base = min(pods, self.base)
        return base + math.ceil((pods - base) * (_ALL - self.percent) / _ALL - 1e-9)


def pool_ratio(node_pool: NodePool) -> SpotRatio | None:
    """The ratio that a pool states; None where it states none."""
    annotations = node_pool.metadata.annotations
    if ON_DEMAND_BASE not in annotations and SPOT_PERCENTAGE not in annotations:
        return None
    base, percent = _of_pool(annotations, [])
    return None if base is None and percent is None else _ratio(base, percent)


def workload_ratio(annotations: Mapping[str, str]) -> SpotRatio | None:
    """The ratio that the annotations of a pod state, counted in pods; None without any."""
    if ON_DEMAND_BASE not in annotations and SPOT_PERCENTAGE not in annotations:
        return None
    base, percent = _of_pod(annotations, [])
    return None if base is None and percent is None else _ratio(base, percent)


def invalid_ratio(annotations: Mapping[str, str], *, is_pod: bool) -> list[str]:
    """One sentence for each annotation of a ratio that cannot be read."""
    found: list[str] = []
    (_of_pod if is_pod else _of_pool)(annotations, found)
    return found


def ignored_ratio(node_pool: NodePool, requirements: Requirements) -> Iterator[str]:
    """Why the ratio of a pool has no effect, in one sentence, if it has none.

    ``requirements`` are those of the nodes of the pool.
    """
    if pool_ratio(node_pool) is None:
        return
    stated = [k for k in (ON_DEMAND_BASE, SPOT_PERCENTAGE) if k in node_pool.metadata.annotations]
    verb = "has" if len(stated) == 1 else "have"
    has = requirements[labels.CAPACITY_TYPE].has
    if not (has(labels.ON_DEMAND) or has(labels.RESERVED)):
        alone, all_of = "spot", "spot"
    elif not has(labels.SPOT):
        alone, all_of = "no spot", "on-demand or reserved"
    else:
        return
    yield (
        f"{' and '.join(stated)} {verb} no effect: the requirements of the NodePool allow {alone}"
        f"{' alone' if alone == 'spot' else ''}, so all of its nodes are {all_of}; remove the"
        f" {'annotation' if len(stated) == 1 else 'annotations'} or allow both capacity types"
    )


def _ratio(base: int | None, percent: float | None) -> SpotRatio:
    return SpotRatio(base or 0, _ALL if percent is None else percent)


def _of_pool(annotations: Mapping[str, str], invalid: list[str]) -> tuple[int | None, float | None]:
    base: int | None = None
    text = annotations.get(ON_DEMAND_BASE)
    if text is not None:
        try:
            base = millis(text.strip())
        except QuantityError:
            base = None
        if base is None or base < 0:
            base = None
            said = f"{text!r} is not an amount of cpu, such as 8 or 500m"
            invalid.append(f"annotation {ON_DEMAND_BASE}: {said}; it counts as absent")
    return base, _percent(annotations, invalid)


def _of_pod(annotations: Mapping[str, str], invalid: list[str]) -> tuple[int | None, float | None]:
    base: int | None = None
    text = annotations.get(ON_DEMAND_BASE)
    if text is not None:
        stripped = text.strip()
        if stripped.isascii() and stripped.isdigit() and len(stripped) <= 9:
            base = int(stripped)
        else:
            said = f"{text!r} is not a number of pods, such as 2"
            invalid.append(f"annotation {ON_DEMAND_BASE}: {said}; it counts as absent")
    return base, _percent(annotations, invalid)


def _percent(annotations: Mapping[str, str], invalid: list[str]) -> float | None:
    text = annotations.get(SPOT_PERCENTAGE)
    if text is None:
        return None
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = math.nan
    if 0 <= percent <= _ALL:
        return percent
    said = f"{text!r} is not a percentage from 0 to 100, such as 70"
    invalid.append(f"annotation {SPOT_PERCENTAGE}: {said}; it counts as absent")
    return None
