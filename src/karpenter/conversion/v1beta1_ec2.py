"""EC2NodeClass between v1beta1 and v1: images by alias, Ubuntu, instance metadata.

The functions do not change ``apiVersion``, so that the conversion of older kinds can use them too.
"""

from collections.abc import Mapping
from typing import Any, Final

from karpenter.admission.errors import FieldWarning
from karpenter.api.meta import JsonObject
from karpenter.api.node_classes import ec2_labels
from karpenter.conversion.draft import Origin, Origins
from karpenter.conversion.values import (
    edited,
    items,
    less,
    present,
    section,
    with_annotations,
    without,
)

LATEST: Final = "latest"
ALIASED_FAMILIES: Final = (
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Windows2019",
    "Windows2022",
    "Windows2025",
)
PLACEHOLDER_AMI: Final = "ami-placeholder"

_TERMS: Final = "amiSelectorTerms"
_FAMILY_OF: Final = {family.lower(): family for family in ALIASED_FAMILIES}
_METADATA_DEFAULTS: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
_NEW_IN_V1: Final = (
    "capacityReservationSelectorTerms",
    "connectionTracking",
    "cpuOptions",
    "ipPrefixCount",
    "kubelet",
    "networkInterfaces",
    "placementGroupSelector",
)
# Values of the Ubuntu annotation: the changes that express the family in v1
_FAMILY, _DEVICES, _INCOMPATIBLE = "amiFamily", "blockDeviceMappings", "incompatible"


def node_class_up(node_class: Mapping[str, Any]) -> JsonObject:
    """Convert an EC2NodeClass to v1."""
    if not isinstance(node_class.get("spec"), Mapping):
        return dict(node_class)
    spec = dict(section(node_class, "spec"))
    spec["metadataOptions"] = {**_METADATA_DEFAULTS, **present(section(spec, "metadataOptions"))}
    family = spec.get("amiFamily")
    has_terms = bool(items(spec, _TERMS))
    changes: dict[str, str | None] = {}
    if family == "Ubuntu":
        spec, changes[ec2_labels.KEPT_UBUNTU] = _ubuntu_up(spec)
    elif family in ALIASED_FAMILIES and not has_terms:
        annotations = section(node_class, "metadata", "annotations")
        version = annotations.get(ec2_labels.KEPT_ALIAS_VERSION) or LATEST
        changes[ec2_labels.KEPT_ALIAS_VERSION] = None
        alias = f"{str(family).lower()}@{version}"
        spec = {_TERMS: [{"alias": alias}], **without(spec, "amiFamily", _TERMS)}
    return {**with_annotations(node_class, changes), "spec": spec}


def node_class_down(node_class: Mapping[str, Any]) -> JsonObject:
    """Convert an EC2NodeClass to v1beta1."""
    if not isinstance(node_class.get("spec"), Mapping):
        return dict(node_class)
    spec = without(section(node_class, "spec"), *_NEW_IN_V1)
    changes: dict[str, str | None] = {ec2_labels.KEPT_UBUNTU: None}
    done = section(node_class, "metadata", "annotations").get(ec2_labels.KEPT_UBUNTU)
    if isinstance(done, str):
        spec = _ubuntu_down(spec, done.split(","))
    family, version = _alias_of(spec)
    if family is not None:
        spec = {"amiFamily": family, **without(spec, "amiFamily", _TERMS)}
        changes[ec2_labels.KEPT_ALIAS_VERSION] = version if version != LATEST else None
    spec = edited(spec, (_TERMS,), _terms_down)
    spec = edited(spec, ("blockDeviceMappings",), _devices_down)
    result = {**with_annotations(node_class, changes), "spec": spec}
    return dict(less(result, ("status",), "capacityReservations"))


def node_class_origins(node_class: Mapping[str, Any]) -> Origins:
    """The origins of the parts of ``node_class_up(node_class)``."""
    if items(node_class, "spec", _TERMS):
        return Origins()
    return Origins({("spec", _TERMS): Origin(("spec", "amiFamily"), reshaped=True)})


def image_warnings(node_class: Mapping[str, Any]) -> list[FieldWarning]:
    """Warnings about the images of a converted (v1) class."""
    alias = next((term.get("alias") for term in items(node_class, "spec", _TERMS)), None)
    found = []
    if isinstance(alias, str) and alias.startswith("al2@"):
        found.append(
            "al2 images end with Kubernetes 1.32: later clusters refuse the alias as "
            "UnsupportedAlias, so move to al2023 before upgrading"
        )
    ubuntu = section(node_class, "metadata", "annotations").get(ec2_labels.KEPT_UBUNTU)
    if isinstance(ubuntu, str):
        found.append("Ubuntu is no family of v1: the class is written as AL2 and marked as Ubuntu")
        if _INCOMPATIBLE in ubuntu.split(","):
            found.append("no node is launched with this class until its terms name an Ubuntu image")
    return [FieldWarning(("spec", "amiFamily"), message) for message in found]


def _ubuntu_up(spec: Mapping[str, Any]) -> tuple[JsonObject, str]:
    result = {**spec, "amiFamily": "AL2"}
    done = [_FAMILY]
    if spec.get("blockDeviceMappings") is None:
        result["blockDeviceMappings"] = [_ubuntu_root()]
        done.append(_DEVICES)
    if not items(spec, _TERMS):
        result[_TERMS] = [{"id": PLACEHOLDER_AMI}]
        done.append(_INCOMPATIBLE)
    return result, ",".join(done)


def _ubuntu_down(spec: Mapping[str, Any], done: list[str]) -> JsonObject:
    """Undo the conversion where its result is unchanged; later changes of the user are kept."""
    result = dict(spec)
    if _FAMILY in done and spec.get("amiFamily") == "AL2":
        result["amiFamily"] = "Ubuntu"
    if _DEVICES in done and spec.get("blockDeviceMappings") == [_ubuntu_root()]:
        del result["blockDeviceMappings"]
    if _INCOMPATIBLE in done and spec.get(_TERMS) == [{"id": PLACEHOLDER_AMI}]:
        del result[_TERMS]
    return result


def _ubuntu_root() -> JsonObject:
    return {
        "deviceName": "/dev/sda1",
        "rootVolume": True,
        "ebs": {"encrypted": True, "volumeSize": "20Gi", "volumeType": "gp3"},
    }


def _alias_of(spec: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the v1beta1 family and the version of the alias, if a term has one."""
    for term in items(spec, _TERMS):
        alias = term.get("alias") if isinstance(term, Mapping) else None
        if isinstance(alias, str):
            family, _, version = alias.partition("@")
            explicit = spec.get("amiFamily")
            return (explicit or _FAMILY_OF.get(family, family)), version
    return None, LATEST


def _terms_down(terms: Any) -> Any:
    if not isinstance(terms, list):
        return terms
    known = (without(t, "ssmParameter") if isinstance(t, Mapping) else t for t in terms)
    return [term for term in known if term]


def _devices_down(devices: Any) -> Any:
    if not isinstance(devices, list):
        return devices
    return [less(device, ("ebs",), "volumeInitializationRate") for device in devices]
