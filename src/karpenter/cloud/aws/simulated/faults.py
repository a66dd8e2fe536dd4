"""Fault injection for the simulated AWS: failing calls, sold-out offerings, lost answers."""

import importlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

_SERVER_ERROR: Final = 503
_CLIENT_ERROR: Final = 400


@dataclass(slots=True)
class Failure:
    """Calls of one operation that fail, as often as it says."""

    operation: str
    code: str
    message: str = "an injected fault"
    status: int = _CLIENT_ERROR
    times: int = 1
    is_lost: bool = False  # the call is carried out, and only its answer is lost


@dataclass(frozen=True, slots=True)
class SoldOut:
    """Offerings that EC2 has none of; patterns such as ``m5.*``."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    code: str = "InsufficientInstanceCapacity"
    message: str = "there is no capacity left"

    def covers(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether an offering is one of them."""
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and fnmatchcase(capacity_type, self.capacity_type)
        )


@dataclass(slots=True)
class Faults:
    """The faults in force."""

    sold_out: list[SoldOut] = field(default_factory=list)
    most_per_fleet: int | None = None  # instances; the rest is sold out
    invisible_seconds: float = 0.0  # how long new instances cannot be seen
    refused: Mapping[str, Failure] = field(default_factory=dict)  # by operation; every call of it
    _failures: list[Failure] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, operation: str, code: str, **details: Any) -> None:
        """Let the next calls of an operation fail."""
        self._failures.append(Failure(operation, code, **details))

    def throttle(self, operation: str, times: int = 1) -> None:
        """Let the next calls of an operation be throttled."""
        self.fail(operation, "RequestLimitExceeded", status=_SERVER_ERROR, times=times)

    def lose_answer(self, operation: str, times: int = 1) -> None:
        """Carry out the next calls but lose their answers."""
        self.fail(operation, "ConnectTimeout", times=times, is_lost=True)

    def clear(self) -> None:
        """Let everything work again."""
        self.sold_out.clear()
        self.refused = {}
        self._failures.clear()
        self.most_per_fleet = None
        self.invisible_seconds = 0.0

    def strike(self, operation: str) -> Failure | None:
        """The failure that is due for a call, if any.

        Raises:
            ClientError: the call is refused.
        """
        with self._lock:
            due = next((each for each in self._failures if each.operation == operation), None)
            if due is None:
                if (refusal := self.refused.get(operation)) is not None:
                    raise client_error(operation, refusal.code, refusal.message, refusal.status)
                return None
            due.times -= 1
            if due.times <= 0:
                self._failures.remove(due)
        if due.is_lost:
            return due
        raise client_error(operation, due.code, due.message, due.status)

    def why_sold_out(self, instance_type: str, zone: str, capacity_type: str) -> SoldOut | None:
        """Why an offering cannot be had."""
        place = (instance_type, zone, capacity_type)
        return next((each for each in self.sold_out if each.covers(*place)), None)


def client_error(operation: str, code: str, message: str, status: int = _CLIENT_ERROR) -> Exception:
    """The exception boto3 raises when AWS refuses a call."""
    response: Mapping[str, Any] = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    made: Exception = importlib.import_module("botocore.exceptions").ClientError(
        response, operation
    )
    return made


def lost_answer(operation: str) -> Exception:
    """The exception boto3 raises when no answer comes."""
    made: Exception = importlib.import_module("botocore.exceptions").ReadTimeoutError(
        endpoint_url=f"simulated {operation}"
    )
    return made
