"""The controllers use every right that the roles of the installation grant, and no other.

Each file of roles has its run in virtual time: with default settings, and with each setting or
feature gate that has a file of its own. What a run uses must be granted; what is granted must be
used, but for what ``only_for_admission`` explains.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from structlog import get_logger

from helpers.autoscaler import (
    KWOK_CLASS,
    Autoscaler,
    JsonObject,
    autoscaler,
    deployment,
    gates,
    kwok_pool,
)
from helpers.clusters import in_virtual_time
from helpers.rights import (
    CORE,
    OPTIONAL,
    Recording,
    Right,
    documents,
    granted,
    looked_for,
    only_for_admission,
)
from karpenter.clock import Clock
from karpenter.cloud.kwok.faults import SOLD_OUT_EVERYWHERE
from karpenter.cloud.kwok.provider import make_provider
from karpenter.cloud.provider import CloudProvider
from karpenter.cloud.registry import ProviderContext
from karpenter.kube.client import Client
from karpenter.kube.lease import Election
from karpenter.settings import Settings
from karpenter.simulate.invariants import made_nodes
from karpenter.telemetry import Metrics
from karpenter.webhook.certificates import TlsIdentity
from karpenter.webhook.keeper import CertificateKeeper
from karpenter.webhook.trust import DEFINITIONS, Place
from karpenter_sandbox.server.transport import MemoryTransport

V1: Final = "karpenter.sh/v1"
ELECTION: Final = {("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "patch")}
DO_NOT_DISRUPT: Final = {"karpenter.sh/do-not-disrupt": "true"}


class Used:
    """What a run has used so far."""

    def __init__(self, run: Autoscaler, rights: set[Right]) -> None:
        self.run = run
        self.rights = rights

    def check(self, *optional: str) -> None:
        """Compare with what the default roles grant, and those of the named files."""
        files = [OPTIONAL / f"{name}.yaml" for name in optional]
        assert set() == self.rights - granted(CORE, *files) - looked_for()
        for file in files or [CORE]:
            unused = granted(file) - self.rights - ELECTION
            assert only_for_admission(unused) == unused, file.name


def provider_of_the_command(kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
    """The simulated provider as ``karpenter controller`` makes it."""
    return make_provider(ProviderContext(kube, clock, Settings(), {}, rng))


@asynccontextmanager
async def recorded(*objects: JsonObject, **settings: Any) -> AsyncIterator[Used]:
    rights: set[Right] = set()
    async with autoscaler(
        *objects,
        settings=Settings(**settings),
        wrap=lambda inner: Recording(inner, rights, conflicts=20),
        make_cloud=provider_of_the_command,
    ) as run:
        yield Used(run, rights)


async def template_changes(run: Autoscaler, **labels: str) -> None:
    patch = {"spec": {"template": {"metadata": {"labels": labels}}}}
    await run.client.patch("merge", V1, "NodePool", None, "default", patch)


@in_virtual_time
async def test_with_default_settings() -> None:
    pool = kwok_pool(
        disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        template={"terminationGracePeriod": "60s"},
    )
    web = deployment("web", 4)
    web["spec"]["template"]["metadata"]["annotations"] = DO_NOT_DISRUPT
    async with recorded(pool, web, deployment("huge", 1, cpu="9999")) as used:
        run = used.run
        await run.until(lambda: len(run.running) == 4)
        # what a controller with KWOK_SOLD_OUT has left behind is taken off
        left = {"metadata": {"annotations": {SOLD_OUT_EVERYWHERE: "c-*/*/spot"}}}
        await run.client.patch("merge", KWOK_CLASS, "KWOKNodeClass", None, "default", left)
        await run.apply(deployment("app", 6))
        await run.until(lambda: len(run.running) == 10)
        # nodes are replaced; where pods refuse to go, they are deleted at the end of their time
        await template_changes(run, release="two")
        await run.pass_time(120)
        for node in made_nodes(run):
            await run.client.delete("v1", "nodes", None, node["metadata"]["name"])
        await run.pass_time(300)
        await run.scale("web", 0)
        await run.scale("app", 0)
        await run.until(lambda: not made_nodes(run))

        used.check()


@in_virtual_time
async def test_with_overlays() -> None:
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "cheaper"},
        "spec": {"requirements": [], "priceAdjustment": "-10%"},
    }
    on = gates(NodeOverlay=True)
    async with recorded(kwok_pool(), overlay, feature_gates=on) as used:
        await used.run.pass_time(60)

        used.check("node-overlay")


@in_virtual_time
async def test_with_commitments() -> None:
    commitment = {
        "apiVersion": "cost.karpenter.sh/v1alpha1",
        "kind": "Commitment",
        "metadata": {"name": "plan"},
        "spec": {"type": "SavingsPlan", "hourly": "1.00", "discount": "25%"},
    }
    on = gates(Commitments=True)
    async with recorded(kwok_pool(), commitment, feature_gates=on) as used:
        await used.run.pass_time(60)

        used.check("commitment")


@in_virtual_time
async def test_with_buffers() -> None:
    shape = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "shape", "namespace": "default"},
        "template": deployment("x", 1)["spec"]["template"],
    }
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "headroom", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "shape"}, "replicas": 2},
    }
    on = gates(CapacityBuffer=True)
    async with recorded(kwok_pool(), shape, buffer, feature_gates=on) as used:
        await used.run.until(lambda: bool(made_nodes(used.run)))

        used.check("capacity-buffer")


@in_virtual_time
async def test_with_deletion_costs() -> None:
    on = gates(PodDeletionCostManagement=True)
    async with recorded(kwok_pool(), deployment("web", 3), feature_gates=on) as used:
        await used.run.until(lambda: len(used.run.running) == 3)
        await used.run.pass_time(300)

        used.check("pod-deletion-cost")


@in_virtual_time
async def test_with_early_binding() -> None:
    async with recorded(kwok_pool(), deployment("web", 3), early_binding=True) as used:
        await used.run.until(lambda: len(used.run.running) == 3)

        used.check("early-binding")


@in_virtual_time
async def test_with_a_price_of_interruptions() -> None:
    on = {"spot_interruption_cost": 1.0, "leader_election_namespace": "kube-system"}
    async with recorded(kwok_pool(), deployment("web", 3), **on) as used:
        await used.run.until(lambda: len(used.run.running) == 3)
        await used.run.pass_time(1300)

        used.check("spot-history")


@in_virtual_time
async def test_with_devices() -> None:
    async with recorded(kwok_pool(), deployment("web", 3), ignore_dra_requests=False) as used:
        await used.run.until(lambda: len(used.run.running) == 3)

        used.check("devices")


@in_virtual_time
async def test_with_legacy_kinds() -> None:
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"provider": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}},
    }
    async with recorded(provisioner, deployment("web", 3)) as used:
        run = used.run
        await run.until(lambda: len(run.running) == 3)
        (made,) = [c for c in run.objects("karpenter.kwok.sh", "kwoknodeclasses") if owned(c)]
        name = made["metadata"]["name"]
        # a manual change of the class is reverted; without an inline provider the class is deleted
        patch: JsonObject = {"spec": {"nodeRegistrationDelay": "5s"}}
        await run.client.patch("merge", KWOK_CLASS, "KWOKNodeClass", None, name, patch)
        await run.pass_time(60)
        patch = {"spec": {"provider": None, "providerRef": {"name": "default"}}}
        await run.client.patch("merge", "karpenter.sh/v1alpha5", "Provisioner", None, "old", patch)
        await run.pass_time(60)

        used.check("legacy-kinds")


def owned(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("ownerReferences"))


@in_virtual_time
async def test_with_repairs_on_the_simulated_provider() -> None:
    on = gates(NodeRepair=True)
    async with recorded(kwok_pool(), deployment("web", 1), feature_gates=on) as used:
        run = used.run
        await run.until(lambda: len(run.running) == 1)
        (node,) = made_nodes(run)
        condition = {
            "type": "KWOKRebootRequired",
            "status": "True",
            "reason": "Test",
            "lastTransitionTime": node["metadata"]["creationTimestamp"],
        }
        status = {"conditions": [*node["status"]["conditions"], condition]}
        await run.client.patch_status("v1", "nodes", None, node["metadata"]["name"], status)
        await run.pass_time(300)

        used.check("node-repair-kwok")


@in_virtual_time
async def test_of_an_election() -> None:
    rights: set[Right] = set()
    async with autoscaler(starts=False) as run:
        elections = [
            Election(
                Client(Recording(MemoryTransport(run.cluster.api), rights), run.clock),
                run.clock,
                name="karpenter-leader-election",
                namespace="kube-system",
                identity=identity,
                rng=random.Random(1),
            )
            for identity in ("a", "b")
        ]
        tasks = [asyncio.create_task(each.run(lambda: run.clock.sleep(1e9))) for each in elections]
        await run.pass_time(60)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert rights == {right for right in granted(CORE) if right[1] == "leases"}


@in_virtual_time
async def test_with_a_webhook() -> None:
    async with recorded() as used:
        run = used.run
        place = Place("kube-system", "karpenter-webhook", "karpenter-webhook-cert")
        for each in documents(OPTIONAL / "webhook.yaml"):
            if each["kind"].endswith("WebhookConfiguration"):
                await run.client.create(each)
        service = {"namespace": place.namespace, "name": place.service}
        for name in DEFINITIONS:
            webhook = {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {**service, "path": "/convert"}},
            }
            conversion = {"strategy": "Webhook", "webhook": webhook}
            patch = {"spec": {"conversion": conversion}}
            crds = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            await run.client.patch("merge", *crds, None, name, patch)
        keeper = CertificateKeeper(
            Client(Recording(MemoryTransport(run.cluster.api), used.rights), run.clock),
            run.clock,
            get_logger(),
            Metrics(),
            identity=TlsIdentity(),
            place=place,
        )
        await keeper.step()

        used.check("webhook")


def test_every_optional_role_has_a_run() -> None:
    written = Path(__file__).read_text("utf-8")
    names = {path.stem for path in OPTIONAL.iterdir()}

    # That of the AWS provider has its run on a simulated AWS, that of the dashboard beside the controllers
    elsewhere = {"legacy-kinds-aws", "dashboard-kinds"}
    assert elsewhere == {n for n in names if f'used.check("{n}")' not in written}
