"""Messages of the interruption queue: EventBridge envelopes, parsed into a few kinds.

A message that is unknown, concerns something else, or says nothing new is a ``no_op``. Only text
that is no envelope at all is an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

NO_OP: Final = "no_op"
SPOT_INTERRUPTED: Final = "spot_interrupted"
REBALANCE_RECOMMENDATION: Final = "rebalance_recommendation"
SCHEDULED_CHANGE: Final = "scheduled_change"
INSTANCE_STOPPED: Final = "instance_stopped"
INSTANCE_TERMINATED: Final = "instance_terminated"
CAPACITY_RESERVATION_INTERRUPTED: Final = "capacity_reservation_interrupted"

_EC2: Final = "aws.ec2"
_HEALTH: Final = "aws.health"
_STOPPING: Final = ("stopping", "stopped")
_TERMINATING: Final = ("shutting-down", "terminated")


class MessageError(ValueError):
    """Text that is no message; the text of this is one sentence."""


class _Envelope(msgspec.Struct, frozen=True, rename="kebab"):
    version: str = ""
    detail_type: str = ""
    source: str = ""
    time: datetime | None = None
    detail: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Message:
    """What happened, to which instances, and when."""

    kind: str
    instance_ids: tuple[str, ...] = ()
    time: datetime | None = None


def parse(body: str) -> Message:
    """Read a message.

    Raises:
        MessageError: it is none.
    """
    if not body.strip():
        return Message(NO_OP)
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise MessageError(f"not an EventBridge event: {error}") from error
    except RecursionError as error:
        raise MessageError("not an EventBridge event: it is nested too deeply") from error
    read = _READERS.get((envelope.version, envelope.source, envelope.detail_type))
    kind, ids = (NO_OP, ()) if read is None else read(envelope.detail)
    when = envelope.time
    if when is not None and when.tzinfo is None:
        raise MessageError(f"the time {when} of the event has no time zone")
    return Message(kind, ids, when) if ids else Message(NO_OP, time=when)


_Reading = tuple[str, tuple[str, ...]]


def _about_instance(kind: str) -> Callable[[Mapping[str, Any]], _Reading]:
    def read(detail: Mapping[str, Any]) -> _Reading:
        return kind, _texts(detail.get("instance-id"))

    return read


def _health(detail: Mapping[str, Any]) -> _Reading:
    if (detail.get("service"), detail.get("eventTypeCategory")) != ("EC2", "scheduledChange"):
        return NO_OP, ()
    entities = detail.get("affectedEntities")
    listed = entities if isinstance(entities, list) else ()
    values = [each.get("entityValue") for each in listed if isinstance(each, dict)]
    return SCHEDULED_CHANGE, _texts(*values)


def _state_change(detail: Mapping[str, Any]) -> _Reading:
    state = detail.get("state")
    if not isinstance(state, str) or state.lower() not in (*_STOPPING, *_TERMINATING):
        return NO_OP, ()
    kind = INSTANCE_STOPPED if state in _STOPPING else INSTANCE_TERMINATED
    return kind, _texts(detail.get("instance-id"))


def _texts(*values: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in values if isinstance(each, str) and each))


_READERS: Final[Mapping[tuple[str, str, str], Callable[[Mapping[str, Any]], _Reading]]] = {
    ("0", _EC2, "EC2 Spot Instance Interruption Warning"): _about_instance(SPOT_INTERRUPTED),
    ("0", _EC2, "EC2 Instance Rebalance Recommendation"): _about_instance(REBALANCE_RECOMMENDATION),
    ("0", _EC2, "EC2 Capacity Reservation Instance Interruption Warning"): _about_instance(
        CAPACITY_RESERVATION_INTERRUPTED
    ),
    ("0", _EC2, "EC2 Instance State-change Notification"): _state_change,
    ("0", _HEALTH, "AWS Health Event"): _health,
}
