"""A store and a cloud without a cluster: tests write what happens, and a watcher adds it up."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from helpers.autoscaler import JsonObject
from karpenter.simulate.observe.observations import Observations
from karpenter.simulate.observe.watcher import Watcher
from karpenter.simulate.seam import MachineEvent, PriceChange, View
from karpenter_sandbox.store.store import Key, Store

START = datetime(2030, 1, 7, tzinfo=UTC)
HOUR = 3600.0
MINUTE = 60.0


class Stage:
    """What happens, at moments that the test chooses."""

    def __init__(self, *, until: float = 2 * HOUR, warmup: float = 0.0, grid: float = 60.0) -> None:
        self.now = 0.0
        self.store = Store()
        self.watcher = Watcher()
        self.watcher.begin(
            View(
                start=START,
                until=until,
                warmup=warmup,
                grid=grid,
                store=self.store,
                types=(),
                now=lambda: self.now,
                price=lambda *_: 0.0,
            )
        )
        self.store.on_change(self.watcher.changed)

    def at(self, seconds: float) -> "Stage":
        """Go on to a moment."""
        self.now = seconds
        return self

    def machine(self, kind: str, name: str = "n", **more: Any) -> None:
        """The cloud tells of a machine."""
        known: dict[str, Any] = {
            "claim": f"claim-{name}",
            "pool": "default",
            "instance_type": "c-4x",
            "zone": "a",
            "capacity_type": "spot",
            "price": 0.10,
        }
        self.watcher.machine(MachineEvent(kind=kind, at=self.now, name=name, **(known | more)))

    def price(self, price: float, **more: Any) -> None:
        """A price moves."""
        place = {"instance_type": "c-4x", "zone": "a", "capacity_type": "spot"} | more
        self.watcher.priced(PriceChange(at=self.now, price=price, **place))

    def pool(self, obj: JsonObject) -> None:
        """A NodePool is created."""
        self.store.create(Key("karpenter.sh", "nodepools", "", obj["metadata"]["name"]), obj)

    def pod(
        self,
        name: str,
        *,
        owner: str = "",
        kind: str = "ReplicaSet",
        cpu: str = "500m",
        selector: Mapping[str, str] | None = None,
    ) -> None:
        """A pod is created."""
        metadata: JsonObject = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        if owner:
            reference = {"kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
            metadata["ownerReferences"] = [reference]
        requests = {"cpu": cpu, "memory": "1Gi"}
        spec = {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            "nodeSelector": dict(selector or {}),
        }
        self.store.create(_pod_key(name), {"metadata": metadata, "spec": spec, "status": {}})

    def runs(self, name: str, node: str = "n") -> None:
        """A pod is bound, and Ready at once."""
        conditions = [{"type": "Ready", "status": "True"}]
        self.change(
            name,
            spec={"nodeName": node},
            status={"phase": "Running", "conditions": conditions},
        )

    def evicted(self, name: str, reason: str = "EvictionByEvictionAPI") -> None:
        """A pod is marked as the target of a disruption, and goes."""
        mark = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        self.change(name, status={"conditions": [mark]})
        self.deleted(name)

    def deleted(self, name: str) -> None:
        """A pod is deleted and gone."""
        self.change(name, metadata={"deletionTimestamp": "2030-01-07T00:00:00Z"})
        self.store.remove(_pod_key(name))

    def change(self, name: str, **parts: Mapping[str, Any]) -> None:
        """Fields of a pod are written."""
        pod = self.store.get(_pod_key(name))
        assert pod is not None
        merged = {part: {**pod.get(part, {}), **fields} for part, fields in parts.items()}
        self.store.replace(_pod_key(name), {**pod, **merged})

    def finish(self) -> Observations:
        """Add up."""
        return self.watcher.finish()


def _pod_key(name: str) -> Key:
    return Key("", "pods", "default", name)
