"""What Provisioners and AWSNodeTemplates become on the cloud of this process.

On AWS they become what ``karpenter convert`` makes of them. Another cloud has no subnets or images:
there a node template, or a Provisioner's inline provider, becomes an empty node class of the same
name, a Provisioner that names neither uses the class ``default``, and requirements on AWS labels
that the cloud's own machines do not have are omitted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.admission.legacy.webhook import default_legacy
from karpenter.api.codec import to_plain
from karpenter.api.meta import JsonObject, Resource, group_of, kind_of
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.types import ProviderFacts
from karpenter.conversion.convert import Options, convert_all
from karpenter.conversion.node_template import ROLE_PLACEHOLDER
from karpenter.conversion.values import edited, section, without
from karpenter.model import labels

AWS: Final = "aws"
DEFAULT_CLASS: Final = "default"
CONVERSION_FAILED: Final = "ConversionFailed"
SETTING_MISSING: Final = "SettingMissing"

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NO_ROLE: Final = (
    "it names no instanceProfile, and nothing says what its nodes may do: set LEGACY_NODE_ROLE or"
    " LEGACY_INSTANCE_PROFILE of the controller, or name an instanceProfile"
)
_TEMPLATE: Final = ("spec", "template", "spec")
# Other clouds have no roles; any value suppresses the warning that a role is missing
_ELSEWHERE: Final = Options(
    node_role="none", default_node_class=DEFAULT_CLASS, ignore_defaults=True
)


@dataclass(frozen=True, slots=True)
class Translation:
    """The v1 objects that one legacy object is translated to, or why there are none."""

    owner: Resource
    objects: tuple[JsonObject, ...] = ()
    reason: str = ""  # of the problem, if there is one
    problem: str = ""
    warnings: tuple[str, ...] = ()


def translate(
    legacy: Sequence[Resource], facts: ProviderFacts, options: Options
) -> list[Translation]:
    """Translate legacy objects together, because they refer to each other."""
    plain = [_manifest(each) for each in legacy]
    is_aws = facts.name == AWS
    if not is_aws:
        plain = [default_legacy(each, provider=facts.name) for each in plain]
    results = convert_all(plain, options if is_aws else _ELSEWHERE).results
    translations = []
    for owner, result in zip(legacy, results, strict=True):
        made: Iterable[JsonObject] = result.objects
        if not is_aws:
            made = (translated for each in made for translated in _elsewhere(each, facts))
        objects = tuple(_for_cluster(each) for each in made)
        reason, problem = _problem(objects, "; ".join(map(str, result.errors)))
        translations.append(
            Translation(
                owner,
                () if reason == SETTING_MISSING else objects,
                reason,
                problem,
                tuple(map(str, result.warnings)),
            )
        )
    return translations


def _problem(objects: Iterable[JsonObject], errors: str) -> tuple[str, str]:
    """Why objects may not be made, as reason and message; both are empty when they may."""
    if errors:
        return CONVERSION_FAILED, errors
    if any(section(each, "spec").get("role") == ROLE_PLACEHOLDER for each in objects):
        return SETTING_MISSING, _NO_ROLE
    return "", ""


def _manifest(resource: Resource) -> JsonObject:
    plain = without(to_plain(resource), "status")
    return {**plain, "metadata": dict(section(plain, "metadata"))}


def _for_cluster(obj: Mapping[str, Any]) -> JsonObject:
    """An object as it is created: without its legacy object's finalizers and last-applied."""
    metadata = without(section(obj, "metadata"), "finalizers")
    annotations = without(section(metadata, "annotations"), _LAST_APPLIED)
    metadata = without(metadata, "annotations")
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "metadata": metadata}


def _elsewhere(obj: JsonObject, facts: ProviderFacts) -> list[JsonObject]:
    """The same on a cloud that is not AWS."""
    if not facts.node_classes:
        return []
    group, kind = facts.node_classes[0]
    if obj["kind"] == "NodePool":
        name = section(obj, *_TEMPLATE, "nodeClassRef").get("name")
        reference = {"group": group, "kind": kind, "name": name}
        pool = edited(obj, (*_TEMPLATE, "nodeClassRef"), lambda _: reference)
        known = facts.well_known_labels
        return [edited(pool, (*_TEMPLATE, "requirements"), lambda held: _meant(held, known))]
    versions = [
        each.api_version
        for each in facts.readable_node_classes
        if (group_of(each), kind_of(each)) == (group, kind)
    ]
    metadata = section(obj, "metadata")
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {}}
        for version in versions[:1]
    ]


def _meant(requirements: Iterable[JsonObject], known: frozenset[str]) -> list[JsonObject]:
    return [
        each
        for each in requirements
        if labels.domain_of(str(each.get("key"))) != ec2_labels.DOMAIN or each["key"] in known
    ]
