"""The options of a request, read from its query string or body."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter_sandbox.status import ApiError, bad_request, invalid

Query = Mapping[str, Sequence[str]]

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"

FOREGROUND: Final = "Foreground"
BACKGROUND: Final = "Background"
ORPHAN: Final = "Orphan"

_META_GROUP: Final = "meta.k8s.io"
_LONGEST_MANAGER: Final = 128
_MOST_DIGITS: Final = 19
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects to list or watch, from which version on, and how many at once."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    version_match: str = ""
    is_watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write: for real or not, as whom, and how to treat unknown fields."""

    dry_run: bool = False
    field_manager: str = ""
    user_agent: str = ""
    field_validation: str = WARN
    force: bool = False
    # The cluster's own controllers write very often, and their field ownership is not needed
    track_fields: bool = True


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete: how gracefully, on which conditions, and what becomes of dependents."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of the log of which container of a pod to read, and how."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None


def list_options(query: Query) -> ListOptions:
    """Read the options of a list or watch."""
    options = ListOptions(
        label_selector=_text(query, "labelSelector"),
        field_selector=_text(query, "fieldSelector"),
        limit=_integer(query, "limit") or 0,
        continue_token=_text(query, "continue"),
        resource_version=_text(query, "resourceVersion"),
        version_match=_text(query, "resourceVersionMatch"),
        is_watch=_flag(query, "watch") or False,
        bookmarks=_flag(query, "allowWatchBookmarks") or False,
        initial_events=_flag(query, "sendInitialEvents"),
        timeout=_integer(query, "timeoutSeconds"),
    )
    errors = _list_errors(options)
    if errors:
        raise invalid(_META_GROUP, "ListOptions", "", errors)
    return options


def wants_watch(query: Query) -> bool:
    """Whether a request for a collection is to be followed by what happens to it."""
    return _flag(query, "watch") or False


def write_options(query: Query, user_agent: str, *, kind: str) -> WriteOptions:
    """Read the options of a write; ``kind`` is CreateOptions, UpdateOptions or PatchOptions."""
    dry_run, errors = _dry_run(query.get("dryRun", ()))
    validation = _text(query, "fieldValidation")
    if validation not in {"", STRICT, WARN, IGNORE}:
        errors.append(_unsupported("fieldValidation", validation, ("", IGNORE, STRICT, WARN)))
    if len(_text(query, "fieldManager").encode()) > _LONGEST_MANAGER:
        detail = f"may not be more than {_LONGEST_MANAGER} bytes"
        errors.append(FieldError(ErrorKind.TOO_LONG, ("fieldManager",), detail))
    if errors:
        raise invalid(_META_GROUP, kind, "", errors)
    return WriteOptions(
        dry_run=dry_run,
        field_manager=_text(query, "fieldManager"),
        user_agent=user_agent,
        field_validation=validation or WARN,
        force=_flag(query, "force") or False,
    )


def log_options(query: Query, pod: str) -> LogOptions:
    """Read the options of a request for the log of a pod."""
    options = LogOptions(
        container=_text(query, "container"),
        follow=_flag(query, "follow") or False,
        previous=_flag(query, "previous") or False,
        timestamps=_flag(query, "timestamps") or False,
        tail_lines=_integer(query, "tailLines"),
        limit_bytes=_integer(query, "limitBytes"),
        since_seconds=_integer(query, "sinceSeconds"),
        since_time=_moment(query, "sinceTime"),
    )
    errors = _log_errors(options)
    if errors:
        raise invalid("", "PodLogOptions", pod, errors)
    return options


def delete_options(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """Read the options of a deletion, from its body or else from the query."""
    source = dict(body) if body else _query_as_body(query)
    dry_run, errors = _dry_run(source.get("dryRun") or ())
    propagation = source.get("propagationPolicy")
    orphan = source.get("orphanDependents")
    if propagation is not None and orphan is not None:
        errors.append(
            FieldError(
                ErrorKind.INVALID,
                ("propagationPolicy",),
                "orphanDependents and deletionPropagation cannot be both set",
                propagation,
            )
        )
    elif propagation not in {None, FOREGROUND, BACKGROUND, ORPHAN}:
        allowed = (FOREGROUND, BACKGROUND, ORPHAN, "nil")
        errors.append(_unsupported("propagationPolicy", propagation, allowed))
    if errors:
        raise invalid(_META_GROUP, "DeleteOptions", "", errors)
    preconditions = source.get("preconditions") or {}
    return DeleteOptions(
        grace_period=source.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=propagation,
        orphan_dependents=orphan,
        dry_run=dry_run,
    )


def _query_as_body(query: Query) -> dict[str, Any]:
    body: dict[str, Any] = {"dryRun": list(query.get("dryRun", ()))}
    grace = _integer(query, "gracePeriodSeconds")
    if grace is not None:
        body["gracePeriodSeconds"] = grace
    if _text(query, "propagationPolicy"):
        body["propagationPolicy"] = _text(query, "propagationPolicy")
    orphan = _flag(query, "orphanDependents")
    if orphan is not None:
        body["orphanDependents"] = orphan
    return body


def _dry_run(values: Sequence[str]) -> tuple[bool, list[FieldError]]:
    wrong = [value for value in values if value != "All"]
    errors = [_unsupported("dryRun", list(values), ("All",))] if wrong else []
    return bool(values), errors


def _list_errors(options: ListOptions) -> list[FieldError]:
    match, errors = options.version_match, []
    if match:
        path = ("resourceVersionMatch",)
        if not options.resource_version and options.initial_events is None:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(FieldError(ErrorKind.FORBIDDEN, path, detail))
        if options.continue_token:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(FieldError(ErrorKind.FORBIDDEN, path, detail))
        if match not in {"Exact", "NotOlderThan"}:
            errors.append(_unsupported(path[0], match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.resource_version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(FieldError(ErrorKind.FORBIDDEN, path, detail))
    errors.extend(_initial_events_errors(options))
    return errors


def _log_errors(options: LogOptions) -> list[FieldError]:
    tail, limit, seconds = options.tail_lines, options.limit_bytes, options.since_seconds
    too_small, errors = "must be greater than 0", []
    if tail is not None and tail < 0:
        detail = "must be greater than or equal to 0"
        errors.append(FieldError(ErrorKind.INVALID, ("tailLines",), detail, tail))
    if limit is not None and limit < 1:
        errors.append(FieldError(ErrorKind.INVALID, ("limitBytes",), too_small, limit))
    if seconds is not None and options.since_time is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(FieldError(ErrorKind.FORBIDDEN, ("",), detail))
    elif seconds is not None and seconds < 1:
        errors.append(FieldError(ErrorKind.INVALID, ("sinceSeconds",), too_small, seconds))
    return errors


def _initial_events_errors(options: ListOptions) -> list[FieldError]:
    path = ("sendInitialEvents",)
    if options.initial_events is None:
        if options.is_watch and options.version_match:
            detail = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            errors = [FieldError(ErrorKind.FORBIDDEN, ("resourceVersionMatch",), detail)]
            if options.version_match != "NotOlderThan":
                value, only = options.version_match, ("NotOlderThan",)
                errors.append(_unsupported("resourceVersionMatch", value, only))
            return errors
        return []
    if not options.is_watch:
        return [FieldError(ErrorKind.FORBIDDEN, path, "sendInitialEvents is forbidden for list")]
    if options.version_match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        return [FieldError(ErrorKind.FORBIDDEN, ("resourceVersionMatch",), detail)]
    return []


def _unsupported(field: str, value: object, allowed: Sequence[str]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in allowed)
    return FieldError(ErrorKind.NOT_SUPPORTED, (field,), f"supported values: {names}", value)


def _text(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def _integer(query: Query, name: str) -> int | None:
    text = _text(query, name)
    if not text:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise _malformed(text, "invalid syntax")
    # Go reads numbers into 64 bits; a longer text is not even worth reading
    if len(digits.lstrip("0")) > _MOST_DIGITS or not -(1 << 63) <= int(text) < 1 << 63:
        raise _malformed(text, "value out of range")
    return int(text)


def _flag(query: Query, name: str) -> bool | None:
    """Parse a boolean as Kubernetes does: everything but ``false`` and ``0`` is true."""
    if name not in query:
        return None
    return _text(query, name).lower() not in {"false", "0"}


def _moment(query: Query, name: str) -> datetime | None:
    text = _text(query, name)
    if not text:
        return None
    try:
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:  # well-formed, but not a date, such as February 30
        pass
    raise bad_request(
        f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": {name} is no moment of that form'
    )


def _malformed(text: str, problem: str) -> ApiError:
    return bad_request(f'strconv.ParseInt: parsing "{text}": {problem}')
