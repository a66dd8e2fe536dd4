"""Devices, claims and classes for tests: say only what the test is about.

    device("gpu-0", {"model": "a100"}, {"memory": "40Gi"})
    published([device("gpu-0")], node="n1")
    claim("c", exactly(count=2))
    placed_with([user("p", "c")], claims=[...], types=[with_devices("std", device("gpu-0"))])

The driver is ``gpu.test``, its class ``gpu`` means all devices, requests are named ``r``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict, Unpack

from helpers.builders import PodOptions, instance_type, pod, uid_of
from helpers.solver import Answer, Setting, question
from karpenter.api.devices import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from karpenter.api.meta import ObjectMeta
from karpenter.api.pods import Pod, PodResourceClaim
from karpenter.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.devices.inputs import DeviceInputs, SharedAttribute
from karpenter.scheduling.problem import Options
from karpenter.scheduling.solve import solve

DRIVER: Final = "gpu.test"
ENABLED: Final = Options(ignore_device_claims=False)


def selectors(*expressions: str) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=e)) for e in expressions)


def device_class(name: str = "gpu", *expressions: str) -> DeviceClass:
    """A class of the devices that satisfy every expression."""
    return DeviceClass(
        metadata=ObjectMeta(name=name), spec=DeviceClassSpec(selectors=selectors(*expressions))
    )


def device(
    name: str = "gpu-0",
    attributes: Mapping[str, str | int | bool] | None = None,
    capacity: Mapping[str, str] | None = None,
    *,
    policies: Mapping[str, CapacityRequestPolicy] | None = None,
    versions: Mapping[str, str] | None = None,
    draws: Mapping[str, str] | None = None,  # of the counter set "set"
    shared: bool = False,
    taints: Sequence[DeviceTaint] = (),
    zone: str | None = None,  # for slices that leave it to each device
) -> Device:
    """A device."""
    facts = {name: _attribute(value) for name, value in (attributes or {}).items()}
    facts |= {n: DeviceAttribute(version_value=v) for n, v in (versions or {}).items()}
    return Device(
        name=name,
        attributes=facts,
        capacity={
            name: DeviceCapacity(value=value, request_policy=(policies or {}).get(name))
            for name, value in (capacity or {}).items()
        },
        consumes_counters=(
            (DeviceCounterConsumption(counter_set="set", counters=_counters(draws)),)
            if draws
            else ()
        ),
        allow_multiple_allocations=shared,
        taints=tuple(taints),
        node_selector=in_zone(zone) if zone else None,
    )


class SliceOptions(TypedDict, total=False):
    """What can be said about a slice besides its devices; without a place it is everywhere."""

    name: str  # of the object; the pool's name
    driver: str
    pool: str  # "pool"
    node: str
    zone: str
    per_device: bool
    generation: int
    count: int  # how many slices the pool says it has: 1
    counters: Mapping[str, str]  # of the counter set "set"


def published(devices: Iterable[Device] = (), **options: Unpack[SliceOptions]) -> ResourceSlice:
    """A slice that a driver has published."""
    pool = options.get("pool", "pool")
    node, zone = options.get("node"), options.get("zone")
    per_device = options.get("per_device", False)
    counters = options.get("counters")
    return ResourceSlice(
        metadata=ObjectMeta(name=options.get("name", pool)),
        spec=ResourceSliceSpec(
            driver=options.get("driver", DRIVER),
            pool=ResourcePool(
                name=pool,
                generation=options.get("generation", 1),
                resource_slice_count=options.get("count", 1),
            ),
            node_name=node,
            node_selector=in_zone(zone) if zone else None,
            all_nodes=not (node or zone or per_device),
            per_device_node_selection=per_device,
            devices=tuple(devices),
            shared_counters=(
                (CounterSet(name="set", counters=_counters(counters)),) if counters else ()
            ),
        ),
    )


def with_devices(name: str, *devices: Device, driver: str = DRIVER, cpu: str = "4") -> InstanceType:
    """An instance type of fixture F that will publish devices."""
    template = published(devices, driver=driver, pool="will-be-there")
    templates = (template,) if devices else ()
    return replace(instance_type(name, cpu=cpu), device_templates=templates)


ONE: Final = with_devices("one", device("gpu-0"))
TWO: Final = with_devices("two", device("gpu-0"), device("gpu-1"))
BARE: Final = with_devices("bare")


def exactly(
    name: str = "r",
    count: int = 1,
    *expressions: str,
    device_class: str = "gpu",
    every: bool = False,
    capacity: Mapping[str, str] | None = None,
    tolerations: Sequence[DeviceToleration] = (),
    admin: bool = False,
) -> DeviceRequest:
    """A request for so many devices, or for every one that matches."""
    return DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(
            device_class_name=device_class,
            selectors=selectors(*expressions),
            allocation_mode="All" if every else "ExactCount",
            count=count,
            capacity=CapacityRequirements(requests=capacity) if capacity else None,
            tolerations=tuple(tolerations),
            admin_access=admin,
        ),
    )


def first_available(name: str, *options: DeviceRequest) -> DeviceRequest:
    """A request for the first of several that can be had."""
    return DeviceRequest(
        name=name,
        first_available=tuple(
            DeviceSubRequest(
                name=option.name,
                device_class_name=option.exactly.device_class_name,
                selectors=option.exactly.selectors,
                allocation_mode=option.exactly.allocation_mode,
                count=option.exactly.count,
            )
            for option in options
            if option.exactly
        ),
    )


def alike(attribute: str, *requests: str) -> DeviceConstraint:
    """The devices of some requests must agree on an attribute."""
    return DeviceConstraint(match_attribute=attribute, requests=requests)


def spec(*requests: DeviceRequest, constraints: Sequence[DeviceConstraint] = ()) -> DeviceClaim:
    return DeviceClaim(requests=requests, constraints=tuple(constraints))


def claim(
    name: str = "c",
    *requests: DeviceRequest,
    constraints: Sequence[DeviceConstraint] = (),
    holds: Sequence[DeviceRequestAllocationResult] | None = None,
    reachable: NodeSelector | None = None,
    used_by: Sequence[str] = (),
) -> ResourceClaim:
    """A claim for one device unless it says more; ``holds`` makes it one that has its devices."""
    allocation = None
    if holds is not None:
        devices = DeviceAllocationResult(results=tuple(holds))
        allocation = AllocationResult(devices=devices, node_selector=reachable)
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default", uid=uid_of(name)),
        spec=ResourceClaimSpec(devices=spec(*(requests or (exactly(),)), constraints=constraints)),
        status=ResourceClaimStatus(
            allocation=allocation,
            reserved_for=tuple(
                ResourceClaimConsumerReference(resource="pods", name=user, uid=uid_of(user))
                for user in used_by
            ),
        ),
    )


def held(
    device: str = "gpu-0",
    pool: str = "pool",
    consumed: Mapping[str, str] | None = None,
    *,
    admin: bool = False,
) -> DeviceRequestAllocationResult:
    """A device that a claim has."""
    return DeviceRequestAllocationResult(
        request="r",
        driver=DRIVER,
        pool=pool,
        device=device,
        consumed_capacity=consumed or {},
        admin_access=admin,
    )


def in_zone(zone: str) -> NodeSelector:
    return _selecting(NodeSelectorRequirement(key=keys.ZONE, operator="In", values=(zone,)))


def named(node: str) -> NodeSelector:
    """The nodes with this name, as Kubernetes writes it for devices that stand in a node."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))


def user(name: str, *names: str, **options: Unpack[PodOptions]) -> Pod:
    """A pod that uses claims by their names."""
    entries = [PodResourceClaim(name=c, resource_claim_name=c) for c in names]
    options["resource_claims"] = entries
    return pod(name, **options)


class DeviceObjects(TypedDict, total=False):
    """What there is besides pods."""

    claims: Sequence[ResourceClaim]
    slices: Sequence[ResourceSlice]
    classes: Sequence[DeviceClass]
    promises: Mapping[str, tuple[SharedAttribute, ...]]


def placed_with(pods: Iterable[Pod], world: DeviceObjects, **setting: Unpack[Setting]) -> Answer:
    """Ask where pods go in a cluster that allocates devices."""
    setting.setdefault("options", ENABLED)
    problem = replace(
        question(pods, **setting),
        devices=DeviceInputs(
            claims=world.get("claims", ()),
            slices=world.get("slices", ()),
            classes=world.get("classes", (device_class(),)),
            shared_attributes=world.get("promises", {}),
        ),
    )
    return Answer(problem, solve(problem))


def _attribute(value: str | int | bool) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    if isinstance(value, int):
        return DeviceAttribute(int_value=value)
    return DeviceAttribute(string_value=value)


def _counters(amounts: Mapping[str, str]) -> dict[str, Counter]:
    return {name: Counter(value=value) for name, value in amounts.items()}


def _selecting(*expressions: NodeSelectorRequirement) -> NodeSelector:
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=expressions),))
