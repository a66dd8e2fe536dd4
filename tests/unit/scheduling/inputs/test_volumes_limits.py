"""A machine takes no more volumes of a driver than it can attach, and a shared claim counts once."""

import msgspec
import pytest

from helpers.builders import (
    csi_node,
    instance_type,
    launching_node,
    managed_node,
    pod,
    pods,
    pv,
    storage_class,
)
from helpers.solver import solved
from helpers.storage import DRIVER, bound_claim, solved_with, stored, unbound_claims
from karpenter.api.pods import Pod
from karpenter.api.storage import (
    CSINode,
)
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.plan import Why
from karpenter.state.nodes import StateNode

OTHER = "other.example.com"


def big(
    name: str = "big", price: float = 1.0, *, d: int | None = None, e: int | None = None
) -> InstanceType:
    """A type with room for any number of small pods, and limits for two drivers."""
    limits = {driver: limit for driver, limit in ((DRIVER, d), (OTHER, e)) if limit is not None}
    return instance_type(
        name, cpu="64", memory="256Gi", slots=200, price=price, attach_limits=limits
    )


def each_with_claims(count: int, claims: int = 1) -> tuple[Storage, list[Pod]]:
    """Pods that have as many claims each to themselves."""
    names = {f"p-{i}": [f"c-{i}-{j}" for j in range(claims)] for i in range(count)}
    every = [name for own in names.values() for name in own]
    storage = stored(unbound_claims(every), classes=[storage_class()])
    return storage, [pod(name, claims=own) for name, own in names.items()]


def sharing_a_claim(count: int) -> tuple[Storage, list[Pod]]:
    storage = stored(unbound_claims(["shared"]), classes=[storage_class()])
    return storage, pods(count, claims=["shared"])


def with_csi_node(storage: Storage, reported: CSINode) -> Storage:
    return Storage(
        storage.claims, storage.volumes, storage.classes, {reported.metadata.name: reported}
    )


# On machines that exist


@pytest.mark.case("SCH-207")
def test_a_node_takes_what_its_driver_can_attach() -> None:
    storage, wanted = each_with_claims(6, claims=2)
    storage = with_csi_node(storage, csi_node("n1", {DRIVER: 10}))

    answer = solved_with(storage, wanted, nodes=[managed_node("n1")])

    assert 5 == len(answer.existing["n1"])
    assert [1] == answer.loads


@pytest.mark.case("SCH-207")
def test_what_is_attached_already_counts() -> None:
    storage, (running, *wanted) = each_with_claims(3)
    storage = with_csi_node(storage, csi_node("n1", {DRIVER: 2}))

    answer = solved_with(storage, wanted, nodes=[managed_node("n1", pods=[running])])

    assert 1 == len(answer.existing["n1"])
    assert [1] == answer.loads


@pytest.mark.case("SCH-208")
def test_a_shared_claim_counts_once() -> None:
    storage, wanted = sharing_a_claim(100)
    storage = with_csi_node(storage, csi_node("n1", {DRIVER: 1}))

    answer = solved_with(storage, wanted, nodes=[managed_node("n1")])

    assert 100 == len(answer.existing["n1"])


@pytest.mark.case("SCH-209")
def test_a_volume_that_no_driver_attaches_has_no_limit() -> None:
    names = [f"nfs-{i}" for i in range(5)]
    storage = stored(
        [bound_claim(f"c-{name}", name) for name in names],
        [pv(name) for name in names],
        [storage_class()],
        [csi_node("n1", {DRIVER: 1})],
    )
    wanted = [pod(f"p-{name}", claims=[f"c-{name}"]) for name in names]

    answer = solved_with(storage, wanted, nodes=[managed_node("n1")])

    assert 5 == len(answer.existing["n1"])


def test_a_pod_that_was_turned_away_leaves_nothing_attached() -> None:
    storage = stored(
        [*unbound_claims("abcd"), *unbound_claims("xy", "other")],
        classes=[storage_class(), storage_class("other", provisioner=OTHER)],
        csi_nodes=[csi_node("n1", {DRIVER: 2, OTHER: 1})],
    )
    first = pod("first", cpu="3", claims=["x"])
    turned_away = pod("turned-away", cpu="2", claims=["a", "b", "y"])
    last = pod("last", cpu="1", claims=["c", "d"])

    answer = solved_with(storage, [first, turned_away, last], nodes=[managed_node("n1")])

    assert {"n1": ["first", "last"]} == answer.existing


STARTING = {
    "launching": launching_node("n1", instance_type="big"),
    "registered": managed_node("n1", initialized=False, instance_type="big"),
}


@pytest.mark.parametrize(
    "node", [pytest.param(node, id=f"V15-S16 {name}") for name, node in STARTING.items()]
)
def test_the_limit_of_its_type_holds_until_the_driver_has_reported(node: StateNode) -> None:
    storage, wanted = each_with_claims(11)

    answer = solved_with(storage, wanted, nodes=[node], types=[big(d=10)])

    assert 10 == len(answer.existing["n1"])
    assert [1] == answer.loads


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(None, id="V15-S17 the driver has reported no limit"),
        pytest.param(2, id="V15-S18 the driver has reported a higher limit"),
    ],
)
def test_what_the_driver_reports_beats_the_type(limit: int | None) -> None:
    storage, wanted = each_with_claims(1, claims=2)
    storage = with_csi_node(storage, csi_node("n1", {DRIVER: limit}))
    node = managed_node("n1", instance_type="big")

    answer = solved_with(storage, wanted, nodes=[node], types=[big(d=1)])

    assert {"n1": ["p-0"]} == answer.existing


# On machines that are planned


@pytest.mark.parametrize(
    ("count", "claims", "made", "loads"),
    [
        pytest.param(100, 1, big(d=10), [10] * 10, id="V15-S09 a hundred pods with a claim each"),
        pytest.param(6, 2, big(d=10), [5, 1], id="V15-S10 six pods with two claims each"),
        pytest.param(20, 1, big(e=1), [20], id="V15-S12 a limit for another driver"),
    ],
)
def test_a_claim_takes_what_its_types_can_attach(
    count: int, claims: int, made: InstanceType, loads: list[int]
) -> None:
    storage, wanted = each_with_claims(count, claims)

    answer = solved_with(storage, wanted, types=[made])

    assert loads == answer.loads


@pytest.mark.case("V15-S11")
def test_a_shared_claim_needs_one_machine() -> None:
    storage, wanted = sharing_a_claim(100)

    assert [100] == solved_with(storage, wanted, types=[big(d=10)]).loads


@pytest.mark.case("V15-S13")
def test_a_pod_with_more_volumes_than_any_type_attaches() -> None:
    storage, wanted = each_with_claims(1, claims=11)

    answer = solved_with(storage, wanted, types=[big("a", d=10), big("b", d=9)])

    assert {"p-0": {Why.VOLUME_LIMIT}} == answer.unplaced
    (detail,) = answer.details("p-0")
    assert "would exceed volume limit for all instance type options" in detail
    assert all(fact in detail for fact in (DRIVER, "11", "10"))


@pytest.mark.case("V15-S14")
def test_a_dear_type_that_attaches_enough_is_taken() -> None:
    storage, wanted = each_with_claims(1, claims=5)

    answer = solved_with(storage, wanted, types=[big("cheap", 1.0, d=2), big("dear", 9.0, d=20)])

    assert ("dear",) == answer.only.instance_types


def two_drivers(first: int, second: int) -> tuple[Storage, list[Pod]]:
    """A pod with claims through each of two drivers."""
    ones = [f"one-{i}" for i in range(first)]
    others = [f"other-{i}" for i in range(second)]
    storage = stored(
        [*unbound_claims(ones), *unbound_claims(others, "other")],
        classes=[storage_class(), storage_class("other", provisioner=OTHER)],
    )
    return storage, [pod("p", claims=[*ones, *others])]


@pytest.mark.case("V15-S15")
def test_every_driver_must_hold() -> None:
    storage, wanted = two_drivers(2, 2)

    answer = solved_with(storage, wanted, types=[big("a", d=10, e=1), big("b", 2.0, d=10, e=10)])

    assert ("b",) == answer.only.instance_types


def test_types_that_each_lack_room_for_another_driver() -> None:
    storage, wanted = two_drivers(2, 2)

    answer = solved_with(storage, wanted, types=[big("a", d=10, e=1), big("b", d=1, e=10)])

    assert {"p": {Why.VOLUME_LIMIT}} == answer.unplaced


def test_a_pod_that_insists_on_a_type_is_told_about_its_limit() -> None:
    storage, wanted = each_with_claims(1, claims=5)
    insisting = msgspec.structs.replace(
        wanted[0],
        spec=msgspec.structs.replace(wanted[0].spec, node_selector={keys.INSTANCE_TYPE: "few"}),
    )

    answer = solved_with(storage, [insisting], types=[big("few", d=2), big("many", d=20)])

    assert {"p-0": {Why.VOLUME_LIMIT}} == answer.unplaced
    assert ["at most 2 volumes, the pod has 5"] == [
        detail.partition("attaches ")[2] for detail in answer.details("p-0")
    ]


def test_like_pods_have_an_ephemeral_volume_each() -> None:
    wanted = pods(11, ephemeral=["standard"])
    claims = unbound_claims(f"{p.metadata.name}-ephemeral-0" for p in wanted)
    storage = stored(claims, classes=[storage_class()])

    assert [10, 1] == solved_with(storage, wanted, types=[big(d=10)]).loads


def test_a_pod_without_claims_is_not_bothered_by_limits() -> None:
    answer = solved([pod("p")], types=[big(d=0)])

    assert ["p"] == answer.placed
