"""A simulated account with what a cluster needs: network, role, cluster, queue."""

import importlib
import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from karpenter.clock import Clock
from karpenter.cloud.aws.facts import facts_of, is_usable
from karpenter.cloud.aws.price_estimates import estimated_price
from karpenter.cloud.aws.simulated.faults import Faults
from karpenter.cloud.aws.simulated.fleets import SimulatedFleets
from karpenter.cloud.aws.simulated.gaps import Gaps
from karpenter.cloud.aws.simulated.session import SimulatedSession
from karpenter.model.labels import DISCOVERY_TAG

ACCOUNT: Final = "123456789012"
NODE_ROLE: Final = "KarpenterNodeRole"
_ZONES: Final = "abc"
_ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "simulated",
    "AWS_SECRET_ACCESS_KEY": "simulated",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}


class SimulationMissingError(Exception):
    """AWS cannot be simulated here; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class SimulatedAccount:
    """An account in one region."""

    cluster: str
    region: str
    session: SimulatedSession
    faults: Faults
    gaps: Gaps
    fleets: SimulatedFleets
    subnets: dict[str, str]  # zone -> subnet
    security_group: str

    def client(self, service: str) -> Any:
        """A client that talks to moto directly."""
        return self.session.plain_client(service)

    def running(self) -> list[dict[str, Any]]:
        """The instances that have not been terminated, as moto has them."""
        with self.session.lock:
            answer = self.client("ec2").describe_instances()
        return [
            entry
            for reservation in answer["Reservations"]
            for entry in reservation["Instances"]
            if entry["State"]["Name"] not in ("terminated", "shutting-down")
        ]

    def send(self, body: str) -> None:
        """Put a message into the interruption queue."""
        with self.session.lock:
            sqs = self.client("sqs")
            url = sqs.get_queue_url(QueueName=self.cluster)["QueueUrl"]
            sqs.send_message(QueueUrl=url, MessageBody=body)


@contextmanager
def simulated_account(
    clock: Clock,
    *,
    cluster: str = "sandbox",
    region: str = "us-west-2",
    kubernetes: str = "1.33",
) -> Iterator[SimulatedAccount]:
    """An account for as long as the block runs; meanwhile no call of this process reaches AWS.

    Raises:
        SimulationMissingError: moto is not installed.
    """
    try:
        moto = importlib.import_module("moto")
    except ImportError as error:
        raise SimulationMissingError(
            "AWS is simulated with moto, which is missing; install it with:"
            " pip install 'karpenter[aws-sandbox]'"
        ) from error
    with patch.dict(os.environ, {**_ENVIRONMENT, "AWS_DEFAULT_REGION": region}), moto.mock_aws():
        faults = Faults()
        session = SimulatedSession(region, faults)
        gaps = Gaps(clock, region, prices=_prices())
        gaps.fill(session)
        fleets = SimulatedFleets(clock, faults)
        session.handlers["ec2", "CreateFleet"] = fleets.create
        session.handlers["ec2", "DescribeInstances"] = fleets.describe
        subnets, group = _network(session, cluster, region)
        _others(session, cluster, kubernetes, list(subnets.values()))
        yield SimulatedAccount(cluster, region, session, faults, gaps, fleets, subnets, group)


def _network(session: SimulatedSession, cluster: str, region: str) -> tuple[dict[str, str], str]:
    ec2 = session.plain_client("ec2")
    tags = [{"Key": DISCOVERY_TAG, "Value": cluster}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    networks = ipaddress.ip_network("10.0.0.0/16").subnets(new_prefix=18)
    subnets = {}
    for letter, network in zip(_ZONES, networks, strict=False):
        made = ec2.create_subnet(
            VpcId=vpc,
            CidrBlock=str(network),
            AvailabilityZone=f"{region}{letter}",
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
        )
        subnets[f"{region}{letter}"] = made["Subnet"]["SubnetId"]
    group = ec2.create_security_group(
        VpcId=vpc,
        GroupName=f"{cluster}-nodes",
        Description="nodes",
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )
    return subnets, group["GroupId"]


def _others(session: SimulatedSession, cluster: str, kubernetes: str, subnets: list[str]) -> None:
    session.plain_client("iam").create_role(RoleName=NODE_ROLE, AssumeRolePolicyDocument="{}")
    session.plain_client("sqs").create_queue(QueueName=cluster)
    session.plain_client("eks").create_cluster(
        name=cluster,
        version=kubernetes,
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
    )


def _prices() -> dict[str, float]:
    listed = importlib.import_module("moto.ec2.models.instance_types").INSTANCE_TYPES
    facts = (facts_of(entry) for entry in listed.values() if is_usable(entry))
    return {each.name: estimated_price(each) for each in facts}
