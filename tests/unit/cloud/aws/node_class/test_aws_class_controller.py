"""The controller of node classes outlives what nobody foresaw, and is counted like any other."""

from unittest.mock import patch

from helpers.clusters import in_virtual_time
from karpenter.api.node_classes.ec2 import EC2NodeClass
from unit.cloud.aws.aws_bed import NODE_CLASS, aws_cloud

PANICS = 'controller_runtime_reconcile_panics_total{controller="nodeclass"}'
SUCCESSES = 'controller_runtime_reconcile_total{controller="nodeclass",result="success"}'


@in_virtual_time
async def test_an_error_nobody_foresaw_does_not_end_the_provider() -> None:
    async with aws_cloud() as cloud:
        subnets, telemetry = cloud.provider.parts.subnets, cloud.provider.parts.base.telemetry
        before = telemetry.exposition().decode()
        with patch.object(subnets, "list", side_effect=RuntimeError("odd")):
            await cloud.kube.patch(EC2NodeClass, NODE_CLASS, {"spec": {"tags": {"team": "blue"}}})
            await cloud.clock.sleep(5.0)
        await cloud.ready()
        await cloud.check()
        after = telemetry.exposition().decode()

        assert SUCCESSES in before
        assert PANICS not in before
        assert PANICS in after
