"""NodeOverlays: prices and capacity as users know them, and what happens when two disagree."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import pytest

from helpers.builders import (
    FACTS_F,
    Amounts,
    expression,
    instance_type,
    node_pool,
    offering,
    pod,
    reserved,
)
from karpenter.api.devices import ResourceSlice
from karpenter.api.karpenter import NodeOverlay, NodeOverlaySpec, NodePool, NodeRequirement
from karpenter.api.meta import ObjectMeta
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.inputs.overlays import Overlaid, adjusted_price, apply_overlays
from karpenter.scheduling.plan import Plan
from karpenter.scheduling.problem import PoolCatalogue, Problem
from karpenter.scheduling.solve import solve

TWO_TYPES = (
    instance_type("one", offerings=[offering("z1", keys.ON_DEMAND, 10.0)]),
    instance_type("two", offerings=[offering("z1", keys.ON_DEMAND, 20.0)]),
)
TWO_ZONES = (
    instance_type(
        "t", offerings=[offering("z1", keys.ON_DEMAND, 10.0), offering("z2", keys.SPOT, 4.0)]
    ),
)
FUSE = "acme/fuse"


class OverlayOptions(TypedDict, total=False):
    price: str
    price_adjustment: str
    capacity: Amounts
    weight: int


def overlay(
    name: str, *wanted: NodeSelectorRequirement, **options: Unpack[OverlayOptions]
) -> NodeOverlay:
    return NodeOverlay(
        metadata=ObjectMeta(name=name),
        spec=NodeOverlaySpec(
            requirements=tuple(
                NodeRequirement(key=w.key, operator=w.operator, values=w.values) for w in wanted
            ),
            **options,
        ),
    )


def type_is(name: str) -> NodeSelectorRequirement:
    return expression(keys.INSTANCE_TYPE, "In", name)


def applied(
    overlays: Sequence[NodeOverlay],
    types: tuple[InstanceType, ...] = TWO_TYPES,
    pool: NodePool | None = None,
) -> Overlaid:
    return apply_overlays(overlays, [PoolCatalogue(pool or node_pool(), types)])


def prices(result: Overlaid) -> list[float]:
    return [o.price for t in result.pools[0].instance_types for o in t.offerings]


def planned(result: Overlaid, **requests: str) -> Plan:
    wanted = pod("p", requests={name.replace("_", "/"): n for name, n in requests.items()})
    return solve(Problem(pods=[wanted], nodes=(), pools=result.pools, facts=FACTS_F))


@pytest.mark.case("SCH-235")
@pytest.mark.parametrize(
    ("options", "price"),
    [
        pytest.param({"price_adjustment": "-10%"}, 9.0, id="a tenth less"),
        pytest.param({"price_adjustment": "-15"}, 0.0, id="never less than nothing"),
        pytest.param({"price": "80"}, 80.0, id="another price"),
        pytest.param({"price_adjustment": "+10%"}, 11.0, id="a tenth more"),
        pytest.param({"price_adjustment": "+2.5"}, 12.5, id="a fixed amount more"),
        pytest.param({"price_adjustment": "-100%"}, 0.0, id="nothing at all"),
        pytest.param({"price": "0"}, 0.0, id="a price of nothing"),
    ],
)
def test_what_an_overlay_makes_of_a_price(options: OverlayOptions, price: float) -> None:
    assert price == pytest.approx(adjusted_price(overlay("o", **options), 10.0))


@pytest.mark.case("SCH-234")
def test_of_two_overlays_of_one_weight_the_last_by_name_applies() -> None:
    result = applied(
        [overlay("a", weight=10, price="1"), overlay("b", weight=10, price="2")], TWO_TYPES[:1]
    )

    assert [2.0] == prices(result)
    assert [("a", "Conflict")] == [(r.name, r.reason) for r in result.refused]


@pytest.mark.parametrize(
    ("overlays", "expected", "refused"),
    [
        pytest.param(
            [overlay("a", weight=20, price="1"), overlay("b", weight=10, price="2")],
            [1.0, 1.0],
            [],
            id="the heavier overlay wins",
        ),
        pytest.param(
            [overlay("a", weight=10, price="1"), overlay("b", weight=10, price="1")],
            [1.0, 1.0],
            ["a"],
            id="equal overlays contradict each other all the same",
        ),
        pytest.param(
            [
                overlay("a", weight=10, price="1"),
                overlay("b", type_is("two"), weight=10, price="2"),
            ],
            [10.0, 2.0],
            ["a"],
            id="an overlay that is refused applies nowhere, even where it stands alone",
        ),
        pytest.param(
            [
                overlay("a", type_is("one"), weight=10, price="1"),
                overlay("b", type_is("two"), weight=10, price="2"),
            ],
            [1.0, 2.0],
            [],
            id="overlays of one weight may decide different things",
        ),
        pytest.param(
            [
                overlay("a", type_is("one"), weight=20, price="1"),
                overlay("b", weight=10, price_adjustment="+50%"),
            ],
            [1.0, 30.0],
            [],
            id="a lighter overlay decides what is left to it",
        ),
        pytest.param(
            [
                overlay("heavy", weight=20, price="3"),
                overlay("a", weight=10, price="1"),
                overlay("b", weight=10, price="2"),
            ],
            [3.0, 3.0],
            ["a"],
            id="a heavier third does not settle the quarrel of two",
        ),
        pytest.param(
            [overlay("a", price="1"), overlay("b", weight=1, price="2")],
            [2.0, 2.0],
            [],
            id="no weight is less than any",
        ),
        pytest.param(
            [overlay("a", expression(keys.ZONE, "Gt", "x"), price="1")],
            [10.0, 20.0],
            ["a"],
            id="a requirement that makes no sense refuses the overlay",
        ),
        pytest.param(
            [overlay("a", price="1", capacity={"cpu": "1"})],
            [10.0, 20.0],
            ["a"],
            id="a resource every machine has refuses the overlay",
        ),
    ],
)
def test_which_overlay_decides(
    overlays: list[NodeOverlay], expected: list[float], refused: list[str]
) -> None:
    result = applied(overlays)

    assert expected == prices(result)
    assert refused == [entry.name for entry in result.refused]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param([], [1.0, 1.0], id="everything"),
        pytest.param([expression(keys.ZONE, "In", "z2")], [10.0, 1.0], id="one zone"),
        pytest.param(
            [expression(keys.CAPACITY_TYPE, "NotIn", keys.SPOT)], [1.0, 4.0], id="not spot"
        ),
        pytest.param([expression(keys.NODEPOOL, "In", "np")], [1.0, 1.0], id="this pool"),
        pytest.param([expression(keys.NODEPOOL, "In", "other")], [10.0, 4.0], id="another pool"),
        pytest.param([expression("team", "In", "web")], [1.0, 1.0], id="a label of the pool"),
        pytest.param(
            [expression("stage", "In", "test")], [10.0, 4.0], id="a mere requirement of the pool"
        ),
        pytest.param([expression("unknown", "Exists")], [10.0, 4.0], id="a label nobody has"),
        pytest.param(
            [expression(keys.ZONE, "In", "z1"), expression(keys.CAPACITY_TYPE, "In", keys.SPOT)],
            [10.0, 4.0],
            id="a zone and a capacity type that are not sold together",
        ),
    ],
)
def test_what_an_overlay_means(
    wanted: list[NodeSelectorRequirement], expected: list[float]
) -> None:
    pool = node_pool(labels={"team": "web"}, requirements=[expression("stage", "In", "test")])

    result = applied([overlay("o", *wanted, price="1")], TWO_ZONES, pool)

    assert expected == prices(result)


@pytest.mark.case("SCH-236")
def test_capacity_that_an_overlay_adds_takes_pods() -> None:
    result = applied([overlay("o", type_is("two"), capacity={FUSE: "4"})])

    plan = planned(result, acme_fuse="4")
    (claim,) = plan.claims
    assert ("two",) == claim.instance_types
    assert "true" == claim.annotations[keys.CAPACITY_OVERLAY_APPLIED]
    assert keys.PRICE_OVERLAY_APPLIED not in claim.annotations


@pytest.mark.case("SCH-236")
def test_capacity_is_not_more_than_the_overlay_says() -> None:
    result = applied([overlay("o", capacity={FUSE: "4"})])

    assert ["default/p"] == [entry.pod for entry in planned(result, acme_fuse="5").unplaced]


def test_a_claim_says_that_a_price_was_changed() -> None:
    result = applied([overlay("o", type_is("two"), price="1")])

    (claim,) = planned(result).claims
    assert ("two", "one") == claim.instance_types
    assert "true" == claim.annotations[keys.PRICE_OVERLAY_APPLIED]
    assert keys.CAPACITY_OVERLAY_APPLIED not in claim.annotations


def test_a_claim_without_the_changed_types_says_nothing() -> None:
    result = applied([overlay("o", type_is("one"), price="1", capacity={FUSE: "1"})])

    wanted = pod("p", node_selector={keys.INSTANCE_TYPE: "two"})
    plan = solve(Problem(pods=[wanted], nodes=(), pools=result.pools, facts=FACTS_F))
    (claim,) = plan.claims
    assert {keys.PRICE_OVERLAY_APPLIED, keys.CAPACITY_OVERLAY_APPLIED}.isdisjoint(claim.annotations)


def test_capacity_of_several_overlays_is_put_together() -> None:
    result = applied(
        [
            overlay("a", weight=1, capacity={FUSE: "4"}),
            overlay("b", weight=1, capacity={"acme/tap": "2"}),
            overlay("c", weight=2, capacity={FUSE: "1"}),
        ],
        TWO_TYPES[:1],
    )

    (overlaid,) = result.pools[0].instance_types
    assert (1, 2) == (overlaid.capacity[FUSE], overlaid.capacity["acme/tap"])
    assert () == result.refused


def test_an_overlay_on_one_offering_adds_capacity_to_the_whole_type() -> None:
    result = applied(
        [overlay("o", expression(keys.ZONE, "In", "z2"), capacity={FUSE: "1"})], TWO_ZONES
    )

    (claim,) = planned(result, acme_fuse="1").claims
    assert ["on-demand", "spot"] == sorted(claim.requirements[keys.CAPACITY_TYPE].values)


@pytest.mark.case("V15-S19")
def test_a_type_keeps_everything_else_under_an_overlay() -> None:
    before = replace(
        instance_type(
            "t",
            attach_limits={"csi.example.com": 10},
            reservations=[reserved("r-1", 2)],
            offerings=[offering("z1", keys.SPOT, 1.0, capacity={"acme/gpu-a": "1"})],
        ),
        device_templates=(ResourceSlice(metadata=ObjectMeta(name="gpus")),),
    )

    result = applied([overlay("o", price="5", capacity={FUSE: "1"})], (before,))

    (after,) = result.pools[0].instance_types
    assert before.volume_attachment_limits == after.volume_attachment_limits
    assert before.device_templates == after.device_templates
    assert before.offerings == tuple(
        replace(changed, price=original.price, overlaid=False)
        for changed, original in zip(after.offerings, before.offerings, strict=True)
    )


def test_catalogues_that_no_overlay_changes_stay_the_same_objects() -> None:
    before = PoolCatalogue(node_pool(), TWO_TYPES)

    result = apply_overlays([overlay("o", type_is("three"), price="1")], [before])

    assert before.instance_types is result.pools[0].instance_types


class TestFromPassToPass:
    """New types would have everything that was compiled from them compiled anew."""

    dearer = overlay("dearer", type_is("one"), price="11")

    def test_types_stay_the_same_objects_while_nothing_changes_that_overlays_look_at(self) -> None:
        compiler = Compiler()
        first = compiler.overlaid([self.dearer], [PoolCatalogue(node_pool(), TWO_TYPES)])
        busier = node_pool(weight=3)
        second = compiler.overlaid([self.dearer], [PoolCatalogue(busier, TWO_TYPES)])

        assert 11.0 == first.pools[0].instance_types[0].offerings[0].price
        assert first.pools[0].instance_types is second.pools[0].instance_types
        assert busier is second.pools[0].node_pool

    @pytest.mark.parametrize(
        ("overlays", "pool", "types"),
        [
            pytest.param(
                [overlay("dearer", type_is("one"), price="12")], {}, TWO_TYPES, id="price"
            ),
            pytest.param([], {}, TWO_TYPES, id="an overlay less"),
            pytest.param([dearer], {"labels": {"team": "a"}}, TWO_TYPES, id="labels of the pool"),
            pytest.param([dearer], {"name": "other"}, TWO_TYPES, id="another pool"),
            pytest.param([dearer], {}, (*TWO_TYPES, *TWO_ZONES), id="another catalogue"),
        ],
    )
    def test_what_changes_is_seen(
        self, overlays: list[NodeOverlay], pool: dict[str, Any], types: tuple[InstanceType, ...]
    ) -> None:
        compiler = Compiler()
        compiler.overlaid([self.dearer], [PoolCatalogue(node_pool(), TWO_TYPES)])
        changed = [PoolCatalogue(node_pool(**pool), types)]

        assert apply_overlays(overlays, changed) == compiler.overlaid(overlays, changed)
