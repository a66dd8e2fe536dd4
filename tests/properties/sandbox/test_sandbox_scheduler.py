"""The sandbox's scheduler decides as if it looked at every node for every pod.

It never does: pods that are alike share what is known, and only nodes that changed are looked at
again. The reference below does look at every node and every pod, in the plainest way, following
the rules of kube-scheduler. Both walk through the same random history.
"""

import dataclasses
import math
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.scheduler_bench import HOSTNAME, Bench
from helpers.scheduler_chance import Chance
from karpenter.model.quantity import millis, units
from karpenter_sandbox.scheduling.placement import Chosen

Json = dict[str, Any]
Verdict = tuple[str, ...] | None


def matches(selector: Json | None, labels: Json) -> bool:
    return selector is not None and all(
        labels.get(key) == value for key, value in selector["matchLabels"].items()
    )


def meets(conditions: list[Json], labels: Json) -> bool:
    tests = {
        "In": lambda c: labels.get(c["key"]) in c["values"],
        "NotIn": lambda c: labels.get(c["key"]) not in c["values"],
        "Exists": lambda c: c["key"] in labels,
        "DoesNotExist": lambda c: c["key"] not in labels,
    }
    return all(tests[condition["operator"]](condition) for condition in conditions)


def terms(obj: Json, kind: str, rule: str = "required") -> list[Json]:
    rules = obj["spec"].get("affinity", {}).get(kind, {})
    found: list[Json] = rules.get(f"{rule}DuringSchedulingIgnoredDuringExecution", [])
    return found


class Reference:
    """A cluster as lists; every question is answered from scratch."""

    def __init__(self) -> None:
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, tuple[Json, str]] = {}  # name -> pod, node

    def on(self, name: str) -> list[Json]:
        return [obj for obj, place in self.pods.values() if place == name]

    def total(self, name: str, resource: str, *, assumed: int = 0) -> int:
        return sum(amount(obj, resource, assumed) for obj in self.on(name))

    def labels(self, name: str) -> Json:
        found: Json = self.nodes[name]["metadata"]["labels"]
        return found

    def domain(self, key: str, value: str) -> list[str]:
        return [name for name in self.nodes if self.labels(name).get(key) == value]

    def selects(self, obj: Json, name: str) -> bool:
        selector = obj["spec"].get("nodeSelector", {})
        if any(self.labels(name).get(key) != value for key, value in selector.items()):
            return False
        required = obj["spec"].get("affinity", {}).get("nodeAffinity", {})
        rule = required.get("requiredDuringSchedulingIgnoredDuringExecution")
        if rule is None:
            return True
        return any(
            meets(alternative["matchExpressions"], self.labels(name))
            for alternative in rule["nodeSelectorTerms"]
        )

    def intolerable(self, obj: Json, name: str, effect: str) -> list[Json]:
        keys = {toleration["key"] for toleration in obj["spec"].get("tolerations", ())}
        taints = self.nodes[name]["spec"].get("taints", ())
        return [t for t in taints if t["effect"] == effect and t["key"] not in keys]

    def constraints(self, obj: Json, action: str) -> list[Json]:
        listed = obj["spec"].get("topologySpreadConstraints", ())
        return [c for c in listed if c["whenUnsatisfiable"] == action]

    def counted(self, obj: Json, constraint: Json, action: str) -> list[str]:
        keys = [c["topologyKey"] for c in self.constraints(obj, action)]
        return [
            name
            for name in self.nodes
            if all(key in self.labels(name) for key in keys)
            and (constraint.get("nodeAffinityPolicy") == "Ignore" or self.selects(obj, name))
            and (
                constraint.get("nodeTaintsPolicy") != "Honor"
                or not self.intolerable(obj, name, "NoSchedule")
            )
        ]

    def meant(self, selector: Json | None, names: list[str]) -> int:
        return sum(
            matches(selector, other["metadata"]["labels"])
            for name in names
            for other in self.on(name)
        )

    def verdict(self, obj: Json, name: str) -> Verdict:
        """Why a node is no place for a pod, or None."""
        for check in (self.fixed, self.room, self.spreading, self.neighbours):
            reasons = check(obj, name)
            if reasons:
                return reasons
        return None

    def fixed(self, obj: Json, name: str) -> Verdict:
        if self.intolerable(obj, name, "NoSchedule"):
            return ("node(s) had untolerated taint(s)",)
        if not self.selects(obj, name):
            return ("node(s) didn't match Pod's node affinity/selector",)
        return None

    def room(self, obj: Json, name: str) -> Verdict:
        has = self.nodes[name]["status"]["allocatable"]
        reasons = []
        if len(self.on(name)) + 1 > int(has["pods"]):
            reasons.append("Too many pods")
        for resource in ("cpu", "memory"):
            wanted = amount(obj, resource)
            if wanted and wanted > capacity(has, resource) - self.total(name, resource):
                reasons.append(f"Insufficient {resource}")
        return tuple(reasons) or None

    def spreading(self, obj: Json, name: str) -> Verdict:
        for constraint in self.constraints(obj, "DoNotSchedule"):
            key, selector = constraint["topologyKey"], constraint["labelSelector"]
            value = self.labels(name).get(key)
            sentence = "node(s) didn't match pod topology spread constraints"
            if value is None:
                return (f"{sentence} (missing required label)",)
            counted = self.counted(obj, constraint, "DoNotSchedule")
            sums: Counter[str] = Counter()
            for other in counted:
                sums[self.labels(other)[key]] += self.meant(selector, [other])
            least = min(sums.values(), default=0)
            if len(sums) < constraint.get("minDomains", 1):
                least = 0
            itself = matches(selector, obj["metadata"]["labels"])
            if sums[value] + itself - least > constraint["maxSkew"]:
                return (sentence,)
        return None

    def neighbours(self, obj: Json, name: str) -> Verdict:
        near = terms(obj, "podAffinity")
        if near and not self.is_near(obj, near, name):
            return ("node(s) didn't match pod affinity rules",)
        for wanted in terms(obj, "podAntiAffinity"):
            value = self.labels(name).get(wanted["topologyKey"])
            if value and self.meant(
                wanted["labelSelector"], self.domain(wanted["topologyKey"], value)
            ):
                return ("node(s) didn't match pod anti-affinity rules",)
        for other, place in self.pods.values():
            for wanted in terms(other, "podAntiAffinity"):
                key = wanted["topologyKey"]
                value = self.labels(place).get(key)
                if (
                    matches(wanted["labelSelector"], obj["metadata"]["labels"])
                    and value
                    and self.labels(name).get(key) == value
                ):
                    return ("node(s) didn't satisfy existing pods anti-affinity rules",)
        return None

    def is_near(self, obj: Json, near: list[Json], name: str) -> bool:
        def all_mean(other: Json) -> bool:
            labels = other["metadata"]["labels"]
            return all(matches(wanted["labelSelector"], labels) for wanted in near)

        keys = [wanted["topologyKey"] for wanted in near]
        if any(key not in self.labels(name) for key in keys):
            return False
        friends = [place for other, place in self.pods.values() if all_mean(other)]
        if not any(key in self.labels(place) for place in friends for key in keys):
            return all_mean(obj)
        return all(
            any(self.labels(place).get(key) == self.labels(name)[key] for place in friends)
            for key in keys
        )

    def best(self, obj: Json) -> list[str]:
        """All nodes that have the highest score."""
        names = [name for name in self.nodes if self.verdict(obj, name) is None]
        if not names:
            return []
        scores = Counter({name: self.alone(obj, name) for name in names})
        taints = {n: len(self.intolerable(obj, n, "PreferNoSchedule")) for n in names}
        if most := max(taints.values()):
            for name in names:
                scores[name] += 3 * (100 - 100 * taints[name] // most)
        for name, score in self.soft_spread(obj, names).items():
            scores[name] += 2 * score
        for name, score in self.wishes(obj, names).items():
            scores[name] += 2 * score
        highest = max(scores[name] for name in names)
        return [name for name in names if scores[name] == highest]

    def alone(self, obj: Json, name: str) -> int:
        has = self.nodes[name]["status"]["allocatable"]
        least, used = 0, []
        for resource, assumed in (("cpu", 100), ("memory", 200 * 2**20)):
            size = capacity(has, resource)
            taken = self.total(name, resource, assumed=assumed) + amount(obj, resource, assumed)
            least += max(size - taken, 0) * 100 // size
            used.append(min((self.total(name, resource) + amount(obj, resource)) / size, 1.0))
        if not amount(obj, "cpu") and not amount(obj, "memory"):
            return least // 2
        return least // 2 + int((1 - abs(used[0] - used[1]) / 2) * 100)

    def soft_spread(self, obj: Json, names: list[str]) -> dict[str, int]:
        soft = self.constraints(obj, "ScheduleAnyway")
        if not soft:
            return {}
        keys = [c["topologyKey"] for c in soft]
        counted = [n for n in names if all(key in self.labels(n) for key in keys)]
        costs = {}
        for name in counted:
            cost = 0.0
            for constraint in soft:
                key, selector = constraint["topologyKey"], constraint["labelSelector"]
                if key == HOSTNAME:
                    size, pods = len(counted), self.meant(selector, [name])
                else:
                    size = len({self.labels(n)[key] for n in counted})
                    value = self.labels(name)[key]
                    inside = self.counted(obj, constraint, "ScheduleAnyway")
                    inside = [n for n in inside if self.labels(n)[key] == value]
                    pods = self.meant(selector, inside)
                cost += pods * math.log(size + 2) + constraint["maxSkew"] - 1
            costs[name] = math.floor(cost + 0.5)
        highest, lowest = max(costs.values(), default=0), min(costs.values(), default=0)
        return {
            name: 100 * (highest + lowest - cost) // highest if highest else 100
            for name, cost in costs.items()
        }

    def wishes(self, obj: Json, names: list[str]) -> dict[str, int]:
        worth: Counter[tuple[str, str]] = Counter()

        def add(wanted: Json, weight: int, labels: Json, place: str) -> None:
            key = wanted["topologyKey"]
            if matches(wanted["labelSelector"], labels) and key in self.labels(place):
                worth[key, self.labels(place)[key]] += weight

        for other, place in self.pods.values():
            mine, theirs = obj["metadata"]["labels"], other["metadata"]["labels"]
            for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                for wish in terms(obj, kind, "preferred"):
                    add(wish["podAffinityTerm"], sign * wish["weight"], theirs, place)
                for wish in terms(other, kind, "preferred"):
                    add(wish["podAffinityTerm"], sign * wish["weight"], mine, place)
            for wanted in terms(other, "podAffinity"):
                add(wanted, 1, mine, place)
        raw = {
            name: sum(worth[key, value] for key, value in self.labels(name).items())
            for name in names
        }
        highest, lowest = max(raw.values()), min(raw.values())
        if highest == lowest:
            return {}
        return {n: int(100 * ((value - lowest) / (highest - lowest))) for n, value in raw.items()}


def capacity(has: Json, resource: str) -> int:
    return millis(has[resource]) if resource == "cpu" else units(has[resource])


def amount(obj: Json, resource: str, assumed: int = 0) -> int:
    requests = obj["spec"]["containers"][0]["resources"]["requests"]
    return capacity(requests, resource) if resource in requests else assumed


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_every_decision_is_the_one_of_a_look_at_everything(seed: int) -> None:
    chance, bench, reference = Chance(seed), Bench(), Reference()
    kinds = [chance.template() for _ in range(chance.number(1, 3))]
    for number in range(chance.number(1, 6)):
        change_node(bench, reference, chance.machine(f"n{number}"))
    for step in range(40):
        event = chance.pick(["place"] * 6 + ["change", "relabel", "leave", "leave", "lose"])
        if event == "place":
            place(bench, reference, rename(chance.pick(kinds), f"p{step}"))
        elif event == "change":
            change_node(bench, reference, chance.machine(f"n{chance.number(0, 6)}"))
        elif event == "relabel":
            old = reference.nodes[chance.pick(sorted(reference.nodes))]
            labels = {**old["metadata"]["labels"], "x": str(step)}
            change_node(
                bench, reference, {**old, "metadata": {**old["metadata"], "labels": labels}}
            )
        elif event == "leave" and reference.pods:
            bench.remove(reference.pods.pop(chance.pick(sorted(reference.pods)))[0])
        elif event == "lose" and len(reference.nodes) > 1:
            lose_node(bench, reference, chance.pick(sorted(reference.nodes)))


def change_node(bench: Bench, reference: Reference, obj: Json) -> None:
    bench.set_node(obj)
    reference.nodes[obj["metadata"]["name"]] = obj


def lose_node(bench: Bench, reference: Reference, lost: str) -> None:
    bench.cluster.remove_node(lost)
    del reference.nodes[lost]
    for name in [name for name, (_, place) in reference.pods.items() if place == lost]:
        bench.remove(reference.pods.pop(name)[0])


def rename(template: Json, name: str) -> Json:
    return {**template, "metadata": {**template["metadata"], "name": name, "uid": name}}


def place(bench: Bench, reference: Reference, obj: Json) -> None:
    decision = bench.decision(obj)
    best = reference.best(obj)
    if isinstance(decision, Chosen):
        assert decision.node in best
        info = dataclasses.replace(bench.shapes.read(obj), node_name=decision.node)
        bench.cluster.set_pod(info)
        reference.pods[obj["metadata"]["name"]] = (obj, decision.node)
        return
    assert best == []
    reasons: Counter[str] = Counter()
    for name in reference.nodes:
        reasons.update(reference.verdict(obj, name) or ())
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    expected = f"0/{len(reference.nodes)} nodes are available: {counted}. no new claims"
    assert decision.message.startswith(expected)
