"""What holds for the metadata of every object: names, labels, owners, finalizers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.validation import grammar

_LARGEST_ANNOTATIONS: Final = 256 * 1024
_PATH: Final[Path] = ("metadata",)

# Kinds whose names follow another rule than most
_NAME_RULES: Final[Mapping[tuple[str, str], grammar.Rule]] = {
    ("", "namespaces"): grammar.dns_label,
    ("", "services"): grammar.service_name,
    ("rbac.authorization.k8s.io", "roles"): grammar.path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): grammar.path_segment,
    ("rbac.authorization.k8s.io", "clusterroles"): grammar.path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): grammar.path_segment,
    ("certificates.k8s.io", "certificatesigningrequests"): grammar.path_segment,
    ("", "events"): grammar.path_segment,
    ("events.k8s.io", "events"): grammar.path_segment,
    ("apiregistration.k8s.io", "apiservices"): grammar.path_segment,
}
_STANDARD_FINALIZERS: Final = frozenset({"foregroundDeletion", "kubernetes", "orphan"})
_IMMUTABLE: Final = ("name", "namespace", "uid", "creationTimestamp")
_CHECKED: Final = (*_IMMUTABLE, "labels", "annotations", "ownerReferences", "finalizers")


def metadata_errors(
    obj: JsonObject, old: JsonObject | None, resource: Resource
) -> list[FieldError]:
    """List what is wrong with an object's metadata, in itself and as a change."""
    metadata = obj["metadata"]
    before = old["metadata"] if old is not None else {}
    if old is not None and all(metadata.get(name) == before.get(name) for name in _CHECKED):
        return []
    errors = _shape_errors(metadata)
    if errors:
        return errors
    errors = [
        *_name_errors(metadata, resource),
        *_label_errors(metadata.get("labels") or {}, (*_PATH, "labels")),
        *_annotation_errors(metadata.get("annotations") or {}),
        *_owner_errors(metadata.get("ownerReferences") or []),
        *_finalizer_errors(metadata.get("finalizers") or [], resource),
    ]
    if old is not None:
        errors.extend(_change_errors(metadata, before))
    return errors


def label_errors(labels: Mapping[str, str], path: Path) -> Iterator[FieldError]:
    """What is wrong with labels, wherever they stand."""
    return _label_errors(labels, path)


def _shape_errors(metadata: JsonObject) -> list[FieldError]:
    """What keeps metadata from being read at all; only CRDs let such bodies come this far."""
    errors = []
    for name in ("labels", "annotations"):
        value = metadata.get(name)
        if value is None:
            continue
        if not isinstance(value, dict):
            errors.append(_wrong((*_PATH, name), value, "must be an object"))
        elif any(not isinstance(text, str) for text in value.values()):
            errors.append(
                _wrong((*_PATH, name), value, "values must be strings; write them in quotes")
            )
    for name in ("ownerReferences", "finalizers"):
        value = metadata.get(name)
        item = dict if name == "ownerReferences" else str
        if value is not None and (
            not isinstance(value, list) or any(not isinstance(part, item) for part in value)
        ):
            errors.append(_wrong((*_PATH, name), value, "must be a list"))
    errors.extend(
        _wrong((*_PATH, name), metadata[name], "must be a string")
        for name in ("name", "generateName", "namespace")
        if not isinstance(metadata.get(name, ""), str)
    )
    return errors


def _name_errors(metadata: JsonObject, resource: Resource) -> Iterator[FieldError]:
    rule = _NAME_RULES.get((resource.group, resource.plural), grammar.dns_subdomain)
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    if prefix:
        # A generated suffix follows, so a dash at the end of the prefix does not end the name
        for problem in rule(re.sub("-$", "a", prefix)):
            yield _wrong((*_PATH, "generateName"), prefix, problem)
    if not name:
        detail = "name or generateName is required"
        yield FieldError(ErrorKind.REQUIRED, (*_PATH, "name"), detail)
        return
    for problem in rule(name):
        yield _wrong((*_PATH, "name"), name, problem)
    if resource.namespaced:
        for problem in grammar.dns_label(metadata.get("namespace", "")):
            yield _wrong((*_PATH, "namespace"), metadata.get("namespace", ""), problem)


def _label_errors(labels: Mapping[str, str], path: Path) -> Iterator[FieldError]:
    for key, value in labels.items():
        for problem in grammar.label_key(key):
            yield _wrong(path, key, problem)
        for problem in grammar.label_value(value):
            yield _wrong(path, value, problem)


def _annotation_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    path = (*_PATH, "annotations")
    size = 0
    for key, value in annotations.items():
        size += len(key.encode(errors="surrogatepass")) + len(value.encode(errors="surrogatepass"))
        for problem in grammar.label_key(key.lower()):
            yield _wrong(path, key, problem)
    if size > _LARGEST_ANNOTATIONS:
        detail = f"may not be more than {_LARGEST_ANNOTATIONS} bytes"
        yield FieldError(ErrorKind.TOO_LONG, path, detail)


def _owner_errors(owners: list[dict[str, Any]]) -> Iterator[FieldError]:
    path = (*_PATH, "ownerReferences")
    controller = ""
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                detail = (
                    "version must not be empty" if name == "apiVersion" else "must not be empty"
                )
                yield _wrong((*path, name), "", detail)
        if not owner.get("controller"):
            continue
        named = f"{owner.get('kind')}/{owner.get('name')}"
        if controller:
            detail = (
                "Only one reference can have Controller set to true."
                f' Found "true" in references for {controller} and {named}'
            )
            yield _wrong(path, owners, detail)
        controller = controller or named


def _finalizer_errors(finalizers: list[str], resource: Resource) -> Iterator[FieldError]:
    path = (*_PATH, "finalizers")
    for name in finalizers:
        for problem in grammar.label_key(name):
            yield _wrong(path, name, problem)
    # Custom resources and CRDs may have finalizers without a domain
    is_free = resource.custom is not None or resource.group == "apiextensions.k8s.io"
    for index, name in enumerate(finalizers):
        if not is_free and "/" not in name and name not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield _wrong((*path, index), name, detail)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield _wrong(path, finalizers, detail)


def _change_errors(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    if "deletionTimestamp" in old:
        known = old.get("finalizers") or []
        added = sorted(set(new.get("finalizers") or []) - set(known))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{shown}}}"
            )
            yield FieldError(ErrorKind.FORBIDDEN, (*_PATH, "finalizers"), detail)
    for name in _IMMUTABLE:
        if new.get(name) != old.get(name):
            yield _wrong((*_PATH, name), new.get(name, ""), "field is immutable")


def _wrong(path: Path, value: object, detail: str) -> FieldError:
    return FieldError(ErrorKind.INVALID, path, detail, value)
