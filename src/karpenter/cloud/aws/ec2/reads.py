"""Refuses every call to AWS that is not a read, before it is sent.

For programs that only look at a cluster, whatever their credentials would allow. Two locks: calls
are checked by name, and clients refuse by themselves to send what is no read.
"""

from typing import Any, Final

from karpenter.cloud.aws.ec2.errors import AwsError

_READS: Final = ("Describe", "Get", "List")
_BEFORE_SENDING: Final = "before-call"


class AwsReadOnlyError(AwsError):
    """A call that may change something was not made."""

    def __init__(self, service: str, operation: str) -> None:
        """Name the call."""
        super().__init__(
            "ReadOnly", "not sent: this program only reads", operation, service=service
        )


def is_read(operation: str) -> bool:
    """Whether an operation, as AWS spells it, only reads."""
    return operation.startswith(_READS)


def check_read(service: str, operation: str) -> None:
    """Refuse an operation that does not only read.

    Raises:
        AwsReadOnlyError: it may change something.
    """
    if not is_read(operation):
        raise AwsReadOnlyError(service, operation)


def refuse_writes(client: Any) -> None:
    """Let a boto3 client refuse to send anything but reads."""
    client.meta.events.register_first(_BEFORE_SENDING, _refuse_write)


def _refuse_write(model: Any, **_details: Any) -> None:
    check_read(model.service_model.service_name, model.name)
