"""Server-side apply, and the field ownership that every other write updates too.

Apply merges a configuration into the live object. The manager then owns exactly the fields it
stated: fields it stated before but no longer does are removed unless another manager owns them, and
changing a field another manager owns is a conflict unless forced. Other writes take ownership of
the fields they change.

Managers of other versions than the writer's are compared by the same paths, without conversion.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds import typed
from karpenter_sandbox.kinds.patching.comparing import (
    Comparison,
    compare,
    fields_of,
    problems,
    with_named_fields,
)
from karpenter_sandbox.kinds.patching.elements import ItemError
from karpenter_sandbox.kinds.patching.errors import Cause, PatchError
from karpenter_sandbox.kinds.patching.fieldsets import Elements, FieldSet, field_element, render
from karpenter_sandbox.kinds.patching.managers import (
    APPLY,
    UPDATE,
    Manager,
    ManagersError,
    Owners,
    Ownership,
    is_reset,
    read_owners,
    with_managers,
    without_managers,
)
from karpenter_sandbox.kinds.patching.merging import merge, remove
from karpenter_sandbox.kinds.schema import Schema

_LONGEST_NAME: Final = 128
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
# Its server-side apply takes over what its client-side apply wrote
_KUBECTL: Final = "kubectl"


def _path(*names: str) -> Elements:
    return tuple(map(field_element, names))


# Fields that identify an object or are written by the server have no manager
_NEVER_OWNED: Final = FieldSet.of(
    _path("apiVersion"),
    _path("kind"),
    _path("metadata"),
    *(
        _path("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a request: field manager, version, time and subresource."""

    manager: str
    api_version: str
    time: str
    subresource: str = ""

    def named(self, operation: str) -> Manager:
        return Manager(self.manager or "unknown", operation, self.api_version, self.subresource)


def manager_name(field_manager: str | None, user_agent: str) -> str:
    """The manager of a request: the one it names, or the first word of its user agent."""
    if field_manager:
        return field_manager
    name = "".join(c for c in user_agent.partition("/")[0] if c.isprintable())
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore")


def track_update(
    live: JsonObject | None,
    new: JsonObject,
    *,
    schema: Schema,
    writer: Writer,
    ignored: Sequence[tuple[str, ...]] = (),
) -> JsonObject:
    """Return ``new`` with managers that own what changed since ``live``.

    Args:
        live: what is stored; None for a creation.
        new: the object to store, in the version of the writer.
        schema: that of the kind.
        writer: who changed it.
        ignored: fields this request cannot change, such as ``("status",)``.
    """
    owners = _owners_for_update(live, new, writer)
    bare = without_managers(new)
    if not owners and live is not None:
        return bare  # without managers ownership is not tracked until the first apply
    before = without_managers(live) if live is not None else _zero(new)
    try:
        comparison = compare(before, bare, schema).without(_ignored(ignored))
    except ItemError:
        return bare
    _take_over(owners, comparison, writer)
    return with_managers(bare, owners)


def _owners_for_update(live: JsonObject | None, new: JsonObject, writer: Writer) -> Owners:
    if not writer.subresource:
        if is_reset(new):
            return Owners()
        try:
            if stated := read_owners(new):
                return stated
        except ManagersError:
            pass  # invalid managedFields of a client are ignored, the stored ones stay
    try:
        return read_owners(live or {})
    except ManagersError:
        return Owners()


def _take_over(owners: Owners, comparison: Comparison, writer: Writer) -> None:
    """Make the writer of an update own what it changed, and drop ownership of removed fields."""
    changed = comparison.modified | comparison.added
    owners.take(changed)
    owners.take(comparison.removed)
    own = changed - _NEVER_OWNED
    if own:
        manager = writer.named(UPDATE)
        before = owners.get(manager)
        fields = own | before.fields if before else own
        owners.put(Ownership(manager, fields, writer.time))
    owners.fold_old_updates()


def apply_configuration(
    live: JsonObject | None,
    applied: JsonObject,
    *,
    schema: Schema,
    writer: Writer,
    force: bool = False,
    ignored: Sequence[tuple[str, ...]] = (),
) -> JsonObject:
    """Apply a configuration and return the object to store, with its managers.

    Args:
        live: what is stored; None creates the object.
        applied: the configuration: the fields the writer cares about, and no others.
        schema: that of the kind.
        writer: who applies.
        force: take fields over from other managers instead of refusing.
        ignored: fields this request cannot change, such as ``("status",)``.

    Raises:
        PatchError: 409 with a cause for every field another manager owns; 400 or 500 when the
            configuration does not fit the kind.
    """
    _check(applied, schema, writer)
    session = _Application(live, applied, schema, writer, _ignored(ignored))
    try:
        result = session.run(force=force)
    except _Conflicts as conflicts:
        rest = conflicts.without(session.allowed_conflicts())
        if rest:
            raise rest.error() from None
        session = _Application(live, applied, schema, writer, _ignored(ignored))
        result = session.run(force=True)
    return _update_last_applied(result, applied, writer)


def _check(applied: JsonObject, schema: Schema, writer: Writer) -> None:
    api_version = applied.get("apiVersion")
    metadata = applied.get("metadata") or {}
    if api_version != writer.api_version:
        version = str(api_version or "")
        shown = version if "/" in version else f"/{version}"
        message = f"invalid object type: {shown}, Kind={applied.get('kind', '')}"
        raise PatchError(message, status=400, reason="BadRequest")
    if isinstance(metadata, Mapping) and metadata.get("managedFields") is not None:
        message = "metadata.managedFields must be nil"
        raise PatchError(message, status=400, reason="BadRequest")
    found = list(problems(applied, schema))
    if found:
        joined = found[0] if len(found) == 1 else "errors:\n  " + "\n  ".join(found)
        message = f"failed to create typed patch object ({_described(applied)}): {joined}"
        raise PatchError(message, status=500, reason="")


def _described(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    version = str(obj.get("apiVersion", ""))
    shown = version if "/" in version else f"/{version}"
    return (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')};"
        f" {shown}, Kind={obj.get('kind', '')}"
    )


class _Conflicts(Exception):  # noqa: N818 the outcome of an apply, not a defect
    """Fields that other managers own."""

    def __init__(self, found: Iterable[tuple[Manager, Elements]]) -> None:
        super().__init__("conflicts")
        self.found = list(found)

    def __bool__(self) -> bool:
        return bool(self.found)

    def without(self, allowed: FieldSet) -> "_Conflicts":
        return _Conflicts((manager, path) for manager, path in self.found if path not in allowed)

    def error(self) -> PatchError:
        """The refusal, in the words of an API server."""
        causes = tuple(
            Cause("FieldManagerConflict", f"conflict with {manager}", render(path))
            for manager, path in self.found
        )
        count = len(self.found)
        if count == 1:
            manager, path = self.found[0]
            text = f"1 conflict: conflict with {manager}: {render(path)}"
        else:
            by_manager: dict[str, list[str]] = {}
            for manager, path in self.found:
                by_manager.setdefault(str(manager), []).append(f"- {render(path)}")
            lines = [f"conflicts with {m}:\n" + "\n".join(p) for m, p in by_manager.items()]
            text = f"{count} conflicts: " + "\n".join(lines)
        return PatchError(f"Apply failed with {text}", status=409, reason="Conflict", causes=causes)


class _Application:
    """One attempt to apply a configuration."""

    def __init__(
        self,
        live: JsonObject | None,
        applied: JsonObject,
        schema: Schema,
        writer: Writer,
        ignored: FieldSet,
    ) -> None:
        self._schema = schema
        self._writer = writer
        self._manager = writer.named(APPLY)
        self._ignored = ignored
        self._applied = applied
        self._live = without_managers(live) if live is not None else _zero(applied)
        self._owners = self._read_owners(live)

    def _read_owners(self, live: JsonObject | None) -> Owners:
        try:
            owners = read_owners(live or {})
        except ManagersError as error:
            message = f"failed to decode managed fields: {error}"
            raise PatchError(message, status=500, reason="") from error
        if live is not None and not owners:
            earlier = compare(_zero(live), self._live, self._schema).without(self._ignored)
            first = Writer(_BEFORE_FIRST_APPLY, self._writer.api_version, self._writer.time)
            _take_over(owners, earlier, first)
        return owners

    def run(self, *, force: bool) -> JsonObject:
        last = self._owners.get(self._manager)
        merged = merge(self._live, self._applied, self._schema)
        named = fields_of(self._applied, self._schema).without_subtrees(self._ignored)
        stated = named - _NEVER_OWNED
        time = last.time if last else None
        # While fields are pruned, the identifying fields belong to the applier
        self._owners.put(Ownership(self._manager, named, time))
        result = self._prune(merged, last.fields) if last else merged
        self._owners.put(Ownership(self._manager, stated, time))
        self._settle(compare(self._live, result, self._schema).without(self._ignored), force=force)
        if result != self._live:
            self._owners.put(Ownership(self._manager, stated, self._writer.time))
        return with_managers(result, self._owners)

    def _settle(self, comparison: Comparison, *, force: bool) -> None:
        """Refuse to change what others own, or take it from them."""
        changed = comparison.modified | comparison.added
        if not force:
            conflicts = _Conflicts(
                (owner.manager, path)
                for owner in self._owners.others(self._manager)
                for path in (owner.fields & changed).paths()
            )
            if conflicts:
                raise conflicts
        self._owners.take(changed, keep=self._manager)
        self._owners.take(comparison.removed, keep=self._manager)

    def _prune(self, merged: JsonObject, last: FieldSet) -> JsonObject:
        """Remove what the manager stated last time and no manager states now."""
        named = self._named
        pruned = remove(merged, named(last), self._schema)
        everybody = FieldSet()
        for owner in self._owners.others(None):
            everybody |= owner.fields
        all_fields = named(fields_of(merged, self._schema))
        kept = named(fields_of(pruned, self._schema)) | named(everybody)
        owned = remove(merged, all_fields - kept, self._schema)
        # what is missing now but was not the manager's comes back
        gone = (all_fields - named(fields_of(owned, self._schema))) & named(last)
        rest = remove(merged, gone, self._schema) or {}
        result: JsonObject = _drop_emptied(rest, merged, self._applied)
        return result

    def _named(self, fields: FieldSet) -> FieldSet:
        return with_named_fields(fields, self._schema)

    def allowed_conflicts(self) -> FieldSet:
        """Fields ``kubectl`` may take over because its client-side apply wrote them."""
        if self._manager.name != _KUBECTL:
            return FieldSet()
        text = _annotations(self._live).get(_LAST_APPLIED)
        try:
            before = json.loads(text) if text else None
        except ValueError:
            return FieldSet()
        if not isinstance(before, dict) or before.get("apiVersion") != self._writer.api_version:
            return FieldSet()
        differences = compare(before, self._live, self._schema)
        changed = differences.modified | differences.added | differences.removed
        return fields_of(before, self._schema) - changed


def _drop_emptied(value: Any, merged: Any, applied: Any) -> Any:
    """Leave out keys whose parts were all removed (now null), unless they are stated as empty."""
    if not isinstance(value, dict) or not isinstance(merged, dict):
        return value
    stated = applied if isinstance(applied, dict) else {}
    return {
        key: stated.get(key) if part is None else _drop_emptied(part, merged[key], stated.get(key))
        for key, part in value.items()
        if part is not None or key in stated or merged.get(key) is None
    }


def _update_last_applied(result: JsonObject, applied: JsonObject, writer: Writer) -> JsonObject:
    """Keep the record of client-side apply true, so that it can take over again."""
    annotations = _annotations(result)
    if writer.manager != _KUBECTL or not annotations.get(_LAST_APPLIED):
        return result
    metadata = dict(applied.get("metadata") or {})
    if _LAST_APPLIED in _annotations(applied):
        stated = {k: v for k, v in metadata["annotations"].items() if k != _LAST_APPLIED}
        metadata["annotations"] = stated
    text = json.dumps(
        {**applied, "metadata": metadata},
        separators=(",", ":"),
        sort_keys=True,
        ensure_ascii=False,
    )
    annotations = {**annotations, _LAST_APPLIED: f"{text}\n"}
    return {**result, "metadata": {**result["metadata"], "annotations": annotations}}


def _annotations(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _zero(obj: Mapping[str, Any]) -> JsonObject:
    """An empty object of the same kind."""
    kind = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    filled = typed.complete_object({}, kind.get("apiVersion", ""), kind.get("kind", ""))
    return {**filled, **kind}


def _ignored(paths: Sequence[tuple[str, ...]]) -> FieldSet:
    return FieldSet.of(*(_path(*names) for names in paths))
