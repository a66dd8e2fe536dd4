"""What goes through the pipe between a dashboard and the process that plans for it.

A message is a length and so many bytes. Objects travel as JSON, which is fast and keeps them whole;
everything else as a pickle, which only the process that was started for it reads.
"""

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec

from karpenter.api.codec import decode, encode, is_known
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.meta import Resource
from karpenter.api.node_classes import node_class_model
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.dashboard.answers.world import Terms
from karpenter.dashboard.contract import WhatIfRequest
from karpenter.state.object_keys import Identity, identity_of

PLAN: Final = "plan"
EXPLAIN: Final = "explain"
WHAT_IF: Final = "what-if"
SAVINGS: Final = "savings"
_LENGTH: Final = struct.Struct("!Q")
HEAD: Final = _LENGTH.size  # bytes in front of every message


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message: what is known about the cluster besides its objects."""

    terms: Terms


@dataclass(frozen=True, slots=True)
class Change:
    """An object as it is now, or that it is gone."""

    identity: Identity
    api_version: str
    content: bytes | None  # JSON; None: it is gone


@dataclass(frozen=True, slots=True)
class Changes:
    """Some objects."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class SomeTypes:
    """A part of a catalogue; parts of one number follow one another."""

    catalogue: int
    types: tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True)
class Supplied:
    """What there is to buy, now that all catalogues are there."""

    facts: ProviderFacts
    pools: Mapping[str, int]  # pool -> its catalogue
    references: Mapping[str, NodeClassReference]
    others: int
    repair_policies: tuple[RepairPolicy, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question; every question gets one ``Answered`` or ``Refused``."""

    now: datetime
    version: int  # of the cluster: while it is the same, plans are kept for the next question
    seconds: float
    verb: str  # one of the above
    names: tuple[str, ...] = ()  # of explain: kind, namespace and name
    request: WhatIfRequest = field(default_factory=WhatIfRequest)


Message: TypeAlias = Begin | Changes | SomeTypes | Supplied | Ask


class Answered(msgspec.Struct, tag="answered"):
    """The answer to a question."""

    document: dict[str, Any]
    is_partial: bool
    took: float  # seconds


class Refused(msgspec.Struct, tag="refused"):
    """A question without an answer."""

    error: str  # the name of a class of ``questions``
    text: str
    problems: list[dict[str, str | int | None]]


Reply: TypeAlias = Answered | Refused
encode_reply: Final = msgspec.json.Encoder(enc_hook=str).encode
decode_reply: Final = msgspec.json.Decoder(Reply).decode


def framed(message: Message) -> bytes:
    """A message as bytes, with its length."""
    return with_length(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def with_length(content: bytes) -> bytes:
    """Bytes behind their length."""
    return _LENGTH.pack(len(content)) + content


def length_of(head: bytes) -> int:
    """The length that the head of a message states."""
    length: int = _LENGTH.unpack(head)[0]
    return length


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next message of a stream; None where it ends."""
    head = stream.read(HEAD)
    if len(head) < HEAD:
        return None
    length = length_of(head)
    content = stream.read(length)
    return content if len(content) == length else None


def message_of(content: bytes) -> Message:
    """The message of some bytes."""
    message: Message = pickle.loads(content)  # noqa: S301 they come from the process that began this one
    return message


def change_of(before: Resource | None, after: Resource | None) -> Change:
    """A change as it is sent; of two objects of None and one, the one that is there counts."""
    resource = after if after is not None else before
    assert resource is not None
    content = encode(after) if after is not None else None
    return Change(identity_of(resource), resource.api_version, content)


def object_of(change: Change) -> Resource | None:
    """The object of a change; None if it is gone."""
    if change.content is None:
        return None
    kind = change.identity[1]
    if is_known(change.api_version, kind):
        return decode(change.content)
    return msgspec.json.decode(change.content, type=node_class_model(change.api_version, kind))
