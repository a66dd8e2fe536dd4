"""A recording of a cluster that runs already: its replay begins with its nodes, and its pods on them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.autoscaler import deployment, kwok_pool
from helpers.manifests import container
from helpers.recorded import recorded
from helpers.simulated import Watched
from helpers.watched_run import WatchedRun, watched_run
from karpenter.clock import run_virtual, running_clock
from karpenter.simulate.runs import setup_of
from karpenter.simulate.scenario.reader import Options, load
from karpenter.simulate.seam import VariantRun
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks
from karpenter_sandbox.server.transport import MemoryTransport
from karpenter_sandbox.store.store import Key, Store

Json = dict[str, Any]
FOUR = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}
WHEN_EMPTY = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
LENGTH = 300.0


def owned(kind: str, name: str, cpu: str, **spec: Any) -> Json:
    """A workload of some kind."""
    version = "batch/v1" if kind == "Job" else "apps/v1"
    template: Json = {"spec": {"containers": [container(cpu, "100Mi")]}}
    body: Json = {"template": template, **spec}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        template["metadata"] = {"annotations": {"sandbox.karpenter.sh/run-duration": "2h"}}
    else:
        template["metadata"] = {"labels": {"app": name}}
        body["selector"] = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": body}


WORKLOADS = (
    deployment("web", 5, cpu="900m"),
    owned("StatefulSet", "db", "1500m", replicas=3, serviceName="db"),
    owned("DaemonSet", "agent", "100m"),
    owned("ReplicaSet", "old", "700m", replicas=2),
    owned("Job", "nightly", "800m"),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone", "namespace": "default"},
        "spec": {"containers": [container("600m", "100Mi")]},
    },
)


def places(store: Store) -> dict[str, list[str]]:
    """The nodes of the pods of each workload."""
    found: dict[str, list[str]] = {}
    for pod in store.list("", "pods"):
        owner = (pod["metadata"].get("ownerReferences") or [{"kind": "Pod", "name": "alone"}])[0]
        name = str(owner["name"])
        if owner["kind"] == "ReplicaSet" and name.startswith("web-"):
            name = "web"
        found.setdefault(name, []).append(pod["spec"].get("nodeName", ""))
    return {name: sorted(nodes) for name, nodes in found.items()}


async def lived(folder: Path, before: Json, options: Mapping[str, Any]) -> None:
    """Let a cluster run for a while, and then a recorder beside it."""
    async with watched_run(
        kwok_pool("default", FOUR, disruption=WHEN_EMPTY), until=3600.0, observers=[Watched()]
    ) as world:
        clock, client = running_clock(), world.run.client
        for each in WORKLOADS:
            await client.create(each)
            await clock.sleep(20)
        await clock.sleep(120)
        before |= state(world)
        async with recorded(MemoryTransport(world.run.cluster.api), folder, **options):
            await clock.sleep(LENGTH / 2)
            await client.scale("apps/v1", "Deployment", "default", "web", 9)
            await clock.sleep(LENGTH / 2)
        before["nodes after"] = world.run.cluster.store.count("", "nodes")


def state(world: WatchedRun) -> Json:
    store = world.run.cluster.store
    nodes = {node["metadata"]["name"]: node for node in store.list("", "nodes")}
    return {"places": places(store), "nodes": nodes}


def replayed(folder: Path, until: float) -> tuple[Watched, VariantRun, Store]:
    """Run the beginning of a folder's scenario."""
    file = folder / "scenario.yaml"
    loaded = load(str(file), file.read_bytes(), folder, Options())
    assert loaded.warnings == ()
    watched = Watched()
    run = run_world(replace(setup_of(loaded, 0), until=until), Hooks(observers=[watched]))
    assert (run.problems, run.warnings) == ((), ())
    assert watched.view is not None
    return watched, run, watched.view.store


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Json]:
    """A recording, and how the cluster was when it began."""
    return told(tmp_path_factory.mktemp("running"))


def told(folder: Path, **options: Any) -> tuple[Path, Json]:
    before: Json = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.fsync", lambda _: None)  # in which no virtual time passes
        run_virtual(lived(folder, before, options), seed="1")
    return folder, before


def test_its_machines_are_there_and_cost_from_the_start(running: tuple[Path, Json]) -> None:
    folder, before = running
    watched, _, store = replayed(folder, 1.0)

    nodes = {node["metadata"]["name"]: node for node in store.list("", "nodes")}
    assert nodes.keys() == before["nodes"].keys()
    launched = watched.events("launched")
    assert {event.name for event in launched} == nodes.keys()
    assert all(event.at < -100 and event.price > 0 for event in launched)
    for name, node in nodes.items():
        was = before["nodes"][name]
        assert node["status"]["allocatable"] == was["status"]["allocatable"]
        assert node["metadata"]["labels"] == was["metadata"]["labels"]
        assert "taints" not in node["spec"]


def test_its_pods_are_where_they_were_and_have_waited_for_nothing(
    running: tuple[Path, Json],
) -> None:
    folder, before = running
    watched, _, store = replayed(folder, 1.0)

    assert places(store) == before["places"]
    assert {"web", "db", "agent", "old", "nightly", "alone"} == before["places"].keys()
    assert all(life.ready is not None and life.ready <= 0 for life in watched.pods.values())


def test_the_controllers_go_on_with_what_there_is(running: tuple[Path, Json]) -> None:
    folder, before = running
    watched, _, store = replayed(folder, LENGTH)

    assert before["nodes after"] > len(before["nodes"])
    assert store.count("", "nodes") == before["nodes after"]
    bought = [event for event in watched.events("launched") if event.at >= 0]
    assert len(bought) == before["nodes after"] - len(before["nodes"])
    assert watched.events("gone") == []
    claims = {
        claim["metadata"]["name"]: claim for claim in store.list("karpenter.sh", "nodeclaims")
    }
    assert len(claims) == before["nodes after"]
    for event in watched.events("launched"):
        node = store.get(Key("", "nodes", "", event.name))
        assert node is not None
        assert (
            node["metadata"]["ownerReferences"][0]["uid"] == claims[event.claim]["metadata"]["uid"]
        )


def test_pods_are_where_they_were_when_names_are_hashed(tmp_path: Path) -> None:
    folder, before = told(tmp_path, is_hashing=True)
    _, _, store = replayed(folder, 1.0)

    pods = Counter(pod["spec"].get("nodeName", "") for pod in store.list("", "pods"))
    was = Counter(node for nodes in before["places"].values() for node in nodes)
    assert sorted(pods.values()) == sorted(was.values())
    assert not pods.keys() & was.keys()


def test_a_pool_that_is_not_there_and_types_that_nobody_sells_leave_their_nodes_out(
    running: tuple[Path, Json],
) -> None:
    folder, before = running
    file = folder / "scenario.yaml"
    loaded = load(str(file), file.read_bytes(), folder, Options())
    setup = replace(setup_of(loaded, 0), until=1.0)
    without = replace(setup, types=tuple(each for each in setup.types if "-4x-" not in each.name))
    watched = Watched()

    run = run_world(without, Hooks(observers=[watched]))

    count = len(before["nodes"])
    assert watched.events("launched") == []
    (warning,) = run.warnings
    assert warning.startswith(f"the replay begins without {count} of {count} nodes of pools: the")
    assert "name what it sells with --instance-types" in warning
    variant = setup.variant
    objects = tuple(obj for obj in variant.objects if obj["kind"] != "NodePool")
    watched = Watched()
    run = run_world(
        replace(setup, variant=replace(variant, objects=objects)), Hooks(observers=[watched])
    )
    assert (watched.events("launched"), run.problems) == ([], ())
    (warning,) = run.warnings
    assert warning.startswith(f"the replay begins without {count} of {count} nodes of pools: the")
    assert "the scenario has no NodePool " in warning
