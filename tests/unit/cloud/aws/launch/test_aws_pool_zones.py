"""Zones that a pool lists become the subnets that EC2 is offered, and no other."""

import pytest

from helpers.clusters import in_virtual_time
from karpenter.model import labels
from unit.cloud.aws.aws_bed import aws_cloud

ZONES = ["us-west-2a", "us-west-2b"]


@pytest.mark.row("S0-32", "S3-14")
@in_virtual_time
async def test_only_subnets_in_the_zones_of_the_pool_are_used() -> None:
    zones = {"key": labels.ZONE, "operator": "In", "values": ZONES}
    async with aws_cloud() as cloud:
        known = dict(cloud.account.subnets)
        instance = await cloud.provider.create(await cloud.claim(requirements=[zones]))

        overrides = [
            each
            for config in cloud.last("CreateFleet")["LaunchTemplateConfigs"]
            for each in config["Overrides"]
        ]
        assert set(ZONES) < known.keys()
        assert {known[zone] for zone in ZONES} == {each["SubnetId"] for each in overrides}
        assert instance.labels[labels.ZONE] in ZONES
        (machine,) = cloud.account.running()
        assert machine["SubnetId"] == known[instance.labels[labels.ZONE]]
