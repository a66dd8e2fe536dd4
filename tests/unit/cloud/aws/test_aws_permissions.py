"""The policies in docs/aws grant every call the provider makes, and nothing else."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.ec2.calls import CompletedCall
from karpenter.cloud.aws.interruption.messages import parse
from unit.cloud.aws.aws_bed import NODE_CLASS, AwsCloud, aws_cloud
from unit.cloud.aws.prices.test_aws_commitments import compute_plan
from unit.cloud.aws.test_aws_faults import gone

AWS = Path(__file__).parents[4] / "docs" / "aws"
INSTALL = AWS.parents[1] / "examples" / "install"
POLICIES = AWS / "policies"
NAMES = ("discovery", "eks", "iam-integration", "interruption", "node-lifecycle", "zonal-shift")
# For a companion, with AWS_COMMITMENTS, and when notifications go to SNS; part of no template
OPTIONAL = ("commitments", "companion", "notifications")
# Needed to make other calls, which AWS checks by itself
IMPLIED = {"iam:PassRole", "iam:TagInstanceProfile"}
TAGGED_CALLS = ("CreateFleet", "RunInstances", "CreateLaunchTemplate")


def files() -> list[Path]:
    """The policies of every installation."""
    return sorted(file for file in POLICIES.glob("*.json") if file.stem not in OPTIONAL)


def statements() -> Iterator[dict[str, Any]]:
    for file in files():
        yield from json.loads(file.read_text("utf-8"))["Statement"]


def granted() -> set[str]:
    return {action for each in statements() for action in each["Action"]}


async def everything(cloud: AwsCloud) -> list[CompletedCall]:
    """Let the provider do all it can do."""
    cloud.account.gaps.groups.append(
        {"GroupId": "pg-1", "GroupName": "mine", "Strategy": "cluster", "State": "available"}
    )
    await cloud.change_class(
        capacityReservationSelectorTerms=[{"instanceMatchCriteria": "open"}],
        placementGroupSelector={"id": "pg-1"},
    )
    claims = [await cloud.claim(f"claim-{number}") for number in range(3)]
    await asyncio.gather(*(cloud.provider.create(each) for each in claims))
    single = await cloud.launch(await cloud.claim("single"))
    body = {"status": {"nodeName": "node-1"}}
    await cloud.kube.patch(NodeClaim, "single", body, subresource="status")
    cloud.account.send("{}")
    await cloud.clock.sleep(10)
    await cloud.provider.reboot(single, "operation")
    for claim in [*claims, single]:
        await gone(cloud, claim)
        name = claim.metadata.name
        await cloud.kube.patch(NodeClaim, name, {"metadata": {"finalizers": []}})
        await cloud.kube.delete(NodeClaim, name)
    await cloud.clock.sleep(5)
    await cloud.kube.delete(EC2NodeClass, NODE_CLASS)
    await cloud.clock.sleep(65)
    return cloud.calls


@pytest.mark.row("S1-06", "S2-38", "S2-39", "S2-43", "S2-44", "S3-02")
@in_virtual_time
async def test_every_call_is_granted_and_nothing_else_is() -> None:
    async with aws_cloud(environment={"ENABLE_ZONAL_SHIFT": "true"}) as cloud:
        calls = await everything(cloud)

        # the service of auto scaling groups is not among them
        services = {"ec2", "iam", "eks", "ssm", "pricing", "sqs", "arc-zonal-shift"}
        assert services == {call.service for call in calls}
        queue = {call.operation for call in calls if call.service == "sqs"}
        assert {"GetQueueUrl", "ReceiveMessage", "DeleteMessage"} == queue
        made = {f"{call.service}:{call.operation}" for call in calls}
        assert set() == made - granted()
        assert IMPLIED == granted() - made
        for call in calls:
            _check_tags(call, cloud.account.cluster)
        assert [] == cloud.instance_ids()
        assert [] == cloud.template_names()
        profiles = cloud.account.client("iam").list_instance_profiles()["InstanceProfiles"]
        assert [] == profiles


def _check_tags(call: CompletedCall, cluster: str) -> None:
    """Judge a call by the conditions of the policies, as IAM would."""
    if call.operation in TAGGED_CALLS:
        wanted = _conditions("MakeOnlyWhatIsTagged")
        for each in call.parameters["TagSpecifications"]:
            _check_requested(each["Tags"], wanted, cluster)
    elif call.operation == "CreateInstanceProfile":
        _check_requested(call.parameters["Tags"], _conditions("MakeTaggedProfiles"), cluster)
    elif call.operation == "CreateTags":
        allowed = _conditions("TagOwnInstancesLater")["ForAllValues:StringEquals"]["aws:TagKeys"]
        assert {tag["Key"] for tag in call.parameters["Tags"]} <= set(allowed)


def _check_requested(
    tags: list[Mapping[str, str]], wanted: Mapping[str, Any], cluster: str
) -> None:
    held = {tag["Key"]: tag["Value"] for tag in tags}
    filled = json.dumps(wanted["StringEquals"]).replace("${ClusterName}", cluster)
    for key, value in json.loads(filled.replace("${Region}", "us-west-2")).items():
        assert value == held[key.removeprefix("aws:RequestTag/")]
    for key in wanted["StringLike"]:
        assert held[key.removeprefix("aws:RequestTag/")]


def _conditions(sid: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(each for each in statements() if each["Sid"] == sid)[
        "Condition"
    ]
    return found


def test_there_are_six_policies() -> None:
    assert list(NAMES) == [file.stem for file in files()]


def test_the_seventh_policy_grants_publishing_to_one_topic_and_nothing_else() -> None:
    (statement,) = json.loads((POLICIES / "notifications.json").read_text("utf-8"))["Statement"]

    assert ["sns:Publish"] == statement["Action"]
    assert ["arn:${Partition}:sns:${Region}:${AccountId}:${NotificationTopic}"] == statement[
        "Resource"
    ]
    assert sorted((*NAMES, *OPTIONAL)) == sorted(file.stem for file in POLICIES.glob("*.json"))


@in_virtual_time
async def test_the_eighth_policy_grants_what_reading_commitments_calls_and_nothing_else() -> None:
    (statement,) = json.loads((POLICIES / "commitments.json").read_text("utf-8"))["Statement"]
    async with aws_cloud(environment={"AWS_COMMITMENTS": "true"}) as cloud:
        cloud.account.gaps.savings_plans.append(compute_plan())
        await cloud.provider.refresh_commitments()

        made = {f"{call.service}:{call.operation}" for call in cloud.calls}
        assert set() == made - granted() - set(statement["Action"])
        assert set(statement["Action"]) == made & set(statement["Action"])
    assert set() == granted() & set(statement["Action"])


def test_nothing_is_granted_with_wildcards() -> None:
    assert [] == [each for each in granted() if "*" in each]


def test_what_changes_something_is_granted_under_conditions_or_on_named_things() -> None:
    for each in statements():
        is_read = all(
            action.partition(":")[2].startswith(("Describe", "Get", "List"))
            for action in each["Action"]
        )
        assert is_read or each["Resource"] != ["*"]


def test_zonal_shifts_are_scoped_by_the_condition_key_because_the_service_ignores_resources() -> (
    None
):
    (statement,) = json.loads((POLICIES / "zonal-shift.json").read_text("utf-8"))["Statement"]

    assert ["*"] == statement["Resource"]
    assert {
        "StringEquals": {
            "arc-zonal-shift:ResourceIdentifier": (
                "arn:${Partition}:eks:${Region}:${AccountId}:cluster/${ClusterName}"
            )
        }
    } == statement["Condition"]


class Loader(yaml.SafeLoader):
    """Reads the short forms of CloudFormation's functions as what they are given."""


for _name in ("!Sub", "!Ref", "!GetAtt"):
    Loader.add_constructor(_name, lambda _, node: str(node.value))


def stack() -> dict[str, Any]:
    text = (AWS / "cloudformation.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml.load(text, Loader)
    return found


def test_the_cloudformation_template_holds_the_same_policies() -> None:
    resources = stack()["Resources"].values()
    documents = [
        each["Properties"]["PolicyDocument"]
        for each in resources
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    ]

    filled = [json.loads(re.sub(r"\$\{AWS::(\w+)\}", r"${\1}", each)) for each in documents]
    written = [json.loads(file.read_text("utf-8")) for file in files()]
    assert sorted(map(json.dumps, written)) == sorted(map(json.dumps, filled))


def test_the_templates_give_the_role_to_the_service_account_of_the_manifests() -> None:
    manifests = yaml.safe_load_all((INSTALL / "rbac.yaml").read_text("utf-8"))
    (account,) = [each["metadata"] for each in manifests if each["kind"] == "ServiceAccount"]
    template, terraform = stack(), (AWS / "main.tf").read_text("utf-8")
    (association,) = [
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::EKS::PodIdentityAssociation"
    ]
    variable = re.search(r'variable "namespace" {[^}]*default\s*= "(.+)"', terraform)
    name = re.search(r'service_account\s*= "(.+)"', terraform)

    assert variable is not None
    assert name is not None
    expected = (account["namespace"], account["name"])
    namespace = template["Parameters"]["KarpenterNamespace"]["Default"]
    assert expected == (namespace, association["ServiceAccount"])
    assert expected == (variable[1], name[1])


def test_the_rules_of_the_templates_send_what_the_provider_understands() -> None:
    patterns = {
        (rule["source"][0], rule["detail-type"][0])
        for each in stack()["Resources"].values()
        if each["Type"] == "AWS::Events::Rule"
        for rule in [each["Properties"]["EventPattern"]]
    }
    terraform = (AWS / "main.tf").read_text("utf-8")

    assert 5 == len(patterns)
    for source, detail_type in patterns:
        assert f'["{source}", "{detail_type}"]' in terraform
        detail = {
            "instance-id": "i-1",
            "state": "stopped",
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "affectedEntities": [{"entityValue": "i-1"}],
        }
        body = {"version": "0", "source": source, "detail-type": detail_type, "detail": detail}
        assert ("i-1",) == parse(json.dumps(body)).instance_ids


def test_terraform_uses_the_policy_files() -> None:
    text = (AWS / "main.tf").read_text("utf-8")
    places = set(re.findall(r"\$\{(\w+)\}", "".join(f.read_text() for f in files())))

    assert all(f'"{name}"' in text for name in NAMES)
    assert all(re.search(rf"{place}\s+=", text) for place in places)


def test_the_eksctl_example_can_be_read() -> None:
    config = yaml.safe_load((AWS / "eksctl.yaml").read_text("utf-8"))

    assert "eksctl.io/v1alpha5" == config["apiVersion"]
    assert config["metadata"]["name"] == config["metadata"]["tags"][ec2_labels.DISCOVERY_TAG]
