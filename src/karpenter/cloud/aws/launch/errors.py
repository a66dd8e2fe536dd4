"""Why no instance was launched: no capacity, a node class that is not ready, or a reason with a
message.

A fleet may return both instances and errors; a call may fail as a whole. Both are handled here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.ec2.errors import CAPACITY_CODES, AwsCredentialsError, AwsError
from karpenter.cloud.provider import (
    CloudError,
    CreateError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from karpenter.model import labels
from karpenter.model.conditions import FALSE, READY, TRUE, find

SERVICE_LINKED_ROLE: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
NO_ADDRESSES: Final = "InsufficientFreeAddressesInSubnet"
TEMPLATE_NOT_FOUND: Final = "InvalidLaunchTemplateName.NotFoundException"
TOO_FEW: Final = "InsufficientInstanceCapacity"
_SPREAD_LIMIT: Final = "spread placement group"

_NO_WORD: Final = "LaunchFailed"
_DENIED: Final = ("UnauthorizedOperation", "AccessDenied", "AuthFailure")
# A part of the error's text -> its reason; the first match counts
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
_RESTRICTED_TAGS: Final = re.compile(
    "|".join(
        (
            f"{re.escape(ec2_labels.CLUSTER_TAG_PREFIX.rstrip('/'))}.*",
            re.escape(labels.NODEPOOL),
            re.escape(ec2_labels.NODECLAIM_TAG),
            re.escape(ec2_labels.NODE_CLASS),
            re.escape(ec2_labels.EKS_CLUSTER_NAME_TAG),
        )
    )
)


@dataclass(frozen=True, slots=True)
class FleetError:
    """Why one override of a fleet launched no instance."""

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
        """Whether it is about capacity: an attempt with another offering, or later, may succeed."""
        return self.code in CAPACITY_CODES

    @property
    def reason(self) -> str:
        """The reason in metrics, as in the conditions of claims.

        Insufficient capacity has no reason of its own and keeps EC2's code: most fleet errors are
        of this kind, and would otherwise be counted as unknown.
        """
        word, _ = reason_of(self.code, self.message)
        return self.code if word == _NO_WORD and self.is_capacity else word

    @property
    def is_spread_limit(self) -> bool:
        """Whether a placement group has all the instances it may have in a zone."""
        return self.is_capacity and _SPREAD_LIMIT in self.message.lower()


def reason_of(code: str, message: str) -> tuple[str, str]:
    """The reason and the message that users read about a failed launch."""
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
    """The one error for all errors of a fleet that launched nothing."""
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


def check_ready(node_class: EC2NodeClass) -> None:
    """Check that a node class is ready at its present generation.

    Raises:
        NodeClassNotReadyError: it is not, or was before it was changed.
        CreateError: it is not known yet.
    """
    name = node_class.metadata.name
    ready = find(node_class.status.conditions, READY)
    if ready is None or ready.status not in (TRUE, FALSE):
        raise CreateError(
            "NodeClassReadinessUnknown", f"EC2NodeClass {name} has not been looked at yet"
        )
    if ready.status == FALSE:
        why = f": {ready.message}" if ready.message else ""
        raise NodeClassNotReadyError(f"EC2NodeClass {name} is not ready{why}")
    if ready.observed_generation != node_class.metadata.generation:
        raise NodeClassNotReadyError(
            f"EC2NodeClass {name} was changed and has not been looked at since"
        )
    restricted = [key for key in node_class.spec.tags if _RESTRICTED_TAGS.fullmatch(key)]
    if restricted:
        raise NodeClassNotReadyError(
            f"EC2NodeClass {name} sets the tag {restricted[0]}, which is Karpenter's own"
        )
