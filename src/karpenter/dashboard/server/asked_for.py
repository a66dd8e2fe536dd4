"""What a request asks for, from its query and body; what cannot be read is refused by its name."""

import gzip
from datetime import UTC, datetime
from typing import Final

import msgspec

from karpenter.dashboard.contract import Problem, Refusal, WhatIfRequest
from karpenter.dashboard.server.answers import RefusedError

MOST_RECORDS: Final = 200
_RECORDS: Final = 50
_TABLES: Final = ("pool", "capacityType", "namespace", "owner")


def moment(name: str, text: str) -> datetime | None:
    """A moment of the query; None if none is given."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise RefusedError(400, f"{name}: {text!r} is no time; write it like 2026-11-16T20:15:09Z")
    return found.astimezone(UTC)


def seconds(name: str, text: str) -> float:
    """A moment of the query, in seconds since 1970; it may be written so too."""
    if text.isascii() and text.isdigit() and len(text) <= len("10000000000"):
        return float(text)
    found = moment(name, text)
    assert found is not None
    return found.timestamp()


def limit(text: str) -> int:
    """How many records at most."""
    if not text:
        return _RECORDS
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_RECORDS):
        raise RefusedError(400, f"limit: {text!r} is no number from 1 to {MOST_RECORDS}")
    return int(text)


def tables(text: str) -> tuple[str, ...]:
    """The tables that are asked for."""
    found = tuple(filter(None, text.split(",")))
    for name in found:
        if name not in _TABLES:
            raise RefusedError(400, f"by: {name!r} is none of {', '.join(_TABLES)}")
    return found


def what_if(body: bytes) -> WhatIfRequest:
    """The question of a body in JSON."""
    try:
        return msgspec.json.decode(body, type=WhatIfRequest)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$").removeprefix(".")
        problem = Problem(text=text, field=field)
        refusal = Refusal(error=f"the question cannot be read: {text}", problems=[problem])
        raise RefusedError(400, text, refusal=refusal) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"the body is no JSON: {error}") from None


def compressed(body: bytes) -> bytes:
    """A body with gzip."""
    return gzip.compress(body, compresslevel=5, mtime=0)
