"""Machines you own already, listed in a file and switched on when pods need them.

A ConfigMap per machine in use says whose it is; creating it takes the machine for one claim alone.
"""

from asyncio.subprocess import create_subprocess_exec
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from karpenter.api.cluster import ConfigMap
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.node_classes import NodeClass
from karpenter.cloud import provider as cloud
from karpenter.cloud.registry import ProviderContext, ProviderError
from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.kube.errors import AlreadyExistsError, KubeError
from karpenter.model import labels
from karpenter.model.conditions import READY, is_true
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources

NAMESPACE = "kube-system"
IN_USE = "static-machines.example.com/in-use"


class MachineClass(NodeClass, frozen=True):  # whose Ready condition is set by who runs the racks
    api_version = "static-machines.example.com/v1"


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    zone: str
    cpu: str
    memory: str
    price: float = 0.0  # what an hour of it costs you
    power: list[str] = []  # a command that takes "on" or "off"; none if it is always on

    def labels(self) -> dict[str, str]:
        place = {labels.ZONE: self.zone, labels.CAPACITY_TYPE: labels.ON_DEMAND}
        return {labels.INSTANCE_TYPE: self.name, labels.ARCH: "amd64", labels.OS: "linux", **place}

    def instance_type(self, *, is_free: bool) -> InstanceType:
        held = Requirements.from_labels(self.labels())
        place = Requirements((held[labels.ZONE], held[labels.CAPACITY_TYPE]))
        size = Resources.from_wire({"cpu": self.cpu, "memory": self.memory, "pods": "110"})
        return InstanceType(self.name, held, (Offering(place, self.price, is_free),), size)

    def instance(self, held: ConfigMap) -> cloud.Instance:
        name, since = f"static://{self.name}", held.metadata.creation_timestamp
        size = self.instance_type(is_free=False).capacity.to_wire()
        return cloud.Instance(name, "", self.labels(), {}, size, size, since)


class StaticMachines:
    repair_policies: Sequence[cloud.RepairPolicy] = ()
    registration_hooks: Sequence[cloud.RegistrationHook] = ()
    facts = ProviderFacts("static", (), labels.CORE_WELL_KNOWN, models=(MachineClass,))

    def __init__(self, context: ProviderContext, machines: Sequence[Machine]) -> None:
        self._kube, self._clock = context.kube, context.clock
        self._machines = {machine.name: machine for machine in machines}

    async def create(self, claim: NodeClaim) -> cloud.Instance:
        in_use = await self._in_use()
        mine = [held for held in in_use.values() if held.data["claim"] == claim.metadata.uid]
        classes = await self._kube.list(MachineClass)
        ready = {each.metadata.name for each in classes if is_true(each.status.conditions, READY)}
        if not mine and claim.spec.node_class_ref.name not in ready:
            raise cloud.NodeClassNotReadyError("the class of the claim is missing or not ready")
        held = mine[0] if mine else await self._take(claim, in_use)
        machine = self._machines[held.data["machine"]]
        await _switch(machine, "on")
        return machine.instance(held)

    async def delete(self, claim: NodeClaim) -> None:
        for name, held in (await self._in_use()).items():
            if held.data["claim"] == claim.metadata.uid:
                return await self._release(name)
        raise cloud.InstanceNotFoundError(f"claim {claim.metadata.name} has no machine")

    async def get(self, provider_id: str) -> cloud.Instance:
        for instance in await self.list():
            if instance.provider_id == provider_id:
                return instance
        raise cloud.InstanceNotFoundError(f"machine {provider_id} is not in use")

    async def list(self) -> Sequence[cloud.Instance]:
        return [self._machines[name].instance(h) for name, h in (await self._in_use()).items()]

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        in_use = await self._in_use()
        return tuple(m.instance_type(is_free=m.name not in in_use) for m in self._machines.values())

    async def drift_reason(self, claim: NodeClaim) -> str:
        return ""

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        raise cloud.RebootNotImplementedError

    async def run(self) -> None:
        """Give back, now and then, the machines of claims that died before they were launched."""
        while True:
            with suppress(KubeError, cloud.CloudError):  # there is another time
                in_use = await self._in_use()  # before the claims: their claims existed by then
                claims = {claim.metadata.uid for claim in await self._kube.list(NodeClaim)}
                for name in [n for n, held in in_use.items() if held.data["claim"] not in claims]:
                    await self._release(name)
            await self._clock.sleep(120.0)

    async def _in_use(self) -> dict[str, ConfigMap]:
        found = await self._kube.list(ConfigMap, NAMESPACE, label_selector=IN_USE)
        return {h.data["machine"]: h for h in found if h.data["machine"] in self._machines}

    async def _take(self, claim: NodeClaim, in_use: dict[str, ConfigMap]) -> ConfigMap:
        wanted = Requirements.from_wire(claim.spec.requirements)
        requests = Resources.from_wire(claim.spec.resources.requests)
        for machine in sorted(self._machines.values(), key=lambda each: (each.price, each.name)):
            kind = machine.instance_type(is_free=True)
            fits = wanted.intersects(kind.requirements) and requests.fits(kind.allocatable)
            if machine.name in in_use or not fits:
                continue
            where = {"name": f"machine-{machine.name}", "namespace": NAMESPACE}
            data = {"machine": machine.name, "claim": claim.metadata.uid}
            body = {"metadata": {**where, "labels": {IN_USE: "true"}}, "data": data}
            with suppress(AlreadyExistsError):  # another claim was faster
                return await self._kube.create(ConfigMap, body)
        raise cloud.InsufficientCapacityError("no machine that is free has what the claim asks for")

    async def _release(self, name: str) -> None:
        await _switch(self._machines[name], "off")
        await self._kube.delete(ConfigMap, f"machine-{name}", NAMESPACE)


async def _switch(machine: Machine, to: str) -> None:
    if machine.power and await (await create_subprocess_exec(*machine.power, to)).wait() != 0:
        raise cloud.CreateError("PowerFailed", f"machine {machine.name} cannot be switched {to}")


def make_provider(context: ProviderContext) -> StaticMachines:
    file = context.environment.get("STATIC_MACHINES_FILE", "")
    try:
        machines = msgspec.yaml.decode(Path(file).read_bytes(), type=list[Machine])
        _ = [machine.instance_type(is_free=True) for machine in machines]  # can sizes be read?
    except (OSError, ValueError) as error:
        raise ProviderError(f"STATIC_MACHINES_FILE: {file}: {error}") from error
    return StaticMachines(context, machines)
