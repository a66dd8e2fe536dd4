"""Controllers of Endpoints and EndpointSlices."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.owning import GATHERING
from karpenter_sandbox.controllers.pods import controller_reference, is_leaving
from karpenter_sandbox.controllers.services import endpoint_addresses
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

_SERVICE: Final = "kubernetes.io/service-name"
_SLICES_BY: Final = "endpointslice.kubernetes.io/managed-by"
_SLICES: Final = "endpointslice-controller.k8s.io"
_ENDPOINTS_BY: Final = "endpoints.kubernetes.io/managed-by"
_ENDPOINTS: Final = "endpoint-controller"
_BY_SERVICE: Final = "service"
# Every change rewrites all endpoints of a service, so the debounce grows with their number
_GATHERING_EACH: Final = 0.002
_LONGEST_GATHERING: Final = 2.0


class _ServiceFollower(Controller):
    """Base of both: reconciles a service when it, or a pod that it selects, changes."""

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self.client: Final = client
        self.services: Final = runtime.informer("v1", "services")
        self.pods: Final = runtime.informer("v1", "pods")
        self._sizes: dict[ObjectKey, int] = {}  # service -> pods it had at the last reconcile
        self.follow(self.services)
        self.services.on_change(self._forget)
        self.pods.on_change(self._follow_pod)

    def selected(self, service: JsonObject) -> list[JsonObject]:
        """The pods that a service selects."""
        selector = service["spec"]["selector"].items()
        found = [
            pod
            for pod in self.pods.list(service["metadata"]["namespace"])
            if selector <= (pod["metadata"].get("labels") or {}).items()
        ]
        self._sizes[key_of(service)] = len(found)
        return found

    def _follow_pod(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if endpoint_addresses.facts(old) == endpoint_addresses.facts(new):
            return
        for pod in (old, new):
            if pod is None:
                continue
            labels = (pod["metadata"].get("labels") or {}).items()
            for service in self.services.list(pod["metadata"]["namespace"]):
                selector = service["spec"].get("selector")
                if selector and selector.items() <= labels:
                    key = key_of(service)
                    wait = GATHERING + self._sizes.get(key, 0) * _GATHERING_EACH
                    self.queue.add_after(key, min(wait, _LONGEST_GATHERING))

    def _forget(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None and old is not None:
            self._sizes.pop(key_of(old), None)


class EndpointsController(_ServiceFollower):
    name = "endpoint-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._endpoints = runtime.informer("v1", "endpoints")
        self.follow(self._endpoints)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Write down the addresses of the pods of a service."""
        service, known = self.services.get(*key), self._endpoints.get(*key)
        if service is None:
            if known is not None and _is_ours(known, _ENDPOINTS_BY, _ENDPOINTS):
                await ignoring_missing(self.client.delete("v1", "endpoints", *key))
            return None
        if not endpoint_addresses.has_endpoints(service) or is_leaving(service):
            return None
        pods = self.selected(service)
        subsets = endpoint_addresses.subsets(service, pods)
        labels = {**endpoint_addresses.labels_of(service), _ENDPOINTS_BY: _ENDPOINTS}
        if (
            known is not None
            and (known.get("subsets") or []) == subsets
            and (known["metadata"].get("labels") or {}) == labels
        ):
            return None
        metadata = {
            **(known["metadata"] if known is not None else {}),
            "name": key[1],
            "namespace": key[0],
            "labels": labels,
            "annotations": {
                endpoint_addresses.CHANGED: endpoint_addresses.last_change(service, pods)
            },
        }
        changed = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
        if subsets:
            changed["subsets"] = subsets
        await (self.client.create(changed) if known is None else self.client.update(changed))
        return None


class EndpointSliceController(_ServiceFollower):
    name = "endpointslice-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._nodes = runtime.informer("v1", "nodes")
        self._slices = runtime.informer("discovery.k8s.io/v1", "endpointslices")
        self._slices.add_index(_BY_SERVICE, _service_keys)
        self.follow(self._slices, _service_keys)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Write down the endpoints of a service in as many slices as it takes."""
        service = self.services.get(*key)
        # the garbage collector deletes the slices of a deleted service
        if service is None or is_leaving(service) or not endpoint_addresses.has_endpoints(service):
            return None
        pods = self.selected(service)
        wanted = endpoint_addresses.slices(service, pods, self._zones(pods))
        known = sorted(
            self._slices.by_index(_BY_SERVICE, key), key=lambda found: found["metadata"]["name"]
        )
        changed = endpoint_addresses.last_change(service, pods)
        for part, there in zip_longest(wanted, known):
            if part is None:
                await self._remove(there)
            else:
                await self._write(service, part, there, changed)
        return None

    async def _write(
        self,
        service: JsonObject,
        part: endpoint_addresses.Slice,
        known: JsonObject | None,
        changed: str,
    ) -> None:
        place = service["metadata"]
        labels = endpoint_addresses.labels_of(service) | {
            _SERVICE: place["name"],
            _SLICES_BY: _SLICES,
        }
        if (
            known is not None
            and (known.get("endpoints") or []) == part.endpoints
            and (known.get("ports") or []) == part.ports
            and known["metadata"].get("labels") == labels
        ):
            return
        identity = {
            "namespace": place["namespace"],
            "generateName": f"{place['name']}-",
            "ownerReferences": [controller_reference(service)],
        }
        obj: JsonObject = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                **(known["metadata"] if known is not None else identity),
                "labels": labels,
                "annotations": {endpoint_addresses.CHANGED: changed},
            },
            "addressType": "IPv4",
            "endpoints": part.endpoints,
            "ports": part.ports,
        }
        await (self.client.create(obj) if known is None else self.client.update(obj))

    async def _remove(self, known: JsonObject) -> None:
        place = key_of(known)
        await ignoring_missing(self.client.delete("discovery.k8s.io/v1", "endpointslices", *place))

    def _zones(self, pods: Sequence[JsonObject]) -> dict[str, str]:
        zones = {}
        for name in {pod["spec"].get("nodeName") or "" for pod in pods}:
            node = self._nodes.get("", name)
            zone = (
                (node["metadata"].get("labels") or {}).get(endpoint_addresses.ZONE)
                if node
                else None
            )
            if zone:
                zones[name] = zone
        return zones


def _is_ours(obj: JsonObject, label: str, value: str) -> bool:
    return (obj["metadata"].get("labels") or {}).get(label) == value


def _service_keys(found: JsonObject) -> tuple[ObjectKey, ...]:
    metadata = found["metadata"]
    if not _is_ours(found, _SLICES_BY, _SLICES):
        return ()
    return ((metadata["namespace"], metadata["labels"][_SERVICE]),)
