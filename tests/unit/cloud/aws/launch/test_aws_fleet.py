"""What CreateFleet is asked, how its answer is read, and what failures are called."""

from typing import Any

import pytest

from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.ec2.errors import error_of
from karpenter.cloud.aws.launch.errors import (
    FleetError,
    error_of_call,
    error_of_fleet,
    reason_of,
)
from karpenter.cloud.aws.launch.fleet import (
    TemplateUse,
    capacity_type_of,
    fleet_answer,
    fleet_request,
    of_capacity_type,
    partition_of,
    sameness,
    tenancy_of,
)
from karpenter.cloud.provider import CreateError, InsufficientCapacityError
from unit.cloud.aws.aws_types import ZONES, capacity_types, kind, offering, wanted

SUBNETS = {ZONES[0]: "subnet-a", ZONES[1]: "subnet-b"}


def request(capacity_type: str, *types: Any, **changes: Any) -> dict[str, Any]:
    uses = [TemplateUse("karpenter.k8s.aws/1", "ami-1", types)]
    options: dict[str, Any] = {"capacity_type": capacity_type, "tags": {"a": "b"}, **changes}
    return fleet_request(uses, SUBNETS, **options)


@pytest.mark.row("S1-01")
def test_a_fleet_is_instant_and_names_every_place_once() -> None:
    types = [kind("m5.large", offering(price=0.1), offering(price=0.1), offering(zone=ZONES[1]))]

    made = request("on-demand", *types, context="ctx")

    (config,) = made["LaunchTemplateConfigs"]
    assert ("instant", "ctx") == (made["Type"], made["Context"])
    assert {
        "LaunchTemplateName": "karpenter.k8s.aws/1",
        "Version": "$Latest",
    } == config["LaunchTemplateSpecification"]
    assert [
        {
            "InstanceType": "m5.large",
            "SubnetId": "subnet-a",
            "ImageId": "ami-1",
            "AvailabilityZone": ZONES[0],
            "Priority": 0.1,
        },
        {
            "InstanceType": "m5.large",
            "SubnetId": "subnet-b",
            "ImageId": "ami-1",
            "AvailabilityZone": ZONES[1],
            "Priority": 1.0,
        },
    ] == config["Overrides"]
    assert ["instance", "volume", "fleet"] == [
        each["ResourceType"] for each in made["TagSpecifications"]
    ]


@pytest.mark.row("S2-98")
@pytest.mark.parametrize(
    ("capacity_type", "reservation", "overlaid", "target", "options"),
    [
        pytest.param(
            "spot",
            {},
            False,
            "spot",
            {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}},
            id="AWS-78 spot",
        ),
        pytest.param(
            "on-demand",
            {},
            False,
            "on-demand",
            {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}},
            id="AWS-78 on-demand",
        ),
        pytest.param(
            "spot",
            {},
            True,
            "spot",
            {"SpotOptions": {"AllocationStrategy": "capacity-optimized-prioritized"}},
            id="AWS-80 spot with prices of the user",
        ),
        pytest.param(
            "on-demand",
            {},
            True,
            "on-demand",
            {"OnDemandOptions": {"AllocationStrategy": "prioritized"}},
            id="AWS-80 on-demand with prices of the user",
        ),
        pytest.param(
            "reserved",
            {"reservation": "cr-1"},
            False,
            "on-demand",
            {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}},
            id="an ordinary reservation",
        ),
        pytest.param(
            "reserved",
            {"reservation": "cr-1", "kind": "capacity-block"},
            False,
            "capacity-block",
            {},
            id="a capacity block",
        ),
        pytest.param(
            "reserved",
            {"reservation": "cr-1", "interruptible": True},
            False,
            "reserved-capacity",
            {
                "ReservedCapacityOptions": {
                    "ReservationTypes": ["interruptible-capacity-reservation"]
                }
            },
            id="an interruptible reservation",
        ),
    ],
)
def test_strategies(
    capacity_type: str,
    reservation: dict[str, Any],
    overlaid: bool,
    target: str,
    options: dict[str, Any],
) -> None:
    made = request(
        capacity_type,
        kind("m5.large", offering(capacity_type, **reservation)),
        is_price_overlaid=overlaid,
    )

    assert target == made["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
    assert options == {key: made[key] for key in made if key.endswith("Options")}


def test_a_launch_without_any_subnet_is_refused() -> None:
    with pytest.raises(CreateError, match="subnet"):
        request("on-demand", kind("m5.large", offering(zone="us-west-2z")))


@pytest.mark.parametrize(
    ("offered", "asked", "chosen"),
    [
        pytest.param(("on-demand", "spot"), (), "spot", id="AWS-78 spot before on-demand"),
        pytest.param(("on-demand",), (), "on-demand", id="AWS-79 on-demand when spot is sold out"),
        pytest.param(
            ("on-demand", "spot"), ("on-demand",), "on-demand", id="only on-demand is allowed"
        ),
    ],
)
def test_capacity_types(offered: tuple[str, ...], asked: tuple[str, ...], chosen: str) -> None:
    types = [kind("m5.large", *(offering(each) for each in offered))]
    claim = wanted(capacity_types(*asked)) if asked else wanted()

    assert chosen == capacity_type_of(types, claim)
    assert [chosen] == [
        o.capacity_type for k in of_capacity_type(types, chosen) for o in k.offerings
    ]


def test_no_capacity_type_at_all_is_insufficient_capacity() -> None:
    with pytest.raises(InsufficientCapacityError):
        capacity_type_of([kind("m5.large", offering())], wanted(capacity_types("spot")))


@pytest.mark.case("AWS-98")
def test_shared_hardware_is_used_unless_it_is_ruled_out() -> None:
    both = wanted((ec2_labels.INSTANCE_TENANCY, "In", ["default", "dedicated"]))
    only = wanted((ec2_labels.INSTANCE_TENANCY, "In", ["dedicated"]))

    assert ("default", "default", "dedicated") == (
        tenancy_of(wanted()),
        tenancy_of(both),
        tenancy_of(only),
    )


@pytest.mark.case("AWS-104")
def test_the_lowest_partition_is_asked_for() -> None:
    asked = wanted((ec2_labels.PLACEMENT_GROUP_PARTITION, "In", ["3", "1"]))

    assert ("1", "") == (partition_of(asked), partition_of(wanted()))


@pytest.mark.case("AWS-90")
def test_requests_with_different_tags_do_not_share_a_call() -> None:
    one = request("spot", kind("m5.large", offering("spot")))
    same = request("spot", kind("m5.large", offering("spot")))
    other = request("spot", kind("m5.large", offering("spot")), tags={"a": "c"})

    assert sameness(one) == sameness(same) != sameness(other)


def test_an_answer_with_instances_and_errors_is_read() -> None:
    override = {"InstanceType": "m5.large", "SubnetId": "subnet-a", "AvailabilityZone": ZONES[0]}
    answer = fleet_answer(
        {
            "Instances": [
                {
                    "InstanceIds": ["i-1", "i-2"],
                    "InstanceType": "m5.large",
                    "LaunchTemplateAndOverrides": {"Overrides": override},
                }
            ],
            "Errors": [
                {
                    "ErrorCode": "InsufficientInstanceCapacity",
                    "ErrorMessage": "none",
                    "LaunchTemplateAndOverrides": {"Overrides": override},
                }
            ],
        }
    )

    assert ["i-1", "i-2"] == [each.instance_id for each in answer.instances]
    assert (
        FleetError("InsufficientInstanceCapacity", "none", "m5.large", ZONES[0], "subnet-a")
        == answer.errors[0]
    )


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            "no role",
            "SpotSLRCreationFailed",
        ),
        ("UnauthorizedOperation", "with an explicit deny", "Unauthorized"),
        ("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        ("AccessDenied", "service control policy", "Unauthorized"),
        (
            "InvalidParameter",
            "Security group sg-1 and subnet subnet-1 belong to different networks.",
            "SecurityGroupSubnetVPCMismatch",
        ),
        (
            "InvalidParameterValue",
            "Value (x) for parameter iamInstanceProfile.name is invalid",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidLaunchTemplateId.NotFound", "lt-1", "LaunchTemplateNotFound"),
        ("InvalidParameterValue", "User data is limited to 16384", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.Malformed", "x", "InvalidAMIID"),
        ("InvalidAMIID.NotFound", "x", "AMINotFound"),
        ("RequestLimitExceeded", "x", "RequestLimitExceeded"),
        ("InternalError", "x", "InternalError"),
        ("InvalidParameterCombination", "not eligible for Free Tier", "FreeTierIneligible"),
        ("MaxFleetCountExceeded", "x", "FleetQuotaExceeded"),
        ("PendingVerification", "x", "AccountPendingVerification"),
        ("MaxSpotInstanceCountExceeded", "x", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded", "x", "VCPULimitExceeded"),
        ("InsufficientFreeAddressesInSubnet", "x", "InsufficientFreeAddressesInSubnet"),
        ("SomethingElse", "x", "LaunchFailed"),
    ],
)
def test_failures_have_a_word_users_can_look_up(code: str, message: str, reason: str) -> None:
    word, sentence = reason_of(code, message)

    assert reason == word
    assert sentence


def test_errors_of_capacity_alone_are_insufficient_capacity() -> None:
    errors = [
        FleetError("InsufficientInstanceCapacity", "none", "m5.large", ZONES[0]),
        FleetError("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no role"),
    ]

    error = error_of_fleet(errors)

    assert isinstance(error, InsufficientCapacityError)
    assert "m5.large in us-west-2a" in str(error)


def test_one_error_of_another_kind_decides() -> None:
    errors = [
        FleetError("InsufficientInstanceCapacity", "none", "m5.large", ZONES[0]),
        FleetError("InvalidAMIID.NotFound", "ami-1 does not exist"),
    ]

    error = error_of_fleet(errors)

    assert isinstance(error, CreateError)
    assert "AMINotFound" == error.reason


def test_calls_that_fail_for_lack_of_capacity_are_insufficient_capacity() -> None:
    sold_out = error_of("InsufficientInstanceCapacity", "none", "CreateFleet", 400)
    denied = error_of("UnauthorizedOperation", "you are not authorized", "CreateFleet", 403)

    assert isinstance(error_of_call(sold_out), InsufficientCapacityError)
    refused = error_of_call(denied)
    assert isinstance(refused, CreateError)
    assert "Unauthorized" == refused.reason
