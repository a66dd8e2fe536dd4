"""Client and reflector over real sockets, from a kubeconfig to the objects of a sandbox server."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.clusters import running
from helpers.server import Cluster, cluster, config_map
from karpenter.api.cluster import ConfigMap, Lease
from karpenter.clock import SystemClock
from karpenter.kube.access.config import load_config
from karpenter.kube.client import Client, PatchType
from karpenter.kube.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError
from karpenter.kube.http import HttpTransport
from karpenter.kube.lease import Election
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig

# Long enough for any machine; nothing here waits for it unless something is broken
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Connected:
    """A client, and the server it found through a kubeconfig."""

    cluster: Cluster
    server: Server
    kube: Client


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Connected]:
    made = cluster()
    async with serving(Server(made.api, token=new_token())) as server:
        write_kubeconfig(server, folder / "config")
        config = load_config({"KUBECONFIG": str(folder / "config")})
        transport = HttpTransport(config, SystemClock(), user_agent="karpenter/test")
        try:
            yield Connected(made, server, Client(transport, SystemClock()))
        finally:
            await transport.close()


async def until_seen(mirror: Mirror[ConfigMap], name: str) -> None:
    """Wait until an object is in the mirror."""
    seen = asyncio.Event()

    def look(_: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is not None and new.metadata.name == name:
            seen.set()

    mirror.on_change(look)
    async with asyncio.timeout(PATIENCE):
        await seen.wait()


async def test_verbs(tmp_path: Path) -> None:
    async with connected(tmp_path) as it:
        made = await it.kube.create(ConfigMap, config_map("settings", a="1"))
        with pytest.raises(AlreadyExistsError):
            await it.kube.create(ConfigMap, config_map("settings"))
        merged = await it.kube.patch(ConfigMap, "settings", {"data": {"b": "2"}}, "default")
        replaced = [{"op": "replace", "path": "/data/a", "value": "3"}]
        patched = await it.kube.patch(
            ConfigMap, "settings", replaced, "default", patch_type=PatchType.JSON
        )
        stale = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {}}
        with pytest.raises(ConflictError):
            await it.kube.patch(ConfigMap, "settings", stale, "default")
        with pytest.raises(InvalidError):
            await it.kube.create(ConfigMap, config_map("Not A Name"))
        await it.kube.delete(ConfigMap, "settings", "default", uid=made.metadata.uid)
        with pytest.raises(NotFoundError):
            await it.kube.get(ConfigMap, "settings", "default")

        assert {"a": "1", "b": "2"} == merged.data
        assert {"a": "3", "b": "2"} == patched.data


async def test_a_mirror_follows_objects_of_any_size_through_a_restart(tmp_path: Path) -> None:
    async with connected(tmp_path) as it:
        for index in range(7):
            it.cluster.create(config_map(f"old-{index}"))
        mirror = Mirror(ConfigMap)
        reflector = Reflector(
            it.kube, ConfigMap, mirror, SystemClock(), rng=random.Random(1), page_size=3
        )
        async with running(reflector.run()):
            async with asyncio.timeout(PATIENCE):
                await mirror.synced.wait()
            listed = len(mirror)
            it.cluster.create(config_map("large", text="x" * 400_000))
            await until_seen(mirror, "large")
            await it.server.stop()
            it.cluster.create(config_map("while-away"))
            await it.server.start()
            await until_seen(mirror, "while-away")
        large = mirror.get("large", "default")

        assert 7 == listed
        assert large is not None
        assert 400_000 == len(large.data["text"])
        assert 9 == len(mirror)


async def test_an_election_over_http(tmp_path: Path) -> None:
    async with connected(tmp_path) as it:
        election = Election(
            it.kube,
            SystemClock(),
            name="leader",
            namespace="default",
            identity="me_1",
            rng=random.Random(1),
        )
        seen: list[str | None] = []

        async def lead() -> None:
            seen.append((await it.kube.get(Lease, "leader", "default")).spec.holder_identity)

        await election.run(lead)
        released = await it.kube.get(Lease, "leader", "default")

        assert ["me_1"] == seen
        assert not released.spec.holder_identity
