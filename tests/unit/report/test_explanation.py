"""The story of a pod names its place, every check with its figures, and what else was possible."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from helpers.builders import (
    APP_T,
    FACTS_F,
    NOW,
    condition,
    expression,
    instance_type,
    managed_node,
    min_values,
    node_pool,
    pod,
    pod_term,
    pods,
    reserved,
    spread,
    taint,
    toleration,
    unmanaged_node,
)
from helpers.solver import FIXTURE_F
from karpenter.api.meta import Resource
from karpenter.api.pods import PodResourceClaim
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.report.pod_explanation import explain_pod, explanation_document
from karpenter.scheduling.problem import Options
from karpenter.scheduling.provisioning import PassSettings, plan_provisioning
from karpenter.scheduling.reasons.pod_verdicts import SolveCapture
from karpenter.state.cluster import snapshot_of
from karpenter.state.nodes import StateNode


def explained(
    name: str,
    *resources: Resource | StateNode,
    types: Sequence[InstanceType] = FIXTURE_F,
    settings: PassSettings | None = None,
) -> dict[str, Any]:
    """Plan for a cluster of these objects and ask about one pod."""
    listed: list[Resource] = []
    for each in resources:
        parts = (each.node, each.node_claim, *each.pods) if isinstance(each, StateNode) else (each,)
        listed += [part for part in parts if part is not None]
    snapshot = snapshot_of(listed)
    catalogue = tuple(types)
    captured = SolveCapture()
    outcome = plan_provisioning(
        snapshot,
        lambda _: catalogue,
        FACTS_F,
        settings or PassSettings(),
        now=NOW,
        witness=captured,
    )
    told = explain_pod(f"default/{name}", snapshot, outcome, captured)
    document: dict[str, Any] = json.loads(json.dumps(explanation_document(told)))
    return document


def checks(document: dict[str, Any], pool: str = "np") -> dict[str, bool]:
    """How each check of a pool went."""
    (verdict,) = [each for each in document["nodePools"] if each["nodePool"] == pool]
    return {check["check"]: check["passed"] for check in verdict["checks"]}


def detail(document: dict[str, Any], check: str, pool: str = "np") -> str:
    """What a check of a pool says."""
    (verdict,) = [each for each in document["nodePools"] if each["nodePool"] == pool]
    return "; ".join(each["detail"] for each in verdict["checks"] if each["check"] == check)


def wishes(document: dict[str, Any]) -> dict[str, bool]:
    return {wish["wish"]: wish["met"] for wish in document["wishes"]}


def refusals(document: dict[str, Any]) -> dict[str, list[str]]:
    return {each["detail"]: each["nodes"] for each in document["nodes"]["refused"]}


def test_a_pod_on_a_new_node_is_told_its_place_and_the_next_best() -> None:
    types = [instance_type(name, cpu=cpu) for name, cpu in (("c2", "2"), ("c4", "4"), ("c8", "8"))]

    told = explained("a", node_pool(), *(pod(n, cpu="1500m") for n in "ab"), types=types)

    assert ("NewNode", "") == (told["outcome"], told["reason"])
    place = told["place"]
    assert ("np", ["default/a", "default/b"]) == (place["nodePool"], place["pods"])
    assert ("c4", "c8") == (place["launch"]["instanceType"], place["nextBest"]["instanceType"])
    assert (2, 0) == (place["instanceTypes"], place["equallyCheap"])
    (pool,) = told["nodePools"]
    assert (True, "c2") == (pool["possible"], pool["cheapest"]["instanceType"])
    assert {"cpu": "1500m", "pods": "1"} == told["requests"]


def test_types_at_the_same_price_are_counted() -> None:
    types = [instance_type(name, cpu="2") for name in ("x", "y", "z")]

    told = explained("a", node_pool(), pod("a", cpu="1"), types=types)

    assert (2, None) == (told["place"]["equallyCheap"], told["place"]["nextBest"])


def test_a_pod_on_a_machine_that_exists_is_told_which_others_could_take_it() -> None:
    machines = [managed_node(name, cpu="2") for name in ("n1", "n2")]

    told = explained("a", node_pool(), *machines, pod("a", cpu="1"))

    assert ("ExistingNode", "n1") == (told["outcome"], told["place"]["node"])
    assert (2, ["n1", "n2"]) == (told["nodes"]["total"], told["nodes"]["possible"])


def test_its_own_node_does_not_count_against_a_pod() -> None:
    told = explained("a", node_pool(limits={"nodes": "1"}), pod("a", cpu="1"))

    assert {"taints": True, "limits": True, "room": True} == checks(told)
    assert detail(told, "limits") == "1 of 1 nodes left"


def test_a_pod_is_not_counted_in_the_domains_it_is_told_about() -> None:
    told = explained("pod-0", node_pool(), *pods(3, cpu="1", labels=APP_T, spread=[spread()]))

    said = detail(told, "topology")
    assert "spread of app=t over topology.kubernetes.io/zone, maxSkew 1" in said
    assert "z1=0, z2=1, z3=1" in said
    assert "open to z1" in said


def test_a_pod_that_fits_nowhere_has_the_failing_check_of_every_pool() -> None:
    pools = [
        node_pool("small"),
        node_pool("tainted", taints=[taint("dedicated=gpu:NoSchedule")]),
        node_pool("zoned", requirements=[expression(keys.ZONE, "In", "z1")]),
        node_pool("asleep", conditions=[condition("Ready", "False", "Maintenance")]),
    ]
    wanted = pod("a", cpu="1", node_selector={keys.ZONE: "z3", "team": "x"})

    told = explained("a", *pools, wanted)

    assert ("Unplaced", None) == (told["outcome"], told["place"])
    assert "none of 4 pools takes it" == told["detail"]
    assert {"taints": False, "labels": False} == checks(told, "tainted")
    assert {"taints": True, "labels": False} == checks(told, "zoned")
    assert {} == checks(told, "asleep")
    assert ["NodePoolNotReady"] == [
        pool["reason"] for pool in told["nodePools"] if pool["nodePool"] == "asleep"
    ]


def test_one_reason_for_all_is_named() -> None:
    told = explained("a", node_pool(), pod("a", cpu="512"))

    assert "InsufficientResources" == told["reason"]
    assert "needs 512 cpu; the largest type has 15.9" == told["detail"]


def test_the_room_check_counts_types_and_names_the_largest() -> None:
    types = [instance_type(f"c{n}", cpu=str(n), memory="4Gi") for n in (2, 4, 8)]

    told = explained("a", node_pool(), pod("a", cpu="3"), types=types)

    assert detail(told, "room") == (
        "2 of 3 instance types have it; the largest leaves 7.9 cpu and 4086Mi memory"
    )


@pytest.mark.parametrize(
    ("options", "check", "said"),
    [
        pytest.param({"host_ports": [8080]}, "ports", "host port 8080/TCP free", id="host ports"),
        pytest.param(
            {"tolerations": [toleration()]}, "taints", "tolerates dedicated:NoSchedule", id="taints"
        ),
        pytest.param(
            {"node_selector": {keys.ZONE: "z1"}},
            "labels",
            "the pool goes with topology.kubernetes.io/zone In [z1]",
            id="labels",
        ),
        pytest.param(
            {"anti_affinity": [pod_term()], "labels": APP_T},
            "topology",
            "pod anti-affinity with app=t by kubernetes.io/hostname: a new node will do",
            id="anti-affinity",
        ),
    ],
)
def test_checks_that_pass_say_what_they_looked_at(
    options: dict[str, Any], check: str, said: str
) -> None:
    pool = node_pool(
        taints=[taint("dedicated:NoSchedule")] if check == "taints" else [],
        limits={"cpu": "100"},
    )

    told = explained("a", pool, pod("a", **options))

    assert said in detail(told, check)
    assert all(checks(told).values())


def test_minimum_choice_is_a_check() -> None:
    pool = node_pool(requirements=[min_values(2, keys.INSTANCE_TYPE)])

    placed = explained("a", pool, pod("a", cpu="1"))
    refused = explained("a", pool, pod("a", cpu="8"))

    assert checks(placed)["minValues"]
    assert {"taints": True, "room": True, "minValues": False} == checks(refused)


def test_a_pod_that_waits_for_a_reservation_is_told_so() -> None:
    types = [instance_type("r", cpu="4", reservations=[reserved("r-1", 1)])]

    told = explained("b", node_pool(), pod("a", cpu="3"), pod("b", cpu="3"), types=types)

    assert ("Deferred", "ReservedCapacityTaken") == (told["outcome"], told["reason"])
    assert False is checks(told)["reservations"]


def test_a_free_reservation_is_a_check_that_passes() -> None:
    types = [instance_type("r", cpu="4", reservations=[reserved("r-1", 5)])]

    told = explained("a", node_pool(), pod("a", cpu="3"), types=types)

    assert checks(told)["reservations"]


def test_wishes_say_whether_the_place_grants_them() -> None:
    wanted = pod(
        "a",
        cpu="1",
        preferred=[
            (10, [expression(keys.CAPACITY_TYPE, "In", "on-demand")]),
            (5, [expression(keys.ARCH, "In", "sparc")]),
        ],
    )

    told = explained("a", node_pool(), wanted)

    assert {
        "prefers karpenter.sh/capacity-type In [on-demand] (weight 10)": False,
        "prefers kubernetes.io/arch In [sparc] (weight 5)": False,
    } == wishes(explained("a", node_pool(requirements=[_spot_only()]), wanted))
    assert wishes(told)["prefers kubernetes.io/arch In [sparc] (weight 5)"] is False


def _spot_only() -> Any:
    return expression(keys.CAPACITY_TYPE, "In", "spot")


def test_a_wish_that_is_granted_is_met() -> None:
    wanted = pod("a", cpu="1", preferred=[(1, [expression(keys.ZONE, "In", "z2")])])

    told = explained("a", node_pool(), wanted)

    assert {"prefers topology.kubernetes.io/zone In [z2] (weight 1)": True} == wishes(told)
    assert told["place"]["launch"]["zone"] == "z2"


def test_soft_spread_is_a_wish() -> None:
    even = explained(
        "pod-0", node_pool(), *pods(2, cpu="1", labels=APP_T, spread=[spread(soft=True)])
    )
    pinned = node_pool(requirements=[expression(keys.ZONE, "In", "z1")])
    machine = managed_node("n", zone="z2", taints=[taint("x:NoSchedule")])
    uneven = explained(
        "pod-0", pinned, machine, *pods(3, cpu="1", labels=APP_T, spread=[spread(soft=True)])
    )

    text = "prefers spread of app=t over topology.kubernetes.io/zone, maxSkew 1"
    assert {text: True} == wishes(even)
    assert {text: False} == wishes(uneven)


@pytest.mark.parametrize(
    ("options", "is_met"),
    [
        pytest.param({"preferred_affinity": [(3, pod_term({"app": "b"}, keys.ZONE))]}, True),
        pytest.param({"preferred_anti_affinity": [(3, pod_term({"app": "b"}, keys.ZONE))]}, True),
        pytest.param({"preferred_affinity": [(3, pod_term({"app": "gone"}, keys.ZONE))]}, False),
    ],
    ids=["together", "apart", "with nobody"],
)
def test_preferred_pod_affinity_is_a_wish(options: dict[str, Any], is_met: bool) -> None:
    other = unmanaged_node(
        "n", zone="z1", cpu="1", pods=[pod("b", cpu="1", labels={"app": "b"}, node_name="n")]
    )

    told = explained("a", node_pool(), other, pod("a", cpu="1", **options))

    assert [is_met] == list(wishes(told).values())


def test_alternatives_are_listed_up_to_the_one_that_is_used() -> None:
    wanted = pod(
        "a",
        cpu="1",
        required=[[expression(keys.ZONE, "In", zone)] for zone in ("z9", "z2", "z3")],
    )

    told = explained("a", node_pool(), wanted)

    assert {
        "alternative 1 of 3: topology.kubernetes.io/zone In [z9]": False,
        "alternative 2 of 3: topology.kubernetes.io/zone In [z2]": True,
    } == wishes(told)


def test_a_soft_taint_that_is_borne_is_a_wish_given_up() -> None:
    told = explained("a", node_pool(taints=[taint("slow:PreferNoSchedule")]), pod("a", cpu="1"))

    assert {"stays away from slow:PreferNoSchedule": False} == wishes(told)


def test_wishes_that_are_ignored_are_none() -> None:
    settings = PassSettings(options=Options(respect_preferences=False))
    wanted = pod("a", cpu="1", preferred=[(1, [expression(keys.ZONE, "In", "z2")])])

    assert {} == wishes(explained("a", node_pool(), wanted, settings=settings))


def test_machines_that_refuse_are_counted_by_reason() -> None:
    machines = [
        managed_node("full-1", cpu="1"),
        managed_node("full-2", cpu="2"),
        managed_node("tainted", taints=[taint("dedicated=gpu:NoSchedule")]),
        managed_node("elsewhere", zone="z2"),
    ]

    told = explained(
        "a", node_pool(), *machines, pod("a", cpu="3", node_selector={keys.ZONE: "z1"})
    )

    assert {
        "too little cpu: needs 3, the most that is free is 2": ["full-1", "full-2"],
        "the pod does not tolerate dedicated=gpu:NoSchedule": ["tainted"],
        "labels do not match topology.kubernetes.io/zone In [z1]": ["elsewhere"],
    } == refusals(told)
    assert (4, []) == (told["nodes"]["total"], told["nodes"]["possible"])


def test_what_the_pass_put_on_a_machine_counts() -> None:
    told = explained("b", node_pool(), managed_node("n", cpu="3"), *(pod(n, cpu="2") for n in "ab"))

    assert {"too little cpu: needs 2, the most that is free is 1": ["n"]} == refusals(told)


def test_topology_ports_and_departure_keep_pods_from_machines() -> None:
    taken = pod("t", labels=APP_T, node_name="apart", host_ports=[80])
    machines = [managed_node("apart", pods=[taken]), managed_node("open")]
    wanted = {"labels": APP_T, "anti_affinity": [pod_term()]}

    apart = explained("a", node_pool(), *machines, pod("a", **wanted))  # type: ignore[arg-type]
    ports = explained("a", node_pool(), *machines, pod("a", host_ports=[80]))

    assert {"topology rules leave it out": ["apart"]} == refusals(apart)
    assert {"host ports are taken, or volumes cannot be attached": ["apart"]} == refusals(ports)


def test_a_pod_that_is_left_alone_or_runs_is_said_to() -> None:
    gated = explained("a", node_pool(), pod("a", gates=["hold"], conditions=[]))
    running = explained("a", node_pool(), managed_node("n", pods=[pod("a", node_name="n")]))

    assert ("Ignored", "NotUnschedulable", []) == (
        gated["outcome"],
        gated["reason"],
        gated["nodePools"],
    )
    assert ("Running", "it is on node n and needs no other") == (
        running["outcome"],
        running["detail"],
    )


def test_without_a_pool_the_story_is_short() -> None:
    none = explained("a", pod("a"))
    asleep = explained("a", node_pool(conditions=[condition("Ready", "False")]), pod("a"))

    assert ("Unplaced", "NoDynamicNodePools", []) == (
        none["outcome"],
        none["reason"],
        none["nodePools"],
    )
    assert ["NodePoolNotReady"] == [pool["reason"] for pool in asleep["nodePools"]]


def test_pools_come_in_the_order_they_are_tried() -> None:
    pools = [node_pool("a"), node_pool("b", weight=5), node_pool("c", weight=50)]

    told = explained("p", *pools, pod("p", cpu="1"))

    assert [("c", 50), ("b", 5), ("a", 0)] == [
        (pool["nodePool"], pool["weight"]) for pool in told["nodePools"]
    ]
    assert told["place"]["nodePool"] == "c"


def test_devices_that_are_not_served_keep_a_pod_from_pools_and_machines() -> None:
    wanted = pod("a", cpu="1", resource_claims=[PodResourceClaim(name="gpu")])

    told = explained("a", node_pool(), managed_node("n"), wanted)

    assert ("Unplaced", "DynamicResources") == (told["outcome"], told["reason"])
    assert {"taints": True, "room": True, "devices": False} == checks(told)
    assert {"the devices it asks for are not free": ["n"]} == refusals(told)
