"""What an instance that did not come is called: sold out, or one word with one sentence.

A fleet may bring some instances and errors beside them; a call may fail as a whole. Both end here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.cloud.aws.errors import CAPACITY_CODES, AwsCredentialsError, AwsError
from karpenter.cloud.provider import CloudError, CreateError, InsufficientCapacityError

SERVICE_LINKED_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
NO_ADDRESSES: Final = "InsufficientFreeAddressesInSubnet"
TEMPLATE_NOT_FOUND: Final = "InvalidLaunchTemplateName.NotFoundException"
TOO_FEW: Final = "InsufficientInstanceCapacity"
_SPREAD_LIMIT: Final = "spread placement group"

_NO_WORD: Final = "LaunchFailed"
_DENIED: Final = ("UnauthorizedOperation", "AccessDenied", "AuthFailure")
# What the text of an error holds -> its word; the first that is found counts
_REASONS: Final = (
    ("iamInstanceProfile.name is invalid", "InstanceProfileNameInvalid"),
    ("InvalidLaunchTemplateId.NotFound", "LaunchTemplateNotFound"),
    ("User data is limited to", "UserDataSizeLimitExceeded"),
    ("InvalidAMIID.Malformed", "InvalidAMIID"),
    ("InvalidAMIID.NotFound", "AMINotFound"),
    ("RequestLimitExceeded", "RequestLimitExceeded"),
    ("InternalError", "InternalError"),
    ("not eligible for Free Tier", "FreeTierIneligible"),
    ("MaxFleetCountExceeded", "FleetQuotaExceeded"),
    ("PendingVerification", "AccountPendingVerification"),
    ("MaxSpotInstanceCountExceeded", "SpotQuotaExceeded"),
    ("VcpuLimitExceeded", "VCPULimitExceeded"),
    (NO_ADDRESSES, "InsufficientFreeAddressesInSubnet"),
)


@dataclass(frozen=True, slots=True)
class FleetError:
    """Why one override of a fleet brought no instance."""

    code: str
    message: str
    instance_type: str = ""
    zone: str = ""
    subnet_id: str = ""

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "FleetError":
        """Read an entry of a fleet's list of errors."""
        override = (entry.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
        return cls(
            code=entry.get("ErrorCode") or "",
            message=entry.get("ErrorMessage") or "",
            instance_type=override.get("InstanceType") or "",
            zone=override.get("AvailabilityZone") or "",
            subnet_id=override.get("SubnetId") or "",
        )

    @property
    def is_capacity(self) -> bool:
        """Whether another attempt elsewhere, or later, may well succeed."""
        return self.code in CAPACITY_CODES

    @property
    def reason(self) -> str:
        """The word for it in metrics, as in the conditions of claims.

        What is sold out has no word of its own, and keeps the code of EC2: it is what most errors
        of fleets are about, and would otherwise look like a launch nobody understands.
        """
        word, _ = reason_of(self.code, self.message)
        return self.code if word == _NO_WORD and self.is_capacity else word

    @property
    def is_spread_limit(self) -> bool:
        """Whether a placement group has all the instances it may have in a zone."""
        return self.is_capacity and _SPREAD_LIMIT in self.message.lower()


def reason_of(code: str, message: str) -> tuple[str, str]:
    """The word and the sentence users read about a failed launch."""
    text = f"{code}: {message}"
    if SERVICE_LINKED_ROLE in text:
        return "SpotSLRCreationFailed", _slr_sentence()
    if any(word in text for word in _DENIED):
        return _denied(message)
    if "InvalidParameter" in text and "belong to different networks" in text:
        return (
            "SecurityGroupSubnetVPCMismatch",
            "the security groups and subnets of the node class belong to different VPCs",
        )
    reason = next((word for part, word in _REASONS if part in text), _NO_WORD)
    return reason, text


def error_of_fleet(errors: Sequence[FleetError]) -> CloudError:
    """The one error that stands for all errors of a fleet that brought nothing."""
    if all(each.is_capacity or each.code == SERVICE_LINKED_ROLE for each in errors):
        return InsufficientCapacityError(f"no capacity: {_summary(errors)}")
    first = next(each for each in errors if not each.is_capacity)
    reason, message = reason_of(first.code, first.message)
    return CreateError(reason, message)


def error_of_call(error: AwsError) -> CloudError:
    """The error that stands for a call that failed as a whole."""
    if error.code in CAPACITY_CODES:
        return InsufficientCapacityError(f"no capacity: {error.code}: {error.message}")
    if isinstance(error, AwsCredentialsError) and "AuthFailure" not in error.code:
        return CreateError(
            "LaunchFailed",
            f"AWS does not accept the controller's credentials: {error.code}: {error.message};"
            " renew them",
        )
    return CreateError(*reason_of(error.code, error.message))


def _slr_sentence() -> str:
    return (
        "the account has no service-linked role for EC2 Spot and the controller may not create it;"
        " run: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    )


def _denied(message: str) -> tuple[str, str]:
    lower = message.lower()
    if "not authorized for images" in lower:
        return "AMIAuthorizationFailure", f"the account may not use the image: {message}"
    if "permissions boundary" in lower:
        return (
            "Unauthorized",
            f"a permissions boundary of the controller's role forbids it: {message}",
        )
    if "service control policy" in lower:
        return "Unauthorized", f"a service control policy forbids it: {message}"
    return "Unauthorized", f"the controller's IAM role lacks a permission: {message}"


def _summary(errors: Sequence[FleetError]) -> str:
    """Each different error once, with how many offerings it hit."""
    counted: dict[str, list[FleetError]] = {}
    for error in errors:
        counted.setdefault(error.code, []).append(error)
    return "; ".join(
        f"{code} for {len(found)} offerings such as {_place(found[0])}: {found[0].message}"
        for code, found in sorted(counted.items())
    )


def _place(error: FleetError) -> str:
    return f"{error.instance_type or 'any type'} in {error.zone or 'any zone'}"
