"""The verdict of every pool and machine on one pod of a pass.

The checks run against the end of the pass; for a pod that was placed, as if all others were placed.
"""

from dataclasses import dataclass

from karpenter.scheduling.attempt import Attempt
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.plan import Launch
from karpenter.scheduling.reasons.node_refusals import NodeVerdicts, node_verdicts
from karpenter.scheduling.reasons.placements import placement_of, stage_at, without
from karpenter.scheduling.reasons.pool_checks import PoolVerdict, pool_verdicts
from karpenter.scheduling.reasons.preferences import Preference, preferences_of


@dataclass(frozen=True, slots=True)
class PodVerdicts:
    """The verdicts of pools and machines on one pod, and which of its preferences are met."""

    preferences: tuple[Preference, ...]
    pools: tuple[PoolVerdict, ...]  # in the order they are tried
    nodes: NodeVerdicts


@dataclass(slots=True)
class SolveCapture:
    """Captures the compiled problem and the packing while ``solve`` runs."""

    compiled: CompiledProblem | None = None
    attempt: Attempt | None = None

    def __call__(self, compiled: CompiledProblem, attempt: Attempt) -> None:
        """Store the compiled problem and the packing."""
        self.compiled, self.attempt = compiled, attempt


def pod_verdicts(
    compiled: CompiledProblem, attempt: Attempt, position: int, launch: Launch | None = None
) -> PodVerdicts:
    """Explain the pod at a position of the pass; ``launch`` is the offering of its claim."""
    pod_class = compiled.class_of[position]
    diagnosis = attempt.diagnosis
    states = list(diagnosis.states)
    spot = placement_of(compiled, attempt.packing, position, launch)
    preferences = preferences_of(compiled, compiled.problem.pods[position], pod_class, states, spot)
    stage, used = pod_class.stages[-1], None
    if spot is not None:
        stage = stage_at(pod_class, spot, states)
        states = without(states, stage, spot)
        diagnosis = diagnosis.with_states(states)
    if spot is not None and spot.claim is not None:
        used = attempt.packing.claims[spot.claim].template
        # the limits without the pod's own node
        diagnosis = diagnosis.with_limits(used, compiled.remaining_limits()[used])
    return PodVerdicts(
        preferences=preferences,
        pools=tuple(pool_verdicts(diagnosis, pod_class, stage, used)),
        nodes=node_verdicts(
            compiled, attempt.packing, states, diagnosis.joining.devices, position, stage
        ),
    )
