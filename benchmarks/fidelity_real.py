"""A scenario in real time: on a real control plane, with ``karpenter controller`` as a process.

What users do is sent at the times that the scenario says, by the wall clock, and what the API server
tells watches is mirrored in a store, which is all that the observer sees.
"""

import asyncio
import dataclasses
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from benchmarks.fidelity_figures import Figures, StoreObserver
from benchmarks.measuring import ROOT

from karpenter.api.meta import JsonObject
from karpenter.clock import SystemClock
from karpenter.cloud.kwok.provider import INSTANCE_TYPES_FILE_PATH
from karpenter.kube.access.config import load_config
from karpenter.kube.http import HttpTransport
from karpenter.kube.transport import JSON, Request
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.generators import Demand, changed_template
from karpenter.simulate.demand.objects import API_VERSIONS
from karpenter.simulate.demand.operations import Operation, created, in_order
from karpenter.simulate.engine.cloud import market_of
from karpenter.simulate.lengths import seconds
from karpenter.simulate.scenario.models import (
    GENERATORS,
    ControlPlane,
    Machines,
    Scenario,
    Workload,
)
from karpenter.simulate.scenario.reader import Loaded
from karpenter.simulate.seam import View
from karpenter.simulate.timeline import Moment, moments, verb_of
from karpenter.simulate.variant_run import with_node_classes
from karpenter.simulate.variants import is_target
from karpenter_sandbox.kubelet.faults import SIMULATED
from karpenter_sandbox.store.store import Key, Store

sys.path.insert(0, str(ROOT / "tests"))  # the control plane is a fixture of the tests
from helpers.real_cluster import Controller, RealCluster, controller, real_cluster

DRIVEN: Final = (
    "in real time only what users do through the API can be driven: objects, workloads by steps,"
    " diurnal and rollout, and the steps apply, delete, patch, scale and rollout;"
    " what machines, clouds, chance and other client limits than the default ones do cannot"
)
_GENERATORS: Final = frozenset({"steps", "diurnal", "rollout"})
_UNDRIVEN: Final = ("prices", "interruptions", "faults", "compare", "matrix")
_VERBS: Final = frozenset({"apply", "delete", "patch", "scale", "rollout"})
_JUDGES: Final = frozenset({"expect", "mark"})  # they do nothing to the cluster
# What the observer looks at: group, version, plural
_WATCHED: Final = (
    ("", "v1", "nodes"),
    ("", "v1", "pods"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("karpenter.sh", "v1", "nodeclaims"),
    ("karpenter.sh", "v1", "nodepools"),
)
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_FORCED: Final = (("fieldManager", "user"), ("force", "true"))
_WITH_DEPENDENTS: Final = (("propagationPolicy", "Background"),)
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_NOT_SERVED_YET: Final = frozenset({_NOT_FOUND, 429})  # the latter while storage is made
_REFUSALS: Final = 400
_POLL_SECONDS: Final = 0.5
_LOOKS: Final = 60
_GRID: Final = 10.0


class RealRunError(Exception):
    """A real run that went wrong; one sentence."""


# --- What of a scenario is driven in real time, and when


def undriven(scenario: Scenario) -> list[str]:
    """The fields of a scenario that cannot be driven in real time, as paths."""
    found = [name for name in _UNDRIVEN if getattr(scenario, name)]
    if scenario.machines != Machines():
        found.append("machines")
    if scenario.control_plane != ControlPlane():
        found.append("controlPlane")
    for index, workload in enumerate(scenario.workloads):
        found += [f"workloads[{index}].{name}" for name in _undriven_of(workload)]
    for index, step in enumerate(scenario.timeline):
        verb = verb_of(step)
        if verb not in _VERBS | _JUDGES:
            found.append(f"timeline[{index}].{verb}")
        elif step.for_ is not None:
            found.append(f"timeline[{index}].for")
    return found


def _undriven_of(workload: Workload) -> Iterator[str]:
    """The generator of a workload if it is not driven, and times that are drawn."""
    for name in (*GENERATORS, "start", "shutdown"):
        if name not in _GENERATORS and getattr(workload, name) is not None:
            yield name


def load_of(loaded: Loaded) -> list[Operation]:
    """Everything that users do in the first variant of a scenario, in order."""
    scenario, chance = loaded.scenario, Chance(loaded.seed)
    demand = Demand(
        scenario, chance, loaded.samples, loaded.files, loaded.until, loaded.start
    ).operations()
    steps = [
        operation
        for moment in moments(scenario, loaded.variants[0].name, loaded.until)
        for operation in _of_step(moment, loaded)
    ]
    return list(in_order([steps, demand]))


def changes_in(load: Sequence[Operation]) -> list[float]:
    """The moments at which users want something else, the beginning among them."""
    return sorted({0.0, *(operation.at for operation in load)})


def _of_step(moment: Moment, loaded: Loaded) -> Iterator[Operation]:
    step, at = moment.step, moment.at
    for each in step.apply or ():
        for obj in loaded.manifests[each] if isinstance(each, str) else [each]:
            yield dataclasses.replace(created(at, obj), verb="apply")
    for target in step.delete or ():
        yield Operation(at, "delete", *_place(target, loaded))
    for patch in step.patch or ():
        yield Operation(at, "merge", *_place(patch.target, loaded), body=patch.merge)
    if step.scale is not None:
        where = _place(step.scale.target, loaded)
        yield Operation(at, "scale", *where, replicas=step.scale.replicas)
    if step.rollout is not None:
        body = changed_template(f"step-{moment.index}-{moment.number}")
        yield Operation(at, "merge", *_place(step.rollout, loaded), body=body)


def _place(target: str, loaded: Loaded) -> tuple[str, str, str, str]:
    """Where an object is: API version, kind, namespace and name."""
    kind, _, name = target.partition("/")
    for obj in loaded.variants[0].objects:
        if is_target(obj, target):
            return obj["apiVersion"], kind, obj["metadata"].get("namespace", "default"), name
    namespaces = {each.name: each.namespace for each in loaded.scenario.workloads}
    return API_VERSIONS.get(kind, "v1"), kind, namespaces.get(name, "default"), name


# --- A real cluster, driven and watched


def real_run(loaded: Loaded, *, log: Path | None = None) -> Figures:
    """Run the first variant of a scenario on a control plane of its own; it takes until its end.

    Args:
        loaded: the scenario.
        log: where to keep what the controller logs.

    Raises:
        RealRunError: the API server refused something, or a watch broke.
    """
    with (
        tempfile.TemporaryDirectory(prefix="fidelity-") as folder,
        real_cluster(Path(folder), audits=False) as cluster,
    ):
        settings = dict(loaded.variants[0].settings)
        if loaded.catalogue is not None:
            types = Path(folder) / "instance-types.json"
            types.write_bytes(loaded.catalogue[1])
            settings[INSTANCE_TYPES_FILE_PATH] = str(types)
        with controller(cluster, cluster.account(), **settings) as process:
            try:
                figures = asyncio.run(_lived(cluster, loaded, process))
            except* RealRunError as errors:
                raise RealRunError(str(errors.exceptions[0])) from errors
            if log is not None:
                log.write_text(process.text, encoding="utf-8")
        return figures


async def _lived(cluster: RealCluster, loaded: Loaded, process: Controller) -> Figures:
    async with _Cluster.connected(cluster.kubeconfig) as api:
        load = load_of(loaded)
        minimum = seconds(loaded.scenario.billing.minimum)
        mirror = _Mirror(loaded, StoreObserver(changes_in(load), billing_minimum=minimum))
        async with asyncio.TaskGroup() as tasks:
            followers = [tasks.create_task(api.follow(mirror, *each)) for each in _WATCHED]
            await mirror.filled.wait()
            for obj in with_node_classes(loaded.variants[0].objects):
                await api.do(dataclasses.replace(created(0.0, _simulated(obj)), verb="apply"))
            await asyncio.to_thread(process.until_leading)
            mirror.start()
            for operation in load:
                await mirror.wait_until(operation.at)
                await api.do(operation)
            await mirror.wait_until(loaded.until)
            figures = mirror.observer.finish()
            for each in followers:
                each.cancel()
            # Before they notice: a connection that is still watched is waited for until it is closed
            await api.close()
    return figures


def _simulated(obj: JsonObject) -> JsonObject:
    """An object as it is created; kwok plays the kubelet of Nodes that say so."""
    if obj["kind"] != "Node":
        return obj
    annotations = {SIMULATED: "fake", **(obj["metadata"].get("annotations") or {})}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


class _Mirror:
    """What watches tell of a cluster, in a store that an observer follows."""

    def __init__(self, loaded: Loaded, observer: StoreObserver) -> None:
        self.observer: Final = observer
        self._store = Store()
        self._missing = len(_WATCHED)
        self.filled: Final = asyncio.Event()  # every list is here
        self._began: float | None = None
        market = market_of(loaded.types(), SystemClock())
        view = View(
            start=datetime.now(UTC),
            until=loaded.until,
            warmup=seconds(loaded.scenario.warmup),
            grid=_GRID,
            store=self._store,
            types=loaded.types(),
            now=self.now,
            price=lambda *offering: market.price(offering),
        )
        observer.begin(view)
        self._store.on_change(observer.changed)

    def start(self) -> None:
        """Let the scenario begin now."""
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since the scenario has begun."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    async def wait_until(self, at: float) -> None:
        """Sleep until a moment of the scenario."""
        await asyncio.sleep(max(0.0, at - self.now()))

    def begin(self, group: str, plural: str, items: Sequence[JsonObject]) -> None:
        """Take a list that is new."""
        for obj in items:
            self.take(group, plural, "ADDED", obj)
        self._missing -= 1
        if not self._missing:
            self.filled.set()

    def take(self, group: str, plural: str, change: str, obj: JsonObject) -> None:
        """Take a change."""
        metadata = obj["metadata"]
        key = Key(group, plural, metadata.get("namespace", ""), metadata["name"])
        metadata.pop("managedFields", None)
        if change == "DELETED":
            self._store.remove(key)
        elif self._store.find(key) is None:
            self._store.add(key, obj)
        else:
            self._store.put(key, obj)


class _Cluster:
    """Raw requests to an API server."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}  # API version -> kind -> plural
        self._namespaces = {"default"}

    @classmethod
    @asynccontextmanager
    async def connected(cls, kubeconfig: Path) -> AsyncIterator["_Cluster"]:
        """A cluster, for as long as a block runs."""
        config = load_config({"KUBECONFIG": str(kubeconfig)})
        api = cls(HttpTransport(config, SystemClock(), user_agent="fidelity"))
        try:
            yield api
        finally:
            await api.close()

    async def close(self) -> None:
        """Close all connections; it does no harm to do so twice."""
        await self._transport.close()

    async def follow(self, mirror: _Mirror, group: str, version: str, plural: str) -> None:
        """Mirror all objects of a resource until it is cancelled.

        Raises:
            RealRunError: changes have been lost.
        """
        path = f"{_root(group, version)}/{plural}"
        listed = await self._listed(path)
        mirror.begin(group, plural, listed["items"] or ())
        at = listed["metadata"]["resourceVersion"]
        while True:
            query = (("watch", "true"), ("resourceVersion", at))
            async with self._transport.stream(Request("GET", path, query)) as stream:
                async for line in stream.lines:
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        raise RealRunError(f"the watch of {plural} broke: {event['object']}")
                    at = event["object"]["metadata"]["resourceVersion"]
                    mirror.take(group, plural, event["type"], event["object"])

    async def _listed(self, path: str) -> JsonObject:
        """The list of a resource; a custom one is not served at once when it is established."""
        for _ in range(_LOOKS):
            listed = await self._send("GET", path, but=_NOT_SERVED_YET)
            if "items" in listed:
                return listed
            await asyncio.sleep(_POLL_SECONDS)
        raise RealRunError(f"{path} is not served")

    async def do(self, operation: Operation) -> None:
        """Do what a user does.

        Raises:
            RealRunError: it was refused.
        """
        await self._ensure_namespace(operation.namespace)
        path = await self._path(operation)
        match operation.verb:
            case "create":
                await self._send("POST", path.rpartition("/")[0], operation.body)
            case "apply":
                await self._send("PATCH", path, operation.body, _APPLY, _FORCED)
            case "merge":
                await self._send("PATCH", path, operation.body, _MERGE)
            case "scale":
                body = {"spec": {"replicas": operation.replicas}}
                await self._send("PATCH", f"{path}/scale", body, _MERGE)
            case "delete":
                await self._send("DELETE", path, query=_WITH_DEPENDENTS, but={_NOT_FOUND})

    async def _path(self, operation: Operation) -> str:
        version, kind = operation.api_version, operation.kind
        group, _, short = version.rpartition("/")
        if version not in self._plurals:
            found = await self._send("GET", _root(group, short))
            self._plurals[version] = {
                each["kind"]: (each["name"], each["namespaced"])
                for each in found["resources"]
                if "/" not in each["name"]
            }
        plural, is_namespaced = self._plurals[version][kind]
        scope = f"/namespaces/{operation.namespace}" if is_namespaced else ""
        return f"{_root(group, short)}{scope}/{plural}/{quote(operation.name)}"

    async def _ensure_namespace(self, name: str) -> None:
        if name in self._namespaces:
            return
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self._send("POST", "/api/v1/namespaces", body, but={_CONFLICT})
        self._namespaces.add(name)

    async def _send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        content_type: str = JSON,
        query: tuple[tuple[str, str], ...] = (),
        *,
        but: Collection[int] = (),
    ) -> JsonObject:
        """Send a request, and return the answer; some refusals may be no matter.

        Raises:
            RealRunError: it was refused.
        """
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self._transport.send(Request(method, path, query, data, content_type))
        found: JsonObject = msgspec.json.decode(answer.body)
        if answer.status >= _REFUSALS and answer.status not in but:
            raise RealRunError(
                f"{method} {path} was refused: {found.get('message', answer.status)}"
            )
        return found


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"
