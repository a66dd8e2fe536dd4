"""Field ownership: reads, changes and writes ``metadata.managedFields``.

A manager is identified by its name, by whether it applies or updates, by the subresource it writes,
and (when it updates) by its API version. Each owns a set of fields since a point in time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from karpenter_sandbox.kinds.patching.fieldsets import FieldSet

APPLY: Final = "Apply"
UPDATE: Final = "Update"
# Above this number, the oldest managers that update are merged into one entry
_MOST_UPDATERS: Final = 10
_OLD_UPDATES: Final = "ancient-changes"


class ManagersError(ValueError):
    """Entries of ``managedFields`` that cannot be read."""


@dataclass(frozen=True, slots=True)
class Manager:
    """A field manager; one that applies is the same in every version."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes two managers the same."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.name, self.operation, version, self.subresource)

    def __str__(self) -> str:
        """Name the manager as messages about conflicts do."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(frozen=True, slots=True)
class Ownership:
    """The fields of one manager."""

    manager: Manager
    fields: FieldSet
    time: str | None = None


class Owners:
    """Every manager of an object; changing it changes this collection only."""

    def __init__(self, owners: Iterable[Ownership] = ()) -> None:
        self._by_identity = {owner.manager.identity: owner for owner in owners}

    def __bool__(self) -> bool:
        return bool(self._by_identity)

    def get(self, manager: Manager) -> Ownership | None:
        """What a manager owns, if anything."""
        return self._by_identity.get(manager.identity)

    def others(self, manager: Manager | None) -> list[Ownership]:
        """All managers except one, in the order of their names."""
        own = None if manager is None else manager.identity
        return [o for identity, o in sorted(self._by_identity.items()) if identity != own]

    def put(self, ownership: Ownership) -> None:
        """Set what a manager owns; one that owns nothing is removed."""
        identity = ownership.manager.identity
        if ownership.fields:
            self._by_identity[identity] = ownership
        else:
            self._by_identity.pop(identity, None)

    def take(self, fields: FieldSet, *, keep: Manager | None = None) -> None:
        """Take fields away from all managers but ``keep``."""
        if not fields:
            return
        for owner in self.others(keep):
            self.put(replace(owner, fields=owner.fields - fields))

    def fold_old_updates(self) -> None:
        """Merge the oldest managers that update until few enough are left."""
        updaters = [o for o in self.others(None) if o.manager.operation == UPDATE]
        surplus = len(updaters) - _MOST_UPDATERS
        updaters.sort(key=lambda owner: (owner.time or "", owner.manager.identity))
        first_of_version: dict[str, Ownership] = {}
        for owner in updaters:
            if surplus <= 0:
                return
            version = owner.manager.api_version
            first = first_of_version.setdefault(version, owner)
            if first is owner:
                continue
            bucket = Manager(_OLD_UPDATES, UPDATE, version)
            held = self.get(bucket) or first
            for merged in (first, owner):
                self._by_identity.pop(merged.manager.identity, None)
            self.put(Ownership(bucket, owner.fields | held.fields, owner.time))
            surplus -= 1

    def to_wire(self) -> list[dict[str, Any]]:
        """The entries of ``managedFields``, oldest first."""

        def order(owner: Ownership) -> tuple[str, ...]:
            manager = owner.manager
            when = owner.time or ""
            return (manager.operation, when, manager.name, manager.api_version, manager.subresource)

        return [_to_wire(owner) for owner in sorted(self._by_identity.values(), key=order)]


def read_owners(obj: Mapping[str, Any]) -> Owners:
    """Read the managers of an object.

    Raises:
        ManagersError: an entry makes no sense.
    """
    entries = (obj.get("metadata") or {}).get("managedFields") or []
    if not isinstance(entries, list):
        raise ManagersError("managedFields must be a list")
    return Owners(_from_wire(entry, index) for index, entry in enumerate(entries))


def is_reset(obj: Mapping[str, Any]) -> bool:
    """Whether an object asks to forget its managers: by an empty list or one empty entry."""
    entries = (obj.get("metadata") or {}).get("managedFields")
    return entries in ([], [{}])


def without_managers(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without its managers."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or "managedFields" not in metadata:
        return dict(obj)
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": kept}


def with_managers(obj: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
    """An object with these managers instead of those it has."""
    bare = without_managers(obj)
    if not owners:
        return bare
    return {**bare, "metadata": {**bare.get("metadata", {}), "managedFields": owners.to_wire()}}


def _from_wire(entry: Any, index: int) -> Ownership:
    if not isinstance(entry, Mapping):
        raise ManagersError(f"managed fields entry {index} must be an object")
    if entry.get("operation") not in (APPLY, UPDATE):
        raise ManagersError("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise ManagersError("apiVersion must not be empty")
    if not entry.get("fieldsType"):
        raise ManagersError(f"missing fieldsType in managed fields entry {index}")
    if entry["fieldsType"] != "FieldsV1":
        raise ManagersError(
            f'invalid fieldsType "{entry["fieldsType"]}" in managed fields entry {index}'
        )
    manager = Manager(
        name=entry.get("manager") or "",
        operation=entry["operation"],
        api_version=entry["apiVersion"],
        subresource=entry.get("subresource") or "",
    )
    return Ownership(manager, FieldSet.from_wire(entry.get("fieldsV1") or {}), entry.get("time"))


def _to_wire(owner: Ownership) -> dict[str, Any]:
    manager = owner.manager
    entry: dict[str, Any] = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
    }
    if owner.time is not None:
        entry["time"] = owner.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owner.fields.to_wire()
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry
