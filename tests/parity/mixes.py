"""All feature mixes by name, and the problem of a seed."""

from collections.abc import Callable
from typing import Final

from parity import disruption, passes, provisioning
from parity.parts import Parts
from parity.problems import Problem

Mix = Callable[[Parts, Problem], None]


MIXES: Final[dict[str, Mix]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        provisioning.plain,
        provisioning.affinity,
        provisioning.taints,
        provisioning.resources,
        provisioning.reserved,
        provisioning.nodes,
        provisioning.spread,
        provisioning.pod_affinity,
        provisioning.volumes,
        provisioning.min_values,
        provisioning.volume_limits,
        provisioning.default_spread,
        provisioning.overlays,
        provisioning.buffers,
        passes.several_passes,
        disruption.empty,
        disruption.consolidation,
        disruption.single,
        disruption.spot_to_spot,
        disruption.drift,
        disruption.balanced,
        disruption.consolidate_after,
        disruption.repair,
        disruption.static_drift,
    )
}


def problem_of(seed: int, mix: str = "") -> Problem:
    """The problem of a seed; its mix follows from the seed unless one is named."""
    name = mix or list(MIXES)[seed % len(MIXES)]
    problem = Problem(name, seed)
    MIXES[name](Parts(f"{name}:{seed}"), problem)
    return problem
