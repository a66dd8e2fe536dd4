"""The EKS cluster nodes join: its endpoint, certificate, version and service addresses."""

from dataclasses import dataclass

from karpenter.cloud.aws.calls import Calls
from karpenter.cloud.aws.errors import AwsNotFoundError


@dataclass(frozen=True, slots=True)
class Cluster:
    arn: str
    endpoint: str
    ca_bundle: str  # base64
    version: str
    service_cidr: str  # empty as long as EKS does not tell


async def describe_cluster(calls: Calls, name: str) -> Cluster:
    """Ask EKS about a cluster.

    Raises:
        AwsError: there is no such cluster, or EKS could not be asked.
    """
    try:
        found = (await calls.call("eks", "DescribeCluster", name=name))["cluster"]
    except AwsNotFoundError as error:
        raise AwsNotFoundError(
            error.code,
            f"there is no EKS cluster {name} in {calls.region}; correct CLUSTER_NAME or AWS_REGION",
            error.operation,
            service="eks",
        ) from error
    network = found.get("kubernetesNetworkConfig") or {}
    ranges = [network.get("serviceIpv4Cidr"), network.get("serviceIpv6Cidr")]
    if network.get("ipFamily") == "ipv6":
        ranges.reverse()
    return Cluster(
        arn=found.get("arn", ""),
        endpoint=found.get("endpoint", ""),
        ca_bundle=(found.get("certificateAuthority") or {}).get("data", ""),
        version=found.get("version", ""),
        service_cidr=next(filter(None, ranges), ""),
    )
