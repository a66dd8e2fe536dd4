"""Estimates and prices of users, all the way through a provider on a simulated account."""

from typing import Any

import pytest

from helpers.builders import node_pool
from helpers.clusters import in_virtual_time
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.api.karpenter import NodeOverlay
from karpenter.cloud.types import Offering
from karpenter.model import labels
from karpenter.settings import Settings, with_assignments
from karpenter_sandbox.command.prices import price_list
from unit.cloud.aws.aws_bed import POOL, AwsCloud, aws_cloud, reference

pytestmark = pytest.mark.storm  # a simulated account takes moto a second to make

WITH_OVERLAYS = with_assignments(Settings(), {"FEATURE_GATES": "NodeOverlay=true"})
WANTED = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}
OVERLAY: dict[str, Any] = {
    "metadata": {"name": "contract"},
    "spec": {"requirements": [WANTED], "price": "0.05"},
}


async def spot_in_zone_a(cloud: AwsCloud) -> Offering:
    types = await cloud.provider.instance_types(node_pool(POOL, node_class=reference()))
    (kind,) = [each for each in types if each.name == "m5.large"]
    (found,) = [
        each
        for each in kind.offerings
        if (each.zone, each.capacity_type) == ("us-west-2a", labels.SPOT)
    ]
    return found


@in_virtual_time
async def test_prices_of_a_simulated_account_are_estimates() -> None:
    async with aws_cloud() as cloud:
        types = await cloud.provider.instance_types(node_pool(POOL, node_class=reference()))

    assert all(way.is_estimate for kind in types for way in kind.offerings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(WITH_OVERLAYS, (0.05, True), id="with the gate"),
        pytest.param(Settings(), (0.0, False), id="and not without"),
    ],
)
@in_virtual_time
async def test_an_overlay_makes_available_what_has_no_price(
    settings: Settings, expected: tuple[float, bool]
) -> None:
    """Section 3.6, last sentence: seen while leading, and asked of the API server otherwise."""
    async with aws_cloud(is_leading=False, settings=settings) as cloud:
        await cloud.memory.create(builtin_crds()["nodeoverlays.karpenter.sh"])
        await cloud.kube.create(NodeOverlay, OVERLAY)
        del cloud.account.gaps.prices["m5.large"]  # so that EC2 tells no spot price of it
        cloud.lead()
        await cloud.ready()
        leading = await spot_in_zone_a(cloud)
        await cloud.crash()
        cloud.make()
        await cloud.provider.parts.pricing.refresh()
        asking = await spot_in_zone_a(cloud)

    assert expected == (leading.price, leading.available)
    assert expected == (asking.price, asking.available)
    assert not leading.is_estimate


@in_virtual_time
async def test_who_does_not_lead_can_ask_for_prices() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.lead()
        await cloud.ready()
        await cloud.crash()
        cloud.make()
        before = await spot_in_zone_a(cloud)
        await cloud.provider.refresh_prices()
        after = await spot_in_zone_a(cloud)

    assert 0.096 == before.price, "as on demand until EC2 has told"
    assert 0.096 * 0.35 * 0.9 <= after.price <= 0.096 * 0.35 * 1.1


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param({labels.CAPACITY_TYPE: "on-demand"}, 0.096, id="on demand"),
        pytest.param({}, 0.096, id="unsaid"),
        pytest.param({labels.INSTANCE_TYPE: "s-4x-amd64-linux"}, None, id="not of EC2"),
    ],
)
def test_a_sandbox_shows_the_prices_of_the_simulated_account(
    held: dict[str, str], expected: float | None
) -> None:
    prices = price_list("aws")

    assert prices.are_estimates
    assert expected == prices.of({labels.INSTANCE_TYPE: "m5.large", **held})


@in_virtual_time
async def test_a_sandbox_shows_the_spot_price_that_is_planned_with() -> None:
    async with aws_cloud() as cloud:
        planned = await spot_in_zone_a(cloud)
    held = {
        labels.INSTANCE_TYPE: "m5.large",
        labels.CAPACITY_TYPE: labels.SPOT,
        labels.ZONE: "us-west-2a",
    }

    assert planned.price == pytest.approx(price_list("aws").of(held), abs=1e-6)
