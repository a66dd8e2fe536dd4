"""On AWS the controllers use every right that the roles of the provider grant, and no other."""

from typing import Any, Final

import pytest

from helpers.autoscaler import deployment
from helpers.aws_sandbox import EC2_CLASS, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from helpers.rights import AWS, CORE, OPTIONAL, Recording, Right, granted, looked_for

pytestmark = pytest.mark.storm

SIMULATED: Final = ("karpenter",)  # the role of the simulated provider is not needed here
LEGACY: Final = OPTIONAL / "legacy-kinds.yaml"
LEGACY_AWS: Final = OPTIONAL / "legacy-kinds-aws.yaml"
V1ALPHA5: Final = "karpenter.sh/v1alpha5"


@in_virtual_time
async def test_a_cluster_on_aws_lives_with_the_roles_of_the_installation() -> None:
    used: set[Right] = set()
    environment = {"ISOLATED_VPC": "true"}
    async with aws_sandbox(
        ec2_pool(), environment=environment, wrap=lambda inner: Recording(inner, used)
    ) as box:
        await box.run.apply(deployment("web", 3, cpu="1"))
        await box.run.until(lambda: len(box.run.running) == 3)
        await box.run.scale("web", 0)
        await box.run.until(lambda: not box.machines)
        await box.run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
        await box.remove_class()

    assert set() == used - granted(CORE, AWS, besides=SIMULATED) - looked_for()
    assert set() == granted(AWS) - used


@in_virtual_time
async def test_provisioners_on_aws_need_the_roles_for_legacy_kinds_besides() -> None:
    used: set[Right] = set()
    terms: dict[str, Any] = {"karpenter.sh/discovery": "sandbox"}
    provider = {"subnetSelector": terms, "securityGroupSelector": terms, "amiFamily": "AL2"}
    old: dict[str, Any] = {
        "apiVersion": V1ALPHA5,
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"provider": {**provider, "instanceProfile": "nodes"}},
    }
    async with aws_sandbox(wrap=lambda inner: Recording(inner, used)) as box:
        await box.run.apply(old)
        await box.run.pass_time(60)
        patch = {"spec": {"provider": None, "providerRef": {"name": "default"}}}
        await box.run.client.patch("merge", V1ALPHA5, "Provisioner", None, "old", patch)
        await box.run.until(
            lambda: (
                not any(
                    each["metadata"].get("ownerReferences")
                    for each in box.run.objects(EC2_CLASS.partition("/")[0], "ec2nodeclasses")
                )
            )
        )

    roles = granted(CORE, AWS, LEGACY, LEGACY_AWS, besides=SIMULATED)
    assert set() == used - roles - looked_for()
    assert set() == granted(LEGACY_AWS) - used
