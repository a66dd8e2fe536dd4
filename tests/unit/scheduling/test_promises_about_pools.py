"""Rows of the conformance ledger that the solver alone can prove: pools and their limits."""

import pytest

from helpers.builders import (
    APP_T,
    expression,
    instance_type,
    managed_node,
    node_pool,
    pod,
    pods,
    spread,
    taint,
    toleration,
)
from helpers.solver import FIXTURE_F, TYPES_OF_F, solved
from karpenter.admission.check import check
from karpenter.api.codec import convert
from karpenter.api.karpenter import NodePool
from karpenter.conversion.convert import Options as ConversionOptions
from karpenter.conversion.convert import convert_all
from karpenter.model import labels as keys
from karpenter.model.resources import NO_RESOURCES
from karpenter.scheduling.plan import Why


def pool_of_types(name: str, *types: str, **labels: str) -> NodePool:
    listed = expression(keys.INSTANCE_TYPE, "In", *types)
    return node_pool(name, requirements=[listed], labels=labels)


@pytest.mark.row("S0-07", "S2-92")
def test_only_pods_that_tolerate_it_come_to_a_tainted_pool() -> None:
    tainted = node_pool("tainted", weight=100, taints=[taint("team=a:NoSchedule")])

    answer = solved(
        [pod("tolerant", cpu="1", tolerations=[toleration("team")]), pod("other")],
        pools=[tainted, node_pool("open")],
    )

    assert "tainted" == answer.with_pod("tolerant").node_pool
    assert "open" == answer.with_pod("other").node_pool


@pytest.mark.row("S0-07")
def test_without_another_pool_the_pod_is_told_what_to_tolerate() -> None:
    tainted = node_pool("tainted", taints=[taint("team=a:NoSchedule")])

    answer = solved([pod("other")], pools=[tainted])

    assert {"other": {Why.UNTOLERATED_TAINT}} == answer.unplaced
    assert ["would fit if it tolerated team=a:NoSchedule"] == answer.details("other")


def test_nodes_carry_the_label_of_the_pool_they_are_made_from() -> None:
    pools = [pool_of_types("small", "small"), pool_of_types("large", "arm")]

    wanted = [
        pod("little", node_selector={keys.INSTANCE_TYPE: "small"}),
        pod("big", node_selector={keys.INSTANCE_TYPE: "arm"}),
    ]

    answer = solved(wanted, pools=pools)

    assert {"little": "small", "big": "large"} == {
        name: answer.with_pod(name).labels[keys.NODEPOOL] for name in ("little", "big")
    }


def test_the_nodes_of_one_pool_do_not_count_toward_the_limits_of_another() -> None:
    pools = [node_pool("a", limits={"nodes": "1"}), node_pool("b", limits={"nodes": "1"})]
    of_a = managed_node("n", pool="a", cpu="1", pods=[pod("busy", cpu="1", node_name="n")])

    answer = solved([pod(cpu="1")], pools=pools, nodes=[of_a])

    assert ["b"] == answer.pools


@pytest.mark.row("S0-31", "S3-14")
def test_only_types_the_pool_lists_are_launched() -> None:
    answer = solved(pods(30, cpu="1"), pools=[pool_of_types("np", "std", "arm")])

    assert {} == answer.unplaced
    assert all({"std", "arm"} >= set(claim.instance_types) for claim in answer.claims)
    assert {"std", "arm"} >= set(answer.types)


@pytest.mark.row("S3-14")
def test_only_zones_the_pool_lists_are_used() -> None:
    pool = node_pool(requirements=[expression(keys.ZONE, "In", "z2", "z3")])

    answer = solved(pods(30, cpu="1", labels=APP_T, spread=[spread()]), pools=[pool])

    assert {"z2": 15, "z3": 15} == answer.pods_in_zones


def test_a_claim_beyond_the_limits_is_not_made_and_the_reason_names_them() -> None:
    pool = node_pool(limits={"cpu": "1000", "memory": "1000Gi"})
    full = managed_node("n", cpu="999", memory="0", pods=[pod("busy", cpu="999", node_name="n")])

    answer = solved([pod("p", cpu="1")], pools=[pool], nodes=[full])

    assert {"p": {Why.LIMIT_EXCEEDED}} == answer.unplaced
    (detail,) = answer.details("p")
    assert "1 cpu left of 1000, 1000Gi memory left of 1000Gi" in detail


@pytest.mark.row("S1-35", "S2-93")
@pytest.mark.parametrize(
    ("pools", "used"),
    [
        pytest.param(
            [node_pool("a"), node_pool("b", weight=10)], "b", id="weight comes before none"
        ),
        pytest.param(
            [node_pool("c", weight=50), node_pool("b", weight=10)], "c", id="more before less"
        ),
        pytest.param(
            [node_pool("d", weight=7), node_pool("e", weight=7)], "e", id="then the last by name"
        ),
        pytest.param([node_pool("d"), node_pool("e")], "e", id="also without any weight"),
    ],
)
def test_pools_are_tried_in_a_fixed_order(pools: list[NodePool], used: str) -> None:
    assert [used] == solved([pod()], pools=pools).pools
    assert [used] == solved([pod()], pools=pools[::-1]).pools


@pytest.mark.row("S1-35")
def test_the_next_pool_serves_what_the_first_cannot() -> None:
    pools = [node_pool("a"), node_pool("b", weight=10, limits={"cpu": "2"})]

    answer = solved([pod("large", cpu="3"), pod("little", cpu="1")], pools=pools)

    assert "a" == answer.with_pod("large").node_pool
    assert {} == answer.unplaced


@pytest.mark.row("S2-61")
def test_explicit_types_intersect_with_the_other_requirements() -> None:
    pool = node_pool(
        requirements=[
            expression(keys.INSTANCE_TYPE, "In", "std", "arm"),
            expression(keys.ARCH, "In", "amd64"),
        ]
    )

    assert ("std",) == solved([pod()], pools=[pool]).only.instance_types


@pytest.mark.row("S2-85")
def test_types_excluded_by_not_in_are_never_launched() -> None:
    excluded = ("m6g.16xlarge", "m6gd.16xlarge", "r6g.16xlarge", "r6gd.16xlarge", "c6g.16xlarge")
    types = [*(instance_type(n, cpu="64", slots=20, price=0.1) for n in excluded), *FIXTURE_F]
    pool = node_pool(requirements=[expression(keys.INSTANCE_TYPE, "NotIn", *excluded)])

    answer = solved(pods(100, cpu="0.5"), pools=[pool], types=types)

    assert {} == answer.unplaced
    assert all(TYPES_OF_F >= set(claim.instance_types) for claim in answer.claims)


@pytest.mark.row("S2-92")
def test_gpu_pods_get_gpu_nodes_and_ordinary_pods_never_do() -> None:
    gpu = node_pool(
        "gpu",
        weight=100,
        requirements=[expression(keys.INSTANCE_TYPE, "In", "gpu-a", "gpu-b")],
        taints=[taint("acme/gpu=true:NoSchedule")],
    )
    learning = pod("learning", requests={"acme/gpu-a": "1"}, tolerations=[toleration("acme/gpu")])

    answer = solved([learning, *pods(9, "web")], pools=[gpu, pool_of_types("default", "std")])

    assert ("gpu", ("default/learning",)) == (
        answer.with_pod("learning").node_pool,
        answer.with_pod("learning").pods,
    )
    assert ["default", "default", "gpu"] == answer.pools


@pytest.mark.row("S2-92", "S2-96")
def test_two_hundred_pods_run_on_the_nodes_of_their_team() -> None:
    team = pool_of_types("team", "std", "arm", **{"billing-team": "my-team"})
    wanted = pods(200, required=[[expression("billing-team", "In", "my-team")]])

    answer = solved(wanted, pools=[node_pool("zulu", weight=100), team])

    assert 200 == len(answer.placed)
    assert {"my-team"} == {claim.labels["billing-team"] for claim in answer.claims}


@pytest.mark.row("S2-96")
def test_a_label_beside_the_labels_is_dropped_with_a_warning() -> None:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    misplaced = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "metadata": {"billing-team": "my-team"},
                "spec": {"nodeClassRef": reference, "requirements": []},
            }
        },
    }

    checked = check(misplaced)

    assert ['unknown field "spec.template.metadata.billing-team"'] == [
        warning.message for warning in checked.warnings
    ]
    assert "billing-team" not in checked.object["spec"]["template"].get("metadata", {})


def test_with_ten_cpu_left_no_type_of_sixteen_is_offered() -> None:
    used = managed_node("n", cpu="90", pods=[pod("busy", cpu="90", node_name="n")])

    claim = solved([pod(cpu="1")], pools=[node_pool(limits={"cpu": "100"})], nodes=[used]).only

    assert TYPES_OF_F - {"arm"} == set(claim.instance_types)


@pytest.mark.row("S3-09")
def test_an_integer_limit_is_kept_as_text_and_the_cpu_beyond_it_is_not_launched() -> None:
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
        "spec": {"limits": {"resources": {"cpu": 100}}, "providerRef": {"name": "default"}},
    }
    (result,) = convert_all([provisioner], ConversionOptions()).results
    (written,) = (obj for obj in result.objects if obj["kind"] == "NodePool")
    pool = convert(written)
    assert isinstance(pool, NodePool)
    exactly_one_cpu = instance_type("one", cpu="1", reserved_system=NO_RESOURCES)

    answer = solved(pods(101, cpu="1"), pools=[pool], types=[exactly_one_cpu])

    assert {"cpu": "100"} == written["spec"]["limits"]
    assert 100 == len(answer.claims)
    assert {Why.LIMIT_EXCEEDED} == set().union(*answer.unplaced.values())
