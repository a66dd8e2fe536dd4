"""Looking back at a pass: how every pool and machine answers for one of its pods.

The checks run against the end of the pass; for a pod that was placed, as if all others were placed.
"""

from dataclasses import dataclass

from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.plan import Launch
from karpenter.scheduling.reasons.node_refusals import NodeVerdicts, node_verdicts
from karpenter.scheduling.reasons.placements import placement_of, stage_at, without
from karpenter.scheduling.reasons.pool_checks import PoolVerdict, pool_verdicts
from karpenter.scheduling.reasons.preferences import Preference, preferences_of
from karpenter.scheduling.solve import Attempt


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is to see about one pod."""

    wishes: tuple[Preference, ...]
    pools: tuple[PoolVerdict, ...]  # in the order they are tried
    nodes: NodeVerdicts


@dataclass(slots=True)
class LookBack:
    """What a pass was made from, caught while it was made: a witness of ``solve``."""

    compiled: CompiledProblem | None = None
    attempt: Attempt | None = None

    def __call__(self, compiled: CompiledProblem, attempt: Attempt) -> None:
        """Keep the packing, to look back at it."""
        self.compiled, self.attempt = compiled, attempt


def look_at(
    compiled: CompiledProblem, attempt: Attempt, position: int, launch: Launch | None = None
) -> Sight:
    """Explain the pod at a position of the pass; ``launch`` says what its claim would become."""
    pod_class = compiled.class_of[position]
    diagnosis = attempt.diagnosis
    states = list(diagnosis.states)
    spot = placement_of(compiled, attempt.packing, position, launch)
    wishes = preferences_of(compiled, compiled.problem.pods[position], pod_class, states, spot)
    stage, used = pod_class.stages[-1], None
    if spot is not None:
        stage = stage_at(pod_class, spot, states)
        states = without(states, stage, spot)
        diagnosis = diagnosis.with_states(states)
    if spot is not None and spot.claim is not None:
        used = attempt.packing.claims[spot.claim].template
        # its own node must not count against it
        diagnosis = diagnosis.with_limits(used, compiled.remaining_limits()[used])
    return Sight(
        wishes=wishes,
        pools=tuple(pool_verdicts(diagnosis, pod_class, stage, used)),
        nodes=node_verdicts(
            compiled, attempt.packing, states, diagnosis.joining.devices, position, stage
        ),
    )
