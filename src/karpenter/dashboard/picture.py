"""What a view is made of: the cluster at one moment, and what is known about it besides.

A picture is cheap: it shares everything with the cluster state it was taken from. Objects that have
not changed are the same ones as in the picture before, and by that the view sees what changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.dashboard.contract import Notice
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.scheduling.provisioning import Catalogue
from karpenter.state.snapshot import Snapshot

PoolTypes = Mapping[str, Mapping[str, InstanceType]]  # pool -> name of the type -> type


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster to be shown."""

    snapshot: Snapshot
    now: datetime
    types: PoolTypes = field(default_factory=dict)  # with overlays; ``PriceBook`` makes them
    targets: Mapping[str, str] = field(default_factory=dict)  # pod key -> its node or claim to be
    reasons: Mapping[str, str] = field(default_factory=dict)  # pod key -> why it waits, CamelCase
    notices: tuple[Notice, ...] = ()


class PriceBook:
    """The types of all pools with overlays applied, as the planners see them.

    They are worked out again only when a pool's specification, an overlay or the catalogue changes.
    """

    def __init__(self) -> None:
        """Begin without prices."""
        self._key: tuple[object, ...] = ()
        self._types: PoolTypes = {}

    def types(
        self,
        snapshot: Snapshot,
        catalogue: Catalogue,
        facts: ProviderFacts,
        settings: DisruptionSettings,
        *,
        now: datetime,
    ) -> PoolTypes:
        """The types by pool; the same object as before where nothing has changed."""
        pools = sorted(snapshot.node_pools.values(), key=lambda pool: pool.metadata.name)
        key = (
            [(pool.metadata.name, pool.spec) for pool in pools],
            [_Same(_listed(catalogue, pool)) for pool in pools],
            {name: overlay.spec for name, overlay in snapshot.node_overlays.items()},
            facts,
            settings.planning.overlays,
        )
        if key != self._key:
            view = DisruptionContext(snapshot, catalogue, facts, settings, now=now)
            self._key, self._types = key, view.inspection.types
        return self._types


class _Same:
    """Equal to another one that holds the same object."""

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def _listed(catalogue: Catalogue, pool: NodePool) -> object:
    return catalogue(pool)
