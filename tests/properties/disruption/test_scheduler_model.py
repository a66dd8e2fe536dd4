"""The model of kube-scheduler chooses what the sandbox's scheduler chooses, up to ties.

They share no decision: the model is part of the planner, and the sandbox knows nothing of planners.
Where several nodes have the highest score the sandbox draws lots, so its choice has to be one of
the model's best, and both go on from there.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.placing import expression
from helpers.scheduler_bench import HOSTNAME, ZONE, Bench
from helpers.scheduler_chance import APPS, Chance
from karpenter.api.codec import convert_as
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.api.selectors import LabelSelector
from karpenter.disruption.rebalance.scheduler_model import SchedulerModel
from karpenter.disruption.rebalance.scheduler_rules import Place, SchedulerRules, SpreadRules
from karpenter.model.resources import Resources, total
from karpenter.state.requests import pod_requests
from karpenter_sandbox.scheduling.placement import Chosen

Json = dict[str, Any]


def place_of(obj: Json, pods: list[Json]) -> Place:
    node, staying = convert_as(obj, Node), tuple(convert_as(pod, Pod) for pod in pods)
    return Place(
        name=node.metadata.name,
        labels=node.metadata.labels,
        taints=node.spec.taints,
        allocatable=Resources.from_wire(node.status.allocatable),
        pods=staying,
        requested=total(map(pod_requests, staying)),
        is_unschedulable=node.spec.unschedulable,
    )


def built_in_spread(app: str) -> tuple[TopologySpreadConstraint, ...]:
    """What kube-scheduler gives to pods of a service that state no constraint."""
    selector = LabelSelector(match_labels={"app": app})
    return tuple(
        TopologySpreadConstraint(skew, key, "ScheduleAnyway", selector)
        for key, skew in ((HOSTNAME, 3), (ZONE, 5))
    )


def wishes(chance: Chance) -> Json:
    conditions = [expression(ZONE, "In", "z1"), expression("x", "Exists")]
    terms = [
        {"weight": chance.number(1, 100), "preference": {"matchExpressions": [condition]}}
        for condition in conditions
        if chance.happens(0.7)
    ]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def template(chance: Chance) -> Json:
    made = chance.template()
    if chance.happens(0.3):
        made["spec"]["affinity"].setdefault("nodeAffinity", {}).update(wishes(chance))
    if chance.happens(0.2):
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def named(template: Json, name: str) -> Json:
    return {**template, "metadata": {**template["metadata"], "name": name, "uid": name}}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_the_model_places_pods_as_the_sandbox_does(seed: int) -> None:
    chance, bench = Chance(seed), Bench()
    served = chance.pick([*APPS, ""])
    if served:
        bench.services.selectors["default"] = {"app": served}
    machines = [chance.machine(f"n{number}") for number in range(chance.number(1, 6))]
    kinds = [template(chance) for _ in range(chance.number(1, 3))]
    staying: dict[str, list[Json]] = {obj["metadata"]["name"]: [] for obj in machines}
    for number in range(chance.number(0, 8)):
        where = chance.pick(sorted(staying))
        staying[where].append(named(chance.pick(kinds), f"s{number}"))
    for obj in machines:
        bench.set_node(obj)
        bench.run(*staying[obj["metadata"]["name"]], on=obj["metadata"]["name"])
    moving = [named(chance.pick(kinds), f"p{number}") for number in range(chance.number(1, 15))]
    pods = [convert_as(obj, Pod) for obj in moving]

    def spread_of(pod: Pod) -> SpreadRules:
        if pod.spec.topology_spread_constraints:
            return SpreadRules(pod.spec.topology_spread_constraints)
        if served and pod.metadata.labels["app"] == served:
            return SpreadRules(built_in_spread(served), needs_labels=False)
        return SpreadRules()

    places = [place_of(obj, staying[obj["metadata"]["name"]]) for obj in machines]
    run = SchedulerModel(SchedulerRules(places, pods, spread_of=spread_of))
    for obj, pod in zip(moving, pods, strict=True):
        decision = bench.decision(obj)
        chosen = decision.node if isinstance(decision, Chosen) else ""

        best = run.best(pod)

        assert bool(chosen) == bool(best), (decision, best)
        if chosen:
            assert chosen in best
            bench.run(obj, on=chosen)
            run.put(pod, chosen)
