"""The worked example of the page on providers: complete, short, and it keeps every promise."""

import asyncio
import random
import re
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from helpers.builders import node_pool
from karpenter.api.cluster import ConfigMap, Namespace
from karpenter.api.karpenter import NodeClaim, NodeClassReference, NodePool
from karpenter.api.node_classes import node_class_model
from karpenter.clock import Clock, run_virtual, running_clock
from karpenter.cloud.contract import Bed, ProviderContract
from karpenter.cloud.provider import CloudProvider, CreateError
from karpenter.cloud.registry import ProviderContext, ProviderError, load_provider
from karpenter.kube.client import Client
from karpenter.settings import Settings
from third_party import (
    EXAMPLE,
    GROUP,
    KIND,
    MACHINES,
    PAGE,
    REFERENCE,
    installed,
    machine_class_objects,
    ready,
)
from unit.cloud.kwok.kwok_cloud import CountedTransport, api_in_memory

CLASS = NodeClassReference(**REFERENCE)


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the example as a package of a third party would be."""
    with installed(tmp_path_factory.mktemp("site")):
        yield


def made(transport: CountedTransport, clock: Clock, file: Path) -> CloudProvider:
    environment = {"STATIC_MACHINES_FILE": str(file)}
    kube = Client(transport, clock)
    context = ProviderContext(kube, clock, Settings(), environment, random.Random(1))
    return load_provider("static")(context)


class StaticBed(Bed):
    def __init__(self, transport: CountedTransport, clock: Clock, file: Path) -> None:
        self._transport, self._clock, self._file = transport, clock, file
        self.kube = Client(transport, clock)
        self.provider = made(transport, clock, file)
        self._running = asyncio.ensure_future(self.provider.run())

    async def claim(self, name: str) -> NodeClaim:
        spec = {
            "nodeClassRef": {"group": CLASS.group, "kind": CLASS.kind, "name": CLASS.name},
            "requirements": [],
            "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "pods": "3"}},
        }
        return await self.kube.create(NodeClaim, {"metadata": {"name": name}, "spec": spec})

    def pool(self) -> NodePool:
        return node_pool("rack", node_class=CLASS)

    async def instances(self) -> Sequence[str]:
        held = await self.kube.list(ConfigMap, "kube-system")
        return [f"static://{each.data['machine']}" for each in held]

    async def restart(self) -> CloudProvider:
        await self.stop()
        self.provider = made(self._transport, self._clock, self._file)
        self._running = asyncio.ensure_future(self.provider.run())
        return self.provider

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def settle(self) -> None:
        await self._clock.sleep(1.0)

    async def sell_out(self) -> None:
        for name in ("x", "y", "z"):
            await self.provider.create(await self.claim(name))

    async def break_node_class(self) -> None:
        await self.say_ready("False")

    async def say_ready(self, status: str) -> None:
        kind = node_class_model(f"{GROUP}/v1", KIND)
        await self.kube.patch(kind, CLASS.name, ready(status), subresource="status")


@asynccontextmanager
async def static_bed(file: Path) -> AsyncIterator[StaticBed]:
    clock = running_clock()
    memory, transport = await api_in_memory(clock)
    for each in machine_class_objects():
        await memory.create(each)
    bed = StaticBed(transport, clock, file)
    await bed.kube.create(Namespace, {"metadata": {"name": "kube-system"}})
    await bed.say_ready("True")
    try:
        yield bed
    finally:
        await bed.stop()


@pytest.mark.row("S0-48")
class TestStaticMachines(ProviderContract):
    folder: ClassVar[Path]

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        type(self).folder = tmp_path

    @asynccontextmanager
    async def bed(self) -> AsyncIterator[Bed]:
        file = self.folder / "machines.yaml"
        file.write_text(MACHINES)
        async with static_bed(file) as bed:
            yield bed

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        run_virtual(test)


@pytest.mark.row("S0-48")
def test_the_page_shows_the_whole_example_and_it_is_short() -> None:
    code = EXAMPLE.read_text("utf-8")

    assert f"```python\n{code}```" in PAGE
    assert len(code.splitlines()) < 150


def test_the_machines_on_the_page_are_read(tmp_path: Path) -> None:
    listed = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert listed is not None
    file = tmp_path / "machines.yaml"
    file.write_text(listed[1])

    async def run() -> None:
        async with static_bed(file) as bed:
            types = await bed.provider.instance_types(bed.pool())
            assert ["rack1-01"] == [kind.name for kind in types]

    run_virtual(run())


def test_the_cheapest_machine_that_is_large_enough_is_taken_first(tmp_path: Path) -> None:
    file = tmp_path / "machines.yaml"
    file.write_text(MACHINES)

    async def run() -> None:
        async with static_bed(file) as bed:
            found = [
                (await bed.provider.create(await bed.claim(name))).provider_id for name in "abc"
            ]
            assert ["static://rack2-01", "static://rack1-01", "static://rack1-02"] == found

    run_virtual(run())


def test_the_machine_of_a_claim_that_died_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "machines.yaml"
    file.write_text(MACHINES)

    async def run() -> None:
        async with static_bed(file) as bed:
            await bed.provider.create(await bed.claim("dies"))
            await bed.kube.delete(NodeClaim, "dies")
            before = len(await bed.instances())
            await running_clock().sleep(130)
            assert (1, []) == (before, list(await bed.instances()))

    run_virtual(run())


@pytest.mark.parametrize("works", [True, False])
def test_machines_are_switched_on_and_off_by_their_command(tmp_path: Path, works: bool) -> None:
    log = tmp_path / "log"
    script = tmp_path / "power.py"
    script.write_text(
        "import pathlib, sys\n"
        "with pathlib.Path(sys.argv[1]).open('a') as log: log.write(sys.argv[2] + ' ')\n"
        f"sys.exit({0 if works else 7})\n"
    )
    file = tmp_path / "machines.yaml"
    command = [sys.executable, str(script), str(log)]
    file.write_text(
        f"- {{name: a, zone: z, cpu: 8, memory: 8Gi, power: {command}}}".replace("8,", '"8",', 1)
    )

    async def run() -> None:
        async with static_bed(file) as bed:
            claim = await bed.claim("one")
            if not works:
                with pytest.raises(CreateError, match="machine a cannot be switched on"):
                    await bed.provider.create(claim)
                return
            await bed.provider.create(claim)
            await bed.provider.delete(claim)

    # a command is another process, which virtual time cannot wait for
    asyncio.run(run())
    assert ("on off " if works else "on ") == log.read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("- {name: a}", "missing required field `zone`", id="a field is missing"),
        pytest.param("- [", "STATIC_MACHINES_FILE", id="no YAML"),
        pytest.param(
            "- {name: a, zone: z, cpu: many, memory: 1Gi}", "'many' is not a quantity", id="no size"
        ),
        pytest.param(
            "- {name: a, zone: z, cpu: '1', memory: 1Gi, colour: red}",
            "unknown field `colour`",
            id="a field nobody knows",
        ),
        pytest.param(None, "No such file", id="no file"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    file = tmp_path / "machines.yaml"
    if text is not None:
        file.write_text(text)

    async def run() -> None:
        clock = running_clock()
        _, transport = await api_in_memory(clock)
        with pytest.raises(ProviderError, match=problem):
            made(transport, clock, file)

    run_virtual(run())
