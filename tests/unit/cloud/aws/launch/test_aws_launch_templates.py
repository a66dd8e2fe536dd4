"""Launch templates: only our own are ever deleted, and one that cannot be does not keep others."""

from typing import Any

import pytest

from helpers.aws_fakes import CLUSTER, Account, FakeAws, moto_cloud
from helpers.clusters import in_virtual_time
from karpenter.api.node_classes import ec2_labels
from karpenter.clock import running_clock
from karpenter.cloud.aws.ec2.errors import AwsUnauthorizedError
from karpenter.cloud.aws.launch.templates import LIFETIME, LaunchTemplates
from karpenter.model import labels

OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
OURS = {
    **OWNED,
    ec2_labels.EKS_CLUSTER_NAME_TAG: CLUSTER,
    labels.NODEPOOL: "general",
    ec2_labels.NODE_CLASS: "default",
}
OF_OTHERS: dict[str, dict[str, str]] = {
    "eksctl-demo-nodegroup": OWNED,
    "managed-nodes": {**OWNED, ec2_labels.EKS_CLUSTER_NAME_TAG: CLUSTER},
    "copied-by-a-user": OURS,  # with all the tags, as a copy has them
    "karpenter.k8s.aws/17": {**OURS, ec2_labels.EKS_CLUSTER_NAME_TAG: "other"},
    "karpenter.k8s.aws/18": OWNED,
}


def template(account: Account, name: str, tags: dict[str, str]) -> None:
    account.ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"InstanceType": "m5.large"},
        TagSpecifications=[
            {
                "ResourceType": "launch-template",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )


def left(account: Account) -> list[str]:
    found = account.ec2.describe_launch_templates()["LaunchTemplates"]
    return sorted(each["LaunchTemplateName"] for each in found)


def templates_of(aws: FakeAws) -> LaunchTemplates:
    return LaunchTemplates(aws, running_clock(), CLUSTER)


def refuse(aws: FakeAws, name: str) -> None:
    def is_it(parameters: Any) -> bool:
        return bool(parameters["LaunchTemplateName"] == name)

    aws.fail(
        "ec2", "DeleteLaunchTemplate", "UnauthorizedOperation", status=403, times=99, when=is_it
    )


@in_virtual_time
async def test_templates_of_others_are_left_alone_whatever_tags_they_carry() -> None:
    with moto_cloud(running_clock()) as aws:
        account = Account()
        for name, tags in OF_OTHERS.items():
            template(account, name, tags)
        template(account, "karpenter.k8s.aws/1", OURS)
        templates = templates_of(aws)
        await templates.adopt()
        await running_clock().sleep(LIFETIME + 1.0)
        await templates.sweep()

        assert sorted(OF_OTHERS) == left(account)


@in_virtual_time
async def test_a_class_that_goes_takes_its_own_templates_and_no_others() -> None:
    with moto_cloud(running_clock()) as aws:
        account = Account()
        for name, tags in OF_OTHERS.items():
            template(account, name, tags)
        template(account, "karpenter.k8s.aws/1", OURS)
        template(account, "karpenter.k8s.aws/2", {**OURS, ec2_labels.NODE_CLASS: "second"})
        await templates_of(aws).delete_of("default")

        assert sorted([*OF_OTHERS, "karpenter.k8s.aws/2"]) == left(account)


@in_virtual_time
async def test_a_template_that_cannot_be_deleted_does_not_keep_the_others() -> None:
    with moto_cloud(running_clock()) as aws:
        account = Account()
        for number in range(3):
            template(account, f"karpenter.k8s.aws/{number}", OURS)
        refuse(aws, "karpenter.k8s.aws/0")
        templates = templates_of(aws)
        await templates.adopt()
        await running_clock().sleep(LIFETIME + 1.0)
        await templates.sweep()

        assert ["karpenter.k8s.aws/0"] == left(account)
        before = aws.count("DeleteLaunchTemplate")
        await templates.sweep()
        assert before + 1 == aws.count("DeleteLaunchTemplate")  # and it is tried again


@in_virtual_time
async def test_a_class_that_goes_says_so_when_a_template_stays_behind() -> None:
    with moto_cloud(running_clock()) as aws:
        account = Account()
        for number in range(3):
            template(account, f"karpenter.k8s.aws/{number}", OURS)
        refuse(aws, "karpenter.k8s.aws/0")

        with pytest.raises(AwsUnauthorizedError, match="DeleteLaunchTemplate"):
            await templates_of(aws).delete_of("default")
        assert ["karpenter.k8s.aws/0"] == left(account)


@in_virtual_time
async def test_a_template_stays_for_as_long_as_a_fleet_is_under_way_with_it() -> None:
    clock = running_clock()
    with moto_cloud(clock) as aws:
        account = Account()
        template(account, "karpenter.k8s.aws/1", OURS)
        templates = templates_of(aws)
        await templates.adopt()
        with templates.in_use(["karpenter.k8s.aws/1"]):
            await clock.sleep(LIFETIME * 3)
            await templates.sweep()
            assert ["karpenter.k8s.aws/1"] == left(account)
        await templates.sweep()
        assert ["karpenter.k8s.aws/1"] == left(account)  # it has only just been used
        await clock.sleep(LIFETIME + 1.0)
        await templates.sweep()

        assert [] == left(account)
