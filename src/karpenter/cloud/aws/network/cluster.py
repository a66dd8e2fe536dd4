"""What a node must know of the cluster it joins, found out once and kept."""

import asyncio
import base64
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from karpenter.api.meta import Model, Resource
from karpenter.cloud.aws.calls import Calls
from karpenter.cloud.aws.cluster import Cluster, describe_cluster
from karpenter.cloud.aws.errors import AwsError
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.registry import ProviderError
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError

OWN_CA: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
_DNS: Final = ("kube-dns", "kube-system")
_SERVICES: Final = "kubernetes"  # the ServiceCIDR every API server keeps for its own range


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
            self.dns_address = ""  # the kubelet's own default, or what the node class says
            # which leaves the addresses of services to tell whether the cluster speaks IPv6
            with suppress(AwsError):
                await self.load_service_cidr()

    async def load_service_cidr(self) -> str:
        """Find out which addresses services have, which some families must know.

        EKS knows; where it may be out of reach, the API server is asked first, which knows since
        Kubernetes 1.33.

        Raises:
            AwsError: EKS could not be asked.
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
