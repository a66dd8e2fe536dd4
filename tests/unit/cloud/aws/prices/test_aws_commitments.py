"""Savings Plans and reserved instances of an account, as commitments that plans count on."""

from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import Commitment, NodeRequirement
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.provider import CommittedProvider
from karpenter.model import labels
from karpenter.scheduling.inputs.commitments import commitment_problem
from unit.cloud.aws.aws_bed import AwsCloud, aws_cloud

ON = {"AWS_COMMITMENTS": "true"}
END = datetime(2027, 5, 1, tzinfo=UTC)


def compute_plan(**more: Any) -> dict[str, Any]:
    return {
        "savingsPlanId": "11111111-aaaa",
        "savingsPlanType": "Compute",
        "state": "active",
        "commitment": "12.50000000",
        "currency": "USD",
        "end": "2027-05-01T00:00:00.000Z",
        **more,
    }


def reserved(name: str = "m5.2xlarge", **more: Any) -> dict[str, Any]:
    return {
        "ReservedInstancesId": "22222222-bbbb",
        "InstanceType": name,
        "InstanceCount": 3,
        "InstanceTenancy": "default",
        "ProductDescription": "Linux/UNIX",
        "Scope": "Region",
        "State": "active",
        "End": END,
        **more,
    }


async def read(cloud: AwsCloud) -> dict[str, Commitment]:
    await cloud.provider.refresh_commitments()
    found = {each.metadata.name: each for each in cloud.provider.commitments()}
    assert [""] * len(found) == [commitment_problem(each) for each in found.values()]
    return found


def one_of(key: str, value: str) -> NodeRequirement:
    return NodeRequirement(key=key, operator="In", values=(value,))


@in_virtual_time
async def test_a_compute_plan_has_the_rates_of_every_page() -> None:
    async with aws_cloud(environment=ON) as cloud:
        gaps = cloud.account.gaps
        gaps.savings_plans.append(compute_plan())
        rates = {"m5.large": "0.0691", "c5.large": "0.06", "m5.xlarge": "0.138"}
        gaps.plan_rates["11111111-aaaa"] = {**rates, "free": "0"}

        plan = (await read(cloud))["sp-11111111-aaaa"]

        assert rates == dict(plan.spec.rates)
        assert ("SavingsPlan", "12.50000000", ()) == (
            plan.spec.type,
            plan.spec.hourly,
            plan.spec.requirements,
        )
        assert END == plan.spec.expires
        (asked,) = {
            str(call.parameters["filters"])
            for call in cloud.calls
            if call.operation == "DescribeSavingsPlanRates"
        }
        assert "'us-west-2'" in asked
        assert "'Linux/UNIX'" in asked


@in_virtual_time
async def test_a_plan_of_one_family_is_for_its_family_and_region() -> None:
    async with aws_cloud(environment=ON) as cloud:
        gaps = cloud.account.gaps
        own = {"savingsPlanType": "EC2Instance", "ec2InstanceFamily": "m5"}
        gaps.savings_plans += [
            compute_plan(**own, region="us-west-2"),
            compute_plan(**own, region="eu-west-1", savingsPlanId="elsewhere"),
            compute_plan(savingsPlanId="machine-learning", savingsPlanType="SageMaker"),
            compute_plan(savingsPlanId="over", state="retired"),
            compute_plan(savingsPlanId="without-rates"),
        ]
        for each in gaps.savings_plans[:-1]:
            gaps.plan_rates[each["savingsPlanId"]] = {"m5.large": "0.07"}

        found = await read(cloud)

        assert ["sp-11111111-aaaa"] == list(found)
        (wanted,) = found["sp-11111111-aaaa"].spec.requirements
        assert one_of(ec2_labels.INSTANCE_FAMILY, "m5") == wanted


@pytest.mark.parametrize(
    ("entry", "units", "instances", "wanted"),
    [
        pytest.param(
            reserved(), "48", None, [one_of(ec2_labels.INSTANCE_FAMILY, "m5")], id="a region"
        ),
        pytest.param(
            reserved(Scope="Availability Zone", AvailabilityZone="us-west-2a"),
            None,
            3,
            [one_of(labels.INSTANCE_TYPE, "m5.2xlarge"), one_of(labels.ZONE, "us-west-2a")],
            id="one zone",
        ),
        pytest.param(
            reserved("g4dn.xlarge"),
            None,
            3,
            [one_of(labels.INSTANCE_TYPE, "g4dn.xlarge")],
            id="a family without flexibility",
        ),
        pytest.param(
            reserved("m5.metal"),
            None,
            3,
            [one_of(labels.INSTANCE_TYPE, "m5.metal")],
            id="bare metal",
        ),
    ],
)
@in_virtual_time
async def test_reserved_instances(
    entry: dict[str, Any], units: str | None, instances: int | None, wanted: list[NodeRequirement]
) -> None:
    async with aws_cloud(environment=ON) as cloud:
        cloud.account.gaps.reserved += [
            entry,
            reserved(ReservedInstancesId="windows", ProductDescription="Windows"),
            reserved(ReservedInstancesId="dedicated", InstanceTenancy="dedicated"),
            reserved(ReservedInstancesId="over", State="retired"),
        ]

        found = await read(cloud)

        assert ["ri-22222222-bbbb"] == list(found)
        spec = found["ri-22222222-bbbb"].spec
        assert (units, instances, wanted, END) == (
            spec.units,
            spec.instances,
            list(spec.requirements),
            spec.expires,
        )


@in_virtual_time
async def test_they_are_read_again_every_hour() -> None:
    async with aws_cloud(environment=ON) as cloud:
        await cloud.clock.sleep(10)
        assert () == tuple(cloud.provider.commitments())
        cloud.account.gaps.reserved.append(reserved())

        await cloud.clock.sleep(3600)

        assert ["ri-22222222-bbbb"] == [c.metadata.name for c in cloud.provider.commitments()]


@in_virtual_time
async def test_what_may_not_be_read_counts_as_none() -> None:
    async with aws_cloud(environment=ON) as cloud:
        cloud.account.gaps.reserved.append(reserved())
        cloud.account.faults.fail("DescribeSavingsPlans", "AccessDeniedException", times=9)

        with capture_logs() as lines:
            assert ["ri-22222222-bbbb"] == list(await read(cloud))
            await read(cloud)

        (line,) = (each for each in lines if each["event"].startswith("commitments not read"))
        assert ("warning", "savings plans") == (line["log_level"], line["of"])


@in_virtual_time
async def test_without_the_setting_nothing_is_asked() -> None:
    async with aws_cloud() as cloud:
        cloud.account.gaps.reserved.append(reserved())

        assert {} == await read(cloud)
        assert isinstance(cloud.provider, CommittedProvider)
        asked = {call.operation for call in cloud.calls}
        assert set() == asked & {"DescribeReservedInstances", "DescribeSavingsPlans"}
