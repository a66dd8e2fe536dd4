"""Getting one object, and listing many in consistent pages."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.server.options import ListOptions
from karpenter_sandbox.server.selectors import (
    Predicate,
    exact_name,
    field_predicate,
    label_predicate,
)
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.status import (
    ApiError,
    bad_request,
    expired,
    not_found,
    version_too_large,
)
from karpenter_sandbox.store.errors import Gone, NotYet
from karpenter_sandbox.store.store import Stored

# In a continue token: continue with the present objects, without a consistent snapshot
_NO_VERSION: Final = -1
_MOST_DIGITS: Final = 20  # of an unsigned number of 64 bits
_PAGE_VERSION: Final = "meta.k8s.io/v1"
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result."
    " You can start a new list without the continue parameter, or use the continue token in this"
    " response to retrieve the remainder of the results. Continuing with the provided token results"
    " in an inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list; ``entries`` are as stored, whatever version was asked for."""

    entries: list[Stored]
    rv: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, Any]:
        """The metadata of the list object."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.rv)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
            if self.remaining is not None:
                metadata["remainingItemCount"] = self.remaining
        return metadata


def find(backend: Backend, target: Target) -> Stored:
    """The stored object a request names.

    Raises:
        ApiError: there is none.
    """
    resource = target.resource
    stored = backend.store.find(backend.key(resource, target.namespace, target.name))
    if stored is None:
        raise not_found(resource.group, resource.plural, target.name)
    return stored


def get(backend: Backend, target: Target, resource_version: str = "") -> Stored:
    """The object a request names, no older than ``resource_version``."""
    wanted = parse_version(resource_version)
    if wanted is not None and wanted > backend.store.resource_version:
        raise version_too_large(wanted, backend.store.resource_version)
    return find(backend, target)


def list_objects(backend: Backend, target: Target, options: ListOptions) -> Listing:
    """The objects a request selects, one page of them."""
    matches = predicate(target, options)
    wanted = _Wanted.of(options)
    current = backend.store.resource_version
    if wanted.rv is not None and wanted.rv > current:
        raise version_too_large(wanted.rv, current)
    exact = wanted.rv if wanted.is_exact else None
    resource = target.resource
    try:
        entries = backend.store.entries(
            resource.storage_group, resource.plural, target.namespace or None, rv=exact
        )
    except Gone as error:
        raise _gone(options, wanted, current, error) from error
    except NotYet as error:
        raise version_too_large(error.wanted, error.current) from error
    if wanted.after is not None:
        entries = _after(entries, wanted.after)
    rv = current if exact is None else exact
    if options.limit <= 0:
        return Listing([e for e in entries if matches is None or matches(e.obj)], rv)
    return _page(entries, matches, options.limit, rv)


def served_objects(listing: Listing, target: Target) -> list[JsonObject]:
    """The objects of a list in the version that was asked for."""
    if not versions.is_converted(target.resource):
        return [entry.obj for entry in listing.entries]
    return [versions.served(entry.obj, target.resource) for entry in listing.entries]


def predicate(target: Target, options: ListOptions) -> Predicate | None:
    """Compile the selectors of a request; None when it selects everything."""
    resource = target.resource
    labels = label_predicate(options.label_selector) if options.label_selector else None
    fields: Predicate | None = None
    if options.field_selector:
        served_fields = field_predicate(options.field_selector, resource)
        fields = served_fields
        if served_fields is not None and versions.is_converted(resource):
            fields = _on_served(served_fields, target)
    if target.name:
        fields = _both(fields, _is_named(target.name))
    return _both(labels, fields)


def parse_version(text: str) -> int | None:
    """Read a resource version; None when the request leaves it open.

    Raises:
        ApiError: it is no number, which only lists take for a mistake of the client.
    """
    if not text or text == "0":
        return None
    if not text.isascii() or not text.isdigit():
        raise ApiError(500, "", _unreadable_version(text, "invalid syntax"))
    if len(text.lstrip("0")) > _MOST_DIGITS or int(text) >= 1 << 64:
        raise ApiError(500, "", _unreadable_version(text, "value out of range"))
    return int(text)


def _unreadable_version(text: str, reason: str) -> str:
    problem = f'strconv.ParseUint: parsing "{text}": {reason}'
    return f'resourceVersion: Invalid value: "{text}": {problem}'


def pinned_name(options: ListOptions) -> str | None:
    """The one name a list or watch is about, if its field selector says so."""
    return exact_name(options.field_selector) if options.field_selector else None


def _on_served(matches: Predicate, target: Target) -> Predicate:
    return lambda obj: matches(versions.served(obj, target.resource))


def _is_named(name: str) -> Predicate:
    def matches(obj: JsonObject) -> bool:
        return bool(obj["metadata"]["name"] == name)

    return matches


def _both(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    if first is None or second is None:
        return first or second
    return lambda obj: first(obj) and second(obj)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """From where in which version a list starts."""

    rv: int | None
    is_exact: bool
    after: tuple[str, str] | None

    @classmethod
    def of(cls, options: ListOptions) -> "_Wanted":
        if options.continue_token:
            if options.resource_version not in {"", "0"}:
                raise bad_request("specifying resource version is not allowed when using continue")
            rv, after = _read_token(options.continue_token)
            return cls(None if rv == _NO_VERSION else rv, rv != _NO_VERSION, after)
        try:
            rv_wanted = parse_version(options.resource_version)
        except ApiError as error:
            raise bad_request(f"invalid resource version: {error.message}") from error
        # Without resourceVersionMatch, limit with a version means Exact (the legacy semantics)
        is_exact = options.version_match == "Exact" or (
            options.limit > 0 and not options.version_match
        )
        return cls(rv_wanted, is_exact and rv_wanted is not None, None)


def _page(
    entries: Sequence[Stored], matches: Callable[[JsonObject], bool] | None, limit: int, rv: int
) -> Listing:
    chosen: list[Stored] = []
    for index, entry in enumerate(entries):
        if matches is not None and not matches(entry.obj):
            continue
        if len(chosen) == limit:
            last = chosen[-1].key
            # The number of remaining matches would need a full scan, so it is omitted
            remaining = len(entries) - index if matches is None else None
            return Listing(chosen, rv, _token(rv, last.namespace, last.name), remaining)
        chosen.append(entry)
    return Listing(chosen, rv)


def _after(entries: list[Stored], after: tuple[str, str]) -> list[Stored]:
    return [entry for entry in entries if (entry.key.namespace, entry.key.name) > after]


def _gone(options: ListOptions, wanted: _Wanted, current: int, error: Gone) -> ApiError:
    if not options.continue_token or wanted.after is None:
        return expired(f"The resourceVersion for the provided list is too old: {error.wanted}")
    refusal = expired(_TOO_OLD)
    refusal.metadata["continue"] = _token(_NO_VERSION, *wanted.after)
    refusal.metadata["resourceVersion"] = str(current)
    return refusal


def _token(rv: int, namespace: str, name: str) -> str:
    content = {"v": _PAGE_VERSION, "rv": rv, "start": f"{namespace}/{name}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        padded = token + "=" * (-len(token) % 4)
        content = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
        namespace, _, name = content["start"].rstrip("\0").partition("/")
        return int(content["rv"]), (namespace, name)
    except (
        AttributeError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
        binascii.Error,
    ) as error:
        raise bad_request("invalid continue token: continue key is not valid") from error
