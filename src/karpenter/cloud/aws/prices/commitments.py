"""The Savings Plans and reserved instances of the account, as commitments in memory.

They are read every hour, with AWS_COMMITMENTS alone. What cannot be read counts as none, which is
logged once. Billing services are not asked: what they know is a day old.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import structlog

from karpenter.api.karpenter import Commitment, CommitmentSpec, NodeRequirement
from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.model import labels
from karpenter.scheduling.commitments import units_of

HOURLY: Final = 3600.0
_SERVICE: Final = "savingsplans"
_COMPUTE, _ONE_FAMILY = "Compute", "EC2Instance"  # the types of plans that pay for instances
_LINUX: Final = "Linux/UNIX"
_LINUX_OF_RESERVATIONS: Final = frozenset({_LINUX, "Linux/UNIX (Amazon VPC)"})
_DEFAULT: Final = "default"  # tenancy
_ONE_ZONE: Final = "Availability Zone"  # the scope of a reservation
# Reserved instances of these families count for exactly their size
_WITHOUT_FLEXIBILITY: Final = frozenset(
    {"g4ad", "g4dn", "g5", "g5g", "g6", "inf1", "inf2", "p5", "hpc7a", "u-3tb1", "u-6tb1"}
)

log = structlog.get_logger(__name__)


class AccountCommitments:
    """What the account has committed to in one region."""

    def __init__(self, calls: Calls, *, is_enabled: bool) -> None:
        """Know of nothing yet."""
        self.is_enabled: Final = is_enabled
        self.current: Sequence[Commitment] = ()
        self._calls = calls
        self._refused: set[str] = set()  # what was logged as unreadable

    async def refresh(self) -> None:
        """Read all of them."""
        if not self.is_enabled:
            return
        plans = await self._readable("savings plans", self._plans)
        reserved = await self._readable("reserved instances", self._reserved)
        self.current = tuple(sorted((*plans, *reserved), key=lambda each: each.metadata.name))

    async def _readable(self, what: str, read: Any) -> Sequence[Commitment]:
        try:
            found: Sequence[Commitment] = await read()
        except AwsError as error:
            if what not in self._refused:
                self._refused.add(what)
                log.warning("commitments not read, and counted as none", of=what, error=str(error))
            return ()
        self._refused.discard(what)
        return found

    async def _plans(self) -> Sequence[Commitment]:
        listed = await self._calls.pages(
            _SERVICE, "DescribeSavingsPlans", "savingsPlans", states=["active"]
        )
        found = []
        for plan in listed:
            if plan["savingsPlanType"] not in (_COMPUTE, _ONE_FAMILY):
                continue
            if plan["savingsPlanType"] == _ONE_FAMILY and plan["region"] != self._calls.region:
                continue
            rates = await self._rates(plan["savingsPlanId"])
            if rates and float(plan["commitment"]) > 0:
                found.append(_plan(plan, rates))
        return found

    async def _rates(self, plan_id: str) -> Mapping[str, str]:
        """The committed rates of instance types, in dollars per hour."""
        rows = await self._calls.pages(
            _SERVICE,
            "DescribeSavingsPlanRates",
            "searchResults",
            savingsPlanId=plan_id,
            filters=[
                {"name": "region", "values": [self._calls.region]},
                {"name": "productDescription", "values": [_LINUX]},
                {"name": "tenancy", "values": ["shared"]},
                {"name": "productType", "values": ["EC2"]},
            ],
        )
        found: dict[str, str] = {}
        for row in rows:
            held = {each["name"]: each["value"] for each in row.get("properties", ())}
            name, rate = held.get("instanceType"), str(row.get("rate", ""))
            if name and _is_above_zero(rate):
                found[name] = rate
        return dict(sorted(found.items()))

    async def _reserved(self) -> Sequence[Commitment]:
        answer = await self._calls.call(
            "ec2", "DescribeReservedInstances", Filters=[{"Name": "state", "Values": ["active"]}]
        )
        listed = answer.get("ReservedInstances") or ()
        return [
            _reserved(each)
            for each in listed
            if each.get("ProductDescription") in _LINUX_OF_RESERVATIONS
            and each.get("InstanceTenancy", _DEFAULT) == _DEFAULT
            and each.get("InstanceCount", 0) > 0
        ]


def _plan(plan: Mapping[str, Any], rates: Mapping[str, str]) -> Commitment:
    wanted: tuple[NodeRequirement, ...] = ()
    if plan["savingsPlanType"] == _ONE_FAMILY:
        wanted = (_one_of(ec2_labels.INSTANCE_FAMILY, plan["ec2InstanceFamily"]),)
    spec = CommitmentSpec(
        type="SavingsPlan",
        requirements=wanted,
        hourly=str(plan["commitment"]),
        rates=rates,
        expires=_moment(plan.get("end")),
    )
    return Commitment(metadata=ObjectMeta(name=f"sp-{plan['savingsPlanId']}"), spec=spec)


def _reserved(entry: Mapping[str, Any]) -> Commitment:
    name, count = entry["InstanceType"], entry["InstanceCount"]
    family = name.partition(".")[0]
    units = units_of(name, 0.0)
    is_in_one_zone = entry.get("Scope") == _ONE_ZONE
    is_flexible = units > 0 and not is_in_one_zone and family not in _WITHOUT_FLEXIBILITY
    wanted = [
        _one_of(ec2_labels.INSTANCE_FAMILY, family)
        if is_flexible
        else _one_of(labels.INSTANCE_TYPE, name)
    ]
    if is_in_one_zone:
        wanted.append(_one_of(labels.ZONE, entry["AvailabilityZone"]))
    spec = CommitmentSpec(
        type="ReservedInstance",
        requirements=tuple(wanted),
        instances=None if is_flexible else count,
        units=f"{units * count:g}" if is_flexible else None,
        expires=_moment(entry.get("End")),
    )
    return Commitment(metadata=ObjectMeta(name=f"ri-{entry['ReservedInstancesId']}"), spec=spec)


def _one_of(key: str, value: str) -> NodeRequirement:
    return NodeRequirement(key=key, operator="In", values=(value,))


def _moment(given: object) -> datetime | None:
    """An end as boto3 returns it: a time, or text."""
    if isinstance(given, str):
        return datetime.fromisoformat(given)
    return given if isinstance(given, datetime) else None


def _is_above_zero(rate: str) -> bool:
    try:
        return float(rate) > 0
    except ValueError:
        return False
