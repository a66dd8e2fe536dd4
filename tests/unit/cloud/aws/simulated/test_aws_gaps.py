"""What answers in moto's place takes and gives only what AWS would, by AWS's own model."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.aws_fakes import (
    FakeAws,
    HandClock,
    moto_cloud,
    placement_group,
    reservation,
)
from karpenter.clock import run_virtual
from karpenter.cloud.aws.simulated.account import SimulatedAccount, simulated_account

RESERVATION = {
    "CapacityReservationId": "cr-1",
    "InstanceType": "m5.large",
    "AvailabilityZone": "us-west-2a",
    "State": "active",
    "AvailableInstanceCount": 1,
}
GROUP = {"GroupId": "pg-1", "GroupName": "mine", "Strategy": "cluster", "State": "available"}
TEMPLATE = {"LaunchTemplateName": "karpenter.k8s.aws/1"}
IMAGE = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
RESOURCE = "arn:aws:eks:us-west-2:123456789012:cluster/sandbox"
# Every operation that is answered in moto's place, with parameters that AWS takes
TAKEN: dict[tuple[str, str], dict[str, Any]] = {
    ("ec2", "DescribeInstanceTypes"): {"MaxResults": 100},
    ("ec2", "DescribeInstanceTypeOfferings"): {"LocationType": "availability-zone"},
    ("ec2", "DescribeSpotPriceHistory"): {"ProductDescriptions": ["Linux/UNIX"]},
    ("ec2", "DescribeCapacityReservations"): {"CapacityReservationIds": ["cr-1"]},
    ("ec2", "DescribePlacementGroups"): {"GroupIds": ["pg-1"]},
    ("ec2", "DescribeInstanceStatus"): {"Filters": [{"Name": "event.code", "Values": ["x"]}]},
    ("ec2", "DescribeImages"): {"Owners": ["self"]},
    ("ec2", "DeleteLaunchTemplate"): TEMPLATE,
    ("ec2", "DescribeInstances"): {"MaxResults": 1000},
    ("ec2", "CreateFleet"): {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {**TEMPLATE, "Version": "$Latest"},
                "Overrides": [],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "spot",
        },
    },
    ("ssm", "GetParameter"): {"Name": IMAGE},
    ("pricing", "GetProducts"): {
        "ServiceCode": "AmazonEC2",
        "Filters": [{"Type": "TERM_MATCH", "Field": "tenancy", "Value": "Shared"}],
    },
    ("arc-zonal-shift", "GetManagedResource"): {"resourceIdentifier": RESOURCE},
    ("savingsplans", "DescribeSavingsPlans"): {"states": ["active"]},
    ("savingsplans", "DescribeSavingsPlanRates"): {"savingsPlanId": "1"},
    ("ec2", "DescribeReservedInstances"): {},
}
OPERATIONS = [pytest.param(*key, id=" ".join(key)) for key in TAKEN]


@pytest.fixture(scope="module")
def account() -> Iterator[SimulatedAccount]:
    with simulated_account(HandClock()) as made:
        made.gaps.types = frozenset({"m5.large", "p4d.24xlarge"})
        made.gaps.reservations.append(dict(RESERVATION))
        made.gaps.groups.append(dict(GROUP))
        ec2 = made.client("ec2")
        ec2.create_launch_template(**TEMPLATE, LaunchTemplateData={"ImageId": "ami-1"})
        yield made


def asked(account: SimulatedAccount, service: str, operation: str, **parameters: Any) -> Any:
    method = importlib.import_module("botocore").xform_name(operation)
    return getattr(account.session.client(service), method)(**parameters)


def complaints(shape: Any, value: Any) -> str:
    """What speaks against a value, by the model of the service."""
    validator = importlib.import_module("botocore.validate").ParamValidator()
    return str(validator.validate(value, shape).generate_report())


def model_of(account: SimulatedAccount, service: str, operation: str) -> Any:
    return account.client(service).meta.service_model.operation_model(operation)


def test_no_gap_is_forgotten_here(account: SimulatedAccount) -> None:
    assert set(TAKEN) == set(account.session.handlers)


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_a_gap_refuses_what_aws_would_refuse(
    account: SimulatedAccount, service: str, operation: str
) -> None:
    refused = importlib.import_module("botocore.exceptions").ClientError
    with pytest.raises(refused, match="Unknown parameter in input"):
        asked(account, service, operation, **TAKEN[service, operation], NoSuchThing=1)
    for name in TAKEN[service, operation]:
        with pytest.raises(refused, match="Invalid type for parameter"):
            asked(account, service, operation, **TAKEN[service, operation] | {name: object()})


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_a_gap_answers_in_the_shape_of_aws(
    account: SimulatedAccount, service: str, operation: str
) -> None:
    answer = dict(asked(account, service, operation, **TAKEN[service, operation]))
    answer.pop("ResponseMetadata", None)

    assert answer
    assert "" == complaints(model_of(account, service, operation).output_shape, answer)


def test_a_fake_of_the_tests_is_checked_in_the_same_way() -> None:
    with moto_cloud(HandClock()) as aws:
        aws.state.reservations = [reservation("cr-1")]
        aws.state.groups = [placement_group("pg-1", "mine")]
        for service, operation in aws.fakes:
            run_virtual(_checked(aws, service, operation))


async def _checked(aws: FakeAws, service: str, operation: str) -> None:
    parameters = TAKEN[service, operation]
    with pytest.raises(AssertionError, match="Unknown parameter in input"):
        await aws.call(service, operation, **parameters, NoSuchThing=1)
    answer = await aws.call(service, operation, **parameters)
    client = await aws._client(service, aws.region)
    shape = client.meta.service_model.operation_model(operation).output_shape
    assert "" == complaints(shape, answer)
