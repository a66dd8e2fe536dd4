"""The routes as a client on the same machine has them, over real connections."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import aiohttp
import jsonschema_rs
import msgspec
import pytest

from helpers.builders import pod, pods
from helpers.dashboard import IDENTITY, Page, StillScene
from karpenter.api.codec import convert
from karpenter.clock import SystemClock
from karpenter.dashboard.answers.answers import Answers, Origin
from karpenter.dashboard.assets import Asset, Assets
from karpenter.dashboard.contract import View, WhatIfAnswer, WhatIfRequest
from karpenter.dashboard.feed import MOST_CLIENTS, Feed
from karpenter.dashboard.history import History
from karpenter.dashboard.questions import BusyError, UnknownObjectError
from karpenter.dashboard.server.serving import Address, Place, ServingError, serving
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome

PAGE = Assets(
    "0123456789ab",
    Asset("text/html; charset=utf-8", b"<!doctype html>"),
    {"app.js": Asset("text/javascript; charset=utf-8", b"// the page\n" * 200)},
)
JSON = {"Content-Type": "application/json"}
ROUTES = (
    "/",
    "/healthz",
    f"/assets/{PAGE.hash}/app.js",
    "/api/v1/view",
    "/api/v1/stream",
    "/api/v1/decisions",
    "/api/v1/costs",
    "/api/v1/plan",
    "/api/v1/explain/pod/default/web",
    "/api/v1/explain/node/a",
    "/api/v1/explain/nodepool/a",
    "/api/v1/schema",
    "/api/v1/about",
)


class Home:
    """What the sandbox knows."""

    prices = settings_from = leader = ""
    unread = ()
    settings = None


class Asked(Answers):
    """Questions that are answered by what was asked."""

    def __init__(self, view: Callable[[], Awaitable[View]]) -> None:
        self.log = DecisionLog(epoch="e")
        origin = Origin("sandbox", "kwok")
        super().__init__(origin, Home(), view, self.log, SystemClock(), None)

    async def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        if name == "unknown":
            raise UnknownObjectError(f"there is no {kind} {name}")
        return {"kind": kind, "namespace": namespace, "name": name}

    async def plan(self) -> dict[str, Any]:
        raise BusyError("others were first", retry_after=2.4)

    async def what_if(self, request: WhatIfRequest) -> WhatIfAnswer:
        raise UnknownObjectError(msgspec.json.encode(request).decode())


@dataclass(slots=True)
class Served:
    """A dashboard, and a client of it."""

    scene: StillScene
    feed: Feed
    answers: Asked
    address: Address
    client: aiohttp.ClientSession
    streams: list[aiohttp.ClientResponse] = field(default_factory=list)

    async def get(self, path: str, method: str = "GET", **more: Any) -> aiohttp.ClientResponse:
        headers = {"Karpenter-Token": self.address.token, **more.pop("headers", {})}
        answer = await self.client.request(
            method, self.address.page[:-1] + path, headers=headers, **more
        )
        if answer.content_type != "text/event-stream":
            await answer.read()  # which gives the connection back
        else:
            self.streams.append(answer)
        return answer


@asynccontextmanager
async def served(*names: str) -> AsyncIterator[Served]:
    scene, clock = StillScene(*map(pod, names)), SystemClock()
    history = History()
    feed = Feed(scene, IDENTITY, clock, recorder=history)

    async def view() -> View:
        return (await feed.view()).view

    answers = Asked(view)
    async with (
        serving(feed, answers, PAGE, Place(), clock, history=history) as address,
        aiohttp.ClientSession(auto_decompress=False) as client,
    ):
        here = Served(scene, feed, answers, address, client)
        yield here
        for stream in here.streams:
            stream.close()


async def read_stream(response: aiohttp.ClientResponse, page: Page, until: str) -> None:
    """Read events until one of a kind has come."""
    async with asyncio.timeout(20):
        while until not in page.kinds:
            frame = await response.content.readuntil(b"\n\n")
            page.read(frame)


async def test_the_page_its_files_and_health_need_no_token() -> None:
    async with served() as here:
        index = await here.client.get(here.address.page)
        file = await here.client.get(f"{here.address.page}assets/{PAGE.hash}/app.js")
        health = await here.client.get(f"{here.address.page}healthz")
        other = await here.client.get(f"{here.address.page}assets/ffffffffffff/app.js")

        assert (200, "no-cache") == (index.status, index.headers["Cache-Control"])
        assert "immutable" in file.headers["Cache-Control"]
        assert PAGE.files["app.js"].body == gzip.decompress(await file.read())
        assert (200, b"ok") == (health.status, await health.read())
        assert 404 == other.status
        assert "default-src 'none'" in index.headers["Content-Security-Policy"]


async def test_the_address_has_the_token_in_its_fragment() -> None:
    async with served() as here:
        assert here.address.url == f"{here.address.page}#token={here.address.token}"
        assert here.address.page == f"http://127.0.0.1:{here.address.port}/"


async def test_a_view_is_sent_once() -> None:
    async with served("web") as here:
        first = await here.get("/api/v1/view", headers={"Accept-Encoding": "identity"})
        small = await here.get("/api/v1/view", headers={"Accept-Encoding": "gzip"})
        again = await here.get("/api/v1/view", headers={"If-None-Match": first.headers["ETag"]})
        body = await first.read()
        view = msgspec.json.decode(body, type=View)

        assert ["web"] == view.pods.name
        assert f'"{view.epoch}-{view.seq}"' == first.headers["ETag"]
        assert body == gzip.decompress(await small.read())
        assert 304 == again.status
        assert b"" == await again.read()

        here.scene.put(pod("late"))
        changed = await here.get("/api/v1/view", headers={"If-None-Match": first.headers["ETag"]})
        async with asyncio.timeout(20):
            while changed.status == 304:  # a view may be a quarter of a second old
                changed = await here.get(
                    "/api/v1/view", headers={"If-None-Match": first.headers["ETag"]}
                )
        assert 200 == changed.status


async def test_the_stream_brings_changes_and_decisions() -> None:
    async with served("web") as here:
        fetched = await here.get("/api/v1/view", headers={"Accept-Encoding": "identity"})
        page = Page(msgspec.json.decode(await fetched.read(), type=View))
        stream = await here.get(f"/api/v1/stream?since={page.view.epoch}-{page.view.seq}")
        await read_stream(stream, page, "hello")
        here.scene.put(pod("late"))
        await read_stream(stream, page, "delta")
        here.feed.tell("decision", b'{"id":"e-1"}')
        await read_stream(stream, page, "decision")
        stream.close()

        assert {"web", "late"} == set(page.view.pods.name)
        assert {"id": "e-1"} == page.events[-1][1]
        assert page.events[0][1]["release"] == "1.2.3"
        assert page.events[0][1]["assets"] == PAGE.hash
        assert "no" == stream.headers["X-Accel-Buffering"]
        assert "text/event-stream" in stream.headers["Content-Type"]


@pytest.mark.case("DASH-9")
async def test_the_thirty_third_stream_is_refused_and_may_come_later() -> None:
    async with served() as here:
        streams = [await here.get("/api/v1/stream") for _ in range(MOST_CLIENTS)]
        late = await here.get("/api/v1/stream")

        assert {200} == {each.status for each in streams}
        assert 503 == late.status
        assert int(late.headers["Retry-After"]) > 0
        streams[0].close()
        async with asyncio.timeout(20):
            while late.status == 503:  # until the server has noticed
                late = await here.get("/api/v1/stream")
        assert 200 == late.status


@pytest.mark.case("DASH-29")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST", "OPTIONS"])
async def test_routes_that_are_read_are_not_written(method: str) -> None:
    async with served() as here:
        for path in ROUTES:
            answer = await here.get(path, method, headers=JSON)

            assert 405 == answer.status, path
            assert "GET" == answer.headers["Allow"]
            assert set(await answer.json()) == {"error", "problems"}
        asked = await here.get("/api/v1/what-if", "GET")
        assert (405, "POST") == (asked.status, asked.headers["Allow"])


@pytest.mark.case("DASH-29")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST", "HEAD"])
async def test_there_is_nothing_at_other_paths(method: str) -> None:
    async with served() as here:
        for path in (
            "/index.html",
            "/metrics",
            "/assets/",
            "/api/v1",
            "/api/v1/explain/pod/web",
            "/api/v1/explain/secret/default/web",
            "/api/v2/view",
        ):
            assert 404 == (await here.get(path, method, headers=JSON)).status, path


@pytest.mark.case("DASH-26")
async def test_requests_from_elsewhere_reach_no_route() -> None:
    async with served() as here:
        foreign = await here.get("/api/v1/view", headers={"Host": "evil.example"})
        other = await here.get("/api/v1/view", headers={"Origin": "http://evil.example"})
        crossing = await here.get("/api/v1/view", headers={"Sec-Fetch-Site": "cross-site"})
        bare = await here.client.get(f"{here.address.page}x/..%2fapi/v1/view")

        assert [421, 403, 403, 401] == [each.status for each in (foreign, other, crossing, bare)]
        assert 0 == here.feed.clients


async def test_questions_are_passed_on_and_refusals_come_back() -> None:
    async with served() as here:
        pod_answer = await here.get("/api/v1/explain/pod/shop/web", headers={"Accept-Encoding": ""})
        unknown = await here.get("/api/v1/explain/node/unknown")
        busy = await here.get("/api/v1/plan")

        assert {"kind": "pod", "namespace": "shop", "name": "web"} == await pod_answer.json()
        assert (404, "there is no node unknown") == (
            unknown.status,
            (await unknown.json())["error"],
        )
        assert (429, "2") == (busy.status, busy.headers["Retry-After"])


async def test_decisions_are_paged_and_filtered() -> None:
    async with served() as here:
        log = here.answers.log
        now = (await here.scene.picture()).now
        for number in range(5):
            pools = ("a",) if number % 2 else ("b",)
            draft = Draft(Kind.LAUNCH, Outcome.DONE, "Launched", f"node {number}", node_pools=pools)
            log.add(now, draft)
        first = await (await here.get("/api/v1/decisions?limit=2")).json()
        rest = await (await here.get(f"/api/v1/decisions?before={first['before']}")).json()
        of_pool = await (
            await here.get("/api/v1/decisions?nodePool=a&text=NODE&kind=Launch")
        ).json()
        too_many = await here.get("/api/v1/decisions?limit=201")

        assert ["node 4", "node 3"] == [each["text"] for each in first["records"]]
        assert ["node 2", "node 1", "node 0"] == [each["text"] for each in rest["records"]]
        assert rest["before"] is None
        assert ["node 3", "node 1"] == [each["text"] for each in of_pool["records"]]
        assert 400 == too_many.status


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(b'{"drain": ["a"]}', 404, '"drain":["a"]', id="passed on"),
        pytest.param(b'{"drian": ["a"]}', 400, "drian", id="unknown field"),
        pytest.param(b"{", 400, "no JSON", id="no JSON"),
        pytest.param(b'{"drain": ["' + b"a" * 1_150_000 + b'"]}', 413, "larger", id="1.1 MiB"),
    ],
)
async def test_a_what_if_is_read_or_refused(body: bytes, status: int, said: str) -> None:
    async with served() as here:
        answer = await here.get("/api/v1/what-if", "POST", data=BytesIO(body), headers=JSON)

        assert status == answer.status
        assert said in (await answer.json())["error"].replace("\\", "")


async def test_a_what_if_may_be_yaml() -> None:
    async with served() as here:
        answer = await here.get(
            "/api/v1/what-if",
            "POST",
            data=b"kind: Pod\n",
            headers={"Content-Type": "application/yaml"},
        )
        assert "kind: Pod" in (await answer.json())["error"]


async def test_too_many_questions_at_once_are_refused() -> None:
    async with served() as here:
        asked = [await here.get("/api/v1/decisions") for _ in range(60)]
        statuses = [each.status for each in asked]

        assert 200 == statuses[0]
        assert 429 in statuses
        assert "Retry-After" in next(each for each in asked if each.status == 429).headers


PLANTED = "hunter2"
WIRE = (
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "annotations": {"a": PLANTED}},
        "spec": {
            "nodeName": "a",
            "containers": [
                {
                    "name": "c",
                    "image": PLANTED,
                    "args": [PLANTED],
                    "command": [PLANTED],
                    "env": [{"name": "PASSWORD", "value": PLANTED}],
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": PLANTED}}],
        },
        "status": {"phase": "Running", "podIP": PLANTED, "hostIP": PLANTED},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "a",
            "uid": "2",
            "annotations": {"a": PLANTED},
            "labels": {"own": PLANTED},
        },
        "spec": {"providerID": PLANTED},
        "status": {"addresses": [{"type": "InternalIP", "address": PLANTED}]},
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "shop", "uid": "3"},
        "data": {"a": PLANTED},
    },
)


@pytest.mark.case("DASH-31")
async def test_every_answer_is_by_the_schema_and_tells_no_secret() -> None:
    async with served() as here:
        stream = await here.get("/api/v1/stream")
        page = Page((await here.feed.view()).view)
        here.scene.put(*map(convert, WIRE))
        now = (await here.scene.picture()).now
        here.answers.log.add(now, Draft(Kind.LAUNCH, Outcome.DONE, "Launched", "a node"))
        await read_stream(stream, page, "delta")
        schema = await (await here.get("/api/v1/schema")).json()
        paths = {
            "View": "view",
            "About": "about",
            "Records": "decisions",
            "Refusal": "plan",
        }
        plain = {"Accept-Encoding": "identity"}
        answers = {
            name: await (await here.get(f"/api/v1/{path}", headers=plain)).read()
            for name, path in paths.items()
        }
        answers |= {name.capitalize(): msgspec.json.encode(body) for name, body in page.events}

        assert {"Hello", "Delta", *paths} == set(answers)
        assert ["web"] == page.view.pods.name
        for name, body in answers.items():
            problems = jsonschema_rs.validator_for(
                {**schema, "$ref": f"#/$defs/{name}"}
            ).iter_errors(msgspec.json.decode(body))
            assert [] == [each.message for each in problems], name
            assert PLANTED.encode() not in body, name
        (record,) = msgspec.json.decode(answers["Records"])["records"]
        assert jsonschema_rs.is_valid(schema["$defs"]["decision"], record)


async def test_the_past_can_be_asked_for_while_it_is_kept() -> None:
    async with served("web") as here:
        now = await (await here.get("/api/v1/view", headers={"Accept-Encoding": "identity"})).json()
        then = await here.get("/api/v1/view", params={"at": now["at"]})
        early = await here.get("/api/v1/view?at=2020-01-01T00:00:00Z")
        wrong = await here.get("/api/v1/view?at=yesterday")
        about = await (await here.get("/api/v1/about")).json()

        assert {**now, "isLive": False} == await then.json()
        assert (404, 400) == (early.status, wrong.status)
        assert "2026-11-16T20:15:09Z" in (await wrong.json())["error"]
        assert now["at"] == about["history"]["since"]


async def test_about_knows_the_clients() -> None:
    async with served() as here:
        stream = await here.get("/api/v1/stream")
        about = await (await here.get("/api/v1/about")).json()
        stream.close()

        assert 1 == about["clients"]


async def test_a_failing_route_says_so_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as here:

        async def broken() -> None:
            raise ValueError("a secret")

        monkeypatch.setattr(here.answers, "plan", broken)
        answer = await here.get("/api/v1/plan")

        assert 500 == answer.status
        assert "a secret" not in await answer.text()


async def test_a_taken_port_is_one_sentence_or_the_next_one() -> None:
    async with served() as here:
        place = Place(port=here.address.port, option="--dashboard-port")
        clock = SystemClock()
        with pytest.raises(ServingError, match="is taken; choose another with --dashboard-port"):
            async with serving(here.feed, here.answers, PAGE, place, clock):
                pass
        other = Feed(StillScene(), IDENTITY, clock)
        async with serving(
            other, here.answers, PAGE, replace(place, takes_next=True), clock
        ) as address:
            assert address.port > here.address.port


async def test_a_large_view_is_small_on_the_wire() -> None:
    async with served() as here:
        here.scene.put(*pods(2000))
        small = await here.get("/api/v1/view", headers={"Accept-Encoding": "gzip"})
        body = await small.read()

        assert len(body) < len(gzip.decompress(body)) / 2
