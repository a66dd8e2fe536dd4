"""AWS for tests of one part at a time: moto in this process, with its gaps filled.

Calls that moto lacks are answered as in the simulated account of the sandbox; only prices come from
the test, and types without one have none. Any answer can be replaced: a fake is called with the
parameters of the call, after botocore's own validator has checked them against the service model,
so a call that AWS would refuse as malformed fails here too.
"""

import importlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final
from unittest.mock import patch

from moto import mock_aws
from moto.backends import get_backend
from moto.ec2.models.amis import Ami
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes.ec2 import (
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.clock import EPOCH, Clock, SystemClock
from karpenter.cloud.aws.ec2 import calls
from karpenter.cloud.aws.ec2.calls import AwsCalls, CompletedCall
from karpenter.cloud.aws.ec2.errors import AwsError, error_of
from karpenter.cloud.aws.simulated import moto_gaps
from karpenter.cloud.aws.simulated.moto_gaps import MotoGaps
from karpenter.cloud.aws.types.catalogue import Catalogue, catalogue_of

REGION: Final = "us-west-2"
ACCOUNT: Final = "123456789012"  # moto's own
CLUSTER: Final = "demo"
ROLE: Final = "NodeRole"
DISCOVERY: Final = {"karpenter.sh/discovery": CLUSTER}
ZONES: Final = ("us-west-2a", "us-west-2b", "us-west-2c")
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}

Parameters = Mapping[str, Any]
Answer = Mapping[str, Any]
Fake = Callable[[Parameters], Answer]

# Cached: clients take long to build, and hold no state of an account
_CLIENTS: dict[tuple[str, str], Any] = {}


@cache
def _session() -> Any:
    return importlib.import_module("boto3").Session(
        aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION
    )


def _client(service: str, region: str) -> Any:
    key = (service, region)
    if key not in _CLIENTS:
        config = importlib.import_module("botocore.config").Config(
            retries={"total_max_attempts": 1}
        )
        _CLIENTS[key] = _session().client(service, region_name=region, config=config)
    return _CLIENTS[key]


class HandClock(SystemClock):
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed


def full_catalogue(names: Iterable[str] = ()) -> Catalogue:
    """Moto's instance types in the region, all of them or those that are named."""
    wanted = set(names)
    types = [each for name, each in INSTANCE_TYPES.items() if not wanted or name in wanted]
    return catalogue_of(types, INSTANCE_TYPE_OFFERINGS["availability-zone"][REGION], REGION)


@dataclass
class Fault:
    """What a call fails with, and how often."""

    error: Callable[[], AwsError]
    times: int = 1
    when: Callable[[Parameters], bool] = lambda parameters: True


@dataclass(slots=True)
class FakeState(MotoGaps):
    """What calls are answered with; tests change it as they like."""

    on_demand_prices: dict[str, float] = field(default_factory=dict)
    metal_prices: dict[str, float] = field(default_factory=dict)

    def spot_price_history(self, client: Any, parameters: Parameters) -> Answer:
        return {
            "SpotPriceHistory": [
                {
                    "InstanceType": name,
                    "AvailabilityZone": zone,
                    "SpotPrice": str(price),
                    "Timestamp": EPOCH,
                }
                for (name, zone), price in self.spot_prices.items()
            ]
        }

    def products(self, client: Any, parameters: Parameters) -> Answer:
        asked = {each["Field"]: each["Value"] for each in parameters["Filters"]}
        is_metal = asked["tenancy"] == "Dedicated"
        prices = self.metal_prices if is_metal else self.on_demand_prices
        return {"PriceList": [product(name, price) for name, price in prices.items()]}


class _Answering:
    """A client that answers every call with a fake."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake

    def __getattr__(self, method: str) -> Callable[..., Answer]:
        return lambda **parameters: self._fake(parameters)


class FakeAws(AwsCalls):
    """Calls that are answered by moto, by a fake, or by an injected fault."""

    def __init__(self, clock: Clock) -> None:
        self.made: list[CompletedCall] = []
        self.state = FakeState(clock, REGION)
        self._faults: dict[tuple[str, str], list[Fault]] = {}
        state = self.state
        self.fakes: dict[tuple[str, str], Fake] = {
            ("ec2", "DescribeInstanceTypes"): partial(state.instance_types, None),
            ("ec2", "DescribeInstanceTypeOfferings"): partial(state.type_offerings, None),
            ("ec2", "DescribeSpotPriceHistory"): partial(state.spot_price_history, None),
            ("ec2", "DescribeCapacityReservations"): partial(state.capacity_reservations, None),
            ("ec2", "DescribePlacementGroups"): partial(state.placement_groups, None),
            ("pricing", "GetProducts"): partial(state.products, None),
        }
        super().__init__(_session(), clock, random.Random(1), observe=self.made.append)

    def fail(
        self,
        service: str,
        operation: str,
        code: str,
        message: str = "so it is",
        *,
        status: int = 400,
        times: int = 1,
        when: Callable[[Parameters], bool] = lambda parameters: True,
    ) -> None:
        """Let the next calls of an operation fail."""

        def error() -> AwsError:
            return error_of(code, message, operation, status, service=service)

        self._faults.setdefault((service, operation), []).append(Fault(error, times, when))

    def clear(self) -> None:
        """Let everything work again."""
        self._faults.clear()

    def count(self, operation: str) -> int:
        """How often an operation was called."""
        return sum(made.operation == operation for made in self.made)

    def services(self) -> set[str]:
        """The services that were called."""
        return {made.service for made in self.made}

    async def _attempt(
        self, client: Any, service: str, operation: str, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        _validate(client, operation, parameters)
        for fault in self._faults.get((service, operation), ()):
            if fault.times > 0 and fault.when(parameters):
                fault.times -= 1
                raise fault.error()
        fake = self.fakes.get((service, operation))
        if fake is not None:
            return calls._call(_Answering(fake), service, operation, parameters)
        return await super()._attempt(client, service, operation, parameters)

    def _make_client(self, service: str, region: str) -> Any:
        return _client(service, region)

    def _make_patient_client(self, service: str, region: str, patience: float) -> Any:
        return _client(service, region)


def product(instance_type: str, price: object, currency: str = "USD") -> str:
    """An entry of the price list."""
    return moto_gaps.product(instance_type, str(price), currency)


def reservation(
    reservation_id: str, instance_type: str = "m5.large", **more: Any
) -> dict[str, Any]:
    """An active capacity reservation with one instance left."""
    return {
        "CapacityReservationId": reservation_id,
        "InstanceType": instance_type,
        "AvailabilityZone": ZONES[0],
        "OwnerId": ACCOUNT,
        "State": "active",
        "InstanceMatchCriteria": "targeted",
        "AvailableInstanceCount": 1,
        "TotalInstanceCount": 1,
        **more,
    }


def placement_group(
    group_id: str, name: str, strategy: str = "cluster", parts: int = 0
) -> dict[str, Any]:
    """A placement group."""
    return {
        "GroupId": group_id,
        "GroupName": name,
        "Strategy": strategy,
        "State": "available",
        **({"PartitionCount": parts} if parts else {}),
    }


@contextmanager
def moto_cloud(clock: Clock) -> Iterator[FakeAws]:
    """An empty account."""
    with patch.dict("os.environ", ENVIRONMENT), mock_aws():
        yield FakeAws(clock)


class Account:
    """Fills an account with what a cluster needs."""

    def __init__(self) -> None:
        self.ec2, self.iam, self.eks = (_client(each, REGION) for each in ("ec2", "iam", "eks"))
        self.vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]

    def subnet(self, zone: str, cidr: str, tags: Mapping[str, str] = DISCOVERY) -> str:
        """Make a subnet."""
        made = self.ec2.create_subnet(
            VpcId=self.vpc,
            AvailabilityZone=zone,
            CidrBlock=cidr,
            TagSpecifications=_tagged("subnet", tags),
        )
        return str(made["Subnet"]["SubnetId"])

    def security_group(self, name: str, tags: Mapping[str, str] = DISCOVERY) -> str:
        """Make a security group."""
        made = self.ec2.create_security_group(
            VpcId=self.vpc,
            GroupName=name,
            Description=name,
            TagSpecifications=_tagged("security-group", tags),
        )
        return str(made["GroupId"])

    def role(self, name: str = ROLE) -> None:
        """Make a role."""
        self.iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")

    def cluster(self, version: str = "1.31") -> None:
        """Make the EKS cluster."""
        self.eks.create_cluster(
            name=CLUSTER,
            version=version,
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/cluster",
            resourcesVpcConfig={"subnetIds": []},
        )

    def image(
        self,
        image_id: str,
        name: str,
        architecture: str = "x86_64",
        *,
        created: datetime = EPOCH,
        deprecated: datetime | None = None,
        owner: str = "",
        owner_alias: str = "amazon",
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Put an image there, which moto's RegisterImage cannot do with an architecture."""
        backend = get_backend("ec2")[ACCOUNT][REGION]
        image = Ami(
            backend,
            image_id,
            name=name,
            architecture=architecture,
            virtualization_type="hvm",
            creation_date=created.astimezone(UTC).replace(tzinfo=None),
            owner_id=owner or None,
            owner_alias=owner_alias,
            public=True,
            region_name=REGION,
            tags=dict(tags or {}),
        )
        if deprecated is not None:
            vars(image)["deprecation_time"] = deprecated.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        backend.amis[image_id] = image
        return image_id

    def parameter(self, name: str, value: str) -> None:
        """Publish a parameter, under /aws too, where PutParameter may not write."""
        backend = get_backend("ssm")[ACCOUNT][REGION]
        made = importlib.import_module("moto.ssm.models").Parameter(
            account_id=ACCOUNT,
            name=name,
            value=value,
            parameter_type="String",
            description=None,
            allowed_pattern=None,
            keyid=None,
            last_modified_date=datetime.now(UTC),
            version=1,
            data_type="text",
        )
        backend._parameters[name] = [made]

    def publish_al2023(self, version: str = "1.31") -> dict[str, str]:
        """Publish the images of an alias, and return their ids by architecture and variant."""
        found = {}
        for number, (arch, variant) in enumerate(AL2023_VARIANTS):
            image_id = f"ami-{number + 1:017x}"
            self.image(image_id, f"amazon-eks-node-al2023-{arch}-{variant}-{version}", arch)
            self.parameter(al2023_parameter(arch, variant, version), image_id)
            found[f"{arch}/{variant}"] = image_id
        return found

    def fill(self) -> "Account":
        """Everything an ordinary node class selects."""
        for number, zone in enumerate(ZONES):
            self.subnet(zone, f"10.0.{number}.0/24")
        self.security_group("nodes")
        self.role()
        self.cluster()
        self.publish_al2023()
        return self


AL2023_VARIANTS: Final = (
    ("x86_64", "standard"),
    ("x86_64", "nvidia"),
    ("x86_64", "neuron"),
    ("arm64", "standard"),
    ("arm64", "nvidia"),
)


def al2023_parameter(architecture: str, variant: str, version: str = "1.31") -> str:
    """Where the id of an image is published."""
    return (
        f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}"
        "/recommended/image_id"
    )


def node_class(name: str = "default", *, generation: int = 1, **spec: Any) -> EC2NodeClass:
    """The node class of most tests: role, alias al2023@latest, everything found by tag."""
    usual: dict[str, Any] = {
        "role": ROLE,
        "subnet_selector_terms": (SubnetSelectorTerm(tags=DISCOVERY),),
        "security_group_selector_terms": (SecurityGroupSelectorTerm(tags=DISCOVERY),),
        "ami_selector_terms": (AMISelectorTerm(alias="al2023@latest"),),
    }
    return EC2NodeClass(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}", generation=generation),
        spec=EC2NodeClassSpec(**(usual | spec)),
    )


def _validate(client: Any, operation: str, parameters: Parameters) -> None:
    model = client.meta.service_model.operation_model(operation)
    validator = importlib.import_module("botocore.validate").ParamValidator()
    report = validator.validate(dict(parameters), model.input_shape)
    if report.has_errors():
        raise AssertionError(f"{operation}: {report.generate_report()}")


def _tagged(kind: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed}] if listed else []
