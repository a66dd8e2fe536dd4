"""CreateFleet on top of moto: allocation by price, partial errors, idempotency tokens.

moto always launches the first override, never fails in part, and forgets most of what the launch
template says. What instances should look like is kept here and laid over moto's descriptions of
them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from karpenter.clock import Clock
from karpenter.cloud.aws.simulated.faults import Faults, client_error

_MARKETS: Final = ("spot", "on-demand")  # what moto can launch
_SOLD_OUT: Final = ("InsufficientInstanceCapacity", "there is no capacity left")


class SimulatedFleets:
    """Launches instances, and knows what they were launched with."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self.launched_at: Final[dict[str, datetime]] = {}
        self.templates: Final[dict[str, Mapping[str, Any]]] = {}  # instance -> template data
        self.reservations: Final[dict[str, int]] = {}  # reservation -> places left
        self._clock = clock
        self._faults = faults
        self._overlays: dict[str, dict[str, Any]] = {}  # instance -> what moto does not know
        self._answers: dict[str, Mapping[str, Any]] = {}  # by client token

    def create(self, client: Any, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """CreateFleet."""
        token = parameters.get("ClientToken", "")
        if token in self._answers:
            return self._answers[token]
        if parameters.get("DryRun"):
            answer: Mapping[str, Any] = client.create_fleet(**parameters)
            return answer
        answer = self._create(client, parameters)
        if token:
            self._answers[token] = answer
        return answer

    def describe(self, client: Any, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """DescribeInstances."""
        for instance_id in parameters.get("InstanceIds") or ():
            if not self._is_visible(instance_id):
                code = "InvalidInstanceID.NotFound"
                raise client_error("DescribeInstances", code, f"{instance_id} does not exist")
        answer: dict[str, Any] = client.describe_instances(**parameters)
        for reservation in answer["Reservations"]:
            reservation["Instances"] = [
                {**entry, **self._overlays.get(entry["InstanceId"], {})}
                for entry in reservation["Instances"]
                if self._is_visible(entry["InstanceId"])
            ]
        return answer

    def overlay(self, instance_id: str, **changes: Any) -> None:
        """Override fields of an instance's description from now on."""
        self._overlays.setdefault(instance_id, {}).update(changes)

    def _is_visible(self, instance_id: str) -> bool:
        since = self.launched_at.get(instance_id)
        if since is None:
            return True
        return (self._clock.now() - since).total_seconds() >= self._faults.invisible_seconds

    def _create(self, client: Any, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        target = parameters["TargetCapacitySpecification"]
        market = target["DefaultTargetCapacityType"]
        wanted = target["TotalTargetCapacity"]
        if self._faults.most_per_fleet is not None:
            wanted = min(wanted, self._faults.most_per_fleet)
        errors: list[dict[str, Any]] = []
        instances: list[dict[str, Any]] = []
        addresses = _free_addresses(client, parameters["LaunchTemplateConfigs"])
        for config, override in _by_price(parameters["LaunchTemplateConfigs"]):
            data = self._template(client, config)
            refusal = self._refusal(override, market, data, addresses)
            if refusal is not None:
                errors.append(_error(config, override, *refusal))
                continue
            count = min(wanted - len(instances), addresses[override["SubnetId"]])
            request = {**parameters, **_only(config, override, market, count)}
            answer = client.create_fleet(**request)
            instances += answer["Instances"]
            for entry in answer["Instances"]:
                self._note(entry, override, data, market)
            addresses[override["SubnetId"]] -= count
            if len(instances) >= wanted:
                break
        if len(instances) < target["TotalTargetCapacity"] and not errors and instances:
            config, override = next(_by_price(parameters["LaunchTemplateConfigs"]))
            errors.append(_error(config, override, *_SOLD_OUT))
        return {"FleetId": "fleet-simulated", "Instances": instances, "Errors": errors}

    def _template(self, client: Any, config: Mapping[str, Any]) -> Mapping[str, Any]:
        name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        found = client.describe_launch_template_versions(
            LaunchTemplateName=name, Versions=["$Latest"]
        )
        data: Mapping[str, Any] = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        return data

    def _refusal(
        self,
        override: Mapping[str, Any],
        market: str,
        data: Mapping[str, Any],
        addresses: Mapping[str, int],
    ) -> tuple[str, str] | None:
        """Why an override launches nothing, as a code and a message."""
        if (denied := self._faults.refused.get("RunInstances")) is not None:
            return denied.code, denied.message  # which is what a fleet does
        subnet = override["SubnetId"]
        if subnet not in addresses:
            return "InvalidSubnetID.NotFound", f"the subnet ID '{subnet}' does not exist"
        if addresses[subnet] <= 0:
            return "InsufficientFreeAddressesInSubnet", f"{subnet} has no free addresses left"
        reservation = _reservation_id(data)
        if reservation and not self.reservations.get(reservation, 0):
            return "ReservationCapacityExceeded", f"{reservation} has no capacity left"
        capacity_type = "spot" if market == "spot" else "reserved" if reservation else "on-demand"
        found = self._faults.why_sold_out(
            override["InstanceType"], override.get("AvailabilityZone", ""), capacity_type
        )
        return None if found is None else (found.code, found.message)

    def _note(
        self,
        entry: Mapping[str, Any],
        override: Mapping[str, Any],
        data: Mapping[str, Any],
        market: str,
    ) -> None:
        now = self._clock.now()
        interfaces: Sequence[Mapping[str, Any]] = data.get("NetworkInterfaces") or ({},)
        placement = data.get("Placement") or {}
        look: dict[str, Any] = {
            "LaunchTime": now,
            "SecurityGroups": [{"GroupId": each} for each in interfaces[0].get("Groups", ())],
            "Placement": {"AvailabilityZone": override.get("AvailabilityZone"), **placement},
        }
        reservation = _reservation_id(data)
        if reservation:
            self.reservations[reservation] -= len(entry["InstanceIds"])
            look["CapacityReservationId"] = reservation
            look["CapacityReservationSpecification"] = data["CapacityReservationSpecification"]
        if market not in _MARKETS:
            options = data.get("InstanceMarketOptions") or {}
            look["InstanceLifecycle"] = options.get("MarketType", market)
        if any(each.get("InterfaceType") for each in interfaces):
            look["NetworkInterfaces"] = list(interfaces)
        for instance_id in entry["InstanceIds"]:
            self.launched_at[instance_id] = now
            self.templates[instance_id] = data
            self.overlay(instance_id, **look)


def _free_addresses(client: Any, configs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many addresses are left in those of the subnets that exist."""
    asked = sorted({each["SubnetId"] for config in configs for each in config["Overrides"]})
    found = client.describe_subnets(Filters=[{"Name": "subnet-id", "Values": asked}])["Subnets"]
    return {each["SubnetId"]: each["AvailableIpAddressCount"] for each in found}


def _by_price(
    configs: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    pairs = itertools.chain.from_iterable(
        ((config, override) for override in config["Overrides"]) for config in configs
    )
    return iter(sorted(pairs, key=lambda pair: pair[1].get("Priority", 0.0)))


def _only(
    config: Mapping[str, Any], override: Mapping[str, Any], market: str, count: int
) -> dict[str, Any]:
    """The parts of a request that make moto launch one override, in a market it knows."""
    return {
        "LaunchTemplateConfigs": [{**config, "Overrides": [override]}],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": market if market in _MARKETS else "on-demand",
        },
    }


def _error(
    config: Mapping[str, Any], override: Mapping[str, Any], code: str, message: str
) -> dict[str, Any]:
    return {
        "ErrorCode": code,
        "ErrorMessage": message,
        "LaunchTemplateAndOverrides": {
            "LaunchTemplateSpecification": config["LaunchTemplateSpecification"],
            "Overrides": override,
        },
    }


def _reservation_id(data: Mapping[str, Any]) -> str:
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    return str(target.get("CapacityReservationId", ""))
