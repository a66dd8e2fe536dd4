"""Names in the cluster: where an object lives, and what an object is known by."""

from typing import Final

from karpenter.api.meta import Resource

DEFAULT_NAMESPACE: Final = "default"


def namespace_of(resource: Resource) -> str:
    """The namespace an object lives in; meaningless for a kind that lives in none."""
    return resource.metadata.namespace or DEFAULT_NAMESPACE


def key_of(resource: Resource) -> str:
    """What an object is known by within its kind: ``namespace/name``, or its name alone."""
    name = resource.metadata.name
    return f"{namespace_of(resource)}/{name}" if resource.namespaced else name


def identity_of(resource: Resource) -> tuple[str, str, str]:
    """What identifies an object at one time: group, kind and key."""
    group = resource.api_version.rpartition("/")[0]
    return (group, resource.kind, key_of(resource))


def uid_of(resource: Resource) -> str:
    """The object's uid; for one that no API server has seen, a text that serves as well."""
    return resource.metadata.uid or f"{resource.kind.lower()}/{key_of(resource)}"


def may_be_same(one: Resource, other: Resource) -> bool:
    """Whether two objects of one name may be the same, and not an object and its successor."""
    left, right = one.metadata.uid, other.metadata.uid
    return not (left and right) or left == right
