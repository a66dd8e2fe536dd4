"""Namespaces, services, configuration, secrets, leases and events."""

from collections.abc import Mapping
from typing import ClassVar

from karpenter.api.meta import Model, ObjectReference, Resource, Time


class NamespaceStatus(Model, frozen=True):
    phase: str = ""


class Namespace(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"
    namespaced: ClassVar[bool] = False

    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Model, frozen=True):
    """``selector`` is None for a service whose endpoints are maintained elsewhere."""

    selector: Mapping[str, str] | None = None


class Service(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    data: Mapping[str, str] = {}


class Secret(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    data: Mapping[str, str] = {}  # in base64


class LeaseSpec(Model, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None


class Lease(Resource, frozen=True):
    api_version: ClassVar[str] = "coordination.k8s.io/v1"

    spec: LeaseSpec = LeaseSpec()


class EventSource(Model, frozen=True):
    component: str = ""
    host: str = ""


class EventSeries(Model, frozen=True):
    count: int = 0
    last_observed_time: Time | None = None


class Event(Resource, frozen=True):
    api_version: ClassVar[str] = "v1"

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: int = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    series: EventSeries | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
