"""Fault injection for the simulated AWS, configured in a ConfigMap.

Faults are listed in the ConfigMap ``aws-faults``, one key per kind, because the simulated account
is reachable only from the sandbox's process, and the cluster from everywhere:

    data:
      sold-out: m5.*/us-west-2a/spot, */*/spot   # type/zone/capacity-type, as shell patterns
      lost-zone: us-west-2b                      # no launches there; its nodes stop reporting
      throttled: CreateFleet                     # AWS answers that there are too many calls
      denied: RunInstances                       # no policy allows it
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, Literal, get_args

from karpenter.cloud.aws.simulated.faults import Failure, Faults, SoldOut
from karpenter.cloud.aws.simulated.moto_gaps import offered_types
from karpenter.visible import visible

Kind = Literal["sold-out", "lost-zone", "throttled", "denied"]

CONFIG_MAP: Final = "aws-faults"
CONFIG_MAP_NAMESPACE: Final = "karpenter"
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
CAPACITY_TYPES: Final = ("on-demand", "reserved", "spot")
# The actions the provider uses; denying any other would have no effect
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ec2": (
        "CreateFleet",
        "CreateLaunchTemplate",
        "CreateTags",
        "DeleteLaunchTemplate",
        "DescribeCapacityReservations",
        "DescribeImages",
        "DescribeInstanceStatus",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeLaunchTemplates",
        "DescribePlacementGroups",
        "DescribeReservedInstances",
        "DescribeSecurityGroups",
        "DescribeSpotPriceHistory",
        "DescribeSubnets",
        "RebootInstances",
        "RunInstances",
        "TerminateInstances",
    ),
    "eks": ("DescribeCluster",),
    "iam": (
        "AddRoleToInstanceProfile",
        "CreateInstanceProfile",
        "DeleteInstanceProfile",
        "GetInstanceProfile",
        "ListInstanceProfiles",
        "RemoveRoleFromInstanceProfile",
    ),
    "pricing": ("GetProducts",),
    "sqs": ("DeleteMessage", "GetQueueUrl", "ReceiveMessage"),
    "ssm": ("GetParameter",),
    "arc-zonal-shift": ("GetManagedResource",),
    "savingsplans": ("DescribeSavingsPlanRates", "DescribeSavingsPlans"),
}
_SERVICE_OF: Final = {action: service for service, held in ACTIONS.items() for action in held}
_PARTS: Final = 3
_FEW: Final = 8


class InjectedFaultError(ValueError):
    """A fault that cannot be injected here; the text is one sentence."""


@dataclass(frozen=True, slots=True, order=True)
class InjectedFault:
    """One fault that is in force."""

    kind: Kind
    what: str  # offerings, a zone or an action

    @property
    def code(self) -> str:
        """What AWS answers to a call that it refuses."""
        is_ec2 = _SERVICE_OF.get(self.what) == "ec2"
        if self.kind == "throttled":
            return "RequestLimitExceeded" if is_ec2 else "ThrottlingException"
        return "UnauthorizedOperation" if is_ec2 else "AccessDenied"

    def __str__(self) -> str:
        if self.kind == "sold-out":
            return f"EC2 is sold out of {self.what}"
        if self.kind == "lost-zone":
            return f"{self.what} is lost: nothing can be launched there, and its nodes fall silent"
        verb = "throttles" if self.kind == "throttled" else "denies"
        return f"AWS {verb} {self.what}: every call is answered with {self.code}"


@dataclass(frozen=True)
class Market:
    """What an account has; faults can name only that."""

    region: str
    zones: tuple[str, ...]  # those with subnets

    @cached_property
    def offered(self) -> frozenset[tuple[str, str]]:
        """Types and the zones that they are sold in."""
        listed = offered_types(self.region, "availability-zone")
        found = ((each["InstanceType"], each["Location"]) for each in listed)
        return frozenset((name, zone) for name, zone in found if zone in self.zones)

    def check(self, kind: Kind, what: str) -> InjectedFault:
        """Resolve a fault from its text.

        Raises:
            InjectedFaultError: the account has no such thing.
        """
        if kind == "sold-out":
            return self._offerings(what)
        if kind == "lost-zone":
            if what not in self.zones:
                raise InjectedFaultError(_unknown("zone", what, self.zones, " in this account"))
            return InjectedFault(kind, what)
        action = what.rpartition(":")[2]  # as policies write it: ec2:CreateFleet
        known = {each.lower(): each for each in _SERVICE_OF}.get(action.lower())
        if known is None:
            place = " that the controllers ask for"
            raise InjectedFaultError(_unknown("action", action, _SERVICE_OF, place))
        return InjectedFault(kind, known)

    def _offerings(self, what: str) -> InjectedFault:
        parts = what.split("/")
        if len(parts) != _PARTS or not all(parts):
            raise InjectedFaultError(
                f"{visible(what)} names no offerings; write type/zone/capacity-type, such as"
                f" {self._as_offerings(what)}"
            )
        name, zone, capacity_type = parts
        _matched("instance type", name, {each for each, _ in self.offered}, f" in {self.region}")
        _matched("zone", zone, self.zones, " in this account")
        _matched("capacity type", capacity_type, CAPACITY_TYPES)
        if not any(fnmatchcase(n, name) and fnmatchcase(z, zone) for n, z in self.offered):
            raise InjectedFaultError(f"{visible(name)} is not sold in {visible(zone)} anyway")
        return InjectedFault("sold-out", what)

    def _as_offerings(self, what: str) -> str:
        """Complete a pattern that gives only a part of ``type/zone/capacity-type``."""
        if what in CAPACITY_TYPES:
            return f"'*/*/{what}'"
        if what in self.zones:
            return f"'*/{what}/*'"
        if any(name == what for name, _ in self.offered):
            return f"'{what}/*/*'"
        return "'m5.*/*/spot'"


def kind_named(text: str) -> Kind:
    """The kind of fault of that name.

    Raises:
        InjectedFaultError: there is no such kind.
    """
    for kind in KINDS:
        if kind == text:
            return kind
    raise InjectedFaultError(_unknown("kind of fault", text, KINDS))


def read(data: Mapping[str, str], market: Market) -> tuple[list[InjectedFault], list[str]]:
    """The faults that a ConfigMap lists, and what is wrong with it."""
    found: list[InjectedFault] = []
    problems: list[str] = []
    for key, text in data.items():
        for word in text.replace(",", " ").split():
            try:
                found.append(market.check(kind_named(key), word))
            except InjectedFaultError as error:
                problems.append(f"{key}: {error}")
    return list(dict.fromkeys(found)), problems


def listed(data: Mapping[str, str]) -> list[InjectedFault]:
    """The faults of a ConfigMap in order, not checked against the account."""
    return [
        InjectedFault(kind, word)
        for kind in KINDS
        for word in data.get(kind, "").replace(",", " ").split()
    ]


def written(troubles: Iterable[InjectedFault]) -> dict[str, str | None]:
    """The data of a ConfigMap that lists faults; a key without any is removed."""
    listed = sorted(troubles)
    return {
        kind: ", ".join(each.what for each in listed if each.kind == kind) or None for kind in KINDS
    }


def enact(troubles: Collection[InjectedFault], faults: Faults) -> None:
    """Apply exactly these faults from now on."""
    faults.sold_out = sold_out(troubles)
    refused = [each for each in troubles if each.kind in ("throttled", "denied")]
    # A call that is both throttled and denied is denied: AWS evaluates policies first
    faults.refused = {each.what: _refusal(each) for each in sorted(refused, reverse=True)}


def sold_out(troubles: Iterable[InjectedFault]) -> list[SoldOut]:
    """The offerings that are sold out; faults of other kinds are ignored."""
    return [found for each in troubles if (found := _sold_out(each)) is not None]


def lost_zones(troubles: Iterable[InjectedFault]) -> frozenset[str]:
    """The zones that are lost."""
    return frozenset(each.what for each in troubles if each.kind == "lost-zone")


def _sold_out(trouble: InjectedFault) -> SoldOut | None:
    if trouble.kind == "lost-zone":
        return SoldOut(zone=trouble.what, message=f"{trouble.what} is lost")
    parts = trouble.what.split("/")
    if trouble.kind != "sold-out" or len(parts) != _PARTS:
        return None
    return SoldOut(*parts)


def _refusal(trouble: InjectedFault) -> Failure:
    if trouble.kind == "throttled":
        status = 503 if _SERVICE_OF[trouble.what] == "ec2" else 400
        return Failure(trouble.what, trouble.code, "Request limit exceeded.", status)
    message = "You are not authorized to perform this operation."
    return Failure(trouble.what, trouble.code, message, 403)


def _matched(noun: str, pattern: str, known: Collection[str], place: str = "") -> None:
    if not any(fnmatchcase(each, pattern) for each in known):
        raise InjectedFaultError(_unknown(noun, pattern, known, place))


def _unknown(noun: str, text: str, known: Iterable[str], place: str = "") -> str:
    names = sorted(known)
    by_lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1)
    if near:
        hint = f"did you mean {by_lower[near[0]]}?"
    else:
        shown = names if len(names) <= _FEW else [*names[:_FEW], "…"]
        hint = f"there are {', '.join(shown)}"
    return f"there is no {noun} {visible(text)}{place}; {hint}"
