"""Random parts of a cluster: what a cloud sells, pools, pods, machines and what surrounds them."""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from parity.problems import NODE_CLASS, NOW, RESERVATION_ID, ZONES, Json

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
WAY: Final = "karpenter.sh/capacity-type"
TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
POOL: Final = "karpenter.sh/nodepool"
TEAM: Final = "example.com/team"  # a label of users
TEAMS: Final = ("red", "blue", "green")
SPOT, ON_DEMAND, RESERVED = "spot", "on-demand", "reserved"
GPU: Final = "fake.com/vendor-a"
APPS: Final = ("web", "db", "job")
_SETTLED: Final = ("Launched", "Registered", "Initialized", "Consolidatable")
_POOL_IS_READY: Final = ("ValidationSucceeded", "NodeClassReady", "Ready")
_NOW: Final = datetime.fromisoformat(NOW)


def ago(**amount: float) -> str:
    """A moment that so much time has passed since."""
    return (_NOW - timedelta(**amount)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Parts:
    """A source of random parts; the same seed gives the same parts."""

    def __init__(self, seed: str) -> None:
        """Begin with a seed."""
        self.random = random.Random(seed)
        self._count = 0

    def chance(self, likelihood: float) -> bool:
        """Whether something that happens so often happens now."""
        return self.random.random() < likelihood

    def one(self, choices: Sequence[Any]) -> Any:
        """One of these."""
        return self.random.choice(choices)

    def some(self, choices: Sequence[Any], least: int = 1) -> list[Any]:
        """Some of these, in their order."""
        count = self.random.randint(least, len(choices))
        chosen = set(self.random.sample(range(len(choices)), count))
        return [each for number, each in enumerate(choices) if number in chosen]

    def number(self) -> int:
        """A number that was not given before."""
        self._count += 1
        return self._count

    # What a cloud sells

    def types(self, *, gpus: bool = False, reservations: bool = False) -> list[Json]:
        """A catalogue of a few types."""
        made = []
        sizes = [(cpu, ratio) for cpu in (1, 2, 4, 8, 16) for ratio in (2, 4, 8)]
        for cpu, ratio in sorted(self.random.sample(sizes, self.random.randint(3, 8))):
            arch = "arm64" if self.chance(0.2) else "amd64"
            made.append(self._type(f"t{cpu}x{ratio}-{arch}", cpu, ratio, arch))
        if gpus:
            made.append(self._type("gpu", 8, 4, "amd64", {GPU: "2"}))
        if reservations:
            for number in range(self.random.randint(1, 3)):
                self._reserve(self.one(made), f"r-{number}")
        return made

    def _type(
        self, name: str, cpu: int, ratio: int, arch: str, more: Mapping[str, str] | None = None
    ) -> Json:
        base = 0.04 * cpu + 0.005 * cpu * ratio
        zones = self.some(ZONES, 2) if self.chance(0.3) else list(ZONES)
        ways = [SPOT, ON_DEMAND] if self.chance(0.85) else [ON_DEMAND]
        offerings = [
            {
                "zone": zone,
                "capacityType": way,
                "price": round(
                    base * (0.35 if way == SPOT else 1.0) * self.random.uniform(0.9, 1.1), 5
                ),
                "available": self.chance(0.93),
                "reservation": "",
                "left": 0,
            }
            for zone in zones
            for way in ways
        ]
        large = cpu > 4
        return {
            "name": name,
            "labels": {
                ARCH: [arch],
                OS: ["linux", "windows"] if self.chance(0.2) else ["linux"],
                "size": ["large" if large else "small"],
                "special": ["optional"] if large else [],
                "integer": [str(cpu)],
            },
            "capacity": {
                "cpu": str(cpu),
                "memory": f"{cpu * ratio}Gi",
                "pods": str(self.one((4, 8, 16, 30))),
                "ephemeral-storage": "20Gi",
                **(more or {}),
            },
            "overhead": {"cpu": "100m", "memory": "200Mi"},
            "volumeLimits": {},
            "offerings": offerings,
        }

    def _reserve(self, kind: Json, name: str) -> None:
        kind["offerings"].append(
            {
                "zone": self.one(ZONES),
                "capacityType": RESERVED,
                "price": round(self.random.uniform(0.0001, 0.001), 7),
                "available": True,
                "reservation": name,
                "left": self.random.randint(0, 3),
            }
        )

    # Pools

    def pool(self, name: str, **spec: Any) -> Json:
        """A pool that is ready; ``requirements``, ``taints``, ``labels``, ``limits`` and so on."""
        template: Json = {
            "metadata": {"labels": spec.pop("labels", {})},
            "spec": {
                "nodeClassRef": NODE_CLASS,
                "requirements": spec.pop("requirements", []),
                "taints": spec.pop("taints", []),
                "startupTaints": spec.pop("startup_taints", []),
                "expireAfter": "720h",
            },
        }
        disruption = {
            "consolidateAfter": spec.pop("after", "0s"),
            "consolidationPolicy": spec.pop("policy", "WhenEmptyOrUnderutilized"),
            "budgets": spec.pop("budgets", [{"nodes": "100%"}]),
        }
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {
                "name": name,
                "uid": f"uid-pool-{name}",
                "creationTimestamp": ago(days=30),
            },
            "spec": {"template": template, "disruption": disruption, **spec},
            "status": {"conditions": [_condition(each, ago(days=30)) for each in _POOL_IS_READY]},
        }

    def pools(self, most: int = 3) -> list[Json]:
        """Some pools that differ in weight and in what they want."""
        made = []
        for name in ("a", "b", "c")[: self.random.randint(1, most)]:
            spec: Json = {"requirements": self.some(self._wishes(), 0) if self.chance(0.5) else []}
            if self.chance(0.5):
                spec["weight"] = self.random.randint(1, 100)
            if self.chance(0.25):
                spec["limits"] = {self.one(("cpu", "memory")): str(self.one((4, 8, 20)))}
                if "memory" in spec["limits"]:
                    spec["limits"]["memory"] += "Gi"
            made.append(self.pool(name, **spec))
        return made

    def _wishes(self) -> list[Json]:
        return [
            _expression(WAY, "In", *self.some((SPOT, ON_DEMAND))),
            _expression(ZONE, "In", *self.some(ZONES)),
            _expression(ARCH, "In", self.one(("amd64", "arm64"))),
            _expression("integer", self.one(("Gt", "Lt")), str(self.one((1, 2, 4, 8)))),
        ]

    # Pods

    def pod(self, name: str = "", **spec: Any) -> Json:
        """A pod that waits; ``cpu``, ``memory``, ``labels`` or anything of its spec."""
        number = self.number()
        name = name or f"p{number}"
        requests = {
            "cpu": spec.pop("cpu", None) or f"{self.one((100, 250, 500, 1000, 1500, 3000))}m",
            "memory": spec.pop("memory", None) or f"{self.one((128, 512, 1024, 2048, 6144))}Mi",
            **spec.pop("requests", {}),
        }
        app = self.one(APPS)
        metadata = {
            "name": name,
            "namespace": spec.pop("namespace", "default"),
            "uid": f"{self.random.getrandbits(64):016x}",
            "labels": spec.pop("labels", {"app": app}),
            "annotations": spec.pop("annotations", {}),
            "creationTimestamp": ago(minutes=5, seconds=number),
            "ownerReferences": spec.pop("owners", [_owner("ReplicaSet", app)]),
        }
        containers = spec.pop("containers", None) or [
            {"name": "main", "image": "x", "resources": {"requests": requests}}
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": containers, **spec},
            "status": {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "lastTransitionTime": ago(minutes=4),
                    }
                ],
            },
        }

    def bound(self, node: str, **spec: Any) -> Json:
        """A pod that runs on a node."""
        made = self.pod(**spec)
        made["spec"]["nodeName"] = node
        made["status"] = {
            "phase": "Running",
            "startTime": ago(hours=1),
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": ago(hours=1)}
                for kind in ("PodScheduled", "Ready")
            ],
        }
        return made

    def daemon_set(self, name: str, **spec: Any) -> Json:
        """A DaemonSet that takes a little of every node."""
        requests = {
            "cpu": f"{self.one((50, 100, 300))}m",
            "memory": f"{self.one((64, 256))}Mi",
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "kube-system", "uid": f"uid-ds-{name}"},
            "spec": {
                "selector": {"matchLabels": {"ds": name}},
                "template": {
                    "metadata": {"labels": {"ds": name}},
                    "spec": {
                        "containers": [
                            {"name": "main", "image": "x", "resources": {"requests": requests}}
                        ],
                        **spec,
                    },
                },
            },
        }

    # Machines

    def machine(self, name: str, pool: Json | None, kind: Json, **traits: Any) -> list[Json]:
        """A Node, with its NodeClaim where it is of a pool.

        ``offering`` is how it was bought, ``stage`` is "initialized", "registered" or "launched",
        ``claim_conditions`` are added to those of a settled one, ``without`` are taken away.
        """
        way = traits.pop("offering", None) or self.one(kind["offerings"])
        stage = traits.pop("stage", "initialized")
        labels = {key: values[0] for key, values in kind["labels"].items() if len(values) == 1} | {
            TYPE: kind["name"],
            ZONE: way["zone"],
            WAY: way["capacityType"],
            OS: "linux",
            **({RESERVATION_ID: way["reservation"]} if way["reservation"] else {}),
            **traits.pop("labels", {}),
        }
        created = traits.pop("created", ago(hours=2, seconds=self.number()))
        size = {"capacity": kind["capacity"], "allocatable": _left(kind)}
        taints = list(traits.pop("taints", []))
        made: list[Json] = []
        claim_conditions = traits.pop("claim_conditions", [])
        without = set(traits.pop("without", ()))
        if pool is not None:
            template = pool["spec"]["template"]
            labels |= {POOL: pool["metadata"]["name"], **template["metadata"]["labels"]}
            stages = {"initialized": 4, "registered": 2, "launched": 1}[stage]
            kept = [each for each in _SETTLED[:stages] if each not in without]
            made.append(
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodeClaim",
                    "metadata": {
                        "name": f"claim-{name}",
                        "uid": f"uid-claim-{name}",
                        "labels": labels,
                        "annotations": traits.pop("claim_annotations", {}),
                        "creationTimestamp": created,
                        "ownerReferences": [_owner("NodePool", pool["metadata"]["name"])],
                        "finalizers": ["karpenter.sh/termination"],
                    },
                    "spec": {
                        "nodeClassRef": NODE_CLASS,
                        "requirements": [],
                        "taints": template["spec"]["taints"],
                        "startupTaints": template["spec"]["startupTaints"],
                        "expireAfter": "720h",
                        **traits.pop("claim_spec", {}),
                    },
                    "status": {
                        "providerID": f"test://{name}",
                        "nodeName": name if stage != "launched" else "",
                        "imageID": "",
                        **size,
                        **traits.pop("claim_status", {}),
                        "conditions": [
                            *(_condition(each, created) for each in kept),
                            *claim_conditions,
                        ],
                    },
                }
            )
            taints += template["spec"]["taints"]
            if stage == "registered":
                taints += template["spec"]["startupTaints"]
            labels = labels | {
                "registered": {"karpenter.sh/registered": "true"},
                "initialized": {
                    "karpenter.sh/registered": "true",
                    "karpenter.sh/initialized": "true",
                },
            }.get(stage, {})
        if stage == "launched":
            return made
        made.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "uid": f"uid-node-{name}",
                    "labels": {**labels, HOST: name},
                    "annotations": traits.pop("annotations", {}),
                    "creationTimestamp": created,
                    "finalizers": ["karpenter.sh/termination"],
                },
                "spec": {"providerID": f"test://{name}", "taints": taints},
                "status": {
                    **size,
                    "conditions": traits.pop("node_conditions", [_node_ready(created)]),
                },
            }
        )
        return made

    def expression(self, key: str, operator: str, *values: str) -> Json:
        """A requirement of a node."""
        return _expression(key, operator, *values)

    def condition(self, kind: str, at: str, status: str = "True") -> Json:
        """A condition of a NodeClaim."""
        return _condition(kind, at, status)


def _expression(key: str, operator: str, *values: str) -> Json:
    return (
        {"key": key, "operator": operator, "values": list(values)}
        if values
        else {
            "key": key,
            "operator": operator,
        }
    )


def _condition(kind: str, at: str, status: str = "True") -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": at,
    }


def _node_ready(at: str) -> Json:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastTransitionTime": at,
        "lastHeartbeatTime": ago(seconds=5),
    }


def _owner(kind: str, name: str) -> Json:
    group = {"ReplicaSet": "apps/v1", "NodePool": "karpenter.sh/v1"}[kind]
    return {
        "apiVersion": group,
        "kind": kind,
        "name": name,
        "uid": f"uid-{kind}-{name}",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _left(kind: Json) -> Json:
    """What is left of a type after its overhead; every amount here is written without surprises."""
    capacity = kind["capacity"]
    cpu = int(capacity["cpu"]) * 1000 - 100
    memory = int(capacity["memory"].removesuffix("Gi")) * 1024 - 200
    return {**capacity, "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
