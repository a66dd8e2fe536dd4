"""What is scraped of instance types follows the node classes, and is written anew only if need be."""

from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.housekeeping.offering_gauges import OfferingGauges
from karpenter.cloud.aws.types.unavailable import Place
from karpenter.telemetry import Metrics
from unit.cloud.aws.aws_bed import NODE_CLASS, AwsCloud, aws_cloud

SPOT = 'offering_available{capacity_type="spot",instance_type="m5.large",zone="us-west-2a"} '

SPOT_HERE = 'capacity_type="spot",zone="us-west-2a"'


def gauges(cloud: AwsCloud, metrics: Metrics | None = None) -> OfferingGauges:
    parts = cloud.provider.parts
    clock, telemetry = parts.base.clock, metrics or parts.base.telemetry
    return OfferingGauges(clock, telemetry, parts.view, parts.types, shows_reserved=False)


def is_spot_here(line: str) -> bool:
    return all(label in line for label in SPOT_HERE.split(","))


def offerings(found: OfferingGauges) -> list[str]:
    lines = "".join(found.lines()).splitlines()
    return [line for line in lines if "offering" in line and not line.startswith("#")]


def written(found: OfferingGauges) -> dict[str, Any]:
    return dict(found._shown)


@in_virtual_time
async def test_only_a_type_of_which_something_changed_is_written_anew() -> None:
    async with aws_cloud() as cloud:
        found = gauges(cloud)
        await found.step()
        before = written(found)
        cloud.provider.parts.unavailable.mark(Place("m5.large", "us-west-2a", "spot"))
        await found.step()
        after = written(found)

        assert {"m5.large"} == {name for name in after if after[name] is not before[name]}
        assert [f"karpenter_cloudprovider_instance_type_{SPOT}0"] == [
            line for line in offerings(found) if SPOT in line
        ]


@pytest.mark.case("OPS-32")
@in_virtual_time
async def test_with_the_detail_pool_offerings_are_only_counted() -> None:
    async with aws_cloud() as cloud:
        single, counted = gauges(cloud), gauges(cloud, Metrics(detail="pool"))
        cloud.provider.parts.unavailable.mark(Place("m5.large", "us-west-2a", "spot"))
        await single.step()
        await counted.step()
        sold = [line for line in offerings(single) if "available" in line and is_spot_here(line)]
        shown = dict(line.rsplit(" ", 1) for line in offerings(counted))

    assert "instance_type=" not in "".join(shown)
    count = int(shown[f"karpenter_cloudprovider_offerings{{{SPOT_HERE}}}"])
    available = int(shown[f"karpenter_cloudprovider_offerings_available{{{SPOT_HERE}}}"])
    assert len(sold) == count > 1
    assert sum(line.endswith(" 1") for line in sold) == available == count - 1


@in_virtual_time
async def test_nothing_is_shown_of_a_node_class_that_is_gone() -> None:
    async with aws_cloud() as cloud:
        found = gauges(cloud)
        await found.step()
        before = offerings(found)
        await cloud.kube.delete(EC2NodeClass, NODE_CLASS)
        await cloud.clock.sleep(10.0)
        await found.step()

        assert before
        assert [] == offerings(found)


@in_virtual_time
async def test_lines_are_offered_for_as_long_as_the_provider_leads() -> None:
    async with aws_cloud() as cloud:
        await cloud.clock.sleep(61.0)
        telemetry = cloud.provider.parts.base.telemetry
        while_leading = telemetry.exposition().decode()
        await cloud.crash()

        assert SPOT in while_leading
        assert SPOT not in telemetry.exposition().decode()
