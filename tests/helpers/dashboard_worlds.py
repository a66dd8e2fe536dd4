"""Clusters of manifests as the dashboard's answers take them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from karpenter.dashboard.answers.supply import Supply, supply_of
from karpenter.dashboard.answers.world import Terms, World
from karpenter.inquiry import files, offline
from karpenter.inquiry.snapshots import snapshot_of_files
from karpenter.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[2]
NOW: Final = datetime(2026, 11, 16, 20, 15, tzinfo=UTC)
MOMENT: Final = "2026-11-16T20:15:00Z"
PLAN: Final = (
    str(ROOT / "examples" / "plan" / "cluster.yaml"),
    str(ROOT / "examples" / "plan" / "workloads.yaml"),
)
DISRUPTION: Final = (str(ROOT / "examples" / "disruption" / "cluster.yaml"),)


def world_of(*names: str, now: datetime = NOW) -> World:
    """The cluster of files, with the machines of the simulated provider."""
    found = files.load_objects(names, recursive=False, provider=offline.DEFAULT)
    terms = Terms(is_files=True, unjudged=found.unjudged)
    snapshot = snapshot_of_files(found.objects, found.unjudged)
    offer = offline.offers(offline.DEFAULT, None, Settings())(snapshot)
    return World(found.objects, supply_of(offer, snapshot.node_pools.values()), terms, now)


def estimated(world: World) -> World:
    """The same cluster, with prices that are estimates."""
    return replace(
        world,
        supply=replace(
            world.supply,
            pools={
                pool: tuple(
                    replace(
                        kind, offerings=tuple(replace(o, is_estimate=True) for o in kind.offerings)
                    )
                    for kind in types
                )
                for pool, types in world.supply.pools.items()
            },
        ),
    )


def documents(*names: str) -> list[dict[str, Any]]:
    """The manifests of files as they are written."""
    texts = (Path(name).read_text("utf-8") for name in names)
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def supply() -> Supply:
    """What the simulated provider sells to the pools of ``examples/disruption``."""
    return world_of(*DISRUPTION).supply
