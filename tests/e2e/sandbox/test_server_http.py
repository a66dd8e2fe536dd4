"""The API over real HTTP on loopback: tokens, limits, streams, and many clients at once."""

import asyncio
import io
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import yaml

from helpers.server import Cluster, cluster, config_map
from karpenter_sandbox.server.http import (
    Server,
    UnsafeAddressError,
    kubeconfig,
    new_token,
    serving,
    write_kubeconfig,
)

MAPS = "/api/v1/namespaces/default/configmaps"
TOKEN = "open/sesame"


def basic(password: str) -> str:
    return aiohttp.encode_basic_auth("anybody", password)


@pytest.fixture
def world() -> Cluster:
    return cluster()


@pytest.fixture
async def server(world: Cluster) -> AsyncIterator[Server]:
    async with serving(Server(world.api, token=TOKEN)) as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    base = f"http://127.0.0.1:{server.port}"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(base, headers=headers, connector=connector) as session:
        yield session


class TestTokens:
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer "},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": TOKEN},
            {"Proxy-Authorization": f"Basic {TOKEN}"},
            {"Proxy-Authorization": basic("wrong")},
            {"Proxy-Authorization": f"Bearer {TOKEN}"},
            {"Authorization": basic(TOKEN)},
        ],
    )
    async def test_without_the_token_nothing_is_told(
        self, server: Server, headers: dict[str, str]
    ) -> None:
        base = f"http://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession(base) as session:
            answer = await session.get(MAPS, headers=headers)
            body = await answer.json()

        assert (401, "Unauthorized") == (answer.status, body["reason"])

    async def test_with_it_everything_is(self, client: aiohttp.ClientSession) -> None:
        assert 200 == (await client.get(MAPS)).status

    async def test_it_may_stand_in_the_path(self, server: Server) -> None:
        async with aiohttp.ClientSession() as session:
            right = await session.get(f"{server.url}{MAPS}")
            wrong = await session.get(f"http://127.0.0.1:{server.port}/nonsense{MAPS}")

        assert (200, 401) == (right.status, wrong.status)

    async def test_it_may_be_the_password_of_a_proxy(self, server: Server) -> None:
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"http://nobody.invalid{MAPS}", proxy=server.proxy_url)
            body = await answer.json()

        assert (200, "ConfigMapList") == (answer.status, body["kind"])

    @pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
    async def test_whether_it_lives_is_no_secret(self, server: Server, path: str) -> None:
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"http://127.0.0.1:{server.port}{path}")

        assert 200 == answer.status

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
    def test_an_open_address_needs_a_token(self, world: Cluster, host: str) -> None:
        with pytest.raises(UnsafeAddressError, match="opens the cluster to the network"):
            Server(world.api, host=host)

        assert Server(world.api, host=host, token=new_token()).token

    def test_tokens_differ(self) -> None:
        assert new_token() != new_token()


class TestKubeconfig:
    async def test_it_leads_to_the_server(self, server: Server) -> None:
        content = yaml.safe_load(kubeconfig(server))
        url = content["clusters"][0]["cluster"]["server"]

        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{url}/api/v1/namespaces")

        assert 200 == answer.status

    def test_only_its_owner_can_read_it(self, world: Cluster, tmp_path: Path) -> None:
        path = tmp_path / "config"

        write_kubeconfig(Server(world.api, port=8443, token=TOKEN), path)

        assert "http://127.0.0.1:8443/open%2Fsesame" in path.read_text()
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        assert ["config"] == [entry.name for entry in tmp_path.iterdir()]

    async def test_without_a_token_there_is_no_user(self, world: Cluster) -> None:
        async with serving(Server(world.api)) as running:
            content = yaml.safe_load(kubeconfig(running))

        assert {} == content["users"][0]["user"]
        assert f"http://127.0.0.1:{running.port}" == content["clusters"][0]["cluster"]["server"]


class TestRequests:
    async def test_an_object_goes_in_and_comes_out(self, client: aiohttp.ClientSession) -> None:
        created = await client.post(MAPS, json=config_map(a="1"))
        read = await client.get(f"{MAPS}/settings")

        assert (201, 200) == (created.status, read.status)
        assert await created.json() == await read.json()

    async def test_too_large_bodies_are_refused(self, client: aiohttp.ClientSession) -> None:
        answer = await client.post(MAPS, data=io.BytesIO(b"x" * (4 * 1024 * 1024)))
        body = await answer.json()

        assert (413, "RequestEntityTooLarge") == (answer.status, body["reason"])

    async def test_also_when_their_length_is_not_told(self, client: aiohttp.ClientSession) -> None:
        async def endless() -> AsyncIterator[bytes]:
            for _ in range(64):
                yield b"x" * 65536

        answer = await client.post(MAPS, data=endless())

        assert 413 == answer.status

    async def test_selectors_survive_the_query_string(self, client: aiohttp.ClientSession) -> None:
        made = config_map()
        made["metadata"]["labels"] = {"tier": "web"}
        await client.post(MAPS, json=made)

        answer = await client.get(MAPS, params={"labelSelector": "tier in (web,db)"})

        assert 1 == len((await answer.json())["items"])

    async def test_a_refusal_to_try_again_later_says_when(
        self, client: aiohttp.ClientSession
    ) -> None:
        answer = await client.get(MAPS, params={"resourceVersion": "999"})

        assert (504, "1") == (answer.status, answer.headers["Retry-After"])


class TestWatches:
    async def test_changes_arrive_line_by_line(self, client: aiohttp.ClientSession) -> None:
        async with client.get(MAPS, params={"watch": "1"}) as stream:
            await client.post(MAPS, json=config_map("a"))
            await client.delete(f"{MAPS}/a")
            events = [json.loads(await stream.content.readline()) for _ in range(2)]

        assert ["ADDED", "DELETED"] == [event["type"] for event in events]

    async def test_headers_come_before_the_first_change(
        self, client: aiohttp.ClientSession
    ) -> None:
        async with asyncio.timeout(5), client.get(MAPS, params={"watch": "1"}) as stream:
            assert 200 == stream.status

    async def test_a_client_that_goes_away_leaves_nothing_behind(
        self, client: aiohttp.ClientSession, world: Cluster
    ) -> None:
        waiting = world.store.collection("", "configmaps")._waiting
        streams = [await client.get(MAPS, params={"watch": "1"}) for _ in range(20)]
        await _until(lambda: len(waiting) == 20)

        for stream in streams:
            stream.close()

        await _until(lambda: not waiting)

    async def test_a_thousand_watches_at_once(
        self, client: aiohttp.ClientSession, world: Cluster
    ) -> None:
        streams = await asyncio.gather(
            *(client.get(MAPS, params={"watch": "1"}) for _ in range(1000))
        )

        await client.post(MAPS, json=config_map("a"))
        lines = await asyncio.gather(*(stream.content.readline() for stream in streams))

        assert {"ADDED"} == {json.loads(line)["type"] for line in lines}
        for stream in streams:
            stream.close()
        await _until(lambda: not world.store.collection("", "configmaps")._waiting)

    async def test_stopping_the_server_ends_them(self, world: Cluster) -> None:
        running = Server(world.api)
        await running.start()
        async with aiohttp.ClientSession() as session:
            stream = await session.get(f"{running.url}{MAPS}", params={"watch": "1"})

            async with asyncio.timeout(10):
                await running.stop()

            with pytest.raises(aiohttp.ClientError):
                await session.get(f"{running.url}{MAPS}")
            stream.close()


async def _until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens a moment later."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 nobody tells when a connection is noticed as lost
            await asyncio.sleep(0.005)
