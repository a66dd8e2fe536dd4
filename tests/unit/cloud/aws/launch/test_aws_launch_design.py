"""Claims that are alike are thought about once, however many of them are launched at a time."""

import asyncio
from unittest.mock import patch

from helpers.clusters import in_virtual_time
from karpenter.cloud.aws.launch import launch
from karpenter.cloud.aws.launch.design import Design, Task, designed
from karpenter.model import labels
from unit.cloud.aws.aws_bed import aws_cloud

ON_DEMAND = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}


@in_virtual_time
async def test_alike_claims_share_the_design_of_their_launch() -> None:
    begun: list[str] = []

    def counted(task: Task) -> Design:
        begun.append(task.claim.metadata.name)
        return designed(task)

    async with aws_cloud() as cloud:
        claims = [await cloud.claim(f"alike-{number}") for number in range(12)]
        claims.append(await cloud.claim("different", requirements=[ON_DEMAND]))
        since = len(cloud.calls)
        with patch.object(launch, "designed", counted):
            made = await asyncio.gather(*map(cloud.provider.create, claims))

        assert 13 == len({each.provider_id for each in made})
        assert 2 == len(begun)
        assert "different" in begun
        assert 2 == cloud.count("CreateFleet", since)


@in_virtual_time
async def test_a_node_class_that_changes_is_thought_about_anew() -> None:
    async with aws_cloud() as cloud:
        await cloud.provider.create(await cloud.claim("before"))
        before = cloud.last("CreateFleet")
        await cloud.change_class(userData="echo changed")
        await cloud.provider.create(await cloud.claim("after"))
        after = cloud.last("CreateFleet")

        def templates(request: object) -> list[str]:
            assert isinstance(request, dict)
            return [
                each["LaunchTemplateSpecification"]["LaunchTemplateName"]
                for each in request["LaunchTemplateConfigs"]
            ]

        assert set() == set(templates(before)) & set(templates(after))
