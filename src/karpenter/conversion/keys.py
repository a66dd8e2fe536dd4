"""Keys that changed their name since the alpha generation, rewritten on any object.

A key counts only where it has a meaning: labels of nodes and of Karpenter's own kinds, node
selectors, node affinity and topology keys of pods, annotations everywhere, tags of node classes,
taints and conditions of stored nodes. Labels of pods are left alone, because workloads and
services select by them; so are tolerations, because nodes with old and new taints may coexist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from karpenter.admission.errors import FieldWarning, Path
from karpenter.api.meta import JsonObject
from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.conversion.draft import Origins
from karpenter.model import labels
from karpenter.model.conditions import DRIFTED, INITIALIZED, LAUNCHED, REGISTERED

RENAMED_LABELS: Mapping[str, str] = {labels.PROVISIONER_NAME: labels.NODEPOOL}
RENAMED_ANNOTATIONS: Mapping[str, str] = {
    labels.DO_NOT_EVICT: labels.DO_NOT_DISRUPT,
    labels.DO_NOT_CONSOLIDATE: labels.DO_NOT_DISRUPT,
    labels.LEGACY_TERMINATION_TIMESTAMP: labels.TERMINATION_TIMESTAMP,
}
RENAMED_TAGS: Mapping[str, str] = {
    labels.PROVISIONER_NAME: labels.NODEPOOL,
    ec2_labels.MANAGED_BY_TAG: ec2_labels.EKS_CLUSTER_NAME_TAG,
}
# Key -> why it has no replacement
GONE: Mapping[str, str] = {
    labels.PROVISIONER_HASH: f"{labels.NODEPOOL_HASH} is computed anew",
    ec2_labels.NODE_TEMPLATE_HASH: f"{ec2_labels.NODE_CLASS_HASH} is computed anew",
    labels.EMPTINESS_TIMESTAMP: "the condition Consolidatable of the NodeClaim takes its place",
    labels.LINKED: "it has no meaning in v1",
    ec2_labels.INSTANCE_AMI_ID: "it has no meaning in v1",
    ec2_labels.INSTANCE_PODS: "it has no meaning in v1",
}
# (key, value, effect) as stored -> as written now
RENAMED_TAINTS: Mapping[tuple[str, str, str], JsonObject] = {
    (labels.LEGACY_NOT_READY, "", "NoSchedule"): {
        "key": labels.UNREGISTERED,
        "effect": "NoExecute",
    },
    (labels.LEGACY_DISRUPTION, "disrupting", "NoSchedule"): {
        "key": labels.DISRUPTED,
        "effect": "NoSchedule",
    },
}
# Condition type -> its new name, or None when it is no longer reported
RENAMED_CONDITIONS: Mapping[str, str | None] = {
    "MachineLaunched": LAUNCHED,
    "MachineRegistered": REGISTERED,
    "MachineInitialized": INITIALIZED,
    "MachineDrifted": DRIFTED,
    "MachineEmpty": None,
    "MachineExpired": None,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One key that was renamed, or dropped when ``now`` is None; the path is the input's."""

    path: Path
    was: str
    now: str | None


@dataclass(frozen=True, slots=True)
class Renamed:
    """An object in current keys, and the changes made."""

    object: JsonObject
    changes: tuple[Change, ...]
    warnings: tuple[FieldWarning, ...]
    origins: Origins


def rename_keys(obj: Mapping[str, Any]) -> Renamed:
    """Rewrite every renamed key of ``obj`` to its present name."""
    renaming = _Renaming()
    result = renaming.everything(obj)
    return Renamed(
        result, tuple(renaming.changes), tuple(renaming.warnings), Origins.moved(renaming.moved)
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """The path of a part in the input and in the result."""

    was: Path = ()
    now: Path = ()

    def at(self, *keys: str) -> "_Place":
        return _Place((*self.was, *keys), (*self.now, *keys))

    def item(self, was: int, now: int) -> "_Place":
        return _Place((*self.was, was), (*self.now, now))


_Rewrite: TypeAlias = Callable[["_Renaming", Any, _Place], Any]


@dataclass(slots=True)
class _Renaming:
    """One walk over one object."""

    changes: list[Change] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)
    moved: dict[Path, Path] = field(default_factory=dict)

    def everything(self, obj: Mapping[str, Any]) -> JsonObject:
        result: Any = dict(obj)
        for path, rewrite in _places(obj):
            result = self.within(result, _Place(), path, rewrite)
        return dict(result)

    def within(self, value: Any, place: _Place, path: tuple[str, ...], rewrite: _Rewrite) -> Any:
        """Rewrite the part of ``value`` at ``path``, if there is one."""
        if not path:
            return rewrite(self, value, place)
        key = path[0]
        if not isinstance(value, Mapping) or value.get(key) is None:
            return value
        return {**value, key: self.within(value[key], place.at(key), path[1:], rewrite)}

    def labels(self, value: Any, place: _Place) -> Any:
        return self._keys(value, place, RENAMED_LABELS, GONE)

    def annotations(self, value: Any, place: _Place) -> Any:
        return self._keys(value, place, RENAMED_ANNOTATIONS, GONE)

    def tags(self, value: Any, place: _Place) -> Any:
        return self._keys(value, place, RENAMED_TAGS, {})

    def requirements(self, value: Any, place: _Place) -> Any:
        return self._items(value, place, self._requirement)

    def taints(self, value: Any, place: _Place) -> Any:
        return self._items(value, place, self._taint)

    def conditions(self, value: Any, place: _Place) -> Any:
        return self._items(value, place, self._condition)

    def pod(self, value: Any, place: _Place) -> Any:
        """Rewrite a pod, or the template of one."""
        for path, rewrite in _POD_PLACES:
            value = self.within(value, place, path, rewrite)
        return value

    def node_selector_terms(self, value: Any, place: _Place) -> Any:
        return self._items(value, place, lambda item, at, _: self.node_selector_term(item, at))

    def preferred_terms(self, value: Any, place: _Place) -> Any:
        return self._items(
            value,
            place,
            lambda item, at, _: self.within(
                item, at, ("preference",), _Renaming.node_selector_term
            ),
        )

    def topology_terms(self, value: Any, place: _Place) -> Any:
        return self._items(value, place, lambda item, at, _: self.topology_term(item, at))

    def weighted_topology_terms(self, value: Any, place: _Place) -> Any:
        return self._items(
            value,
            place,
            lambda item, at, _: self.within(
                item, at, ("podAffinityTerm",), _Renaming.topology_term
            ),
        )

    def node_selector_term(self, value: Any, place: _Place) -> Any:
        return self.within(value, place, ("matchExpressions",), _Renaming.expressions)

    def expressions(self, value: Any, place: _Place) -> Any:
        return self._items(value, place, self._expression)

    def topology_term(self, value: Any, place: _Place) -> Any:
        key = value.get("topologyKey") if isinstance(value, Mapping) else None
        new = RENAMED_LABELS.get(key) if isinstance(key, str) else None
        if new is None:
            return value
        self._became((*place.was, "topologyKey"), str(key), new)
        return {**value, "topologyKey": new}

    def _keys(
        self, holder: Any, place: _Place, renamed: Mapping[str, str], gone: Mapping[str, str]
    ) -> Any:
        if not isinstance(holder, Mapping):
            return holder
        result: JsonObject = {}
        for key, value in holder.items():
            path = (*place.was, key)
            new = renamed.get(key)
            if key in gone:
                self._dropped(path, key, gone[key])
            elif new is None:
                result[key] = value
            elif new in holder or new in result:
                self._dropped(path, key, f"{new} is set as well and wins")
            else:
                result[new] = value
                self._became(path, key, new)
                self.moved[(*place.now, new)] = path
        return result

    def _items(
        self, value: Any, place: _Place, rewrite: Callable[[Any, _Place, list[Any]], Any]
    ) -> Any:
        """Rewrite the items of a list, omitting those that become ``_DROPPED``."""
        if not isinstance(value, list):
            return value
        result: list[Any] = []
        for index, item in enumerate(value):
            here = place.item(index, len(result))
            rewritten = rewrite(item, here, value)
            if rewritten is _DROPPED:
                continue
            if here.was != here.now:
                self.moved[here.now] = here.was
            result.append(rewritten)
        return result

    def _requirement(self, item: Any, place: _Place, siblings: list[Any]) -> Any:
        key = item.get("key") if isinstance(item, Mapping) else None
        if key == ec2_labels.INSTANCE_AMI_ID:
            self._dropped(place.was, key, GONE[key])
            return _DROPPED
        return self._selecting(item, place, siblings)

    def _expression(self, item: Any, place: _Place, siblings: list[Any]) -> Any:
        if not _selects_gone_label(item):
            return self._selecting(item, place, siblings)
        key = item["key"]
        if all(map(_selects_gone_label, siblings)):
            # Without its last expression the term would match no node at all, so it is kept.
            why = f"no node carries {key} any more; remove or replace the term"
            self.warnings.append(FieldWarning(place.was, why))
            return item
        self._dropped(place.was, key, GONE[key])
        return _DROPPED

    def _selecting(self, item: Any, place: _Place, siblings: list[Any]) -> Any:
        """Rename the key of a requirement; it is dropped if the same one is there already."""
        key = item.get("key") if isinstance(item, Mapping) else None
        new = RENAMED_LABELS.get(key) if isinstance(key, str) else None
        if new is None:
            return item
        self._became((*place.was, "key"), str(key), new)
        rewritten = {**item, "key": new}
        return _DROPPED if rewritten in siblings else rewritten

    def _taint(self, item: Any, place: _Place, siblings: list[Any]) -> Any:
        if not isinstance(item, Mapping):
            return item
        stored = tuple(str(item.get(name) or "") for name in ("key", "value", "effect"))
        new = RENAMED_TAINTS.get((stored[0], stored[1], stored[2]))
        if new is None:
            return item
        self._became((*place.was, "key"), stored[0], new["key"])
        return _DROPPED if new in siblings else dict(new)

    def _condition(self, item: Any, place: _Place, siblings: list[Any]) -> Any:
        kind = item.get("type") if isinstance(item, Mapping) else None
        if not isinstance(kind, str) or kind not in RENAMED_CONDITIONS:
            return item
        new = RENAMED_CONDITIONS[kind]
        if new is None:
            self._dropped(place.was, kind, "this condition is no longer reported")
            return _DROPPED
        self._became((*place.was, "type"), kind, new)
        taken = any(isinstance(other, Mapping) and other.get("type") == new for other in siblings)
        return _DROPPED if taken else {**item, "type": new}

    def _became(self, path: Path, was: str, now: str) -> None:
        self.changes.append(Change(path, was, now))
        if was == labels.DO_NOT_CONSOLIDATE:
            self.warnings.append(
                FieldWarning(path, f"became {now}, which blocks every voluntary disruption")
            )

    def _dropped(self, path: Path, key: str, why: str) -> None:
        self.changes.append(Change(path, key, None))
        self.warnings.append(FieldWarning(path, f"{key} was dropped: {why}"))


_DROPPED = object()


def _selects_gone_label(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("key") in _GONE_LABELS


_GONE_LABELS = (ec2_labels.INSTANCE_AMI_ID, ec2_labels.INSTANCE_PODS)

_LABELS: tuple[tuple[str, ...], _Rewrite] = (("metadata", "labels"), _Renaming.labels)
_ANNOTATIONS: tuple[tuple[str, ...], _Rewrite] = (
    ("metadata", "annotations"),
    _Renaming.annotations,
)
_Places: TypeAlias = tuple[tuple[tuple[str, ...], _Rewrite], ...]

_AFFINITY = ("spec", "affinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POD_PLACES: _Places = (
    _ANNOTATIONS,
    (("spec", "nodeSelector"), _Renaming.labels),
    (
        (*_AFFINITY, "nodeAffinity", _REQUIRED, "nodeSelectorTerms"),
        _Renaming.node_selector_terms,
    ),
    ((*_AFFINITY, "nodeAffinity", _PREFERRED), _Renaming.preferred_terms),
    ((*_AFFINITY, "podAffinity", _REQUIRED), _Renaming.topology_terms),
    ((*_AFFINITY, "podAffinity", _PREFERRED), _Renaming.weighted_topology_terms),
    ((*_AFFINITY, "podAntiAffinity", _REQUIRED), _Renaming.topology_terms),
    ((*_AFFINITY, "podAntiAffinity", _PREFERRED), _Renaming.weighted_topology_terms),
    (("spec", "topologySpreadConstraints"), _Renaming.topology_terms),
)

# Of Karpenter's own kinds, in any of their versions
_OWN_PLACES: Mapping[str, _Places] = {
    "NodePool": (
        _LABELS,
        _ANNOTATIONS,
        (("spec", "template", "metadata", "labels"), _Renaming.labels),
        (("spec", "template", "metadata", "annotations"), _Renaming.annotations),
        (("spec", "template", "spec", "requirements"), _Renaming.requirements),
    ),
    "NodeClaim": (
        _LABELS,
        _ANNOTATIONS,
        (("spec", "requirements"), _Renaming.requirements),
        (("status", "conditions"), _Renaming.conditions),
    ),
    "Machine": (
        _LABELS,
        _ANNOTATIONS,
        (("spec", "requirements"), _Renaming.requirements),
        (("status", "conditions"), _Renaming.conditions),
    ),
    "NodeOverlay": (
        _LABELS,
        _ANNOTATIONS,
        (("spec", "requirements"), _Renaming.requirements),
    ),
    "EC2NodeClass": (_LABELS, _ANNOTATIONS, (("spec", "tags"), _Renaming.tags)),
    "AWSNodeTemplate": (_LABELS, _ANNOTATIONS, (("spec", "tags"), _Renaming.tags)),
    "Provisioner": (
        _LABELS,
        _ANNOTATIONS,
        (("spec", "labels"), _Renaming.labels),
        (("spec", "annotations"), _Renaming.annotations),
        (("spec", "requirements"), _Renaming.requirements),
        (("spec", "provider", "tags"), _Renaming.tags),
    ),
}
_OWN_GROUPS = (labels.KARPENTER_DOMAIN, ec2_labels.DOMAIN, kwok_labels.DOMAIN)

# Of the core group
_CORE_PLACES: Mapping[str, _Places] = {
    "Node": (
        _LABELS,
        _ANNOTATIONS,
        (("spec", "taints"), _Renaming.taints),
        (("status", "conditions"), _Renaming.conditions),
    ),
    "Pod": (((), _Renaming.pod),),
    "PodTemplate": (_ANNOTATIONS, (("template",), _Renaming.pod)),
    "PersistentVolume": (
        _ANNOTATIONS,
        (
            ("spec", "nodeAffinity", "required", "nodeSelectorTerms"),
            _Renaming.node_selector_terms,
        ),
    ),
}
# Of every other kind: custom workloads keep their pod template in one of these places
_OTHER_PLACES: _Places = (
    _ANNOTATIONS,
    (("spec", "template"), _Renaming.pod),
    (("spec", "jobTemplate", "spec", "template"), _Renaming.pod),
)


def _places(obj: Mapping[str, Any]) -> _Places:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    group = labels.domain_of(api_version) if isinstance(api_version, str) else ""
    if not isinstance(kind, str):
        return _OTHER_PLACES
    if group in _OWN_GROUPS:
        return _OWN_PLACES.get(kind, (_LABELS, _ANNOTATIONS))
    return _CORE_PLACES.get(kind, _OTHER_PLACES) if not group else _OTHER_PLACES
