"""The resources that are served, version by version: Kubernetes' own and those of CRDs.

Facts about Kubernetes' own come from ``schemas/resources.json``, with the release they belong to.
"""

import base64
import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources as package_resources
from typing import Any, Final

import msgspec

_CUSTOM_VERBS: Final = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)
_PART_VERBS: Final = ("get", "patch", "update")
# What a real server keeps in another group or version than the one that is asked for
_KEPT_AS: Final = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": (
        "apiextensions.k8s.io/v1beta1/CustomResourceDefinition"
    ),
    "autoscaling/v1/HorizontalPodAutoscaler": "autoscaling/v2/HorizontalPodAutoscaler",
    "events.k8s.io/v1/Event": "/v1/Event",
    "storage.k8s.io/v1/VolumeAttributesClass": "storage.k8s.io/v1beta1/VolumeAttributesClass",
}
_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of a resource with a path of its own; without a group its kind is its parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One version of a resource."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    storage_version: str = ""  # only where it differs

    @property
    def api_version(self) -> str:
        """Group and version as they stand in a manifest."""
        return group_version(self.group, self.version)

    @property
    def storage_version_hash(self) -> str:
        """A hash that changes with the stored version of a resource; empty if it is not stored."""
        if "watch" not in self.verbs:
            return ""
        name = f"{self.group}/{self.storage_version or self.version}/{self.kind}"
        digest = hashlib.sha256(_KEPT_AS.get(name, name).encode()).digest()
        return base64.b64encode(digest[:_HASH_BYTES]).decode()


class _Facts(msgspec.Struct):
    version: str
    resources: tuple[ServedResource, ...]


@functools.cache
def _facts() -> _Facts:
    file = package_resources.files("karpenter_sandbox.kinds.schemas") / "resources.json"
    return msgspec.json.decode(file.read_bytes(), type=_Facts)


def builtin_resources() -> tuple[ServedResource, ...]:
    """Every stable resource of Kubernetes itself."""
    return _facts().resources


def crd_resources(crd: Mapping[str, Any]) -> tuple[ServedResource, ...]:
    """The resources a valid CRD adds, one for each version that is served."""
    spec = crd["spec"]
    names = spec["names"]
    stored = next((each["name"] for each in spec["versions"] if each.get("storage")), "")
    return tuple(
        ServedResource(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            namespaced=spec.get("scope") == "Namespaced",
            verbs=_CUSTOM_VERBS,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=tuple(_custom_parts(names["kind"], version.get("subresources") or {})),
            storage_version=stored,
        )
        for version in spec["versions"]
        if version.get("served")
    )


def _custom_parts(kind: str, declared: Mapping[str, Any]) -> Iterator[Subresource]:
    if declared.get("status") is not None:
        yield Subresource("status", kind, _PART_VERBS)
    if declared.get("scale") is not None:
        yield Subresource("scale", "Scale", _PART_VERBS, group="autoscaling", version="v1")


def version_info() -> dict[str, str]:
    """The document at ``/version``: the Kubernetes release whose API is served."""
    release = _facts().version
    major, minor, _ = release.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"{release}+sandbox",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "python/any",
    }


def group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version
