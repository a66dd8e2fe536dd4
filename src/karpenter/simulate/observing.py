"""Who observes a run: those who count, the lower bound, which may know the product, and the judge."""

from karpenter.simulate.bound import Bound
from karpenter.simulate.observe.watcher import BILLING_MINIMUM, Watcher
from karpenter.simulate.promises import Judge
from karpenter.simulate.seam import Observer


def make_observers(
    *, billing_minimum: float = BILLING_MINIMUM, rests: bool = False
) -> list[Observer]:
    """The observers that a report is written from, in the order in which it reads them.

    Args:
        billing_minimum: seconds that every machine is paid for.
        rests: the run ends with a rest, after which everything has to be settled.
    """
    watcher = Watcher(billing_minimum=billing_minimum)
    return [watcher, Bound(watcher), Judge(rests=rests)]
