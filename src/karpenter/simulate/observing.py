"""Who observes a run: the strangers, and the lower bound, which may know the product."""

from karpenter.simulate.bound import Bound
from karpenter.simulate.observe.watcher import Watcher
from karpenter.simulate.seam import Observer


def make_observers() -> list[Observer]:
    """The observers that a report is written from, in the order in which it reads them."""
    watcher = Watcher()
    return [watcher, Bound(watcher)]
