"""The demonstration does what it says, from nothing to twenty pods and back."""

from helpers.autoscaler import autoscaler
from helpers.clusters import in_virtual_time
from karpenter_sandbox.command.demo import STEPS, commands_to_try, demonstrate, example
from karpenter_sandbox.command.prices import PriceList


@in_virtual_time
async def test_the_demonstration_grows_and_shrinks_the_cluster() -> None:
    said: list[str] = []
    objects = [document.data for document in example()]
    pools = [obj for obj in objects if obj["kind"] != "KWOKNodeClass"]
    async with autoscaler(*pools) as run:
        await demonstrate(run.cluster, said.append, PriceList(()))

        results = [line for line in said if line.startswith("→")]
        assert len(STEPS) == len(results)
        assert ["5 pods: 5 running", "20 pods: 20 running", "0 pods"] == [
            line.rpartition(" · ")[2] for line in results
        ]
        assert "0 nodes, 0 ready" in results[-1]
        assert [] == run.claims


def test_the_commands_to_try_are_about_the_example() -> None:
    names = {document.data["metadata"]["name"] for document in example()}

    assert all("inflate" in command or "get" in command for command in commands_to_try())
    assert {"default", "inflate"} == names
