"""What is scraped of instance types follows the node classes, and is written anew only if need be."""

from typing import Any

from helpers.clusters import in_virtual_time
from karpenter.api.ec2 import EC2NodeClass
from karpenter.cloud.aws.housekeeping.offering_gauges import OfferingGauges
from karpenter.cloud.aws.types.unavailable import Place
from unit.aws.aws_bed import NODE_CLASS, AwsCloud, aws_cloud

SPOT = 'offering_available{capacity_type="spot",instance_type="m5.large",zone="us-west-2a"} '


def gauges(cloud: AwsCloud) -> OfferingGauges:
    parts = cloud.provider.parts
    clock, telemetry = parts.base.clock, parts.base.telemetry
    return OfferingGauges(clock, telemetry, parts.view, parts.types, shows_reserved=False)


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
