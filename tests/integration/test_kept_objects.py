"""What is gone is forgotten: hours later, nothing remembers the nodes, claims and pods there were."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.kept import places_of
from karpenter_sandbox.scheduling.classes import PodClass
from karpenter_sandbox.store.history import Collection
from karpenter_sandbox.store.store import Store

REPLICAS: Final = 3
HOUR: Final = 3600.0
REST: Final = 3 * HOUR  # longer than events live, and limits of events remember
# Bounded by a number, and kept whatever its age
BOUNDED: Final = {
    "DecisionLog._lines",  # records, for those who ask later
    "Recent._values",  # of the decision log: identities given out, and commands by claim
    "Mirror._removed",  # uids, so that late answers about what is gone are ignored
    "Cluster.log",  # of the sandbox's scheduler: nodes that changed
    "WatchEvent.obj",  # what a loop worked on last
    "KeyedController.run.key",
}
# The history of changes, and what the sandbox's scheduler computed for the latest kinds of pods
NOT_LOOKED_INTO: Final = (Store, Collection, PodClass)


@in_virtual_time
async def test_hours_later_nothing_remembers_what_is_gone() -> None:
    pool = kwok_pool("default", disruption={"consolidateAfter": "30s"})
    async with autoscaler(pool) as run:
        await run.apply(*workload())
        await run.pass_time(120)
        words = {word for obj in what_there_is(run) for word in identifiers(obj)}
        made = len(run.nodes)

        for obj in workload():
            await run.client.delete(obj["apiVersion"], obj["kind"], "default", "web")
        await run.pass_time(REST)
        assert [] == [*what_there_is(run), *run.objects("", "events")]
        # Several caches drop what is old when they are used
        await run.apply(deployment("other", 1))
        await run.pass_time(60)
        run.lines.clear()

        roots = [run.cluster, run.manager, run.metrics, run.decisions, *others()]
        kept = places_of(words, roots, passed_over=NOT_LOOKED_INTO)

    assert REPLICAS == made
    assert {} == {place: count for place, count in kept.items() if place not in BOUNDED}


def workload() -> list[dict[str, Any]]:
    """Pods that want a node each, with everything that schedulers count by pods and nodes."""
    alike = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": alike}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": alike,
    }
    return [
        deployment(
            "web",
            REPLICAS,
            affinity={"podAntiAffinity": apart | preferred},
            topologySpreadConstraints=[spread],
        ),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": alike},
        },
    ]


def what_there_is(run: Autoscaler) -> list[dict[str, Any]]:
    return [*run.nodes, *run.claims, *run.pods]


def identifiers(obj: dict[str, Any]) -> Iterator[str]:
    yield obj["metadata"]["name"]
    yield obj["metadata"]["uid"]


def others() -> set[asyncio.Task[Any]]:
    """All tasks but that of the test, which holds the words."""
    return asyncio.all_tasks() - {asyncio.current_task()}
