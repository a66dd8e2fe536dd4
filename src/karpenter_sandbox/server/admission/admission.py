"""Admission of every kind: defaults, then validation.

Kubernetes' own kinds are completed with their defaults and checked by ``validation``; kinds of CRDs
go through their schema and rules. An object that passes is complete and in the form it is stored
in. Writes of a part of an object fill in nothing: what is there was complete before.
"""

from typing import Any, Final

from karpenter.admission.errors import FieldError
from karpenter.admission.legacy.webhook import (
    default_legacy,
    legacy_findings,
    with_default_class,
)
from karpenter.admission.schemas.crds import LEGACY
from karpenter.admission.schemas.engine import CompiledVersion
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import traits, versions
from karpenter_sandbox.kinds.defaults.kinds import defaulted
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.kinds.validation.kinds import kind_errors, kind_warnings
from karpenter_sandbox.kinds.validation.metadata import metadata_errors
from karpenter_sandbox.kinds.validation.problems import Verbatim, wrong
from karpenter_sandbox.server.admission.plugins.kinds import mutated, parts_of
from karpenter_sandbox.server.admission.plugins.limits import check_limits
from karpenter_sandbox.server.structure import completed
from karpenter_sandbox.status import bad_request, invalid
from karpenter_sandbox.store.store import Key

_UNCHECKED: Final = wrong(
    (Verbatim("<nil>"),),
    None,
    "some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)
_LEGACY_WEBHOOK: Final = "validation.webhook.karpenter.sh"
# Whose machines the node classes of a group describe
_PROVIDERS: Final = {"karpenter.kwok.sh": "kwok", "karpenter.k8s.aws": "aws"}


def admitted(
    backend: Backend,
    resource: Resource,
    obj: JsonObject,
    old: JsonObject | None,
    subresource: str,
) -> tuple[JsonObject, list[str]]:
    """The complete object as it is stored, and warnings about it.

    Args:
        backend: what other objects there are.
        resource: what is written, in which version.
        obj: the object in that version.
        old: what it was before an update, as it is stored.
        subresource: the part that is written, empty for the whole.

    Raises:
        ApiError: the object is not valid.
    """
    if resource.custom is not None:
        before = versions.served(old, resource) if old is not None else None
        complete, warnings = _custom(backend, resource, obj, before, subresource)
        return versions.stored(complete, resource, _pool_expiry(backend)), warnings
    if versions.is_converted(resource):
        obj = versions.stored(obj, resource, _pool_expiry(backend))
        found = backend.kinds.named(resource.storage_api_version, resource.plural)
        assert found is not None
        resource = found
    if not subresource:
        obj = mutated(backend, resource, defaulted(obj, resource), old)
    complete = completed(obj, resource, old)
    errors = [
        *metadata_errors(complete, old, resource),
        *kind_errors(complete, old, resource, subresource),
    ]
    if errors:
        name = obj["metadata"].get("name", "")
        raise invalid(resource.group, resource.kind, name, errors)
    if subresource:
        return complete, []
    check_limits(backend, resource, complete, old)
    return complete, kind_warnings(complete, resource)


def filled(
    resource: Resource, obj: JsonObject, old: JsonObject | None, subresource: str
) -> JsonObject:
    """The object with its defaults; the writer that omits them becomes their field manager."""
    if resource.custom is not None:
        return resource.custom.default(obj)
    if versions.is_converted(resource):
        return obj
    return completed(obj if subresource else defaulted(obj, resource), resource, old)


def prepared(resource: Resource, new: JsonObject, old: JsonObject, subresource: str) -> JsonObject:
    """``new`` as far as the request may change the object: all but the status, or only it."""
    if not subresource:
        if not resource.has_status:
            return new
        rest = {key: value for key, value in new.items() if key != "status"}
        return {**rest, "status": old["status"]} if "status" in old else rest
    metadata = new["metadata"]
    if resource.custom is not None:
        metadata = {**old["metadata"], **_only(metadata, "managedFields", "resourceVersion")}
    elif traits.status_keeps_labels(resource):
        metadata = {**metadata, **_only(old["metadata"], "labels")}
    names = parts_of(subresource)
    kept = {key: value for key, value in old.items() if key not in names}
    return {**kept, "metadata": metadata, **_only(new, *names)}


def _custom(
    backend: Backend,
    resource: Resource,
    obj: JsonObject,
    old: JsonObject | None,
    subresource: str,
) -> tuple[JsonObject, list[str]]:
    version = resource.custom
    assert version is not None
    complete = version.default(obj)
    warnings = [version.deprecation] if version.deprecation else []
    errors = [*metadata_errors(complete, old, resource), *_schema_errors(version, complete, old)]
    if errors:
        name = obj["metadata"].get("name", "")
        raise invalid(resource.group, resource.kind, name, errors)
    if not subresource:
        warnings += _provider_warnings(backend.provider, complete)
        if f"{resource.plural}.{resource.group}" in LEGACY:
            complete = _through_legacy_webhook(backend, complete)
    return complete, warnings


def _provider_warnings(provider: str, obj: JsonObject) -> list[str]:
    """Warn about a pool for another cloud, which the controllers here ignore without a message."""
    if obj["kind"] != "NodePool" or provider not in _PROVIDERS.values():
        return []
    reference = obj["spec"]["template"]["spec"]["nodeClassRef"]
    group = reference.get("group") or str(reference.get("apiVersion", "")).partition("/")[0]
    needed = _PROVIDERS.get(group, provider)
    if needed == provider:
        return []
    kind = reference.get("kind") or "node class"
    why = f"its {kind} ({group}) is for the provider {needed}, and this sandbox runs {provider}"
    return [f"no nodes come of this NodePool here: {why}; start it with --provider {needed}"]


def _schema_errors(
    version: CompiledVersion, obj: JsonObject, old: JsonObject | None
) -> list[FieldError]:
    """The errors of a CRD's schema and rules; a value of the wrong type skips the rules."""
    found = version.validate(obj, old, remembers=True)
    errors = [error for error in found if not _concerns_metadata(error)]
    if not any(error.kind.concerns_shape for error in errors):
        return errors
    shape = [e for e in version.validate(obj, old, rules=False) if not _concerns_metadata(e)]
    return [*shape, _UNCHECKED] if version.has_rules else shape


def _through_legacy_webhook(backend: Backend, obj: JsonObject) -> JsonObject:
    provider = backend.provider
    complete = with_default_class(
        default_legacy(obj, backend.legacy_defaults, provider=provider), provider
    )
    findings = legacy_findings(complete, provider=provider)
    if findings.errors:
        problems = "; ".join(str(error) for error in findings.errors)
        raise bad_request(f'admission webhook "{_LEGACY_WEBHOOK}" denied the request: {problems}')
    return complete


def _pool_expiry(backend: Backend) -> versions.PoolExpiry:
    """Find how long the nodes of a pool live, for claims that do not say so themselves."""

    def expiry(pool: str) -> str | None:
        value: Any = backend.store.get(Key("karpenter.sh", "nodepools", "", pool))
        for part in ("spec", "template", "spec", "expireAfter"):
            value = value.get(part) if isinstance(value, dict) else None
        return value if isinstance(value, str) else None

    return expiry


def _concerns_metadata(error: FieldError) -> bool:
    return error.path[:1] == ("metadata",)


def _only(source: JsonObject, *names: str) -> JsonObject:
    return {name: source[name] for name in names if name in source}
