"""Nodes of simulated instances: created when an instance runs, deleted when it is terminated.

The sandbox's simulated kubelets take care of them from then on, as the annotation asks for.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import structlog

from karpenter.api.node_classes import ec2_labels
from karpenter.api.nodes import Node
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.provider_id import instance_id_of, provider_id
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.aws.simulated.account import SimulatedAccount
from karpenter.cloud.aws.simulated.boot import registration
from karpenter.cloud.provider import CloudError
from karpenter.kube.client import Kube
from karpenter.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from karpenter.model import labels

SIMULATED: Final = "kwok.x-k8s.io/node"
BOOT_SECONDS: Final = 20.0
PERIOD: Final = 2.0
_FIRST_REGION: Final = "us-east-1"

log = structlog.get_logger(__name__)


class SimulatedNodes:
    """Keeps the Nodes of a cluster equal to the instances of an account."""

    def __init__(
        self,
        account: SimulatedAccount,
        kube: Kube,
        clock: Clock,
        provider: AwsProvider,
        *,
        boot_seconds: float = BOOT_SECONDS,
    ) -> None:
        self._account = account
        self._kube = kube
        self._clock = clock
        self._provider = provider
        self._boot_seconds = boot_seconds
        self._joined: dict[str, str] = {}  # instance -> node

    async def run(self) -> None:
        """Create and delete nodes, until cancelled."""
        logged = ""
        while True:
            try:
                await self.step()
                logged = ""
            except (KubeError, CloudError) as error:
                if logged != str(error):  # once, however long it lasts
                    logged = str(error)
                    log.warning("simulated nodes not updated", error=logged)
            await self._clock.sleep(PERIOD)

    async def step(self) -> None:
        """Create the nodes that are due, and delete those whose instance is gone."""
        running = self._account.running_ids()
        now = self._clock.now()
        due = {each for each in running if each not in self._joined and self._has_booted(each, now)}
        for entry in self._account.running() if due else ():
            if entry["InstanceId"] in due:
                await self._join(entry["InstanceId"], entry)
        for instance_id in [each for each in self._joined if each not in running]:
            await self._leave(self._joined[instance_id])
            del self._joined[instance_id]

    async def adopt(self) -> None:
        """Record the nodes that exist already."""
        for node in await self._kube.list(Node):
            instance_id = instance_id_of(node.spec.provider_id)
            if instance_id:
                self._joined[instance_id] = node.metadata.name

    def _has_booted(self, instance_id: str, now: datetime) -> bool:
        since = self._account.fleets.launched_at.get(instance_id)
        return since is not None and (now - since).total_seconds() >= self._boot_seconds

    async def _join(self, instance_id: str, entry: Mapping[str, Any]) -> None:
        zone = entry["Placement"]["AvailabilityZone"]
        instance = await self._provider.get(provider_id(zone, instance_id))
        boot = registration(self._account.fleets.templates[instance_id])
        name = private_dns_name(entry["PrivateIpAddress"], self._account.region)
        held = {key: value for key, value in instance.labels.items() if key in _BY_KUBELET}
        old = {key: held[now] for key, now in _OLD_SPELLINGS.items() if now in held}
        body = {
            "metadata": {
                "name": name,
                "labels": {**old, **held, **boot.labels, labels.HOSTNAME: name},
                "annotations": {SIMULATED: "fake"},
            },
            "spec": {"providerID": instance.provider_id, "taints": list(boot.taints)},
            "status": {
                "capacity": dict(instance.capacity),
                "allocatable": dict(instance.allocatable),
            },
        }
        try:
            await self._kube.create(Node, body)
        except AlreadyExistsError:
            log.debug("simulated node is there already", node=name)
        self._joined[instance_id] = name

    async def _leave(self, name: str) -> None:
        try:
            await self._kube.delete(Node, name)
        except NotFoundError:
            return


def private_dns_name(address: str, region: str) -> str:
    """What EC2 calls an instance inside its network; moto calls all of them as the first region."""
    domain = "ec2.internal" if region == _FIRST_REGION else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{domain}"


# What kubelet and cloud controller write on a node by themselves
_BY_KUBELET: Final = frozenset(
    {
        labels.ARCH,
        labels.OS,
        labels.INSTANCE_TYPE,
        labels.ZONE,
        labels.REGION,
        ec2_labels.ZONE_ID,
        labels.WINDOWS_BUILD,
    }
)
# Kubelet and cloud controller also still write the beta spellings of these labels
_OLD_SPELLINGS: Final = {
    key: now for key, now in labels.ALIASES.items() if "beta.kubernetes.io/" in key
}
