"""``plan`` beside a controller omits its sold-out offerings, without access to its settings."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, CloudMaker, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.commands import run as command
from karpenter.clock import Clock
from karpenter.cloud.kwok.provider import make_provider
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.settings import Settings

KINDS = [("karpenter.sh", "nodepools"), ("karpenter.kwok.sh", "kwoknodeclasses")]


def told(environment: dict[str, str]) -> CloudMaker:
    def make(kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        return make_provider(ProviderContext(kube, clock, Settings(), environment, rng))

    return make


def planned_beside(run: Autoscaler, file: Path) -> set[Any]:
    """How ``plan`` would buy a node for one more Deployment in the cluster as it is now."""
    objects = [each for kind in KINDS for each in run.objects(*kind)]
    text = {"apiVersion": "v1", "kind": "List", "items": [*objects, deployment("more", 1)]}
    file.write_text(json.dumps(text), "utf-8")
    ran = command("plan", str(file), "--only", "provisioning", "-o", "json")
    assert 0 == ran.code, ran.err
    claims = json.loads(ran.out)["provisioning"]["nodeClaims"]
    return {claim["launch"]["capacityType"] for claim in claims}


def bought(run: Autoscaler) -> set[Any]:
    return {claim["metadata"]["labels"]["karpenter.sh/capacity-type"] for claim in run.claims}


def test_what_the_flag_says_is_sold_out_is_so_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KWOK_SOLD_OUT", raising=False)
    environment = {"KWOK_SOLD_OUT": "*/*/spot"}

    @in_virtual_time
    async def walk() -> None:
        async with autoscaler(
            kwok_pool(), deployment("web", 1), make_cloud=told(environment)
        ) as run:
            await run.until(lambda: len(run.running) == 1)
            assert {"on-demand"} == bought(run) == planned_beside(run, tmp_path / "with.json")

            environment.clear()  # the next process is started without the flag
            await run.kill()
            run.start()
            await run.apply(deployment("big", 1, cpu="100"))
            await run.until(lambda: len(run.running) == 2)

            assert {"spot", "on-demand"} == bought(run)
            assert {"spot"} == planned_beside(run, tmp_path / "without.json")

    walk()
