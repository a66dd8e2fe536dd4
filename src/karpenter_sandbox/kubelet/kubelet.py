"""Simulated kubelets: they make nodes ready, renew their leases, and run the pods bound to them.

A node is simulated when it carries the annotation ``kwok.x-k8s.io/node: fake``. What happens when,
and what goes wrong, is declared by annotations (see ``faults``) or injected through ``Machines``.
Unlike kwok, these kubelets let pods shut down within their grace period, never take finalizers
away, restart containers that exit, and take up to ten seconds to correct a status that another
client wrote.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend, parse_timestamp, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.kubelet import status as report
from karpenter_sandbox.kubelet.faults import Fault, is_simulated
from karpenter_sandbox.kubelet.machines import (
    NODE_NETWORK,
    Addresses,
    Machines,
    addresses_of,
)
from karpenter_sandbox.kubelet.pods import PodKubelet
from karpenter_sandbox.runtime.api_client import ApiClient
from karpenter_sandbox.runtime.events import microseconds
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing
from karpenter_sandbox.status import not_found
from karpenter_sandbox.store.store import Key

_LEASES: Final = ("coordination.k8s.io", "leases")

_Health = tuple[Fault | None, bool]  # what is wrong with a machine, and whether it is booting

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
RENEW_PERIOD: Final = 10.0
REPORT_PERIOD: Final = timedelta(minutes=5)  # between reports that say nothing new


class NodeKubelet(Controller):
    """Reports on nodes and renews their leases."""

    name = "kubelet-nodes"

    def __init__(self, runtime: Runtime, client: ApiClient, machines: Machines) -> None:
        super().__init__(runtime)
        self._client = client
        self._machines = machines
        self._nodes = runtime.informer("v1", "nodes")
        self._leases = runtime.informer("coordination.k8s.io/v1", "leases")
        self._nodes.add_index("address", addresses_of)
        self._addresses = Addresses(NODE_NETWORK, self._nodes, "address")
        # node -> resourceVersion with a correct status, its health, and until when that holds
        self._settled: dict[str, tuple[str, _Health, datetime]] = {}
        # node -> the object whose machine had booted, and a moment when it had
        self._booted: dict[str, tuple[JsonObject, datetime]] = {}
        self._renewed = (datetime.min.replace(tzinfo=UTC), "")  # a moment as leases write it
        self._nodes.on_change(self._enqueue)

    def _enqueue(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """Queue new nodes, and those with new annotations or an unknown Ready condition."""
        if new is None and old is not None:
            self._settled.pop(old["metadata"]["name"], None)
            self._booted.pop(old["metadata"]["name"], None)
        if new is None or not is_simulated(new):
            return
        if (
            old is None
            or old["metadata"].get("annotations") != new["metadata"].get("annotations")
            or (ready := find_condition(new, "Ready")) is None
            or ready["status"] == "Unknown"
        ):
            self.queue.add(("", new["metadata"]["name"]))

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Send one heartbeat of a node."""
        node = self._nodes.get(*key)
        if node is None or not is_simulated(node):
            return None
        now = self.clock.now()
        boots_in = 0.0
        if not self._has_booted(node, now):
            if (joins_in := self._machines.joins_in(node, now)) > 0:
                return joins_in
            boots_in = self._machines.boots_in(node, now)
            if boots_in <= 0:
                self._booted[key[1]] = (node, now)
        fault = self._machines.fault(node, now)
        if fault is Fault.DISAPPEARS:
            request = self._client.delete("v1", "nodes", None, key[1], uid=node["metadata"]["uid"])
            await ignoring_missing(request)
            return None
        if fault is None or not fault.is_silent:
            await self._renew_lease(node, now)
            await self._report(node, (fault, boots_in > 0), now)
        return min(RENEW_PERIOD, boots_in) if boots_in > 0 else RENEW_PERIOD

    def _has_booted(self, node: JsonObject, now: datetime) -> bool:
        """Whether a machine is known to have booted: its delay is not read at each heartbeat."""
        known = self._booted.get(node["metadata"]["name"])
        return known is not None and known[0] is node and now >= known[1]

    async def _report(self, node: JsonObject, health: _Health, now: datetime) -> None:
        name, version = node["metadata"]["name"], node["metadata"]["resourceVersion"]
        settled = self._settled.get(name)
        if settled is not None and settled[:2] == (version, health) and now < settled[2]:
            return
        fault, is_booting = health
        conditions = report.node_conditions(node, fault, timestamp(now), is_booting=is_booting)
        ready = find_condition(node, "Ready")
        is_known = bool((node.get("status") or {}).get("nodeInfo", {}).get("kubeletVersion"))
        if ready is not None and is_known and report.says_the_same(node, conditions):
            last = ready.get("lastHeartbeatTime")
            due = parse_timestamp(last) + REPORT_PERIOD if last else now
            if now < due:
                self._settled[name] = (version, health, due)
                return
        status: JsonObject = {"conditions": conditions}
        if not is_known:
            status |= report.node_status(node, self._addresses.next())
        await self._client.patch_status("v1", "nodes", None, name, status)
        # a second write, after the status, because a heartbeat must not wait for labels
        if not is_known and (labels := report.node_labels(node)):
            patch = {"metadata": {"labels": labels}}
            await self._client.patch("merge", "v1", "nodes", None, name, patch)

    async def _renew_lease(self, node: JsonObject, now: datetime) -> None:
        metadata = node["metadata"]
        name = metadata["name"]
        if now != self._renewed[0]:
            self._renewed = (now, microseconds(now))
        renewed = self._renewed[1]
        if self._leases.get(LEASE_NAMESPACE, name) is not None:
            patch = {"spec": {"renewTime": renewed}}
            await self._client.patch(
                "merge", "coordination.k8s.io/v1", "leases", LEASE_NAMESPACE, name, patch
            )
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"]}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [owner],
            },
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": renewed,
            },
        }
        await self._client.create(lease)


def add_kubelets(runtime: Runtime, client: ApiClient, machines: Machines | None = None) -> Machines:
    """Let simulated kubelets run in ``runtime``; the result takes faults while they do."""
    machines = machines or Machines()
    runtime.add(NodeKubelet(runtime, client, machines))
    runtime.add(PodKubelet(runtime, client, machines))
    return machines


class KubeletClient(Client):
    """A client that renews leases directly in the store and does everything else as usual.

    A thousand nodes renew a hundred leases every second. These writes come from the sandbox itself
    and change nothing but a time, so they need no validation.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._store = backend.store

    async def patch(
        self,
        patch_type: str,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        patch: Any,
        **options: Any,
    ) -> JsonObject:
        """Change an object in part."""
        if resource == _LEASES[1] and _is_renewal(patch):
            return self._renew(Key(*_LEASES, namespace or "", name), patch["spec"])
        return await super().patch(
            patch_type, api_version, resource, namespace, name, patch, **options
        )

    def _renew(self, key: Key, times: JsonObject) -> JsonObject:
        lease = self._store.get(key)
        if lease is None:
            raise not_found(*_LEASES, key.name)
        renewed = {**lease, "spec": {**lease["spec"], **times}}
        return self._store.put(key, renewed, is_read=True).obj


def _is_renewal(patch: Any) -> bool:
    return (
        isinstance(patch, dict) and list(patch) == ["spec"] and list(patch["spec"]) == ["renewTime"]
    )
