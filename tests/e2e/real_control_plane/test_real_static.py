"""What Karpenter's own regression suite asks of pools, asked of ours on a real control plane.

A static pool keeps its number and its limit while everything about it changes at once; claims
whose hash was written by another version are stamped anew and stay; and a broken node is repaired
after its toleration, which the newer way counts from the creation of the node. What happened in
between is read from a watch of the claims: polling would miss claims that exist briefly.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.real_control_plane.test_real_disruption import (
    ANY_NUMBER,
    PATIENCE,
    POOL_LABEL,
    SMALL,
    Installation,
    Json,
    Pool,
    deployment,
    node_class,
    node_of,
    node_pool,
)
from helpers.real_cluster import RealCluster, controller, real_cluster, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

GATES: Final = "StaticCapacity=true,NodeRepair=true"
SETTLED: Final = timedelta(seconds=30)
TOLERATION: Final = timedelta(seconds=30)  # the simulated provider's, for the condition below
BROKEN: Final = "KWOKUnhealthy"
HASH, VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"


@pytest.fixture(scope="module")
def cluster(
    kubectl: str, control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("static")) as found:
        found("apply", "-f", "-", given=json.dumps(node_class()))
        yield found


@contextmanager
def installed(cluster: RealCluster, **settings: str) -> Iterator[Installation]:
    """A controller that is at work, and ends in order."""
    with controller(cluster, cluster.account(), FEATURE_GATES=GATES, **settings) as process:
        process.until_leading(seconds=PATIENCE)
        yield Installation(cluster, process)
        assert 0 == process.stop()


@contextmanager
def applied(installation: Installation, name: str, *objects: Json) -> Iterator[Pool]:
    """A pool with what belongs to it; everything of it is gone afterwards."""
    pool = installation.pool(name)
    installation.apply(*objects)
    try:
        yield pool
    finally:
        delete = installation.cluster
        delete("delete", "deployment", name, "--cascade=foreground", "--ignore-not-found")
        delete("delete", "nodepool", name, "--wait=false")
        until(lambda: not pool.nodes and not pool.claims, "the pool is gone", seconds=PATIENCE)


class Watch:
    """Everything that happens to the claims of a pool, in order."""

    def __init__(self, pool: Pool, file: Path) -> None:
        self._file = file
        self._pool = pool

    @contextmanager
    def watching(self) -> Iterator[None]:
        program = shutil.which("kubectl")
        assert program is not None
        options = ["--watch", "--output-watch-events", "-o", "json", "--request-timeout=0"]
        with self._file.open("wb") as out:
            process = subprocess.Popen(
                [program, "get", "nodeclaims", "-l", f"{POOL_LABEL}={self._pool.name}", *options],
                env={**os.environ, "KUBECONFIG": str(self._pool.cluster.kubeconfig)},
                stdout=out,
            )
            try:
                until(lambda: bool(self.events), "the watch has begun", seconds=PATIENCE)
                yield
            finally:
                process.kill()
                process.wait()

    @property
    def events(self) -> list[Json]:
        """The events that are complete."""
        text, found, at = self._file.read_text("utf-8").lstrip(), [], 0
        decoder = json.JSONDecoder()
        while at < len(text):
            try:
                event, at = decoder.raw_decode(text, at)
            except json.JSONDecodeError:
                break
            found.append(event)
            at += len(text) - at - len(text[at:].lstrip())
        return found

    @property
    def made(self) -> set[str]:
        """The names of all claims there have been."""
        return {event["object"]["metadata"]["name"] for event in self.events}

    @property
    def most(self) -> int:
        """How many claims there have been at one time."""
        there: set[str] = set()
        most = 0
        for event in self.events:
            name = event["object"]["metadata"]["name"]
            there = there - {name} if event["type"] == "DELETED" else there | {name}
            most = max(most, len(there))
        return most


def static_pool(name: str, replicas: int, limit: int) -> Json:
    pool = node_pool(name, types=(SMALL,), expire_after="Never")
    pool["spec"] |= {"replicas": replicas, "limits": {"nodes": str(limit)}}
    pool["spec"]["disruption"] = {"budgets": ANY_NUMBER}
    return pool


def initialized(pool: Pool) -> list[Json]:
    return [
        node
        for node in pool.nodes.values()
        if node["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
        and "deletionTimestamp" not in node["metadata"]
    ]


def condition(claim: Json, kind: str) -> Json | None:
    found = claim.get("status", {}).get("conditions", ())
    return next((each for each in found if each["type"] == kind), None)


def surplus(pool: Pool) -> list[str]:
    """The claims of a pool that were deleted as surplus."""
    lines = pool.installation.controller.lines("deleting surplus nodeclaim")
    return [line["NodeClaim"]["name"] for line in lines if line["NodePool"]["name"] == pool.name]


def pass_a_while() -> None:
    since = datetime.now().astimezone()
    until(lambda: datetime.now().astimezone() - since > SETTLED, "a while passes", seconds=PATIENCE)


def test_a_static_pool_stays_within_its_limit_while_it_grows_and_drifts(
    cluster: RealCluster, tmp_path: Path
) -> None:
    with (
        installed(cluster) as installation,
        applied(installation, "fixed", static_pool("fixed", 3, 5)) as pool,
    ):
        until(lambda: 3 == len(initialized(pool)), "3 nodes", seconds=PATIENCE)
        watch = Watch(pool, tmp_path / "watch.json")
        with watch.watching():
            old = set(pool.claims)
            template = {"metadata": {"annotations": {"example.com/step": "2"}}}
            pool.change(replicas=4, template=template)
            until(lambda: not old & set(pool.claims), "the old ones are gone", seconds=PATIENCE)
            until(lambda: 4 == len(initialized(pool)), "4 nodes", seconds=PATIENCE)
            pass_a_while()

            steps = [
                node["metadata"]["annotations"]["example.com/step"] for node in initialized(pool)
            ]
            assert ["2"] * 4 == steps
        assert watch.most <= 5
        # three at first, one more, and one for each that has drifted
        assert 7 == len(watch.made)
        assert [] == surplus(pool)


def test_a_static_pool_shrinks_while_it_drifts_and_grows_again(
    cluster: RealCluster, tmp_path: Path
) -> None:
    with (
        installed(cluster) as installation,
        applied(installation, "waves", static_pool("waves", 4, 6)) as pool,
    ):
        until(lambda: 4 == len(initialized(pool)), "4 nodes", seconds=PATIENCE)
        watch = Watch(pool, tmp_path / "watch.json")
        with watch.watching():
            for step, replicas in enumerate((1, 5, 2, 3)):
                template = {"metadata": {"annotations": {"example.com/step": str(step)}}}
                pool.change(replicas=replicas, template=template)
            until(
                lambda: (
                    ["3"] * 3
                    == [
                        node["metadata"]["annotations"].get("example.com/step")
                        for node in pool.nodes.values()
                    ]
                ),
                "3 nodes of the last template",
                seconds=PATIENCE,
            )
            pass_a_while()
            assert (3, 3) == (len(pool.nodes), len(pool.claims))
        assert watch.most <= 6


def test_claims_of_another_hash_version_are_stamped_anew_and_do_not_drift(
    cluster: RealCluster,
) -> None:
    def stamps(obj: Json) -> tuple[str | None, str | None]:
        annotations = obj["metadata"].get("annotations", {})
        return annotations.get(HASH), annotations.get(VERSION)

    def of_pool() -> tuple[str | None, str | None]:
        (found,) = [
            each for each in cluster.items("nodepools") if each["metadata"]["name"] == "stamped"
        ]
        return stamps(found)

    pool_object = node_pool("stamped", types=(SMALL,), expire_after="Never")
    with (
        installed(cluster) as installation,
        applied(installation, "stamped", pool_object, deployment("stamped", 1)) as pool,
    ):
        pool.until_running(1)
        (name,) = pool.claims
        until(lambda: of_pool() == stamps(pool.claims[name]), "stamped", seconds=PATIENCE)
        hash_before, version = of_pool()

        cluster("annotate", "nodeclaim", name, "--overwrite", f"{HASH}=1", f"{VERSION}=older")
        body: dict[str, Any] = {
            "metadata": {"annotations": {HASH: "2", VERSION: "other"}},
            "spec": {"template": {"metadata": {"annotations": {"example.com/step": "2"}}}},
        }
        cluster("patch", "nodepool", "stamped", "--type=merge", "-p", json.dumps(body))
        until(
            lambda: of_pool() == stamps(pool.claims[name]) and of_pool()[1] == version,
            "both are stamped anew",
            seconds=PATIENCE,
        )
        pass_a_while()

        assert of_pool()[0] not in {hash_before, "1", "2"}
        assert {name} == pool.claims.keys()
        drifted = condition(pool.claims[name], "Drifted")
        assert drifted is None or drifted["status"] != "True"


def broken(pool: Pool) -> tuple[Json, str]:
    """The only node of a pool, which has been broken for longer than it exists, and its claim."""
    (node,) = pool.nodes.values()
    (claim,) = [each for each in pool.claims.values() if node_of(each) == node["metadata"]["name"]]
    long_ago = datetime.now().astimezone() - timedelta(hours=31)
    state = {"type": BROKEN, "status": "True", "reason": "Test", "message": "broken"}
    dated = {**state, "lastTransitionTime": long_ago.isoformat(timespec="seconds")}
    body = json.dumps({"status": {"conditions": [dated]}})
    pool.cluster("patch", "node", node["metadata"]["name"], "--subresource=status", "-p", body)
    return node, claim["metadata"]["name"]


def test_a_fresh_node_that_was_always_broken_has_its_whole_toleration(
    cluster: RealCluster,
) -> None:
    pool_object = node_pool("ill", types=(SMALL,), expire_after="Never")
    with (
        installed(cluster) as installation,
        applied(installation, "ill", pool_object, deployment("ill", 1)) as pool,
    ):
        pool.until_running(1)
        node, claim = broken(pool)
        pool.until_gone(node["metadata"]["name"])
        pool.until_running(1)

        created = datetime.fromisoformat(node["metadata"]["creationTimestamp"])
        assert created + TOLERATION <= pool.deleted_at(claim)
        assert [("unhealthy", "replace", 1)] == pool.decisions(node["metadata"]["name"])


def test_the_older_way_repairs_it_whatever_budgets_say(cluster: RealCluster) -> None:
    closed = node_pool("older", types=(SMALL,), expire_after="Never", budgets=[{"nodes": "0"}])
    with (
        installed(cluster, LEGACY_NODE_REPAIR="true") as installation,
        applied(installation, "older", closed, deployment("older", 1)) as pool,
    ):
        pool.until_running(1)
        node, _ = broken(pool)
        pool.until_gone(node["metadata"]["name"])
        pool.until_running(1)

        assert [] == pool.decisions(node["metadata"]["name"])
