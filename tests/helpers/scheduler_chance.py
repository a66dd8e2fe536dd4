"""Random nodes and pods for schedulers: few kinds, so that they have much to do with each other."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from helpers.placing import expression, labelled, node_affinity, spread, term
from helpers.scheduler_bench import HOSTNAME, ZONE, node, pod, taint

Json = dict[str, Any]
T = TypeVar("T")

APPS = ["web", "db"]


class Chance:
    """Draws objects from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def happens(self, share: float) -> bool:
        return self._random.random() < share

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def some(self, most: int, make: Callable[[], T]) -> list[T]:
        return [make() for _ in range(self.number(0, most))]

    def term(self) -> Json:
        return term(labelled(app=self.pick(APPS)), self.pick([ZONE, HOSTNAME]))

    def wish(self) -> Json:
        return {"weight": self.number(1, 100), "podAffinityTerm": self.term()}

    def rules(self) -> Json:
        found: Json = {}
        if self.happens(0.5):
            found["requiredDuringSchedulingIgnoredDuringExecution"] = self.some(2, self.term)
        if self.happens(0.5):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = self.some(2, self.wish)
        return found

    def constraint(self) -> Json:
        more: Json = {}
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self.happens(0.3):
                more[policy] = self.pick(["Honor", "Ignore"])
        hard = self.happens(0.6)
        if hard and self.happens(0.2):
            more["minDomains"] = self.number(1, 3)
        return spread(
            self.pick([ZONE, HOSTNAME]),
            selector=labelled(app=self.pick(APPS)),
            max_skew=self.number(1, 3),
            hard=hard,
            **more,
        )

    def affinity(self) -> Json:
        affinity: Json = {}
        if self.happens(0.2):
            affinity["podAffinity"] = self.rules()
        if self.happens(0.25):
            affinity["podAntiAffinity"] = self.rules()
        if self.happens(0.2):
            conditions = [
                expression(ZONE, "In", "z1", "z2"),
                expression(ZONE, "Exists"),
                expression("x", "DoesNotExist"),
            ]
            affinity |= node_affinity([self.pick(conditions)], [self.pick(conditions)])
        return affinity

    def template(self) -> Json:
        spec: Json = {"affinity": self.affinity()}
        if self.happens(0.6):
            spec["topologySpreadConstraints"] = self.some(2, self.constraint)
        if self.happens(0.3):
            spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
        return pod(
            "template",
            cpu=self.pick(["", "100m", "500m"]),
            memory=self.pick(["", "128Mi", "512Mi"]),
            labels={"app": self.pick(APPS)},
            **spec,
        )

    def machine(self, name: str) -> Json:
        taints = []
        if self.happens(0.2):
            taints.append(taint("t", effect=self.pick(["NoSchedule", "PreferNoSchedule"])))
        return node(
            name,
            cpu=self.pick(["2", "4"]),
            memory=self.pick(["2Gi", "4Gi"]),
            pods=self.pick(["4", "110"]),
            zone=self.pick(["z1", "z1", "z2", "z2", "z3", None]),
            labels={"x": "1"} if self.happens(0.3) else {},
            taints=taints,
        )
