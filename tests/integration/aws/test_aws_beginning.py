"""The first lines of a new cluster on AWS are about what happens, not about what is not there yet."""

from helpers.autoscaler import deployment, gates
from helpers.aws_sandbox import aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.settings import Settings


@in_virtual_time
async def test_a_class_that_is_about_to_be_looked_at_is_no_error() -> None:
    settings = Settings(feature_gates=gates(NodeOverlay=True))
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "cheaper"},
        "spec": {"requirements": [], "priceAdjustment": "-10%"},
    }
    objects = (ec2_pool(), overlay, deployment("web", 1))
    async with aws_sandbox(*objects, settings=settings) as box:
        await box.run.until(lambda: len(box.run.running) == 1)

        bad = [line for line in box.run.lines if line["level"] in ("warning", "error")]
        assert [] == bad


@in_virtual_time
async def test_a_class_that_selects_nothing_says_so_itself() -> None:
    async with aws_sandbox(ec2_pool(), deployment("web", 1), starts=False) as box:
        nothing = [{"tags": {"no": "such"}}]
        await box.change_class(subnetSelectorTerms=nothing)
        box.run.start()
        await box.run.pass_time(60)

        lines = [line for line in box.run.lines if "no subnets found" in str(line)]
        assert [] == lines
        told = [message for kind, reason, message in box.run.events if reason == "FailedScheduling"]
        assert told
        assert all("SubnetsNotFound" in message for message in told)
