"""What a process was told is sold out stands on the node classes, for as long as it is true."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from tempfile import NamedTemporaryFile

import structlog

from helpers.clusters import in_virtual_time
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.cloud.kwok.faults import (
    SOLD_OUT,
    SOLD_OUT_EVERYWHERE,
    declared_sold_out,
    parse_patterns,
)
from karpenter.cloud.kwok.provider import INSTANCE_TYPES, KwokProvider, make_provider
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Response
from karpenter.settings import Settings
from unit.cloud.kwok.kwok_cloud import KwokCloud, kwok_cloud


def told(
    cloud: KwokCloud, sold_out: str, kube: Client | None = None, **environment: str
) -> KwokProvider:
    environment |= {"KWOK_SOLD_OUT": sold_out} if sold_out else {}
    context = ProviderContext(
        kube or cloud.kube, cloud.clock, Settings(), environment, random.Random(1)
    )
    return make_provider(context)


@asynccontextmanager
async def leading(provider: KwokProvider) -> AsyncIterator[None]:
    task = asyncio.ensure_future(provider.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def notices(cloud: KwokCloud) -> Mapping[str, str | None]:
    return {
        each.metadata.name: each.metadata.annotations.get(SOLD_OUT_EVERYWHERE)
        for each in await cloud.kube.list(KWOKNodeClass)
    }


@in_virtual_time
async def test_every_node_class_bears_it_also_one_that_comes_later() -> None:
    patterns = " */*/spot, c-2x-*/*/* ,"
    async with kwok_cloud(is_leading=False) as cloud, leading(told(cloud, patterns)):
        await cloud.settle()
        first = await notices(cloud)
        await cloud.kube.create(KWOKNodeClass, {"metadata": {"name": "later"}, "spec": {}})
        await cloud.settle()

        both = await notices(cloud)

    assert {"default": "*/*/spot,c-2x-*/*/*"} == first
    assert dict.fromkeys(("default", "later"), "*/*/spot,c-2x-*/*/*") == both


@in_virtual_time
async def test_whoever_is_told_something_else_or_nothing_corrects_it() -> None:
    async with kwok_cloud(is_leading=False) as cloud:
        found = []
        for sold_out in ("*/*/spot", "*/test-zone-a/*", ""):
            async with leading(told(cloud, sold_out)):
                await cloud.settle()
                found.append((await notices(cloud))["default"])

    assert ["*/*/spot", "*/test-zone-a/*", None] == found


@in_virtual_time
async def test_somebody_who_takes_it_off_has_it_back() -> None:
    async with (
        kwok_cloud(is_leading=False) as cloud,
        leading(told(cloud, "*/*/spot")),
    ):
        await cloud.settle()
        await cloud.set_node_class(metadata={"annotations": {SOLD_OUT_EVERYWHERE: None}})
        taken_off = await notices(cloud)
        await cloud.settle()

        assert ({"default": None}, {"default": "*/*/spot"}) == (taken_off, await notices(cloud))


@in_virtual_time
async def test_nothing_is_written_where_nothing_is_said() -> None:
    async with kwok_cloud(is_leading=False) as cloud, leading(told(cloud, "")):
        await cloud.clock.sleep(600)

        assert [] == [each for each in cloud.transport.requests if each.startswith("PATCH")]


@in_virtual_time
async def test_a_launch_goes_by_what_the_process_was_told_not_by_what_another_left() -> None:
    async with kwok_cloud(is_leading=False) as cloud:
        await cloud.set_node_class(metadata={"annotations": {SOLD_OUT_EVERYWHERE: "*/*/*"}})
        provider = told(cloud, "")

        assert (await provider.create(await cloud.claim())).provider_id


@in_virtual_time
async def test_a_file_of_machines_is_named_and_who_does_not_have_it_is_told() -> None:
    with NamedTemporaryFile() as file:
        kind = {"name": "odd", "architecture": "amd64", "operatingSystems": ["linux"]}
        offering = {"Price": 1, "Requirements": [], "zone": "z", "capacityType": "spot"}
        sizes = {"cpu": "4", "memory": "8Gi"}
        file.write(json.dumps([{**kind, "resources": sizes, "offerings": [offering]}]).encode())
        file.flush()
        async with kwok_cloud(is_leading=False) as cloud:
            plain = told(cloud, "")
            with_file = told(cloud, "", INSTANCE_TYPES_FILE_PATH=file.name)
            async with leading(with_file):
                await cloud.settle()
                classes = await cloud.kube.list(KWOKNodeClass)
            async with leading(plain):
                await cloud.settle()
                later = await cloud.kube.list(KWOKNodeClass)

    assert [file.name] == [each.metadata.annotations[INSTANCE_TYPES] for each in classes]
    assert f"the machines of {file.name}, and" in plain.catalogue_difference(classes)
    assert ("", "") == (with_file.catalogue_difference(classes), plain.catalogue_difference(later))


def test_who_only_plans_reads_both_annotations() -> None:
    annotations = {SOLD_OUT: "a/*/*", SOLD_OUT_EVERYWHERE: "b/*/*,c/*/*"}

    assert parse_patterns("a/*/*,b/*/*,c/*/*") == declared_sold_out(annotations, "default")


class Refusing:
    """An API server that lets nobody change node classes, until it does."""

    def __init__(self, cloud: KwokCloud) -> None:
        self._inner = cloud.transport
        self.stream = cloud.transport.stream
        self.close = cloud.transport.close
        self.is_strict = True
        self.refused = 0

    async def send(self, request: Request) -> Response:
        if request.method == "PATCH" and self.is_strict:
            self.refused += 1
            message = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no patch"}'
            return Response(403, message)
        return await self._inner.send(request)


@in_virtual_time
async def test_a_refusal_is_said_once_and_it_is_tried_again() -> None:
    async with kwok_cloud(is_leading=False) as cloud:
        transport = Refusing(cloud)
        kube = Client(transport, cloud.clock)
        with structlog.testing.capture_logs() as lines:
            async with leading(told(cloud, "*/*/spot", kube)):
                await cloud.clock.sleep(200)
                refused, transport.is_strict = transport.refused, False
                await cloud.clock.sleep(60)

                written = await notices(cloud)

    assert refused > 1
    assert {"default": "*/*/spot"} == written
    (line,) = [line for line in lines if "annotations for plan" in line["event"]]
    assert line["error"].startswith("KWOKNodeClass default: ")
    assert "no patch" in line["error"]
