"""The snapshot as planners take it, for the controllers and the command line alike."""

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
    """A cluster as a planner takes it: with current keys, and without invalid overlays.

    Args:
        snapshot: the cluster.
        provider: the name of the provider, which decides the known labels.
        overlays: whether the feature gate of overlays is on.
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
    """The valid overlays; others apply nowhere."""
    return {name: each for name, each in overlays.items() if not overlay_problem(each, provider)}


def overlay_problem(overlay: NodeOverlay, provider: str) -> str:
    """What is wrong with an overlay by itself, or nothing."""
    errors = runtime_findings(to_plain(overlay), provider=provider).errors
    return "; ".join(map(str, errors))


def catalogue_of(
    types: Mapping[str, tuple[InstanceType, ...]],
) -> Callable[[NodePool], tuple[InstanceType, ...]]:
    """The catalogue of each pool, as a function."""
    return lambda pool: types.get(pool.metadata.name, _NO_TYPES)
