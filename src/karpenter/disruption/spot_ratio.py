"""Whether a command takes a pool further from its spot ratio than it is.

A pool is off its ratio by the cpu that is spot beyond what the ratio allows. A command may not
make that more; one that leaves it as it is, or makes it less, is not held up by a ratio that was
broken before. Workloads need no such test: their pods that the ratio keeps off spot are planned on
nodes that are not spot, or the command is refused for lack of room.

Static pools have no ratio, since their nodes are made for no pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from karpenter.disruption.candidates import Blocked, Candidate, Why
from karpenter.disruption.commands import Command
from karpenter.disruption.context import DisruptionContext
from karpenter.model import labels
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.spot.annotations import SpotRatio
from karpenter.scheduling.spot.pool_ratio import Fleet, effective_ratio, running_fleets

_PER_CPU: Final = 1000


class RatioGuard:
    """The pools that have a ratio, with what would be left of them after what was taken."""

    def __init__(self, view: DisruptionContext) -> None:
        """Begin with the machines as they are."""
        self._view = view
        self._taken: list[Candidate] = []

    def objection(
        self, candidates: Iterable[Candidate], replacements: Sequence[PlannedClaim] = ()
    ) -> str:
        """Why these machines may not go beside those taken already; empty if they may."""
        going = [*self._taken, *candidates]
        pools = {each.pool for each in going} | {claim.node_pool for claim in replacements}
        for pool in sorted(pools & self._ratios.keys()):
            ratio, fleet = self._ratios[pool], self._fleets.get(pool, Fleet())
            after = Fleet(fleet.total, fleet.spot)
            for each in going:
                if each.pool == pool and not each.machine.is_deleting:
                    is_spot = each.capacity_type == labels.SPOT
                    after.add(-each.machine.capacity.cpu, is_spot=is_spot)
            for claim in replacements:
                if claim.node_pool == pool:
                    is_spot = claim.requirements[labels.CAPACITY_TYPE].has(labels.SPOT)
                    after.add(self._cpu(claim), is_spot=is_spot)
            before = ratio.excess(fleet.total, fleet.spot)
            if ratio.excess(after.total, after.spot) > before + 1e-6:
                return _told(pool, ratio, after)
        return ""

    def take(self, candidate: Candidate) -> str:
        """Take a machine that is to be deleted; return why it may not be, or nothing."""
        problem = self.objection([candidate])
        if not problem:
            self._taken.append(candidate)
        return problem

    @cached_property
    def _ratios(self) -> Mapping[str, SpotRatio]:
        return {
            name: ratio
            for name, pool in self._view.snapshot.node_pools.items()
            if pool.spec.replicas is None and (ratio := effective_ratio(pool)) is not None
        }

    @cached_property
    def _fleets(self) -> Mapping[str, Fleet]:
        return running_fleets(self._view.snapshot.nodes)

    def _cpu(self, claim: PlannedClaim) -> int:
        types = self._view.inspection.types.get(claim.node_pool, {})
        kind = types.get(claim.launch.instance_type) if claim.launch is not None else None
        return kind.capacity.cpu if kind is not None else claim.requests.cpu


def worsened_ratio(view: DisruptionContext, command: Command) -> str:
    """Why a command may not be carried out, for the spot ratio of a pool; empty if it may."""
    return RatioGuard(view).objection(command.candidates, command.replacements)


def kept_by_ratio(candidate: Candidate, problem: str) -> Blocked:
    """A machine that stays for the sake of a spot ratio."""
    return Blocked(candidate.name, Why.SPOT_RATIO, problem, has_event=False)


def _told(pool: str, ratio: SpotRatio, after: Fleet) -> str:
    base = f" beyond {ratio.base / _PER_CPU:g} cpu" if ratio.base else ""
    return (
        f"{after.spot / _PER_CPU:g} of {after.total / _PER_CPU:g} cpu of NodePool {pool} would be"
        f" spot, and its ratio allows {ratio.percent:g}%{base}"
    )
