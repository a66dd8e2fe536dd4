"""Launches from the claim to the request: what EC2 is asked, case by case."""

import asyncio
import base64
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from helpers.aws_sandbox import SERVICES
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodePool
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.launch.errors import TEMPLATE_NOT_FOUND
from karpenter.cloud.aws.simulated.account import SimulatedAccount
from karpenter.cloud.aws.simulated.faults import SoldOut
from karpenter.cloud.aws.simulated.moto_gaps import type_tables
from karpenter.cloud.aws.types.unavailable import Place
from karpenter.cloud.provider import (
    CreateError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.settings import Settings
from unit.cloud.aws.aws_bed import FEW_TYPES, POOL, AwsBed, AwsCloud, aws_cloud, pool_body

ON_DEMAND = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
SPOT = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}


def within(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def overrides(request: Any) -> list[dict[str, Any]]:
    return [each for config in request["LaunchTemplateConfigs"] for each in config["Overrides"]]


def template_of(cloud: AwsCloud) -> dict[str, Any]:
    found: dict[str, Any] = cloud.last("CreateLaunchTemplate")["LaunchTemplateData"]
    return found


async def offered(cloud: AwsCloud) -> dict[str, InstanceType]:
    types = await cloud.provider.instance_types(AwsBed(cloud).pool())
    return {kind.name: kind for kind in types}


def can_be_had(kind: InstanceType, zone: str, capacity_type: str) -> bool:
    return any(
        each.available
        for each in kind.offerings
        if (each.zone, each.capacity_type) == (zone, capacity_type)
    )


@pytest.mark.case("AWS-28")
@in_virtual_time
async def test_an_expression_for_reserves_is_in_allocatable_and_in_user_data() -> None:
    kubelet = {"kubeReserved": {"cpu": "max(60, vcpus * 30)"}}
    gates = {"AWS_FEATURE_GATES": "NodeClassCEL=true"}
    async with aws_cloud(environment=gates, spec={"kubelet": kubelet}) as cloud:
        claim = await cloud.claim(requirements=[within(labels.INSTANCE_TYPE, "m5.xlarge")])
        instance = await cloud.provider.create(claim)

        assert ("4", "3880m") == (instance.capacity["cpu"], instance.allocatable["cpu"])
        text = base64.b64decode(template_of(cloud)["UserData"]).decode()
        config = yaml.safe_load(text.split("application/node.eks.aws\n\n")[-1].split("\n--//")[0])
        assert {"cpu": "120m"} == config["spec"]["kubelet"]["config"]["kubeReserved"]


def many_types(count: int) -> frozenset[str]:
    """Ordinary types of one architecture that are sold in the region, without devices."""
    tables = type_tables()
    sold = {each["InstanceType"] for each in tables.INSTANCE_TYPE_OFFERINGS["region"]["us-west-2"]}
    plain = [
        name
        for name, entry in sorted(tables.INSTANCE_TYPES.items())
        if name in sold
        and name[0] in "cmr"
        and entry["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]
        and "metal" not in name
        and entry.get("Hypervisor") == "nitro"
    ]
    return frozenset(plain[:count])


@pytest.mark.case("AWS-81")
@pytest.mark.row("S2-98")
@in_virtual_time
async def test_of_a_hundred_types_the_sixty_cheapest_are_asked_for() -> None:
    async with aws_cloud(types=many_types(100)) as cloud:
        requests = {"cpu": "100m", "pods": "2"}
        await cloud.provider.create(await cloud.claim(requirements=[SPOT], requests=requests))

        asked = overrides(cloud.last("CreateFleet"))
        cheapest = {
            name: min(o.price for o in kind.offerings if o.available and o.capacity_type == "spot")
            for name, kind in (await offered(cloud)).items()
        }
        assert 100 == len(cheapest)
        expected = sorted(cheapest, key=lambda name: (cheapest[name], name))[:60]
        assert set(expected) == {each["InstanceType"] for each in asked}
        assert (
            "price-capacity-optimized"
            == cloud.last("CreateFleet")["SpotOptions"]["AllocationStrategy"]
        )


@pytest.mark.case("AWS-82")
@pytest.mark.parametrize("policy", ["Strict", "BestEffort"])
@in_virtual_time
async def test_more_sizes_are_asked_for_than_sixty_types_have(policy: str) -> None:
    settings = Settings(min_values_policy=policy)
    types = many_types(100)
    async with aws_cloud(types=types, settings=settings) as cloud:
        sizes = len({name.partition(".")[2] for name in types})
        many = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 50}
        most = {"key": ec2_labels.INSTANCE_SIZE, "operator": "Exists", "minValues": sizes}
        requests = {"cpu": "100m", "pods": "2"}
        fits = await cloud.claim("fits", requirements=[many], requests=requests)
        await cloud.provider.create(fits)
        claim = await cloud.claim("fits-not", requirements=[most], requests=requests)

        if policy == "Strict":
            with pytest.raises(InsufficientCapacityError, match="minValues"):
                await cloud.provider.create(claim)
        else:
            await cloud.provider.create(claim)
        assert (1 if policy == "Strict" else 2) == len(cloud.instance_ids())


def second_subnet(cloud: AwsCloud, zone: str = "us-west-2a", cidr: str = "10.0.192.0/18") -> str:
    ec2 = cloud.account.client("ec2")
    known = ec2.describe_subnets(SubnetIds=[cloud.account.subnets[zone]])["Subnets"][0]
    tags = [{"Key": ec2_labels.DISCOVERY_TAG, "Value": cloud.account.cluster}]
    made = ec2.create_subnet(
        VpcId=known["VpcId"],
        CidrBlock=cidr,
        AvailabilityZone=zone,
        TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
    )
    return str(made["Subnet"]["SubnetId"])


@pytest.mark.case("AWS-86")
@in_virtual_time
async def test_launches_in_a_row_take_turns_between_subnets() -> None:
    async with aws_cloud() as cloud:
        both = [cloud.account.subnets["us-west-2a"], second_subnet(cloud)]
        await cloud.clock.sleep(130)
        used = []
        for number in range(4):
            there = within(labels.ZONE, "us-west-2a")
            await cloud.provider.create(await cloud.claim(f"c-{number}", requirements=[there]))
            (subnet,) = {each["SubnetId"] for each in overrides(cloud.last("CreateFleet"))}
            used.append(subnet)

        assert set(both) == set(used[:2])
        assert used[:2] == used[2:]
        assert 0 == cloud.count("DescribeSubnets", len(cloud.calls) - 4)


@pytest.mark.case("AWS-90")
@in_virtual_time
async def test_pools_with_tags_of_their_own_have_fleets_of_their_own() -> None:
    async with aws_cloud() as cloud:
        await cloud.kube.create(NodePool, pool_body("other"))
        claims = [
            await cloud.claim("one"),
            await cloud.claim("two", pool_labels={labels.NODEPOOL: "other"}),
        ]
        await asyncio.gather(*(cloud.provider.create(each) for each in claims))

        assert 2 == cloud.count("CreateFleet")
        pools = [
            {tag["Key"]: tag["Value"] for tag in entry["Tags"]}[labels.NODEPOOL]
            for entry in cloud.account.running()
        ]
        assert [POOL, "other"] == sorted(pools)


def fill_up(cloud: AwsCloud, subnet: str, cidr: str) -> None:
    """Keep all addresses of a subnet for something else."""
    cloud.account.client("ec2").create_subnet_cidr_reservation(
        SubnetId=subnet, ReservationType="prefix", Cidr=cidr
    )


@pytest.mark.case("AWS-92")
@in_virtual_time
async def test_a_zone_is_closed_once_all_its_subnets_are_full() -> None:
    async with aws_cloud(types=FEW_TYPES | {"m5.2xlarge"}) as cloud:
        ec2 = cloud.account.client("ec2")
        small = [second_subnet(cloud, "us-west-2a", f"10.0.192.{n}/28") for n in (0, 16)]
        ec2.delete_subnet(SubnetId=cloud.account.subnets["us-west-2a"])
        await cloud.clock.sleep(130)
        for subnet, start in zip(small, (0, 16), strict=True):
            fill_up(cloud, subnet, f"10.0.192.{start}/28")
        there = within(labels.ZONE, "us-west-2a")

        async def ask(name: str) -> None:
            kind = within(labels.INSTANCE_TYPE, name)
            claim = await cloud.claim(f"c-{name.replace('.', '-')}", requirements=[there, kind])
            with pytest.raises(InsufficientCapacityError, match="InsufficientFreeAddresses"):
                await cloud.provider.create(claim)

        await ask("m5.large")
        first = await offered(cloud)
        await ask("m5.xlarge")
        second = await offered(cloud)

        # the offering itself is avoided, and the zone only when no subnet is left
        assert not can_be_had(first["m5.large"], "us-west-2a", "spot")
        assert can_be_had(first["m5.2xlarge"], "us-west-2a", "spot")
        assert can_be_had(first["m5.2xlarge"], "us-west-2a", "on-demand")
        assert not can_be_had(second["m5.2xlarge"], "us-west-2a", "spot")
        assert not can_be_had(second["m5.2xlarge"], "us-west-2a", "on-demand")
        assert can_be_had(second["m5.2xlarge"], "us-west-2b", "spot")
        assert [] == cloud.instance_ids()


@pytest.mark.case("AWS-91")
@pytest.mark.row("S0-51")
@in_virtual_time
async def test_the_next_offering_is_launched_at_once_and_the_first_avoided_for_3_minutes() -> None:
    async with aws_cloud() as cloud:
        cloud.account.gaps.spot_prices["m5.large", "us-west-2a"] = 0.001
        await cloud.provider.parts.pricing.refresh()
        cloud.account.faults.sold_out.append(SoldOut("m5.large", "us-west-2a", "spot"))
        kind = within(labels.INSTANCE_TYPE, "m5.large")
        instance = await cloud.provider.create(await cloud.claim("one", requirements=[kind]))

        assert 1 == cloud.count("CreateFleet")
        assert "us-west-2a" != instance.labels[labels.ZONE]
        types = await offered(cloud)
        assert not can_be_had(types["m5.large"], "us-west-2a", "spot")
        assert can_be_had(types["m5.large"], "us-west-2a", "on-demand")
        await cloud.provider.create(await cloud.claim("two", requirements=[kind, SPOT]))
        asked = overrides(cloud.last("CreateFleet"))
        assert {"us-west-2b", "us-west-2c"} == {each["AvailabilityZone"] for each in asked}
        await cloud.clock.sleep(195)
        assert can_be_had((await offered(cloud))["m5.large"], "us-west-2a", "spot")
        place = Place("m5.large", "us-west-2a", "spot")
        assert not cloud.provider.parts.unavailable.is_unavailable(place)


@pytest.mark.case("AWS-96")
@in_virtual_time
async def test_another_list_of_types_is_launched_from_the_same_template() -> None:
    async with aws_cloud() as cloud:
        names = []
        for name in ("m5.large", "c5.large"):
            kind = within(labels.INSTANCE_TYPE, name)
            claim = await cloud.claim(f"claim-{name[0]}", requirements=[kind])
            await cloud.provider.create(claim)
            (config,) = cloud.last("CreateFleet")["LaunchTemplateConfigs"]
            names.append(config["LaunchTemplateSpecification"]["LaunchTemplateName"])

        assert names[0] == names[1]


@pytest.mark.case("AWS-98")
@pytest.mark.parametrize(
    ("values", "tenancy"),
    [
        pytest.param(["dedicated"], "dedicated", id="hardware of one's own"),
        pytest.param(["default", "dedicated"], "default", id="either will do"),
    ],
)
@in_virtual_time
async def test_tenancy(values: list[str], tenancy: str) -> None:
    async with aws_cloud() as cloud:
        asked = within(ec2_labels.INSTANCE_TENANCY, *values)
        instance = await cloud.provider.create(await cloud.claim(requirements=[asked]))

        assert {"Tenancy": tenancy} == template_of(cloud)["Placement"]
        assert tenancy == instance.labels[ec2_labels.INSTANCE_TENANCY]


@pytest.mark.case("AWS-99")
@in_virtual_time
async def test_who_asks_for_efa_gets_every_efa_interface_of_the_type() -> None:
    async with aws_cloud(types=frozenset({"p4d.24xlarge"})) as cloud:
        requests = {"cpu": "1", "pods": "2", "vpc.amazonaws.com/efa": "1"}
        instance = await cloud.provider.create(await cloud.claim("one", requests=requests))

        interfaces = template_of(cloud)["NetworkInterfaces"]
        assert ["efa"] * 4 == [each["InterfaceType"] for each in interfaces]
        assert [0, 1, 2, 3] == [each["NetworkCardIndex"] for each in interfaces]
        assert [0, 1, 1, 1] == [each["DeviceIndex"] for each in interfaces]
        assert "4" == instance.capacity["vpc.amazonaws.com/efa"]

        plain = await cloud.provider.create(await cloud.claim("two"))
        assert [0] == [each["DeviceIndex"] for each in template_of(cloud)["NetworkInterfaces"]]
        assert "vpc.amazonaws.com/efa" not in plain.capacity


@in_virtual_time
async def test_a_class_that_lists_interfaces_for_efa_makes_nodes_that_advertise_it() -> None:
    async with aws_cloud(types=frozenset({"p4d.24xlarge"})) as cloud:
        await cloud.change_class(
            networkInterfaces=[
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
            ]
        )
        instance = await cloud.provider.create(await cloud.claim("one"))

        assert "1" == instance.capacity["vpc.amazonaws.com/efa"]
        assert "1" == instance.allocatable["vpc.amazonaws.com/efa"]


@pytest.mark.case("AWS-107")
@in_virtual_time
async def test_a_launch_waits_until_the_service_network_is_known() -> None:
    async with aws_cloud() as cloud:
        cloud.provider.parts.cluster.service_cidr = ""
        cloud.provider.parts.cluster._described = None
        cloud.account.faults.fail("DescribeCluster", "AccessDeniedException", status=403)
        claim = await cloud.claim()
        with pytest.raises(NodeClassNotReadyError, match="service network"):
            await cloud.provider.create(claim)
        assert [] == cloud.instance_ids()

        await cloud.provider.create(claim)
        assert 1 == len(cloud.instance_ids())


@pytest.mark.row("S2-59")
@in_virtual_time
async def test_each_launch_gets_the_image_of_its_architecture() -> None:
    async with aws_cloud(types=frozenset({"m5.large", "m6g.large"})) as cloud:
        images = {}
        for arch in ("amd64", "arm64"):
            asked = within(labels.ARCH, arch)
            instance = await cloud.provider.create(await cloud.claim(arch, requirements=[asked]))
            assert arch == instance.labels[labels.ARCH]
            images[arch] = cloud.account.gaps.images[instance.image_id]["Architecture"]

        assert {"amd64": "x86_64", "arm64": "arm64"} == images


@pytest.mark.row("S2-45")
@in_virtual_time
async def test_an_endpoint_that_is_not_set_is_discovered() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        cloud.world.environment = {**cloud.world.environment, "CLUSTER_ENDPOINT": ""}
        cloud.make()
        cloud.lead()
        await cloud.ready()
        await cloud.provider.create(await cloud.claim())

        eks = cloud.account.client("eks").describe_cluster(name=cloud.account.cluster)["cluster"]
        text = base64.b64decode(template_of(cloud)["UserData"]).decode()
        assert f"apiServerEndpoint: {eks['endpoint']}" in text


BASIC_READS = frozenset(
    {
        "DescribeAvailabilityZones",
        "DescribeImages",
        "DescribeInstances",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeLaunchTemplates",
        "DescribeSecurityGroups",
        "DescribeSpotPriceHistory",
        "DescribeSubnets",
    }
)


# What the basic profile grants beside those nine, all of it about one region and one cluster
OTHER_READS = frozenset(
    {
        "DescribeCluster",
        "GetInstanceProfile",
        "GetParameter",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ReceiveMessage",
    }
)
READS = ("Describe", "Get", "List", "Search", "Receive")


def refused_reads(account: SimulatedAccount) -> list[str]:
    """Every read of every service the provider talks to that the basic profile does not grant."""
    return sorted(
        {
            operation
            for service in sorted(SERVICES)
            for operation in account.client(service).meta.service_model.operation_names
            if operation.startswith(READS) and operation not in BASIC_READS | OTHER_READS
        }
    )


@pytest.mark.row("S2-41", "S2-42")
@in_virtual_time
async def test_nine_describe_calls_are_enough_and_the_price_list_is_not_needed() -> None:
    async with aws_cloud(is_leading=False) as cloud:
        for operation in refused_reads(cloud.account):
            cloud.account.faults.fail(operation, "UnauthorizedOperation", status=403, times=10_000)
        cloud.lead()
        await cloud.ready()
        claim = await cloud.launch(await cloud.claim())
        await cloud.clock.sleep(200)
        await cloud.provider.delete(claim)

        await cloud.check()
        assert [] == cloud.instance_ids()
        assert cloud.provider.parts.pricing.is_estimate("m5.large")
        answered = {made.operation for made in cloud.calls if made.code == "200"}
        reads = {operation for operation in answered if operation.startswith("Describe")}
        assert reads <= BASIC_READS | OTHER_READS
        regional = {made.region for made in cloud.calls if made.service != "pricing"}
        assert {"us-west-2"} == regional


@in_virtual_time
async def test_a_template_ec2_does_not_know_twice_is_looked_for_anew_the_next_time() -> None:
    async with aws_cloud() as cloud:
        await cloud.provider.create(await cloud.claim("one"))
        cloud.account.faults.fail("CreateFleet", TEMPLATE_NOT_FOUND, times=2)
        with pytest.raises(CreateError):
            await cloud.provider.create(await cloud.claim("two"))
        for name in cloud.template_names():
            cloud.account.client("ec2").delete_launch_template(LaunchTemplateName=name)
        before = len(cloud.calls)
        await cloud.provider.create(await cloud.claim("three"))

        # nothing is remembered that would make the first attempt fail once more
        assert 1 == cloud.count("CreateFleet", before)
        assert 2 == len(cloud.instance_ids())


@in_virtual_time
async def test_claims_that_are_refused_and_vanish_are_not_counted_for_ever() -> None:
    async with aws_cloud() as cloud:
        cloud.account.faults.fail("CreateFleet", "InvalidParameterValue", times=8)
        with patch("karpenter.cloud.aws.launch.launch._MOST_ATTEMPTS", 5):
            for number in range(8):
                with pytest.raises(CreateError):
                    await cloud.provider.create(await cloud.claim(f"unlucky-{number}"))

        assert 5 == len(cloud.provider.parts.launcher._attempts)


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("VcpuLimitExceeded", "the quota is used up", "VCPULimitExceeded"),
        ("MaxSpotInstanceCountExceeded", "the quota is used up", "SpotQuotaExceeded"),
        ("MaxFleetCountExceeded", "the quota is used up", "FleetQuotaExceeded"),
        ("UnauthorizedOperation", "you may not", "Unauthorized"),
        ("InvalidAMIID.NotFound", "no such image", "AMINotFound"),
        ("Strange", "nobody knows", "LaunchFailed"),
        ("InsufficientInstanceCapacity", "sold out", "InsufficientInstanceCapacity"),
    ],
)
@in_virtual_time
async def test_launch_failures_are_counted_by_the_word_users_know(
    code: str, message: str, reason: str
) -> None:
    async with aws_cloud() as cloud:
        sold_out = SoldOut(code=code, message=message, capacity_type="on-demand")
        cloud.account.faults.sold_out.append(sold_out)
        with pytest.raises((CreateError, InsufficientCapacityError)):
            await cloud.provider.create(await cloud.claim(requirements=[ON_DEMAND]))
        counted = {
            sample.labels["reason"]: sample.labels
            for metric in cloud.provider.parts.base.metrics.launch_failures.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }

        assert [reason] == list(counted)
        assert "on-demand" == counted[reason]["capacity_type"]
        assert counted[reason]["zone"].startswith("us-west-2")
        assert counted[reason]["zone_id"].startswith("usw2-az")


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({"ipFamily": "ipv6", "serviceIpv6Cidr": "fd12::/108"}, True),
        (
            {
                "ipFamily": "ipv6",
                "serviceIpv4Cidr": "172.20.0.0/16",
                "serviceIpv6Cidr": "fd12::/108",
            },
            True,
        ),
        ({"ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16"}, False),
    ],
)
@in_virtual_time
async def test_a_cluster_without_kube_dns_is_asked_which_addresses_services_have(
    network: dict[str, str], expected: bool
) -> None:
    image = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
    async with aws_cloud(is_leading=False, spec=image) as cloud:
        described = cloud.account.client("eks").describe_cluster(name=cloud.account.cluster)
        described["cluster"]["kubernetesNetworkConfig"] = network
        cloud.account.session.handlers["eks", "DescribeCluster"] = lambda *_: described
        cloud.lead()
        await cloud.ready()
        await cloud.provider.create(await cloud.claim())

        (interface,) = template_of(cloud)["NetworkInterfaces"]
        assert expected == ("PrimaryIpv6" in interface)
