"""What planners are shown of a cluster, by the controllers and the command line alike."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from karpenter.admission.runtime import runtime_findings
from karpenter.api.codec import to_plain
from karpenter.api.karpenter import NodeOverlay, NodePool
from karpenter.cloud.types import InstanceType
from karpenter.scheduling.inputs.legacy_keys import in_current_keys
from karpenter.state.snapshot import Snapshot

_NO_TYPES: Final[tuple[InstanceType, ...]] = ()


def as_planned(
    snapshot: Snapshot, provider: str, *, overlays: bool, is_legacy: bool = False
) -> Snapshot:
    """A cluster as a planner takes it: in today's keys, without overlays that make no sense.

    Args:
        snapshot: the cluster.
        provider: the name of the provider, which has labels of its own.
        overlays: whether overlays count at all.
        is_legacy: whether workloads may still use the keys of Provisioners.
    """
    if is_legacy:
        snapshot = in_current_keys(snapshot)
    if overlays:
        usable = usable_overlays(snapshot.node_overlays, provider)
        snapshot = replace(snapshot, node_overlays=usable)
    return snapshot


def usable_overlays(
    overlays: Mapping[str, NodeOverlay], provider: str
) -> Mapping[str, NodeOverlay]:
    """The overlays whose requirements make sense; others apply nowhere."""
    return {name: each for name, each in overlays.items() if not overlay_problem(each, provider)}


def overlay_problem(overlay: NodeOverlay, provider: str) -> str:
    """What is wrong with an overlay by itself, or nothing."""
    errors = runtime_findings(to_plain(overlay), provider=provider).errors
    return "; ".join(map(str, errors))


def catalogue_of(
    types: Mapping[str, tuple[InstanceType, ...]],
) -> Callable[[NodePool], tuple[InstanceType, ...]]:
    """What pools can buy, as planners ask for it."""
    return lambda pool: types.get(pool.metadata.name, _NO_TYPES)
