"""The errors of AWS, by class.

Callers decide by class, not by text; the code that AWS gave stays readable for conditions,
metrics and tables of reasons.
"""

import re
from typing import Final

from karpenter.cloud.provider import CloudError


class AwsError(CloudError):
    """A call that AWS refused, or that never got an answer.

    * AwsError
      x AwsNotFoundError        what the call names does not exist, or does not exist yet
      x AwsAlreadyExistsError   what the call makes is there already
      x AwsCapacityError        sold out, or a quota is used up
      x AwsUnauthorizedError    the credentials are good, but may not do this
      x AwsCredentialsError     the credentials are missing, expired or unknown to AWS
      x AwsThrottledError       too many calls; the same call may work later
      x AwsServerError          AWS itself failed; the same call may work later
      x AwsUnreachableError     no answer; the call may have been carried out
      x AwsDryRunPassed         a dry run whose real run would have been allowed
      x AwsReadOnlyError        not a read, and so not sent; in ``reads``
    """

    def __init__(
        self, code: str, message: str, operation: str, http_status: int = 0, *, service: str = ""
    ) -> None:
        super().__init__(f"{service or 'aws'} {operation}: {code}: {message}")
        self.code = code
        self.message = message
        self.operation = operation
        self.http_status = http_status
        self.service = service


class AwsNotFoundError(AwsError):
    """What the call names does not exist."""


class AwsAlreadyExistsError(AwsError):
    """What the call makes is there already."""


class AwsCapacityError(AwsError):
    """Nothing left to sell, or a quota is used up."""


class AwsUnauthorizedError(AwsError):
    """The caller may not do this."""


class AwsCredentialsError(AwsError):
    """The credentials are missing, expired or unknown."""


class AwsThrottledError(AwsError):
    """Too many calls."""


class AwsServerError(AwsError):
    """AWS itself failed."""


class AwsUnreachableError(AwsError):
    """No answer came."""


class AwsDryRunPassed(AwsError):  # noqa: N818 it reports a success
    """The dry run would have been allowed as a real run."""


RETRYABLE: Final = (AwsThrottledError, AwsServerError, AwsUnreachableError)

CAPACITY_CODES: Final = frozenset(
    {
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    }
)
NOT_FOUND_CODES: Final = frozenset(
    {
        "InvalidCapacityReservationId.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidPlacementGroup.Unknown",
        "InvalidPlacementGroupId.NotFound",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchEntity",
        "ParameterNotFound",
        "ResourceNotFoundException",
    }
)
_ALREADY_EXISTS_CODES: Final = frozenset(
    {"EntityAlreadyExists", "InvalidLaunchTemplateName.AlreadyExistsException"}
)
_UNAUTHORIZED_CODES: Final = frozenset(
    {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}
)
_CREDENTIALS_CODES: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_THROTTLED_CODES: Final = frozenset(
    {
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
_SERVER_CODES: Final = frozenset(
    {"InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "Unavailable"}
)
_CLASSES: Final[tuple[tuple[frozenset[str], type[AwsError]], ...]] = (
    (frozenset({"DryRunOperation"}), AwsDryRunPassed),
    (NOT_FOUND_CODES, AwsNotFoundError),
    (_ALREADY_EXISTS_CODES, AwsAlreadyExistsError),
    (CAPACITY_CODES, AwsCapacityError),
    (_UNAUTHORIZED_CODES, AwsUnauthorizedError),
    (_CREDENTIALS_CODES, AwsCredentialsError),
    (_THROTTLED_CODES, AwsThrottledError),
    (_SERVER_CODES, AwsServerError),
)
_INSTANCE_ID: Final = re.compile(r"\bi-[0-9a-z]+\b")
_FIRST_SERVER_STATUS: Final = 500
_CLASS_OF: Final = {code: kind for codes, kind in _CLASSES for code in codes}


def error_of(
    code: str, message: str, operation: str, http_status: int, *, service: str = ""
) -> AwsError:
    """The error of the class that ``code`` stands for; an unknown code of 5xx is a server error."""
    kind = _CLASS_OF.get(code)
    if kind is None:
        kind = AwsServerError if http_status >= _FIRST_SERVER_STATUS else AwsError
    return kind(code, message, operation, http_status, service=service)


def is_not_found(error: AwsError) -> bool:
    """Whether the thing is gone; EC2 has a not-found code for every kind of thing."""
    return isinstance(error, AwsNotFoundError) or error.code.endswith(".NotFound")


def is_unknown_instance(error: AwsError) -> bool:
    """Whether EC2 knows no instance of an id, or rejects the id as malformed."""
    return error.code.startswith("InvalidInstanceID.")


def instances_named_in(error: AwsError) -> frozenset[str]:
    """The instances an error names: EC2 refuses a call for many because of one of them.

    It names them as in ``The instance IDs 'i-1, i-2' do not exist``.
    """
    return frozenset(_INSTANCE_ID.findall(error.message))
