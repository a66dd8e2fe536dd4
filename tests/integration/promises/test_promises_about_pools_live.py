"""What users' guides promise about pools and the nodes they bring, on a whole virtual cluster."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.aws_sandbox import aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.model import labels
from karpenter.simulate.invariants import problems

V1 = "karpenter.sh/v1"
CPU = "karpenter.kwok.sh/instance-cpu"


def requirement(key: str, operator: str, *values: str) -> JsonObject:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.row("S0-20")
@in_virtual_time
async def test_without_any_pool_nothing_is_launched_and_the_log_says_why() -> None:
    async with autoscaler(deployment("web", 3)) as run:
        await run.pass_time(120)

        assert ([], [], []) == (run.claims, run.nodes, run.running)
        assert "no dynamic nodepools found" in [line["message"] for line in run.lines]


@pytest.mark.row("S2-01")
@in_virtual_time
async def test_the_smallest_pool_is_ready_and_provisions() -> None:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    smallest: JsonObject = {
        "apiVersion": V1,
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }
    async with autoscaler(smallest) as run:
        await run.until(lambda: ready(run) == "True", seconds=30)
        await run.apply(deployment("web", 1))
        await run.until(lambda: len(run.running) == 1, seconds=60)

        (node,) = run.nodes
        assert "default" == node["metadata"]["labels"][labels.NODEPOOL]
        assert node["metadata"]["name"] == run.running[0]["spec"]["nodeName"]
        assert [] == problems(run)


def ready(run: Autoscaler) -> str:
    (pool,) = run.objects("karpenter.sh", "nodepools")
    found = [
        c["status"] for c in pool.get("status", {}).get("conditions", ()) if c["type"] == "Ready"
    ]
    return str(found[0]) if found else ""


@pytest.mark.row("S0-37")
@pytest.mark.parametrize(
    ("asked", "bought"),
    [
        pytest.param(requirement(CPU, "In", "8"), {"8"}, id="In"),
        pytest.param(requirement(CPU, "NotIn", "1", "2", "4"), {"8"}, id="NotIn"),
        pytest.param(requirement(CPU, "Exists"), {"2"}, id="Exists"),
        pytest.param(requirement("team", "DoesNotExist"), {"2"}, id="DoesNotExist"),
        pytest.param(requirement(CPU, "DoesNotExist"), set(), id="DoesNotExist of a type's own"),
        pytest.param(requirement(CPU, "Gt", "4"), {"8"}, id="Gt"),
        pytest.param(requirement(CPU, "Lt", "2"), set(), id="Lt, and nothing is that small"),
        pytest.param(requirement(CPU, "Lt", "3"), {"2"}, id="Lt"),
        pytest.param(requirement(CPU, "Gte", "8"), {"8"}, id="Gte"),
        pytest.param(requirement(CPU, "Lte", "2"), {"2"}, id="Lte"),
    ],
)
@in_virtual_time
async def test_every_operator_chooses_among_the_types(asked: JsonObject, bought: set[str]) -> None:
    pool = kwok_pool("default", asked)
    async with autoscaler(pool, deployment("web", 1, cpu="1500m")) as run:
        await run.pass_time(60)

        assert bought == {node["metadata"]["labels"][CPU] for node in run.nodes}
        assert len(bought) == len(run.running)


@pytest.mark.row("S2-12")
@in_virtual_time
async def test_the_types_of_a_pool_can_be_edited_and_new_nodes_follow() -> None:
    kept = {"budgets": [{"nodes": "0"}]}
    pool = kwok_pool("default", requirement(CPU, "In", "4"), disruption=kept)
    async with autoscaler(pool, deployment("web", 3)) as run:
        await run.until(lambda: len(run.running) == 3)
        assert ["4"] == [node["metadata"]["labels"][CPU] for node in run.nodes]
        (before,) = run.objects("karpenter.sh", "nodepools")

        spec = {"template": {"spec": {"requirements": [requirement(CPU, "In", "8")]}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", {"spec": spec})
        await run.scale("web", 9)
        await run.until(lambda: len(run.running) == 9)

        (after,) = run.objects("karpenter.sh", "nodepools")
        assert before["metadata"]["generation"] + 1 == after["metadata"]["generation"]
        assert ["4", "8"] == sorted(node["metadata"]["labels"][CPU] for node in run.nodes)


@asynccontextmanager
async def on_kwok(**disruption: Any) -> AsyncIterator[Autoscaler]:
    async with autoscaler(kwok_pool(disruption=disruption)) as run:
        yield run


@asynccontextmanager
async def on_aws(**disruption: Any) -> AsyncIterator[Autoscaler]:
    async with aws_sandbox(ec2_pool(**disruption)) as box:
        yield box.run


Bed = Callable[..., AbstractAsyncContextManager[Autoscaler]]
EVERY_PROVIDER = pytest.mark.parametrize("bed", [on_kwok, on_aws], ids=["kwok", "aws"])
QUICK: dict[str, Any] = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


async def instances(run: Autoscaler) -> int:
    assert run.cloud is not None
    return len(await run.cloud.list())


async def grown(run: Autoscaler, replicas: int) -> None:
    await run.apply(deployment("web", replicas))
    await run.until(lambda: len(run.running) == replicas)


@pytest.mark.storm
@pytest.mark.row("S0-12")
@EVERY_PROVIDER
@in_virtual_time
async def test_pods_bring_nodes_and_take_them_with_them(bed: Bed) -> None:
    async with bed(**QUICK) as run:
        await grown(run, 5)
        assert len(run.claims) == len(run.nodes) == await instances(run) >= 1
        assert {"default"} == {node["metadata"]["labels"][labels.NODEPOOL] for node in run.nodes}

        await run.scale("web", 0)
        await run.until(lambda: not run.nodes and not run.claims)
        assert 0 == await instances(run)
        assert [] == problems(run)


@pytest.mark.storm
@pytest.mark.row("S0-12")
@EVERY_PROVIDER
@in_virtual_time
async def test_nodes_of_an_edited_pool_are_replaced(bed: Bed) -> None:
    async with bed(**QUICK) as run:
        await grown(run, 3)
        before = {node["metadata"]["uid"] for node in run.nodes}
        spec = {"template": {"metadata": {"labels": {"new": "yes"}}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", {"spec": spec})

        await run.until(
            lambda: (
                not before & {node["metadata"]["uid"] for node in run.nodes}
                and len(run.running) == 3
            ),
            seconds=1200,
        )
        assert {"yes"} == {node["metadata"]["labels"]["new"] for node in run.nodes}
        await run.until(lambda: len(run.claims) == len(run.nodes))
        assert len(run.claims) == await instances(run)


@pytest.mark.storm
@pytest.mark.row("S0-12")
@EVERY_PROVIDER
@pytest.mark.parametrize("kind", ["Node", "NodeClaim"])
@in_virtual_time
async def test_what_is_deleted_by_hand_goes_and_its_pods_run_elsewhere(bed: Bed, kind: str) -> None:
    async with bed(**QUICK) as run:
        await grown(run, 1)
        (node,) = run.nodes
        (claim,) = run.claims
        gone = node["metadata"]["uid"]
        target, version = (node, "v1") if kind == "Node" else (claim, V1)
        await run.client.delete(version, kind, None, target["metadata"]["name"])

        await run.until(lambda: gone not in {each["metadata"]["uid"] for each in run.nodes})
        await run.until(lambda: len(run.running) == 1 == len(run.claims) == len(run.nodes))
        assert 1 == await instances(run)
