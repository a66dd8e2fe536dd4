"""The AWS fields of an AWSNodeTemplate, or of a Provisioner's inline provider, as an EC2NodeClass.

The fields are first converted to a v1beta1 class, which has the same AMI families; the step from
there to v1 is shared with v1beta1 input.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.admission.errors import ErrorKind, FieldError, FieldWarning, Path
from karpenter.api.meta import JsonObject
from karpenter.conversion.draft import Draft, Origin, Origins
from karpenter.conversion.selectors import Terms, image_terms, resource_terms
from karpenter.conversion.v1beta1 import AWS_V1, NODE_CLASS_KIND
from karpenter.conversion.v1beta1_ec2 import ALIASED_FAMILIES, image_warnings, node_class_up
from karpenter.conversion.values import items, kept_metadata, present, section
from karpenter.model.quantity import is_quantity, units

ROLE_PLACEHOLDER: Final = "${KARPENTER_NODE_ROLE}"
_FAMILIES: Final = (*ALIASED_FAMILIES, "Ubuntu", "Custom")
_SAME: Final = ("userData", "tags", "detailedMonitoring", "context")
_WITHOUT_OPTIONS: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
# The defaults of EC2, which applied where the options were given in part; else Karpenter's did.
_WITH_SOME_OPTIONS: Final = {
    **_WITHOUT_OPTIONS,
    "httpPutResponseHopLimit": 1,
    "httpTokens": "optional",
}
_V1_VOLUME_SIZE: Final = re.compile(
    r"([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-5][0-7]|58)Ti"
    r"|([1-9]|[1-5][0-9]|6[0-4])T"
)
_SMALLEST_VOLUME, _LARGEST_VOLUME = 10**9, 64 * 10**12  # 1G and 64T, in bytes
_MOST_GI: Final = 59000
_LAUNCH_TEMPLATE: Final = (
    "launchTemplate has no counterpart in v1; describe the same machine with "
    "securityGroupSelectorTerms, amiFamily and amiSelectorTerms, userData, blockDeviceMappings, "
    "metadataOptions, tags and role or instanceProfile"
)


@dataclass(frozen=True, slots=True)
class NodeDefaults:
    """Defaults for a manifest without them: role or instance profile, and AMI family."""

    role: str | None = None
    instance_profile: str | None = None
    ami_family: str = "AL2"


def node_class_of_template(template: Mapping[str, Any], defaults: NodeDefaults) -> Draft:
    """Convert an AWSNodeTemplate to the EC2NodeClass of the same name."""
    return _node_class(
        kept_metadata(template), section(template, "spec"), path=("spec",), defaults=defaults
    )


def node_class_of_provider(
    provider: Mapping[str, Any], name: object, path: Path, defaults: NodeDefaults
) -> Draft:
    """Convert the inline provider found at ``path`` to an EC2NodeClass called ``name``."""
    metadata = {} if name is None else {"name": name}
    return _node_class(metadata, provider, path=path, defaults=defaults)


@dataclass(slots=True)
class _Build:
    """A class under construction; findings are in paths of the input."""

    fields: Mapping[str, Any]
    path: Path
    spec: JsonObject = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldWarning] = field(default_factory=list)

    def put_terms(self, target: str, source: str, terms: Terms) -> None:
        self.origins["spec", target] = Origin((*self.path, source), reshaped=True)
        if terms.terms:
            self.spec[target] = terms.terms
        self.errors.extend(terms.errors)
        self.warnings.extend(terms.warnings)


def _node_class(
    metadata: JsonObject, fields: Mapping[str, Any], *, path: Path, defaults: NodeDefaults
) -> Draft:
    fields = present(fields)
    if fields.get("launchTemplate"):
        error = FieldError(ErrorKind.FORBIDDEN, (*path, "launchTemplate"), _LAUNCH_TEMPLATE)
        return Draft(None, errors=[error])
    build = _Build(fields, path)
    build.origins["spec",] = Origin(path)
    _put_selectors(build)
    _put_images(build, defaults.ami_family)
    _put_identity(build, defaults)
    build.spec.update({key: fields[key] for key in _SAME if key in fields})
    _put_devices(build)
    options = _WITH_SOME_OPTIONS if "metadataOptions" in fields else _WITHOUT_OPTIONS
    build.spec["metadataOptions"] = {**options, **present(section(fields, "metadataOptions"))}
    shaped = {
        "apiVersion": AWS_V1,
        "kind": NODE_CLASS_KIND,
        "metadata": metadata,
        "spec": build.spec,
    }
    node_class = node_class_up(shaped)
    for warning in image_warnings(node_class):
        build.warnings.append(FieldWarning((*path, *warning.path[1:]), warning.message))
    return Draft(node_class, Origins(build.origins), build.errors, build.warnings)


def _put_selectors(build: _Build) -> None:
    for source, target in (
        ("subnetSelector", "subnetSelectorTerms"),
        ("securityGroupSelector", "securityGroupSelectorTerms"),
    ):
        terms = resource_terms(section(build.fields, source), (*build.path, source))
        build.put_terms(target, source, terms)


def _put_images(build: _Build, default: str) -> None:
    family = build.fields.get("amiFamily") or default
    if family not in _FAMILIES:
        build.errors.append(
            FieldError(
                ErrorKind.NOT_SUPPORTED,
                (*build.path, "amiFamily"),
                f"must be one of {', '.join(_FAMILIES)}",
                family,
            )
        )
        family = "AL2"
    build.spec["amiFamily"] = family
    selector = section(build.fields, "amiSelector")
    build.origins["spec", "amiSelectorTerms"] = Origin((*build.path, "amiFamily"), reshaped=True)
    if selector:
        terms = image_terms(selector, (*build.path, "amiSelector"))
        build.put_terms("amiSelectorTerms", "amiSelector", terms)


def _put_identity(build: _Build, defaults: NodeDefaults) -> None:
    profile = build.fields.get("instanceProfile") or defaults.instance_profile
    if profile:
        build.spec["instanceProfile"] = profile
    elif defaults.role:
        build.spec["role"] = defaults.role
    else:
        build.spec["role"] = ROLE_PLACEHOLDER
        build.warnings.append(
            FieldWarning(
                (*build.path, "instanceProfile"),
                f"no instance profile is named, so role is the placeholder {ROLE_PLACEHOLDER}; "
                "replace it, or pass --node-role or --instance-profile",
            )
        )


def _put_devices(build: _Build) -> None:
    if "blockDeviceMappings" not in build.fields:
        return
    path = (*build.path, "blockDeviceMappings")
    devices = items(build.fields, "blockDeviceMappings")
    build.spec["blockDeviceMappings"] = [
        _device(build, device, (*path, index)) for index, device in enumerate(devices)
    ]


def _device(build: _Build, device: Any, path: Path) -> Any:
    size = section(device, "ebs").get("volumeSize")
    if size is None or (isinstance(size, str) and _V1_VOLUME_SIZE.fullmatch(size)):
        return device
    amount = units(size) if is_quantity(size) else 0
    if not _SMALLEST_VOLUME <= amount <= _LARGEST_VOLUME:
        build.errors.append(
            FieldError(
                ErrorKind.INVALID,
                (*path, "ebs", "volumeSize"),
                "must be a quantity from 1G to 64T",
                size,
            )
        )
        amount = _SMALLEST_VOLUME
    return {**device, "ebs": {**device["ebs"], "volumeSize": _whole_size(amount)}}


def _whole_size(amount: int) -> str:
    """Round up to whole Gi, or to whole G beyond the largest Gi that v1 accepts."""
    in_gi = -(-amount // 2**30)
    return f"{in_gi}Gi" if in_gi <= _MOST_GI else f"{-(-amount // 10**9)}G"
