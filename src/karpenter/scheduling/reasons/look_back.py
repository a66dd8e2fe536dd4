"""Looking back at a pass: what every pool and machine says about one of its pods.

They are asked at the end of the pass, and a pod that was placed as if everything was placed but it.
"""

from dataclasses import dataclass

from karpenter.scheduling.node_refusals import NodeVerdicts, node_verdicts
from karpenter.scheduling.plan import Launch
from karpenter.scheduling.pool_checks import PoolVerdict, pool_verdicts
from karpenter.scheduling.solve import Attempt
from karpenter.scheduling.spots import spot_of, stage_at, without
from karpenter.scheduling.wishes import Wish, wishes_of
from karpenter.scheduling.world import World


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is to see about one pod."""

    wishes: tuple[Wish, ...]
    pools: tuple[PoolVerdict, ...]  # in the order they are tried
    nodes: NodeVerdicts


@dataclass(slots=True)
class LookBack:
    """What a pass was made from, caught while it was made: a witness of ``solve``."""

    world: World | None = None
    attempt: Attempt | None = None

    def __call__(self, world: World, attempt: Attempt) -> None:
        """Keep what there is to look back at."""
        self.world, self.attempt = world, attempt


def look_at(world: World, attempt: Attempt, position: int, launch: Launch | None = None) -> Sight:
    """Look at the pod at a position of the pass; ``launch`` says what its claim would become."""
    pod_class = world.class_of[position]
    diagnosis = attempt.diagnosis
    states = list(diagnosis.states)
    spot = spot_of(world, attempt.packing, position, launch)
    wishes = wishes_of(world, world.problem.pods[position], pod_class, states, spot)
    stage, used = pod_class.stages[-1], None
    if spot is not None:
        stage = stage_at(pod_class, spot, states)
        states = without(states, stage, spot)
        diagnosis = diagnosis.with_states(states)
    if spot is not None and spot.claim is not None:
        used = attempt.packing.claims[spot.claim].template
        # its own node must not count against it
        diagnosis = diagnosis.with_limits(used, world.remaining_limits()[used])
    return Sight(
        wishes=wishes,
        pools=tuple(pool_verdicts(diagnosis, pod_class, stage, used)),
        nodes=node_verdicts(
            world, attempt.packing, states, diagnosis.joining.devices, position, stage
        ),
    )
