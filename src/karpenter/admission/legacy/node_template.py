"""The legacy webhook's rules for an AWSNodeTemplate, and for a Provisioner's inline provider.

Both hold the same AWS fields; the inline form lacks three of them and is decoded strictly, since
its CRD has no schema for it. Whether images, subnets or groups exist is not checked here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.admission.shapes import (
    Fields,
    ListOf,
    MapOf,
    Scalar,
    bound_errors,
    is_integer,
    shape_errors,
)
from karpenter.model.quantity import is_quantity, parse

AMI_FAMILIES = ("AL2", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom")
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
ID_KEYS = ("aws-ids", "aws::ids")  # selector keys that hold resource ids instead of a tag value

_REFUSED_TAGS = ("karpenter.sh/provisioner-name", "karpenter.sh/managed-by")
_CLUSTER_TAG_PREFIX = "kubernetes.io/cluster/"
_SMALLEST_VOLUME, _LARGEST_VOLUME = 10**9, 64 * 10**12  # 1G and 64T, in bytes
_HOP_LIMITS = (1, 64)
_METADATA_CHOICES = {
    "httpEndpoint": ("enabled", "disabled"),
    "httpProtocolIPv6": ("enabled", "disabled"),
    "httpTokens": ("required", "optional"),
}
_REPLACED_BY_LAUNCH_TEMPLATE = (
    "securityGroupSelector",
    "metadataOptions",
    "amiFamily",
    "instanceProfile",
    "blockDeviceMappings",
    "userData",
    "amiSelector",
)
_TEMPLATE_ONLY = ("userData", "amiSelector", "detailedMonitoring")

_INLINE_PROVIDER = Fields(
    {
        "apiVersion": Scalar.STRING,
        "kind": Scalar.STRING,
        "amiFamily": Scalar.STRING,
        "context": Scalar.STRING,
        "instanceProfile": Scalar.STRING,
        "launchTemplate": Scalar.STRING,
        "subnetSelector": MapOf(Scalar.STRING),
        "securityGroupSelector": MapOf(Scalar.STRING),
        "tags": MapOf(Scalar.STRING),
        "metadataOptions": Fields(
            {
                **dict.fromkeys(_METADATA_CHOICES, Scalar.STRING),
                "httpPutResponseHopLimit": Scalar.INT64,
            }
        ),
        "blockDeviceMappings": ListOf(
            Fields(
                {
                    "deviceName": Scalar.STRING,
                    "ebs": Fields(
                        {
                            "deleteOnTermination": Scalar.BOOL,
                            "encrypted": Scalar.BOOL,
                            "iops": Scalar.INT64,
                            "kmsKeyID": Scalar.STRING,
                            "snapshotID": Scalar.STRING,
                            "throughput": Scalar.INT64,
                            "volumeSize": Scalar.QUANTITY,
                            "volumeType": Scalar.STRING,
                        }
                    ),
                }
            )
        ),
    }
)


@dataclass(frozen=True, slots=True)
class _Selector:
    field: str
    id_prefix: str


_SUBNETS = _Selector("subnetSelector", "subnet-")
_SECURITY_GROUPS = _Selector("securityGroupSelector", "sg-")
_IMAGES = _Selector("amiSelector", "ami-")


def template_errors(spec: Mapping[str, Any], path: Path) -> list[FieldError]:
    """Check the spec of an AWSNodeTemplate."""
    return [
        *_aws_errors(spec, path),
        *_image_errors(spec, path),
    ]


def inline_provider_errors(provider: Mapping[str, Any], path: Path) -> list[FieldError]:
    """Check a Provisioner's inline AWS provider: its exact fields first, then the same rules."""
    misplaced = [field for field in _TEMPLATE_ONLY if field in provider]
    rest = {key: part for key, part in provider.items() if key not in misplaced}
    errors = [
        FieldError(
            ErrorKind.FORBIDDEN,
            (*path, field),
            "cannot be set inline; move the provider into an AWSNodeTemplate and use providerRef",
        )
        for field in misplaced
    ]
    errors.extend(shape_errors(rest, _INLINE_PROVIDER, path))
    broken = {error.path for error in errors}
    errors.extend(error for error in _aws_errors(rest, path) if error.path not in broken)
    if rest.get("amiFamily") == "Custom":
        errors.append(
            FieldError(
                ErrorKind.INVALID,
                (*path, "amiFamily"),
                "needs an amiSelector, which only an AWSNodeTemplate can hold; use providerRef",
                "Custom",
            )
        )
    return errors


def _aws_errors(spec: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    yield from _selector_errors(spec, _SUBNETS, path)
    if spec.get("launchTemplate") is None:
        yield from _selector_errors(spec, _SECURITY_GROUPS, path)
    else:
        yield from _launch_template_errors(spec, path)
    family = spec.get("amiFamily")
    if isinstance(family, str) and family not in AMI_FAMILIES:
        yield _not_one_of((*path, "amiFamily"), AMI_FAMILIES, family)
    yield from _tag_errors(spec, (*path, "tags"))
    yield from _metadata_errors(spec, (*path, "metadataOptions"))
    yield from _device_errors(spec, (*path, "blockDeviceMappings"))


def _selector_errors(
    spec: Mapping[str, Any], selector: _Selector, path: Path
) -> Iterator[FieldError]:
    place = (*path, selector.field)
    terms = spec.get(selector.field)
    if not terms:
        yield FieldError(
            ErrorKind.REQUIRED, place, f"{selector.field} must name at least one tag or id"
        )
    elif isinstance(terms, Mapping):
        yield from _term_errors(terms, selector, place)


def _image_errors(spec: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    if not spec.get(_IMAGES.field):
        if spec.get("amiFamily") == "Custom":
            yield FieldError(
                ErrorKind.REQUIRED,
                (*path, _IMAGES.field),
                "amiFamily Custom has no images of its own, so amiSelector must name them",
            )
    elif spec.get("launchTemplate") is None:
        yield from _selector_errors(spec, _IMAGES, path)


def _term_errors(terms: Mapping[str, Any], selector: _Selector, path: Path) -> Iterator[FieldError]:
    for key, value in terms.items():
        if key == "" or value == "":
            yield FieldError(
                ErrorKind.INVALID, (*path, str(key)), "neither key nor value may be empty", value
            )
        elif key in ID_KEYS and isinstance(value, str):
            yield from _id_errors(value, selector, (*path, key))
    used = [key for key in ID_KEYS if key in terms]
    if used and len(terms) > 1:
        yield FieldError(
            ErrorKind.FORBIDDEN,
            (*path, used[0]),
            "ids cannot be combined with other keys; keep only the ids or only the tags",
        )


def _id_errors(value: str, selector: _Selector, path: Path) -> Iterator[FieldError]:
    pattern = re.compile(rf"{selector.id_prefix}[0-9a-z]+")
    for item in value.split(","):
        if not pattern.fullmatch(item.strip()):
            yield FieldError(
                ErrorKind.INVALID,
                path,
                f"must be a comma-separated list of ids such as {selector.id_prefix}0123456789",
                value,
            )
            return


def _launch_template_errors(spec: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    for field in _REPLACED_BY_LAUNCH_TEMPLATE:
        if spec.get(field) is not None:
            yield FieldError(
                ErrorKind.FORBIDDEN,
                (*path, field),
                "cannot be set together with launchTemplate; remove one of the two",
            )


def _tag_errors(spec: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    tags = spec.get("tags")
    if not isinstance(tags, Mapping):
        return
    for key in map(str, tags):
        if not key:
            yield FieldError(ErrorKind.INVALID, path, "a tag must have a key", key)
        elif key in _REFUSED_TAGS or key.startswith(_CLUSTER_TAG_PREFIX):
            yield FieldError(
                ErrorKind.FORBIDDEN, (*path, key), "is written by Karpenter itself; remove it"
            )


def _metadata_errors(spec: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    options = spec.get("metadataOptions")
    if not isinstance(options, Mapping):
        return
    for field, choices in _METADATA_CHOICES.items():
        choice = options.get(field)
        if isinstance(choice, str) and choice not in choices:
            yield _not_one_of((*path, field), choices, choice)
    field = "httpPutResponseHopLimit"
    yield from bound_errors(options.get(field), _HOP_LIMITS, (*path, field))


def _device_errors(spec: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    devices = spec.get("blockDeviceMappings")
    if not isinstance(devices, list):
        return
    for index, device in enumerate(devices):
        if not isinstance(device, Mapping):
            continue
        place = (*path, index)
        if not device.get("deviceName"):
            yield FieldError(
                ErrorKind.REQUIRED, (*place, "deviceName"), "name the device, such as /dev/xvda"
            )
        volume = device.get("ebs")
        if volume is None:
            yield FieldError(ErrorKind.REQUIRED, (*place, "ebs"), "describe the volume")
        elif isinstance(volume, Mapping):
            yield from _volume_errors(volume, (*place, "ebs"))


def _volume_errors(volume: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    size = volume.get("volumeSize")
    if size is None and not volume.get("snapshotID"):
        yield FieldError(ErrorKind.REQUIRED, (*path, "volumeSize"), "set volumeSize or snapshotID")
    if size is not None and not _is_volume_size(size):
        yield FieldError(
            ErrorKind.INVALID, (*path, "volumeSize"), "must be a quantity from 1G to 64T", size
        )
    kind = volume.get("volumeType")
    if isinstance(kind, str) and kind not in VOLUME_TYPES:
        yield _not_one_of((*path, "volumeType"), VOLUME_TYPES, kind)


def _is_volume_size(size: object) -> bool:
    if not (isinstance(size, str) or is_integer(size)) or not is_quantity(size):
        return False
    return _SMALLEST_VOLUME <= parse(size) <= _LARGEST_VOLUME


def _not_one_of(path: Path, choices: tuple[str, ...], value: str) -> FieldError:
    return FieldError(ErrorKind.NOT_SUPPORTED, path, f"must be one of {', '.join(choices)}", value)
