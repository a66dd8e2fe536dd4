"""The judge finds each way in which a plan can be wrong, and nothing wrong with a plan that is not.

A plan that is right for one cluster is judged for another, or is tampered with; what breaks is
known beforehand. The solver only serves to make plans.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from helpers.builders import (
    APP_T,
    daemon_set,
    expression,
    instance_type,
    launching_node,
    managed_node,
    min_values,
    node_pool,
    offering,
    owner,
    pod,
    pod_term,
    pods,
    pv,
    pvc,
    reserved,
    selector,
    spread,
    storage_class,
    taint,
    toleration,
    unmanaged_node,
)
from helpers.random_clusters import DRIVER, Question
from karpenter.api.pods import Pod, PodAffinityTerm, PodResourceClaim, Toleration
from karpenter.checker.check import check_plan
from karpenter.checker.inputs import Rule
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Bound, Launch, Plan, Unplaced
from karpenter.scheduling.solve import solve
from karpenter.state.nodes import StateNode

SMALL: Final = instance_type("small", cpu="2", memory="2Gi", slots=10)
LARGE: Final = instance_type("large", cpu="16", memory="32Gi", slots=30)
ONE: Final = Question(
    pods=(pod("p", cpu="1", labels=APP_T),), pools=(node_pool(),), types=(SMALL, LARGE)
)
TWO: Final = replace(ONE, pods=tuple(pods(2, "p", cpu="500m", labels=APP_T)))
APART: Final = replace(  # two pods that must have two machines
    ONE, pods=tuple(pods(2, "p", cpu="500m", labels=APP_T, anti_affinity=[pod_term()]))
)
ON_NODE: Final = replace(ONE, nodes=(managed_node("n", cpu="4", memory="4Gi"),))
BOUND: Final = pod("other", labels=APP_T, node_name="n", cpu="1")


def judged(plan: Plan, question: Question) -> set[Rule]:
    return {violation.rule for violation in check_plan(question.cluster, plan)}


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(ONE, id="one pod on a new machine"),
        pytest.param(TWO, id="two pods on a new machine"),
        pytest.param(APART, id="two pods on two new machines"),
        pytest.param(ON_NODE, id="one pod on a machine that exists"),
        pytest.param(
            replace(ONE, types=(replace(SMALL, offerings=()),)), id="a pod that finds no place"
        ),
    ],
)
def test_a_plan_for_its_own_cluster_is_right(question: Question) -> None:
    assert set() == judged(solve(question.problem), question)


def with_pods(question: Question, *given: Pod) -> Question:
    return replace(question, pods=given)


def storing(question: Question, *, limit: int = 9) -> Question:
    """The same cluster with volumes in z2, and types that attach so many."""
    return replace(
        question,
        types=tuple(replace(t, volume_attachment_limits={DRIVER: limit}) for t in question.types),
        claims=(pvc("c0", volume="v0"), pvc("c1", storage_class="zonal")),
        volumes=(pv("v0", driver=DRIVER, terms=[[expression(keys.ZONE, "In", "z2")]]),),
        storage_classes=(storage_class("zonal", provisioner=DRIVER, zones=["z2"]),),
    )


@pytest.mark.parametrize(
    ("asked", "true", "rule"),
    [
        pytest.param(
            ONE, with_pods(ONE, pod("q")), Rule.ACCOUNTING, id="another pod was asked about"
        ),
        pytest.param(ONE, TWO, Rule.ACCOUNTING, id="a pod is missing"),
        pytest.param(
            ONE, replace(ONE, pools=(node_pool("b"),)), Rule.ACCOUNTING, id="the pool is gone"
        ),
        pytest.param(
            ON_NODE, replace(ON_NODE, nodes=()), Rule.ACCOUNTING, id="the machine is gone"
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", owners=[owner("DaemonSet", "d")])),
            Rule.IGNORED_KIND,
            id="a daemon was placed",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", owners=[owner("Node", "n", "v1")])),
            Rule.IGNORED_KIND,
            id="a mirror pod was placed",
        ),
        pytest.param(
            ON_NODE,
            with_pods(ON_NODE, pod("p", node_name="n")),
            Rule.IGNORED_KIND,
            id="a pod that has a node was placed",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", resource_claims=[PodResourceClaim(name="gpu")])),
            Rule.IGNORED_KIND,
            id="a pod that wants devices was placed",
        ),
        pytest.param(
            ONE,
            replace(ONE, pools=(node_pool(taints=[taint("k=v:NoSchedule")]),)),
            Rule.CLAIM,
            id="the claim lacks its pool's taint",
        ),
        pytest.param(
            ON_NODE,
            replace(ON_NODE, nodes=(managed_node("n", taints=[taint("k=v:NoExecute")]),)),
            Rule.TAINT,
            id="the machine's taint is not tolerated",
        ),
        pytest.param(
            ON_NODE,
            replace(ON_NODE, nodes=(managed_node("n", taints=[taint("k:PreferNoSchedule")]),)),
            Rule.TAINT,
            id="a soft taint counts where no pool has one",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", node_selector={keys.ZONE: "z1"})),
            Rule.NODE_DEMANDS,
            id="the claim may come up in another zone",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", required=[[expression("team", "Exists")]])),
            Rule.NODE_DEMANDS,
            id="the claim has no such label",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", required=[[expression("cores", "Gt", "4")]])),
            Rule.NODE_DEMANDS,
            id="one of the listed types has too few cores",
        ),
        pytest.param(
            ON_NODE,
            with_pods(ON_NODE, pod("p", required=[[expression(keys.ZONE, "NotIn", "z1")]])),
            Rule.NODE_DEMANDS,
            id="the machine is in an excluded zone",
        ),
        pytest.param(
            ONE,
            replace(ONE, pools=(node_pool(requirements=[expression(keys.ARCH, "In", "arm64")]),)),
            Rule.POOL_REQUIREMENTS,
            id="the claim leaves its pool's requirements",
        ),
        pytest.param(
            ONE,
            replace(ONE, types=(LARGE, SMALL.with_offerings((offering(available=False),)))),
            Rule.OFFERING,
            id="a listed type is sold out",
        ),
        pytest.param(ONE, replace(ONE, types=(LARGE,)), Rule.CLAIM, id="a listed type is gone"),
        pytest.param(
            ONE, with_pods(ONE, pod("p", cpu="3")), Rule.ROOM, id="a listed type is too small"
        ),
        pytest.param(
            ONE,
            replace(ONE, daemon_sets=(daemon_set("d", cpu="1"),)),
            Rule.ROOM,
            id="a daemon takes the room on a listed type",
        ),
        pytest.param(
            ON_NODE,
            replace(ON_NODE, nodes=(managed_node("n", cpu="1500m", pods=[BOUND]),)),
            Rule.ROOM,
            id="the machine is full",
        ),
        pytest.param(
            ON_NODE,
            replace(ON_NODE, daemon_sets=(daemon_set("d", cpu="3500m"),)),
            Rule.ROOM,
            id="a daemon will come to the machine",
        ),
        pytest.param(
            TWO,
            with_pods(TWO, *pods(2, "p", host_ports=[80])),
            Rule.HOST_PORT,
            id="two pods of a claim want one port",
        ),
        pytest.param(
            ONE,
            replace(
                with_pods(ONE, pod("p", host_ports=[80])),
                daemon_sets=(daemon_set("d", host_ports=[80]),),
            ),
            Rule.HOST_PORT,
            id="a daemon has the port",
        ),
        pytest.param(
            ON_NODE,
            replace(
                with_pods(ON_NODE, pod("p", host_ports=[80])),
                nodes=(managed_node("n", pods=[pod("q", node_name="n", host_ports=[80])]),),
            ),
            Rule.HOST_PORT,
            id="a pod of the machine has the port",
        ),
        pytest.param(
            ONE,
            storing(with_pods(ONE, pod("p", claims=["c0"]))),
            Rule.VOLUME_REACH,
            id="the claim may come up away from the volume",
        ),
        pytest.param(
            ON_NODE,
            storing(with_pods(ON_NODE, pod("p", claims=["c1"]))),
            Rule.VOLUME_REACH,
            id="the machine is away from where the volume will be",
        ),
        pytest.param(
            ONE,
            storing(with_pods(ONE, pod("p", claims=["c0", "c1"])), limit=1),
            Rule.VOLUME_LIMIT,
            id="the types attach fewer volumes",
        ),
        pytest.param(
            ON_NODE,
            replace(ON_NODE, nodes=(managed_node("n", marked=True),)),
            Rule.MACHINE,
            id="the machine is going away",
        ),
        pytest.param(
            TWO,
            with_pods(TWO, *pods(2, "p", labels=APP_T, spread=[spread(keys.HOSTNAME)])),
            Rule.SPREAD,
            id="two pods share a host",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", labels=APP_T, spread=[spread()])),
            Rule.SPREAD,
            id="the zone is left open",
        ),
        pytest.param(
            ON_NODE,
            replace(
                with_pods(ON_NODE, pod("p", labels=APP_T, spread=[spread()])),
                nodes=(managed_node("n", pods=[BOUND]),),
            ),
            Rule.SPREAD,
            id="other zones have fewer pods",
        ),
        pytest.param(
            ONE,
            with_pods(ONE, pod("p", affinity=[pod_term()])),
            Rule.AFFINITY,
            id="nobody it must be with is there",
        ),
        pytest.param(
            APART,
            with_pods(APART, *pods(2, "p", labels=APP_T, affinity=[pod_term()])),
            Rule.AFFINITY,
            id="pods that belong together are apart",
        ),
        pytest.param(
            TWO,
            with_pods(TWO, *pods(2, "p", labels=APP_T, anti_affinity=[pod_term()])),
            Rule.ANTI_AFFINITY,
            id="pods that keep apart are together",
        ),
        pytest.param(
            APART,
            with_pods(APART, *pods(2, "p", labels=APP_T, anti_affinity=[pod_term(key=keys.ZONE)])),
            Rule.ANTI_AFFINITY,
            id="pods that keep apart may come up in one zone",
        ),
        pytest.param(
            ON_NODE,
            replace(
                ON_NODE,
                nodes=(
                    managed_node("n", pods=[pod("q", node_name="n", anti_affinity=[pod_term()])]),
                ),
            ),
            Rule.ANTI_AFFINITY,
            id="a pod of the machine keeps it away",
        ),
        pytest.param(
            ONE,
            replace(ONE, pools=(node_pool(limits={"cpu": "8"}),)),
            Rule.POOL_LIMITS,
            id="the largest listed type exceeds the limit",
        ),
        pytest.param(
            APART,
            replace(APART, pools=(node_pool(limits={"nodes": "1"}),)),
            Rule.POOL_LIMITS,
            id="there are more nodes than the limit",
        ),
        pytest.param(
            ONE,
            replace(ONE, pools=(node_pool(requirements=[min_values(3, keys.INSTANCE_TYPE)]),)),
            Rule.MIN_VALUES,
            id="there is too little choice",
        ),
        pytest.param(
            ONE,
            replace(ONE, pools=(node_pool(), node_pool("first", weight=10))),
            Rule.POOL_ORDER,
            id="a heavier pool would have done",
        ),
    ],
)
def test_a_plan_for_another_cluster_is_wrong(asked: Question, true: Question, rule: Rule) -> None:
    plan = solve(asked.problem)

    assert rule in judged(plan, true)


def unplacing(plan: Plan) -> Plan:
    left_out = tuple(Unplaced(pod, ()) for claim in plan.claims for pod in claim.pods)
    return replace(plan, claims=(), unplaced=left_out, hourly_cost=0.0, least_cost=Bound)


def launching(name: str = "small", zone: str = "z1", price: float = 0.4) -> Callable[[Plan], Plan]:
    def change_launch(plan: Plan) -> Plan:
        (claim,) = plan.claims
        return replace(plan, claims=(replace(claim, launch=Launch(name, zone, "spot", price)),))

    return change_launch


@pytest.mark.parametrize(
    ("tamper", "rule"),
    [
        pytest.param(
            lambda plan: replace(plan, claims=plan.claims * 2), Rule.ACCOUNTING, id="twice there"
        ),
        pytest.param(
            lambda plan: replace(plan, deferred=("default/p",)),
            Rule.ACCOUNTING,
            id="placed and deferred",
        ),
        pytest.param(
            lambda plan: replace(plan, claims=(replace(plan.claims[0], instance_types=()),)),
            Rule.CLAIM,
            id="no type is listed",
        ),
        pytest.param(
            lambda plan: replace(
                plan, claims=(replace(plan.claims[0], instance_types=("small", "small")),)
            ),
            Rule.CLAIM,
            id="a type is listed twice",
        ),
        pytest.param(
            lambda plan: replace(plan, claims=(replace(plan.claims[0], launch=None),)),
            Rule.LAUNCH,
            id="no launch",
        ),
        pytest.param(launching(zone="z9"), Rule.LAUNCH, id="launched where it is not sold"),
        pytest.param(launching(price=0.01), Rule.LAUNCH, id="launched for a price nobody asks"),
        pytest.param(launching("large", price=4.8), Rule.LAUNCH, id="too dear"),
        pytest.param(
            lambda plan: replace(plan, hourly_cost=99.0), Rule.COST, id="another cost than its sum"
        ),
        pytest.param(
            lambda plan: replace(plan, least_cost=lambda: Bound(99.0)),
            Rule.COST,
            id="cheaper than possible",
        ),
        pytest.param(unplacing, Rule.COMPLETENESS, id="a pod is left out for no reason"),
    ],
)
def test_a_plan_that_was_tampered_with_is_wrong(tamper: Callable[[Plan], Plan], rule: Rule) -> None:
    plan = tamper(solve(ONE.problem))

    assert rule in judged(plan, ONE)


def test_a_reservation_is_not_promised_to_more_claims_than_it_has_machines() -> None:
    def selling(count: int) -> Question:
        return replace(
            APART, types=(instance_type("small", reservations=[reserved("r-1", count)]),)
        )

    plan = solve(selling(2).problem)

    assert set() == judged(plan, selling(2))
    assert Rule.RESERVATION in judged(plan, selling(1))


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(
            managed_node(
                "n", initialized=False, taints=[taint("node.kubernetes.io/not-ready:NoExecute")]
            ),
            id="a starting machine's passing taint",
        ),
        pytest.param(
            managed_node(
                "n",
                initialized=False,
                taints=[taint("starting:NoSchedule")],
                startup_taints=[taint("starting:NoSchedule")],
            ),
            id="a startup taint",
        ),
        pytest.param(
            managed_node("n", taints=[taint("cost.karpenter.sh/awaits-pods:NoSchedule")]),
            id="a machine kept for pods of a rebalance",
        ),
        pytest.param(launching_node("n"), id="a machine that is not a Node yet"),
        pytest.param(unmanaged_node("n"), id="somebody else's machine"),
    ],
)
def test_what_a_machine_may_have_is_no_violation(node: StateNode) -> None:
    question = replace(ON_NODE, nodes=(node,))

    assert set() == judged(Plan(existing={"n": ("default/p",)}), question)


def test_a_pod_that_tolerates_a_taint_may_come() -> None:
    tainted = replace(ON_NODE, nodes=(managed_node("n", taints=[taint("k=5:NoSchedule")]),))
    plan = Plan(existing={"n": ("default/p",)})

    def judged_with(tolerates: Toleration) -> set[Rule]:
        return judged(plan, with_pods(tainted, pod("p", tolerations=[tolerates])))

    assert set() == judged_with(toleration("k", "Equal", "5"))
    assert set() == judged_with(toleration("k", "Gt", "4"))
    assert {Rule.TAINT} == judged_with(toleration("k", "Lt", "4"))
    assert {Rule.TAINT} == judged_with(toleration("k", effect="NoExecute"))


def test_namespaces_of_a_term_are_read_as_kubernetes_does() -> None:
    def keeping_away(term: PodAffinityTerm) -> Question:
        away = pod("q", node_name="n", anti_affinity=[term])
        stranger = pod("p", namespace="other", labels=APP_T)
        return replace(with_pods(ON_NODE, stranger), nodes=(managed_node("n", pods=[away]),))

    def judged_by(term: PodAffinityTerm) -> set[Rule]:
        return judged(Plan(existing={"n": ("other/p",)}), keeping_away(term))

    assert set() == judged_by(pod_term())
    assert {Rule.ANTI_AFFINITY} == judged_by(pod_term(namespaces=["other"]))
    assert {Rule.ANTI_AFFINITY} == judged_by(pod_term(namespace_selector=selector()))
    assert set() == judged_by(pod_term(namespace_selector=selector({"env": "prod"})))
