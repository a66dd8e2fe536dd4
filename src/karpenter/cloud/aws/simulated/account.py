"""A simulated account with what a cluster needs: network, role, cluster, queue."""

import importlib
import importlib.util
import ipaddress
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.prices.estimates import estimated_price
from karpenter.cloud.aws.simulated.faults import Faults
from karpenter.cloud.aws.simulated.fleets import SimulatedFleets
from karpenter.cloud.aws.simulated.moto_gaps import MotoGaps, described_types
from karpenter.cloud.aws.simulated.session import SimulatedSession
from karpenter.cloud.aws.types.facts import facts_of, is_usable
from karpenter.cloud.aws.types.tables import sold_types

ACCOUNT: Final = "123456789012"
NODE_ROLE: Final = "KarpenterNodeRole"
KUBERNETES: Final = "1.33"
CLUSTER: Final = "sandbox"
ENDPOINT: Final = "https://sandbox.simulated"
REGION: Final = "us-west-2"
_MOST_ZONES: Final = 3
_ALIVE: Final = ("pending", "running", "stopping", "stopped")
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
    node_role: str
    discovery: str  # the value of the discovery tag of subnets and security groups
    session: SimulatedSession
    faults: Faults
    gaps: MotoGaps
    fleets: SimulatedFleets
    subnets: dict[str, str]  # zone -> subnet
    security_group: str

    def client(self, service: str) -> Any:
        """A client that talks to moto directly."""
        return self.session.plain_client(service)

    def running(self) -> list[dict[str, Any]]:
        """The instances that have not been terminated, as moto has them."""
        alive = [{"Name": "instance-state-name", "Values": list(_ALIVE)}]
        with self.session.lock:
            answer = self.client("ec2").describe_instances(Filters=alive)
        return [
            entry for reservation in answer["Reservations"] for entry in reservation["Instances"]
        ]

    def running_ids(self) -> frozenset[str]:
        """The ids of the running instances, read from moto's state rather than by an API call."""
        backends = importlib.import_module("moto.backends")
        with self.session.lock:
            backend = backends.get_backend("ec2")[ACCOUNT][self.region]
            return frozenset(
                instance.id
                for reservation in backend.reservations.values()
                for instance in reservation.instances
                if instance.state in _ALIVE
            )

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
    cluster: str = CLUSTER,
    region: str = REGION,
    node_role: str = NODE_ROLE,
    discovery: str = "",
    kubernetes: str = KUBERNETES,
) -> Iterator[SimulatedAccount]:
    """An account for as long as the block runs; meanwhile no call of this process reaches AWS.

    Args:
        clock: the source of creation times.
        cluster: the name of the cluster it is for.
        region: where it is.
        node_role: the role that nodes may have.
        discovery: the value that subnets and groups are tagged with; the cluster's name if empty.
        kubernetes: the version of the cluster.

    Raises:
        SimulationMissingError: moto is not installed, or knows nothing of the region.
    """
    check_simulation(region)
    moto = importlib.import_module("moto")
    from unittest.mock import patch

    environment = patch.dict(os.environ, {**_ENVIRONMENT, "AWS_DEFAULT_REGION": region})
    with environment, moto.mock_aws(), _queues_on(clock):
        faults = Faults()
        session = SimulatedSession(region, faults)
        gaps = MotoGaps(clock, region, prices=simulated_prices())
        gaps.fill(session)
        fleets = SimulatedFleets(clock, faults)
        session.handlers["ec2", "CreateFleet"] = fleets.create
        session.handlers["ec2", "DescribeInstances"] = fleets.describe
        discovery = discovery or cluster
        subnets, group = _network(session, cluster, discovery)
        iam = session.plain_client("iam")
        iam.create_role(RoleName=node_role, AssumeRolePolicyDocument="{}")
        _others(session, cluster, kubernetes, list(subnets.values()))
        yield SimulatedAccount(
            cluster,
            region,
            node_role,
            discovery,
            session,
            faults,
            gaps,
            fleets,
            subnets,
            group,
        )


def check_simulation(region: str) -> None:
    """Check that an account can be simulated, before any work starts.

    Raises:
        SimulationMissingError: it cannot: moto is not installed, or knows nothing of the region.
    """
    if importlib.util.find_spec("moto") is None:
        raise SimulationMissingError(
            "AWS is simulated with moto, which is missing; install it with:"
            " pip install 'karpenter[aws-sandbox]' (in a clone: make install)"
        )
    check_region(region)


def check_region(region: str) -> None:
    """Make sure that something is known of a region.

    Raises:
        SimulationMissingError: nothing is.
    """
    known = sold_types().zones
    if region not in known:
        raise SimulationMissingError(
            f"AWS cannot be simulated in the region {region}; those that can be are"
            f" {', '.join(sorted(known))}"
        )


def simulated_zones(region: str) -> tuple[str, ...]:
    """The zones of the account's subnets."""
    return tuple(sorted(sold_types().zones[region])[:_MOST_ZONES])


def _queues_on(clock: Clock) -> AbstractContextManager[object]:
    """Make the visibility timeout of messages follow this clock, not the wall clock."""
    from unittest.mock import patch

    queues = importlib.import_module("moto.sqs.models")
    return patch.multiple(
        queues,
        unix_time=lambda: clock.now().timestamp(),
        unix_time_millis=lambda: clock.now().timestamp() * 1000.0,
    )


def _network(session: SimulatedSession, cluster: str, discovery: str) -> tuple[dict[str, str], str]:
    ec2 = session.plain_client("ec2")
    tags = [{"Key": ec2_labels.DISCOVERY_TAG, "Value": discovery}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    networks = ipaddress.ip_network("10.0.0.0/16").subnets(new_prefix=18)
    zones = simulated_zones(session.region_name)
    subnets = {}
    for zone, network in zip(zones, networks, strict=False):
        made = ec2.create_subnet(
            VpcId=vpc,
            CidrBlock=str(network),
            AvailabilityZone=zone,
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
        )
        subnets[zone] = made["Subnet"]["SubnetId"]
    group = ec2.create_security_group(
        VpcId=vpc,
        GroupName=f"{cluster}-nodes",
        Description="nodes",
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )
    return subnets, group["GroupId"]


def _others(session: SimulatedSession, cluster: str, kubernetes: str, subnets: list[str]) -> None:
    session.plain_client("sqs").create_queue(QueueName=cluster)
    session.plain_client("eks").create_cluster(
        name=cluster,
        version=kubernetes,
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
    )


def simulated_prices() -> dict[str, float]:
    """What the types cost on demand here; AWS's own prices are not known offline."""
    listed = described_types().values()
    facts = (facts_of(entry) for entry in listed if is_usable(entry))
    return {each.name: estimated_price(each) for each in facts}
