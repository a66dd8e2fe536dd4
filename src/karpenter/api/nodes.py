"""Nodes: the machines as the cluster sees them."""

from typing import ClassVar

import msgspec

from karpenter.api.meta import Condition, Model, Resource, ResourceMap, Time


class Taint(Model, frozen=True):
    key: str
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(Model, frozen=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeAddress(Model, frozen=True):
    type: str
    address: str


class NodeSystemInfo(Model, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")
    machine_id: str = msgspec.field(default="", name="machineID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")
    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(Model, frozen=True):
    phase: str = ""
    capacity: ResourceMap = {}
    allocatable: ResourceMap = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"
    namespaced: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
