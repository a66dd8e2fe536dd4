"""Compiled requests of ResourceClaims: classes looked up, selectors compiled, amounts parsed.

Everything that makes a claim impossible wherever its pod goes is found here: a device class that
does not exist, a kind of selector or constraint that is not supported, more devices than a claim
may have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from karpenter.api.devices import (
    CapacityRequirements,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from karpenter.model.quantity import QuantityError
from karpenter.scheduling.devices.amounts import amount
from karpenter.scheduling.devices.inventory import PoolDevice, qualified
from karpenter.scheduling.devices.selectors import Selector, SelectorError
from karpenter.scheduling.devices.usage import Shares

MOST_DEVICES_PER_CLAIM: Final = 32
_KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")


class UnservableClaimError(ValueError):
    """A claim that no device anywhere could serve, as a phrase."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestOption:
    """One way to serve a request; compared by identity."""

    name: str  # "request", or "request/subrequest"
    device_class: str
    count: int | None  # None means every device that matches
    selectors: tuple[Selector, ...]
    tolerations: tuple[DeviceToleration, ...]
    wanted: Mapping[str, int]  # capacity -> amount, as the claim names it
    has_admin_access: bool  # accesses devices without allocating them
    _known: dict[PoolDevice, Shares | None] = field(default_factory=dict, init=False)

    def shares_of(self, device: PoolDevice) -> Shares | None:
        """What would be taken of a device that matches; None when it does not.

        Raises:
            SelectorError: a selector fails on the device.
        """
        try:
            return self._known[device]
        except KeyError:
            shares = self._known[device] = self._judge(device)
            return shares

    def _judge(self, device: PoolDevice) -> Shares | None:
        if any(
            taint.effect in _KEEPS_AWAY
            and not any(
                _tolerates(t, taint.key, taint.value, taint.effect) for t in self.tolerations
            )
            for taint in device.taints
        ):
            return None
        if not all(selector.matches(device) for selector in self.selectors):
            return None
        return self._shares(device)

    def _shares(self, device: PoolDevice) -> Shares | None:
        wanted = {qualified(name, device.key.driver): n for name, n in self.wanted.items()}
        if any(
            name not in device.capacity or n > device.capacity[name].value
            for name, n in wanted.items()
        ):
            return None
        if not device.is_shared:
            return ()
        shares = []
        for name, capacity in device.capacity.items():
            granted = capacity.granted(wanted.get(name))
            if granted is None or granted > capacity.value:
                return None
            shares.append((name, granted))
        return tuple(shares)


@dataclass(frozen=True, slots=True)
class CompiledRequest:
    """One request of a claim: the first of its options that is available."""

    name: str
    options: tuple[RequestOption, ...]


@dataclass(frozen=True, slots=True)
class MatchAttribute:
    """An attribute that the devices of some requests must agree on."""

    attribute: str
    requests: frozenset[str]  # nothing means all

    def concerns(self, option: RequestOption) -> bool:
        """Whether the devices of a request are meant; its subrequests are meant with it."""
        parent = option.name.partition("/")[0]
        return not self.requests or bool(self.requests & {option.name, parent})


@dataclass(frozen=True, slots=True)
class CompiledClaim:
    """All that one claim asks for."""

    requests: tuple[CompiledRequest, ...]
    matches: tuple[MatchAttribute, ...]


class Compiler:
    """Reads what claims ask for."""

    def __init__(self, classes: Iterable[DeviceClass]) -> None:
        """Look device classes up among ``classes``."""
        self._classes = {entry.metadata.name: entry for entry in classes}
        self._selectors: dict[str, Selector] = {}

    def compiled_claim(self, spec: ResourceClaimSpec) -> CompiledClaim:
        """Read what a claim asks for.

        Raises:
            UnservableClaimError: nothing could ever serve the claim.
        """
        requests = tuple(self._request(request) for request in spec.devices.requests)
        least = sum(min(option.count or 1 for option in request.options) for request in requests)
        if least > MOST_DEVICES_PER_CLAIM:
            raise UnservableClaimError(
                f"asks for {least} devices; a claim may have at most {MOST_DEVICES_PER_CLAIM}"
            )
        return CompiledClaim(requests, tuple(_match(entry) for entry in spec.devices.constraints))

    def _request(self, request: DeviceRequest) -> CompiledRequest:
        options = [
            self._option(f"{request.name}/{option.name}", option)
            for option in request.first_available
        ]
        if request.exactly is not None:
            options = [self._option(request.name, request.exactly)]
        if not options:
            raise UnservableClaimError(f"request {request.name} is of a kind that is not supported")
        return CompiledRequest(request.name, tuple(options))

    def _option(self, name: str, wanted: ExactDeviceRequest | DeviceSubRequest) -> RequestOption:
        device_class = self._classes.get(wanted.device_class_name)
        if device_class is None:
            raise UnservableClaimError(
                f"request {name} asks for device class {wanted.device_class_name},"
                " which does not exist"
            )
        return RequestOption(
            name=name,
            device_class=wanted.device_class_name,
            count=_count(name, wanted),
            selectors=tuple(
                self._selector(entry) for entry in (*device_class.spec.selectors, *wanted.selectors)
            ),
            tolerations=wanted.tolerations,
            wanted=_amounts(name, wanted.capacity),
            has_admin_access=isinstance(wanted, ExactDeviceRequest) and wanted.admin_access,
        )

    def _selector(self, entry: DeviceSelector) -> Selector:
        if entry.cel is None:
            raise UnservableClaimError("uses a kind of selector that is not supported; use CEL")
        source = entry.cel.expression
        known = self._selectors.get(source)
        if known is None:
            try:
                known = self._selectors[source] = Selector(source)
            except SelectorError as error:
                raise UnservableClaimError(str(error)) from error
        return known


def _count(name: str, wanted: ExactDeviceRequest | DeviceSubRequest) -> int | None:
    if wanted.allocation_mode == "All":
        return None
    if wanted.allocation_mode not in ("", "ExactCount"):
        raise UnservableClaimError(
            f"request {name} has allocation mode {wanted.allocation_mode}, which is not supported"
        )
    if wanted.count < 1:
        raise UnservableClaimError(f"request {name} asks for {wanted.count} devices")
    return wanted.count


def _amounts(name: str, capacity: CapacityRequirements | None) -> dict[str, int]:
    if capacity is None:
        return {}
    try:
        return {key: amount(quantity) for key, quantity in capacity.requests.items()}
    except QuantityError as error:
        raise UnservableClaimError(f"request {name}: {error}") from error


def _match(constraint: DeviceConstraint) -> MatchAttribute:
    if constraint.match_attribute is None:
        kind = "distinctAttribute" if constraint.distinct_attribute else "of this kind"
        raise UnservableClaimError(
            f"has a constraint {kind}, which is not supported; use matchAttribute"
        )
    return MatchAttribute(constraint.match_attribute, frozenset(constraint.requests))


def _tolerates(toleration: DeviceToleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == key
    return toleration.key == key and toleration.value == value
