"""Dynamic resource allocation (``resource.k8s.io``): devices, and the claims pods make on them.

The shapes are those of v1, which v1beta2 shares; the flatter v1beta1 is not read.
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from karpenter.api.meta import Model, ObjectMeta, Quantity, Resource, ResourceMap, Time
from karpenter.api.selectors import NodeSelector


class CELDeviceSelector(Model, frozen=True):
    expression: str


class DeviceSelector(Model, frozen=True):
    """``cel`` is None for a kind of selector that is not known yet."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Model, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Model, frozen=True):
    requests: ResourceMap = {}


class ExactDeviceRequest(Model, frozen=True):
    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Model, frozen=True):
    name: str
    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Model, frozen=True):
    """One request of a claim: either exactly this, or the first available of several."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Model, frozen=True):
    """A fact all devices of ``requests`` (of all requests, if empty) must have in common."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Model, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(Model, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Model, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: ResourceMap = {}


class DeviceAllocationResult(Model, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Model, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Model, frozen=True):
    resource: str
    name: str
    uid: str
    api_group: str = ""


class ResourceClaimStatus(Model, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Resource, frozen=True):
    api_version: ClassVar[str] = "resource.k8s.io/v1"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Resource, frozen=True):
    api_version: ClassVar[str] = "resource.k8s.io/v1"

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Model, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Resource, frozen=True):
    api_version: ClassVar[str] = "resource.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Model, frozen=True):
    """A typed fact about a device; exactly one of the four is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class CapacityRequestRange(Model, frozen=True):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Model, frozen=True):
    """How a share of a consumable capacity is rounded, and the default without a request."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestRange | None = None


class DeviceCapacity(Model, frozen=True):
    value: Quantity
    request_policy: CapacityRequestPolicy | None = None


class Counter(Model, frozen=True):
    value: Quantity


class CounterSet(Model, frozen=True):
    name: str
    counters: Mapping[str, Counter] = {}


class DeviceCounterConsumption(Model, frozen=True):
    counter_set: str
    counters: Mapping[str, Counter] = {}


class DeviceTaint(Model, frozen=True):
    key: str
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class Device(Model, frozen=True):
    name: str
    attributes: Mapping[str, DeviceAttribute] = {}
    capacity: Mapping[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Model, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Model, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Resource, frozen=True):
    api_version: ClassVar[str] = "resource.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    spec: ResourceSliceSpec = ResourceSliceSpec()
