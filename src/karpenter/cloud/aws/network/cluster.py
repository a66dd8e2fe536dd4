"""The EKS cluster that nodes join: endpoint, certificate, version and service addresses.

Discovered once and cached.
"""

import asyncio
import base64
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from karpenter.api.meta import Model, Resource
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsError, AwsNotFoundError
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.registry import ProviderError
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError

OWN_CA: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
_DNS: Final = ("kube-dns", "kube-system")
_SERVICES: Final = "kubernetes"  # the ServiceCIDR every API server keeps for its own range


@dataclass(frozen=True, slots=True)
class Cluster:
    arn: str
    endpoint: str
    ca_bundle: str  # base64
    version: str
    service_cidr: str  # empty while EKS does not return it


async def describe_cluster(calls: Calls, name: str) -> Cluster:
    """Describe a cluster of EKS.

    Raises:
        AwsError: there is no such cluster, or the call failed.
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


class _Addresses(Model, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class _Service(Resource, frozen=True, tag="Service"):
    api_version: ClassVar[str] = "v1"

    spec: _Addresses = _Addresses()


class _Ranges(Model, frozen=True):
    cidrs: tuple[str, ...] = ()


class _ServiceCIDR(Resource, frozen=True, tag="ServiceCIDR"):
    api_version: ClassVar[str] = "networking.k8s.io/v1"

    spec: _Ranges = _Ranges()


class ClusterFacts:
    """Endpoint, certificate and addresses of the cluster."""

    def __init__(
        self, calls: Calls, kube: Kube, settings: AwsSettings, *, own_ca: Path = OWN_CA
    ) -> None:
        self.name: Final = settings.cluster_name
        self.endpoint = settings.cluster_endpoint
        self.ca_bundle = settings.cluster_ca_bundle
        self.dns_address = ""
        self.service_cidr = ""
        self._is_isolated = settings.isolated_vpc
        self._calls = calls
        self._kube = kube
        self._own_ca = own_ca
        self._described: Cluster | None = None
        self._describing = asyncio.Lock()

    async def load(self) -> None:
        """Find out what every node needs.

        Raises:
            ProviderError: the endpoint is neither set nor to be found.
        """
        if not self.ca_bundle:
            self.ca_bundle = await asyncio.to_thread(_read, self._own_ca)
        if not self.endpoint:
            try:
                cluster = await self._describe()
            except AwsError as error:
                raise ProviderError(
                    f"the endpoint of cluster {self.name} cannot be found: {error},"
                    " or set CLUSTER_ENDPOINT"
                ) from error
            self.endpoint = cluster.endpoint
            self.ca_bundle = self.ca_bundle or cluster.ca_bundle
        try:
            self.dns_address = (await self._kube.get(_Service, *_DNS)).spec.cluster_ip
        except KubeError:
            self.dns_address = ""  # the default of the kubelet, or ``clusterDNS`` of the node class
            # so only the service CIDR shows whether the cluster uses IPv6
            with suppress(AwsError):
                await self.load_service_cidr()

    async def load_service_cidr(self) -> str:
        """Discover the service CIDR, which some families require.

        EKS returns it. Where EKS may be out of reach, the API server is read first, which serves
        ServiceCIDR objects since Kubernetes 1.33.

        Raises:
            AwsError: a call to EKS failed.
        """
        if not self.service_cidr and self._is_isolated:
            self.service_cidr = await self._served_cidr()
        if not self.service_cidr:
            self.service_cidr = (await self._describe()).service_cidr
        return self.service_cidr

    async def _served_cidr(self) -> str:
        try:
            found = await self._kube.get(_ServiceCIDR, _SERVICES)
        except KubeError:
            return ""
        return found.spec.cidrs[0] if found.spec.cidrs else ""

    async def _describe(self) -> Cluster:
        async with self._describing:
            if self._described is None or not self._described.service_cidr:
                self._described = await describe_cluster(self._calls, self.name)
            return self._described


def _read(file: Path) -> str:
    try:
        return base64.b64encode(file.read_bytes()).decode()
    except OSError:
        return ""
