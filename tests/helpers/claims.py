"""NodeClaims and Nodes for tests of their lifecycle, and a bench with the lifecycle controller."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from helpers.autoscaler import Bench, FakeCloud, bench
from helpers.manifests import at, condition, taint
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import kwok_labels
from karpenter.api.pods import Pod
from karpenter.cloud.provider import Instance
from karpenter.controllers.lifecycle.lifecycle import LifecycleController
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.kube.transport import Request, Response, Transport
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.settings import Settings
from karpenter.simulate.engine.traffic import PassingTransport

JsonObject = dict[str, Any]

NAME = "claim-1"
PROVIDER_ID = "fake://claim-1"
V1 = "karpenter.sh/v1"
STAGES = ("Launched", "Registered", "Initialized")
READY_CONDITION = {"type": "Ready", "status": "True"}


def claim(
    name: str = NAME,
    *,
    stage: str = "",
    conditions: Sequence[JsonObject] = (),
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    node_class: tuple[str, str] = ("karpenter.kwok.sh", "KWOKNodeClass"),
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    """A claim that has got as far as ``stage``; ``conditions`` replace those of their types."""
    done = STAGES[: STAGES.index(stage) + 1] if stage else ()
    held = {kind: condition(kind, "True") for kind in done}
    held |= {each["type"]: each for each in conditions}
    known: JsonObject = {"conditions": list(held.values())} if held else {}
    if done:
        known |= {"providerID": f"fake://{name}", "capacity": {"cpu": "4", "memory": "8Gi"}}
    pool = {labels.NODEPOOL: "default", kwok_labels.NODE_CLASS: "default"}
    given = dict(metadata or {})
    body: JsonObject = {
        "apiVersion": V1,
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "finalizers": [labels.TERMINATION],
            **given,
            "labels": {**pool, **given.get("labels", {})},
        },
        "spec": {
            "nodeClassRef": {"group": node_class[0], "kind": node_class[1], "name": "default"},
            "requirements": [],
            "expireAfter": "Never",
            **({"resources": {"requests": dict(requests)}} if requests else {}),
            **spec,
        },
    }
    if known or status:
        body["status"] = {**known, **(status or {})}
    return body


def node(
    name: str = "node-1",
    *,
    provider_id: str = PROVIDER_ID,
    taints: Sequence[JsonObject] = (),
    ready: str = "True",
    metadata: Mapping[str, Any] | None = None,
    amounts: Mapping[str, str] | None = None,
) -> JsonObject:
    """A Node that has joined, with these ``amounts`` of resources besides the usual ones."""
    size = {"cpu": "4", "memory": "8Gi", **(amounts or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"providerID": provider_id, "taints": list(taints)},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(0)}],
        },
    }


UNREGISTERED = taint(labels.UNREGISTERED, "NoExecute")


def instance(
    provider_id: str = PROVIDER_ID, *, created_at: datetime | None = None, deleting: bool = False
) -> dict[str, Instance]:
    """An instance the cloud has, as ``FakeCloud`` keeps it."""
    return {provider_id: Instance(provider_id, created_at=created_at, is_deleting=deleting)}


class Health:
    """A record of how registrations ended."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    async def succeeded(self, claim: NodeClaim) -> None:
        self.told.append((claim.metadata.name, "", ""))

    async def failed(self, claim: NodeClaim, reason: str, message: str) -> None:
        self.told.append((claim.metadata.name, reason, message))


class Planned:
    """The pods planned for each claim."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[Pod, ...]] = {}

    def pods_of(self, claim_name: str) -> tuple[Pod, ...]:
        return self.pods.get(claim_name, ())


class Undertaker:
    """Takes the finalizer off a deleted claim, once its instance is gone."""

    def __init__(self, at_work: Bench) -> None:
        self._bench = at_work
        self.seen: list[str] = []  # provider ids of the claims that were finalized

    async def finalize(self, claim: NodeClaim) -> float | None:
        self.seen.append(claim.status.provider_id)
        self._bench.cloud.instances.pop(claim.status.provider_id, None)
        left = [name for name in claim.metadata.finalizers if name != labels.TERMINATION]
        if len(left) < len(claim.metadata.finalizers):
            await self._bench.world.patch(claim, {"metadata": {"finalizers": left}}, locked=True)
        return None


class LossyTransport(PassingTransport):
    """A transport that records writes, and drops those a test selects."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.writes: list[tuple[str, str]] = []
        self.losing: Callable[[Request], int] = lambda request: 0  # a status: dropped
        self.answered: Callable[[], None] = lambda: None  # called once a write was carried out

    async def send(self, request: Request) -> Response:
        if not request.is_write:
            return await super().send(request)
        self.writes.append((request.method, request.path))
        status = self.losing(request)
        if status:
            return Response(status, b'{"kind":"Status","message":"lost"}', {})
        answer = await super().send(request)
        self.answered()
        return answer

    def mend(self) -> None:
        """Drop no more writes."""
        self.losing = lambda request: 0
        self.answered = lambda: None


class Lifecycle:
    """A bench with the lifecycle controller."""

    def __init__(self, at_work: Bench, wire: LossyTransport) -> None:
        self.bench = at_work
        self.wire = wire
        self.health = Health()
        self.planned = Planned()
        self.undertaker = Undertaker(at_work)
        self.controller = self.made()

    def made(self) -> LifecycleController:
        """The controller of a process that has just started."""
        world = self.bench.world
        return LifecycleController(
            world, self.undertaker, self.health, self.planned, Remover(world)
        )

    @property
    def cloud(self) -> FakeCloud:
        return self.bench.cloud

    @property
    def claim(self) -> NodeClaim:
        return self.bench.claim(NAME)

    @property
    def claims(self) -> list[NodeClaim]:
        return self.bench.world.mirror(NodeClaim).list()

    @property
    def is_gone(self) -> bool:
        """Whether the claim is deleted, or about to be."""
        return is_going(self.bench, NAME)

    async def reconcile(self, name: str = NAME) -> float | None:
        """One pass over a claim."""
        again = await self.bench.reconcile(self.controller, name)
        assert again is None or isinstance(again, float)
        return again

    async def join(self, obj: JsonObject) -> None:
        """Create a Node, and remove the taint that admission adds to its own."""
        await self.bench.put(obj)
        await self.taint(obj["metadata"]["name"], obj["spec"]["taints"])

    async def taint(self, name: str, taints: Sequence[JsonObject]) -> None:
        """Give a Node exactly these taints."""
        await self.bench.change("v1", "Node", name, {"spec": {"taints": list(taints)}})

    def condition(self, kind: str) -> tuple[str, str]:
        """The status and reason of a condition of the claim."""
        found = find(self.claim.status.conditions, kind)
        return (found.status, found.reason) if found is not None else ("", "")

    def message(self, kind: str) -> str:
        """The message of a condition of the claim."""
        found = find(self.claim.status.conditions, kind)
        return found.message if found is not None else ""


def is_going(at_work: Bench, name: str) -> bool:
    """Whether a claim is deleted, or about to be."""
    found = at_work.world.mirror(NodeClaim).get(name)
    return found is None or found.metadata.deletion_timestamp is not None


def count(at_work: Bench, metric: str, **wanted: str) -> float:
    """The value of a counter, summed over the labels that are not named."""
    family = getattr(at_work.world.metrics, metric)
    return sum(
        float(sample.value)
        for collected in family.collect()
        for sample in collected.samples
        if sample.name.endswith("_total") and wanted.items() <= sample.labels.items()
    )


def disrupted(at_work: Bench) -> dict[str, float]:
    """How many claims were given up, by reason."""
    found: dict[str, float] = {}
    for collected in at_work.world.metrics.nodeclaims_disrupted_total.collect():
        for sample in collected.samples:
            if sample.name.endswith("_total") and sample.value:
                reason = sample.labels["reason"]
                found[reason] = found.get(reason, 0.0) + sample.value
    return found


@asynccontextmanager
async def lifecycle(
    *objects: JsonObject, cloud: FakeCloud | None = None, settings: Settings | None = None
) -> AsyncIterator[Lifecycle]:
    """The lifecycle controller on a bench with these objects."""
    wires: list[LossyTransport] = []

    def wrap(inner: Transport) -> Transport:
        wires.append(LossyTransport(inner))
        return wires[0]

    async with bench(settings=settings, cloud=cloud, wrap=wrap) as at_work:
        found = Lifecycle(at_work, wires[0])
        for obj in objects:
            await (found.join(obj) if obj["kind"] == "Node" else at_work.put(obj))
        yield found
