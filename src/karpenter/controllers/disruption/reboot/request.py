"""What a claim says about the restart of its machine, and by when things must have happened; pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from karpenter.admission.durations import go_duration
from karpenter.api.karpenter import NodeClaim
from karpenter.api.times import in_nanoseconds, later
from karpenter.controllers.lifecycle.claims import INITIALIZED, REBOOTING
from karpenter.controllers.termination.drain import MINIMUM
from karpenter.model import labels
from karpenter.model.conditions import find

ISSUED: Final = "RebootIssued"
POLL_SECONDS: Final = 15.0
_ISSUING: Final = timedelta(minutes=5)
_RECOVERY: Final = timedelta(minutes=20)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reboot:
    """A restart that is under way."""

    requested_at: datetime
    is_issued: bool
    issued_at: datetime  # as far as it is known
    grace: timedelta | None  # how long pods have to leave; no bound without

    @property
    def drain_deadline(self) -> datetime | None:
        """When pods that are still there are left alone."""
        return None if self.grace is None else later(self.requested_at, max(self.grace, MINIMUM))

    @property
    def recovery_deadline(self) -> datetime:
        """When the machine must be back."""
        return later(self.issued_at, _RECOVERY)

    def issuing_deadline(self, since: datetime | None, *, has_node: bool) -> datetime | None:
        """When the cloud must have accepted the restart, having been asked ``since`` then.

        While it has not been asked, only a node that is not there can take too long.
        """
        if since is None:
            return None if has_node else later(self.requested_at, _ISSUING)
        return later(since, _ISSUING)


class RequestError(ValueError):
    """What was asked for makes no sense; the text is one sentence."""

    def __init__(self, message: str, reboot: Reboot) -> None:
        super().__init__(message)
        self.reboot = reboot  # as far as it makes sense


def reboot_of(claim: NodeClaim) -> Reboot:
    """The restart a claim speaks of.

    Raises:
        RequestError: how long its pods have cannot be read.
    """
    rebooting = find(claim.status.conditions, REBOOTING)
    initialized = find(claim.status.conditions, INITIALIZED)
    requested = rebooting.last_transition_time if rebooting is not None else None
    requested = requested or claim.metadata.creation_timestamp or _BEGINNING
    issued = initialized.last_transition_time if initialized is not None else None
    reboot = Reboot(
        requested_at=requested,
        is_issued=rebooting is not None and rebooting.reason == ISSUED,
        issued_at=issued or requested,
        grace=None,
    )
    text = claim.metadata.annotations.get(labels.REBOOT_GRACE_PERIOD)
    if text is None:
        return reboot
    nanoseconds = go_duration(text)
    if nanoseconds is None or nanoseconds < 0:
        advice = "write a duration such as 5m"
        raise RequestError(f"annotation {labels.REBOOT_GRACE_PERIOD} is {text!r}; {advice}", reboot)
    return replace(reboot, grace=in_nanoseconds(nanoseconds))


def operation_of(claim: NodeClaim, reboot: Reboot, boot_id: str) -> str:
    """A name for one restart: the same however often it is asked for, another for the next."""
    nanoseconds = (reboot.requested_at - _BEGINNING) // timedelta(microseconds=1) * 1000
    return f"{claim.metadata.uid}-{nanoseconds}-{boot_id}"
