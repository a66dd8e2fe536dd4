"""Which NodeOverlays supply a price for types that AWS tells none of."""

from typing import Any

import pytest

from karpenter.api.karpenter import (
    NodeOverlay,
    NodeOverlaySpec,
    NodeOverlayStatus,
    NodeRequirement,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.prices.pricing import supplied_prices
from karpenter.model import labels

M5 = NodeRequirement(key=labels.INSTANCE_TYPE, operator="In", values=("m5.large", "m5.xlarge"))
SPOT = NodeRequirement(key=labels.CAPACITY_TYPE, operator="In", values=("spot",))
NOT_M5 = NodeRequirement(key=labels.INSTANCE_TYPE, operator="NotIn", values=("m5.large",))
FAMILY = NodeRequirement(key=ec2_labels.INSTANCE_FAMILY, operator="In", values=("m5",))


def overlay(name: str = "mine", *, ready: str = "", **spec: Any) -> NodeOverlay:
    conditions = (Condition(type="Ready", status=ready),) if ready else ()
    return NodeOverlay(
        metadata=ObjectMeta(name=name),
        spec=NodeOverlaySpec(**{"requirements": (M5,), "price": "0.05", **spec}),
        status=NodeOverlayStatus(conditions=conditions),
    )


def test_a_price_for_instance_types_alone_is_supplied() -> None:
    assert {"m5.large": 0.05, "m5.xlarge": 0.05} == supplied_prices([overlay()])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(overlay(requirements=(M5, SPOT)), id="it asks for something else as well"),
        pytest.param(overlay(requirements=(NOT_M5,)), id="it names what it is not for"),
        pytest.param(overlay(requirements=(FAMILY,)), id="it is for a family"),
        pytest.param(overlay(requirements=()), id="it is for everything"),
        pytest.param(overlay(price=None, price_adjustment="+10%"), id="it only adjusts a price"),
        pytest.param(overlay(ready="False"), id="it is refused"),
    ],
)
def test_an_overlay_supplies_nothing_if(other: NodeOverlay) -> None:
    assert {} == supplied_prices([other])


def test_the_heaviest_decides_and_then_the_last_by_name() -> None:
    one = NodeRequirement(key=labels.INSTANCE_TYPE, operator="In", values=("m5.large",))
    overlays = [
        overlay("c", price="3", weight=1, requirements=(one,)),
        overlay("a", price="1", weight=5, requirements=(one,)),
        overlay("b", price="2", weight=1),
        overlay("d", price="4", ready="True"),
    ]

    assert {"m5.large": 1.0, "m5.xlarge": 2.0} == supplied_prices(overlays)
    assert supplied_prices(overlays) == supplied_prices(reversed(overlays))
