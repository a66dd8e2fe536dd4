"""One object that does harm costs the others nothing: it is named, counted, and tried again."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

import chart_values
from helpers.clusters import in_virtual_time, running
from helpers.helm import MAIN
from helpers.rewritten_answers import Rewriting
from helpers.server import config_map
from karpenter.api.cluster import ConfigMap
from karpenter.api.devices import ResourceSlice
from karpenter.api.nodes import Node
from karpenter.clock import Clock, running_clock
from karpenter.controllers.mirrors import chart_value_for, kinds_to_follow, role_for
from karpenter.kube.client import Client
from karpenter.kube.errors import UnreadableAnswerError
from karpenter.kube.guard import MOST_NAMED, Guard
from karpenter.kube.kinds import resource_of
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector
from karpenter.kube.transport import Request
from karpenter.settings import Settings, parse_gates
from karpenter_sandbox.server.transport import MemoryTransport
from unit.kube.flaky import Break, FlakyCluster, FlakyTransport, Refusal
from unit.kube.test_kube_mirror import node

HARMLESS = "stands-for-harm"


class Counting:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.aside: set[tuple[str, str, str]] = set()
        self.failures: list[str] = []

    def set_aside(self, kind: str, namespace: str, name: str, *, is_aside: bool) -> None:
        (self.aside.add if is_aside else self.aside.discard)((kind, namespace, name))

    def handler_failed(self, kind: str) -> None:
        self.failures.append(kind)


class Following:
    """A reflector of a cluster some of whose ConfigMaps cannot be read."""

    def __init__(self) -> None:
        self.cluster = FlakyCluster()
        harm = {f'"{HARMLESS}"': "7"}
        transport = Rewriting(MemoryTransport(self.cluster.api), harm)
        self.transport = FlakyTransport(transport, self.cluster.clock)
        self.kube = Client(self.transport, self.cluster.clock)
        self.seen = Counting()
        self.mirror = Mirror(ConfigMap, Guard(self.cluster.clock, self.seen))
        self.reflector = Reflector(
            self.kube,
            ConfigMap,
            self.mirror,
            self.cluster.clock,
            rng=random.Random(5),
            observer=self.seen,
        )

    @property
    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.mirror.list())

    async def create(self, *names: str, is_bad: bool = False) -> None:
        for name in names:
            obj = config_map(name)
            if is_bad:
                obj["data"] = {"key": HARMLESS}
            await self.cluster.direct.create(obj)

    async def change(self, name: str, value: str) -> None:
        body = {"data": {"key": value}}
        await self.cluster.direct.patch("merge", "v1", "ConfigMap", "default", name, body)

    async def pass_time(self, seconds: float = 0.1) -> None:
        await self.cluster.clock.sleep(seconds)


@asynccontextmanager
async def following(*bad: str) -> AsyncIterator[Following]:
    made = Following()
    await made.cluster.begin()
    await made.create("a", "b")
    await made.create(*bad, is_bad=True)
    async with running(made.reflector.run()):
        await made.pass_time()
        yield made


def aside(*names: str) -> set[tuple[str, str, str]]:
    return {("ConfigMap", "default", name) for name in names}


@in_virtual_time
async def test_a_list_with_an_object_that_cannot_be_read_is_taken_in_without_it() -> None:
    with capture_logs() as lines:
        async with following("bad") as it:
            await it.create("c")
            await it.pass_time(1000)

            assert it.mirror.is_synced
            assert ["a", "b", "c"] == it.names
            assert aside("bad") == it.seen.aside
    told = [line for line in lines if line["event"] == "object set aside"]
    assert ["bad"] == [line["name"] for line in told]
    assert "data[key]: expected a string" in told[0]["error"] or "data.key" in told[0]["error"]


@in_virtual_time
async def test_an_object_that_can_no_longer_be_read_stays_as_it_was_known() -> None:
    async with following() as it:
        await it.change("a", HARMLESS)
        await it.create("c")
        await it.pass_time()
        it.transport.break_watches(Break.GONE)  # a new list has it no more than the watch had
        await it.pass_time(60)
        known = it.mirror.get("a", "default")

        assert ["a", "b", "c"] == it.names
        assert known is not None
        assert "key" not in known.data
        assert aside("a") == it.seen.aside


@in_virtual_time
async def test_an_object_that_is_mended_is_taken_in() -> None:
    async with following("bad") as it:
        await it.change("bad", "good")
        await it.pass_time()

        assert ["a", "b", "bad"] == it.names
        assert set() == it.seen.aside


@pytest.mark.parametrize("how", ["in a watch", "between lists"])
def test_an_object_that_cannot_be_read_and_is_deleted_is_gone(how: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with following("bad") as it:
            await it.change("a", HARMLESS)
            await it.pass_time()
            if how == "between lists":
                it.transport.is_cut = True
                it.transport.break_watches(Break.GONE)
            for name in ("a", "bad"):
                await it.cluster.direct.delete("v1", "ConfigMap", "default", name)
            await it.pass_time(10)
            it.transport.is_cut = False
            await it.pass_time(60)

            assert ["b"] == it.names
            assert set() == it.seen.aside

    scenario()


@in_virtual_time
async def test_no_more_objects_are_named_than_somebody_reads() -> None:
    bad = [f"bad-{number:03}" for number in range(MOST_NAMED + 20)]
    with capture_logs() as lines:
        async with following(*bad) as it:
            assert ["a", "b"] == it.names
            assert MOST_NAMED == len(it.seen.aside)
    told = [line["event"] for line in lines if line["log_level"] == "error"]
    assert MOST_NAMED == told.count("object set aside")
    assert 1 == told.count("further objects are set aside unnamed")


@in_virtual_time
async def test_whoever_asks_for_all_objects_is_not_told_of_some() -> None:
    async with following("bad") as it:
        with pytest.raises(UnreadableAnswerError, match="configmaps/bad cannot be read"):
            await it.kube.list(ConfigMap)


@in_virtual_time
async def test_what_nobody_foresaw_is_followed_by_a_new_list() -> None:
    async with following() as it:
        taken = it.mirror.put
        it.mirror.put = _failing(taken, times=3)  # type: ignore[method-assign]
        with capture_logs() as lines:
            await it.create("c")
            await it.pass_time(60)
        await it.create("d")
        await it.pass_time()

        assert ["a", "b", "c", "d"] == it.names
        assert ["watch failed"] == [x["event"] for x in lines if x["log_level"] == "error"]


def _failing(work: Callable[..., Any], times: int) -> Callable[..., Any]:
    left = [times]

    def fail(*args: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise RecursionError("too deep")
        return work(*args)

    return fail


class Follower:
    """Follows a mirror and raises about some objects."""

    def __init__(self, *hated: str) -> None:
        self.hated = set(hated)
        self.told: list[tuple[str, str]] = []

    def __call__(self, old: Any, new: Any) -> None:
        name = (new or old).metadata.name
        if name in self.hated:
            raise KeyError(name)
        versions = [each.metadata.resource_version if each else "-" for each in (old, new)]
        self.told.append((name, ">".join(versions)))


def guarded(clock: Clock) -> tuple[Mirror[Any], Counting]:
    counting = Counting()
    return Mirror(Node, Guard(clock, counting)), counting


@in_virtual_time
async def test_a_follower_that_raises_is_told_again_and_the_others_are_told_at_once() -> None:
    mirror, counting = guarded(running_clock())
    mirror.put(node("x"))
    first, second = Follower("x"), Follower()
    mirror.on_change(first)
    mirror.on_change(second)
    mirror.put(node("y"))

    at_once = (list(first.told), list(second.told))
    first.hated.clear()
    await running_clock().sleep(2)

    assert ([("y", "->1")], [("x", "->1"), ("y", "->1")]) == at_once
    assert [("y", "->1"), ("x", "->1")] == first.told
    # Who was told at once may have looked at what the first one did not know yet
    assert [("x", "->1"), ("y", "->1"), ("x", "1>1")] == second.told
    assert ["Node"] == counting.failures


@in_virtual_time
async def test_a_follower_is_told_from_what_it_knows() -> None:
    mirror, _ = guarded(running_clock())
    it = Follower("x")
    mirror.on_change(it)
    mirror.put(node("x", version=1))
    mirror.put(node("x", version=2))
    it.hated.clear()
    mirror.put(node("x", version=3))
    it.hated.add("x")
    mirror.put(node("x", version=4))
    mirror.put(node("x", version=5))
    it.hated.clear()
    await running_clock().sleep(1000)

    assert [("x", "->3"), ("x", "3>5")] == it.told


@in_virtual_time
async def test_what_came_and_went_unseen_is_not_told_of() -> None:
    mirror, _ = guarded(running_clock())
    it = Follower("x")
    mirror.on_change(it)
    mirror.put(node("x"))
    it.hated.clear()
    mirror.drop(node("x"))
    await running_clock().sleep(1000)

    assert [] == it.told


@in_virtual_time
async def test_a_removal_that_a_follower_raised_about_is_told_again() -> None:
    mirror, _ = guarded(running_clock())
    it = Follower()
    mirror.on_change(it)
    mirror.put(node("x"))
    it.hated.add("x")
    mirror.drop(node("x"))
    it.hated.clear()
    await running_clock().sleep(1000)

    assert [("x", "->1"), ("x", "1>-")] == it.told


@in_virtual_time
async def test_failures_are_said_with_a_name_and_ever_more_rarely() -> None:
    mirror, counting = guarded(running_clock())
    with capture_logs() as lines:
        end = mirror.on_change(Follower("x"))
        mirror.put(node("x"))
        await running_clock().sleep(3600)
        end()
        await running_clock().sleep(3600)

    assert {("Node", "x")} == {(line["kind"], line["name"]) for line in lines}
    assert all("KeyError" in line["error"] for line in lines)
    assert 10 < len(lines) < 25
    assert len(lines) == len(counting.failures)


@in_virtual_time
async def test_an_index_has_nothing_of_an_object_its_function_raises_about() -> None:
    mirror, counting = guarded(running_clock())
    mirror.add_index("odd", lambda obj: (1 // (obj.metadata.name != "x"),))
    mirror.put(node("x"))
    mirror.put(node("y"))
    mirror.put(node("x", version=2))

    assert ["y"] == [obj.metadata.name for obj in mirror.by_index("odd", 1)]
    assert counting.failures


def test_without_a_guard_whoever_changes_a_mirror_hears_of_it() -> None:
    mirror = Mirror(Node)
    mirror.on_change(Follower("x"))

    with pytest.raises(KeyError):
        mirror.put(node("x"))


@in_virtual_time
async def test_a_kind_we_may_not_list_is_told_of_once_and_asked_for_ever_more_rarely() -> None:
    cluster = FlakyCluster()
    await cluster.begin()
    cluster.transport.refuse(Refusal(403, times=10_000))
    reflector = Reflector(
        cluster.kube,
        ResourceSlice,
        Mirror(ResourceSlice),
        cluster.clock,
        rng=random.Random(1),
        optional=True,
        role="karpenter-devices",
    )
    with capture_logs() as lines:
        async with running(reflector.run()):
            await cluster.clock.sleep(3600)
            asked = len(cluster.transport.requests)
            await cluster.clock.sleep(3600)

    assert 10 <= len(cluster.transport.requests) - asked <= 16
    (told,) = lines
    assert ("info", "kind not followed", "ResourceSlice") == (
        told["log_level"],
        told["event"],
        told["kind"],
    )
    assert "karpenter-devices" in told["advice"]
    assert "resourceslices.resource.k8s.io" in told["advice"]


@in_virtual_time
async def test_a_kind_that_we_may_list_at_last_is_followed() -> None:
    def is_list(request: Request) -> bool:
        return request.method == "GET"

    cluster = FlakyCluster()
    await cluster.begin()
    await cluster.direct.create(config_map("a"))
    cluster.transport.refuse(Refusal(403, times=12, where=is_list))
    mirror = Mirror(ConfigMap)
    reflector = Reflector(
        cluster.kube, ConfigMap, mirror, cluster.clock, rng=random.Random(1), optional=True
    )
    async with running(reflector.run()):
        await cluster.clock.sleep(3600)

        assert ["a"] == [obj.metadata.name for obj in mirror.list()]


def test_the_roles_that_are_named_are_there_and_show_the_kind() -> None:
    files = Path(__file__).parents[3] / "examples" / "install"
    rules = {
        role["metadata"]["name"]: role["rules"]
        for file in sorted(files.rglob("*.yaml"))
        for role in yaml.safe_load_all(file.read_text())
        if role["kind"] == "ClusterRole"
    }
    settings = Settings(feature_gates=parse_gates("NodeOverlay=true,CapacityBuffer=true"))

    for kind in kinds_to_follow(replace(settings, ignore_dra_requests=False), ())[1]:
        place = resource_of(kind)
        group = place.api_version.rpartition("/")[0]
        assert any(
            group in rule["apiGroups"]
            and place.plural in rule["resources"]
            and {"list", "watch"} <= set(rule["verbs"])
            for rule in rules[role_for(kind)]
        ), f"{role_for(kind)} does not show {place.plural}"


def test_the_values_of_the_chart_that_are_named_are_there() -> None:
    described = {value.name for value in chart_values.read(MAIN / "values.yaml")}
    roles = {role_for(kind) for kind in kinds_to_follow(Settings(), ())[0]}
    roles |= {"karpenter-devices", "karpenter-node-overlay", "karpenter-capacity-buffer"}
    roles |= {"karpenter-legacy-kinds"}

    assert {chart_value_for(role) for role in roles} <= described
