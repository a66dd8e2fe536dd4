"""A third-party provider with its own node class launches nodes; the core imports neither."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.clock import Clock
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext, load_provider
from karpenter.kube.client import Client
from karpenter.settings import Settings
from karpenter_sandbox.conditions import find_condition
from third_party import (
    EXAMPLE,
    GROUP,
    KIND,
    MACHINES,
    REFERENCE,
    installed,
    machine_class_objects,
    ready,
)

CLASS_LABEL = f"{GROUP}/{KIND.lower()}"


@pytest.fixture(autouse=True)
def machines(tmp_path: Path) -> Iterator[Path]:
    """The example is installed, and these are the machines."""
    file = tmp_path / "machines.yaml"
    file.write_text(MACHINES)
    site = tmp_path / "site"
    site.mkdir()
    with installed(site):
        yield file


@asynccontextmanager
async def racks(file: Path) -> AsyncIterator[Autoscaler]:
    """A cluster with a pool of machines of racks, and a pod that waits for one."""

    def make_cloud(kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        environment = {"STATIC_MACHINES_FILE": str(file)}
        return load_provider("static")(ProviderContext(kube, clock, Settings(), environment, rng))

    pool = kwok_pool("racks", template={"nodeClassRef": REFERENCE})
    async with autoscaler(starts=False, make_cloud=make_cloud) as run:
        await run.apply(*machine_class_objects(), pool, deployment("web", 1))
        run.start()
        yield run


async def say(run: Autoscaler, status: str, reason: str = "SaidSo") -> None:
    body = ready(status, reason)["status"]
    await run.client.patch_status(f"{GROUP}/v1", KIND, None, "default", body)


def condition(run: Autoscaler, name: str) -> tuple[str, str]:
    (pool,) = run.objects("karpenter.sh", "nodepools")
    found = find_condition(pool, name) or {}
    return found.get("status", ""), found.get("reason", "")


def node_of(machine: str) -> dict[str, Any]:
    """What the kubelet of a machine registers as it is switched on."""
    size = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {
            "providerID": f"static://{machine}",
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        },
        "status": {"capacity": size, "allocatable": size},
    }


def test_it_is_a_provider_of_less_than_150_lines_with_a_node_class_of_its_own() -> None:
    code = EXAMPLE.read_text("utf-8")

    assert f"class {KIND}(NodeClass" in code
    assert len(code.splitlines()) < 150


@in_virtual_time
async def test_a_pending_pod_gets_a_node_once_the_node_class_is_ready(machines: Path) -> None:
    async with racks(machines) as run:
        await run.until(
            lambda: condition(run, "NodeClassReady") == ("False", "NodeClassReadinessUnknown")
        )
        await say(run, "False", "NoPower")
        await run.until(lambda: condition(run, "NodeClassReady") == ("False", "NoPower"))
        await run.pass_time(120)
        assert ([], "False") == (run.claims, condition(run, "Ready")[0])

        await say(run, "True")
        await run.until(lambda: any(c.get("status", {}).get("providerID") for c in run.claims))
        (claim,) = run.claims
        assert "static://rack2-01" == claim["status"]["providerID"]
        await run.apply(node_of("rack2-01"))
        await run.until(lambda: len(run.running) == 1)

        (node,) = run.nodes
        assert "default" == node["metadata"]["labels"][CLASS_LABEL]
        assert {"rack2-01"} == {pod["spec"]["nodeName"] for pod in run.running}
        assert "True" == (find_condition(run.claims[0], "Initialized") or {})["status"]
        assert "True" == condition(run, "Ready")[0]


@in_virtual_time
async def test_a_class_that_fails_or_goes_takes_the_pool_with_it(machines: Path) -> None:
    async with racks(machines) as run:
        await say(run, "True")
        await run.until(lambda: condition(run, "Ready")[0] == "True")

        await say(run, "False", "NoPower")
        await run.until(lambda: condition(run, "Ready")[0] == "False")
        await say(run, "True")
        await run.until(lambda: condition(run, "Ready")[0] == "True")
        await run.client.delete(f"{GROUP}/v1", KIND, None, "default")
        await run.until(lambda: condition(run, "NodeClassReady") == ("False", "NodeClassNotFound"))
