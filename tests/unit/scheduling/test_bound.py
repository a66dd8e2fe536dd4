"""How close the bound that a plan names comes to what its pods must cost."""

import math

import pytest

from helpers.builders import (
    daemon_set,
    expression,
    managed_node,
    node_pool,
    pod,
    pods,
    priced_type,
    taint,
    toleration,
)
from helpers.solver import Setting, solved
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.problem import CostOptions, Options, PackingMode

GPU = "acme/gpu"


def sold(name: str, cpu: int, price: float, gpus: int = 0, zone: str = "z1") -> InstanceType:
    """A type with 1Gi per cpu that is all for pods."""
    devices = {GPU: str(gpus)} if gpus else {}
    return priced_type(name, cpu, price, memory=cpu, resources=devices, zone=zone)


PLAIN = sold("plain", 4, 1.0)
LARGE = sold("large", 16, 3.2)
ACCELERATED = sold("accelerated", 4, 9.0, gpus=1)


@pytest.mark.parametrize(
    ("wanted", "setting", "bound"),
    [
        pytest.param(
            pods(4, cpu="1"), Setting(types=[PLAIN]), 1.0, id="pods that fill their machine"
        ),
        pytest.param(
            [pod(cpu="1")], Setting(types=[PLAIN]), 1.0, id="one machine costs all it costs"
        ),
        pytest.param(
            pods(5, cpu="1"), Setting(types=[PLAIN]), 2.0, id="part of a machine cannot be had"
        ),
        pytest.param(
            pods(16, cpu="1"), Setting(types=[PLAIN, LARGE]), 3.2, id="the cheapest rate counts"
        ),
        pytest.param(
            [pod("g", requests={GPU: "1"}), *pods(16, cpu="1")],
            Setting(types=[LARGE, ACCELERATED]),
            9.0 + 16 * 0.2 - 4 * 0.2,
            id="a rare resource is paid for beside the rest, which may use what is left of it",
        ),
        pytest.param(
            [*pods(4, "a", cpu="1"), *pods(4, "b", cpu="1", node_selector={keys.ZONE: "z2"})],
            Setting(types=[PLAIN, sold("far", 4, 5.0, zone="z2")]),
            6.0,
            id="pods bound to a dear place pay what it costs",
        ),
        pytest.param(
            [pod("p", cpu="1", tolerations=[toleration("k")])],
            Setting(
                pools=[node_pool(taints=[taint("k:NoSchedule")])],
                types=[PLAIN],
                daemon_sets=[daemon_set(cpu="3")],
            ),
            1.0,
            id="a pool behind a taint sells to those who tolerate it",
        ),
        pytest.param(
            pods(2, cpu="2"),
            Setting(types=[PLAIN], daemon_sets=[daemon_set(cpu="2")]),
            2.0,
            id="what daemons take is not for pods",
        ),
        pytest.param(
            pods(4, cpu="1"),
            Setting(types=[PLAIN, sold("free", 4, 0.0)]),
            0.0,
            id="what is free costs nothing",
        ),
        pytest.param([pod(cpu="99")], Setting(types=[PLAIN]), 0.0, id="nobody is served"),
    ],
)
def test_the_bound(wanted: list[Pod], setting: Setting, bound: float) -> None:
    answer = solved(wanted, **setting)

    assert bound == pytest.approx(answer.plan.lower_bound)
    assert answer.plan.lower_bound <= answer.plan.hourly_cost * (1 + 1e-9)


@pytest.mark.parametrize("packing", PackingMode)
def test_no_preference_makes_room_on_a_machine_cost(packing: PackingMode) -> None:
    """A pod that may go to two zones, and prefers one of them, could be in the other one."""
    fussy = pod(
        "fussy",
        cpu="1",
        required=[[expression(keys.ZONE, "In", zone)] for zone in ("z2", "z1")],
        preferred=[(1, [expression(keys.ZONE, "In", "z1")])],
    )

    answer = solved(
        [fussy],
        nodes=[managed_node("old", cpu="4", memory="4Gi", zone="z2")],
        types=[PLAIN],
        options=Options(cost=CostOptions(packing=packing)),
    )

    assert 1.0 == answer.plan.hourly_cost
    assert 0.0 == answer.plan.lower_bound


def test_a_price_that_nobody_knows_bounds_nothing() -> None:
    answer = solved([pod(cpu="1")], types=[sold("odd", 4, math.nan)])

    assert 0.0 == answer.plan.lower_bound


def test_many_kinds_of_pods_are_bounded_together() -> None:
    zones = [f"z{number}" for number in range(12)]
    types = [sold(f"in-{zone}", 4, 1.0, zone=zone) for zone in zones]

    answer = solved(
        [pod(f"p-{z}", cpu="4", node_selector={keys.ZONE: z}) for z in zones], types=types
    )

    assert 12.0 == pytest.approx(answer.plan.lower_bound)
