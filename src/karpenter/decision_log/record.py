"""A decision record: what was decided, why, about what, and what came of it.

``decision.schema.json`` of ``karpenter.report`` states the shape, which other tools depend on. A
record holds names, reasons and amounts; never user data, environment variables or secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

LONGEST_TEXT: Final = 8192
LONGEST_LINE: Final = 32 * 1024  # bytes; a record beyond it is kept without its detail
_ELLIPSIS: Final = "…"


class Kind(StrEnum):
    """What a decision is about."""

    PROVISION = "Provision"
    LAUNCH = "Launch"
    REGISTER = "Register"
    INITIALIZE = "Initialize"
    DISRUPT = "Disrupt"
    DRAIN = "Drain"
    TERMINATE = "Terminate"
    INTERRUPT = "Interrupt"
    REPAIR = "Repair"
    REFUSE = "Refuse"
    LIMIT = "Limit"
    CONFIG = "Config"


class Outcome(StrEnum):
    """How far a decision has come."""

    BEGUN = "begun"
    DONE = "done"
    ABANDONED = "abandoned"
    FAILED = "failed"


class Severity(StrEnum):
    """Whether the record needs attention."""

    INFO = "info"
    WARNING = "warning"


class Source(StrEnum):
    """Whether the controllers decided it, or only observed it."""

    CONTROLLER = "controller"
    OBSERVED = "observed"


# Kinds that are warnings whatever their outcome
_NOTEWORTHY: Final = frozenset({Kind.INTERRUPT, Kind.LIMIT, Kind.REPAIR})


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One decision, as it is kept, written to a file and sent to others."""

    id: str
    at: str  # RFC 3339 in UTC, with milliseconds
    kind: Kind
    source: Source
    reason: str
    severity: Severity
    outcome: Outcome
    text: str
    objects: tuple[
        str, ...
    ]  # such as Node/general-light, Pod/default/web; the first is the subject
    node_pools: tuple[str, ...]
    pods: int
    savings_hourly: float | None  # None where it is not known, and where nothing is saved
    is_estimate: bool
    command: str | None  # records of one command share it
    detail: dict[str, Any]  # the part of the plan it came from

    @property
    def subject(self) -> str:
        """What the decision is about; empty if it is about the whole cluster."""
        return self.objects[0] if self.objects else ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record before it has an id and a time."""

    kind: Kind
    outcome: Outcome
    reason: str
    text: str
    objects: tuple[str, ...] = ()
    node_pools: tuple[str, ...] = ()
    pods: int = 0
    savings_hourly: float | None = None
    is_estimate: bool = False
    command: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | None = None  # where it is not the usual one of its kind
    source: Source = Source.CONTROLLER
    # Idempotency key: the same if the next leader decides the same again; its hash is the id
    identity: tuple[str, ...] = ()


def recorded(draft: Draft, number: str, at: datetime) -> DecisionRecord:
    """The record of a draft."""
    return DecisionRecord(
        id=number,
        at=moment_text(at),
        kind=draft.kind,
        source=draft.source,
        reason=draft.reason,
        severity=draft.severity or usual_severity(draft),
        outcome=draft.outcome,
        text=shortened(draft.text, LONGEST_TEXT),
        objects=draft.objects,
        node_pools=draft.node_pools,
        pods=draft.pods,
        savings_hourly=draft.savings_hourly,
        is_estimate=draft.is_estimate,
        command=draft.command or None,
        detail=dict(draft.detail),
    )


def usual_severity(draft: Draft) -> Severity:
    """Warning for what comes from outside or is held up, and for commands that failed."""
    has_failed = draft.outcome is Outcome.FAILED and bool(draft.command)
    return Severity.WARNING if draft.kind in _NOTEWORTHY or has_failed else Severity.INFO


def encoded(record: DecisionRecord) -> bytes:
    """A record as one line of JSON, without the line break."""
    line = _ENCODER.encode(record)
    if len(line) > LONGEST_LINE and record.detail:
        line = _ENCODER.encode(without_detail(record, len(line)))
    return line


def without_detail(record: DecisionRecord, size: int) -> DecisionRecord:
    """A record that is too large, with the size of what is missing."""
    return msgspec.structs.replace(record, detail={"omittedBytes": size})


def decoded(line: bytes) -> DecisionRecord:
    """The record of a line."""
    return _DECODER.decode(line)


def moment_text(at: datetime) -> str:
    """A moment as records have it."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def shortened(text: str, most: int) -> str:
    """Text of at most so many characters."""
    return text if len(text) <= most else text[: most - len(_ELLIPSIS)] + _ELLIPSIS


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)
_DECODER: Final = msgspec.json.Decoder(DecisionRecord)
