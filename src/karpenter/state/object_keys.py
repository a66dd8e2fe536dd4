"""Keys of objects: namespace, key within a kind, identity and uid."""

from functools import cache
from typing import Final, TypeAlias

from karpenter.api.meta import Resource, group_of, kind_of

DEFAULT_NAMESPACE: Final = "default"

Identity: TypeAlias = tuple[str, str, str]  # group, kind and key


def namespace_of(resource: Resource) -> str:
    """The namespace of an object; meaningless for a cluster-scoped kind."""
    return resource.metadata.namespace or DEFAULT_NAMESPACE


def key_of(resource: Resource) -> str:
    """The key of an object within its kind: ``namespace/name``, or its name alone."""
    metadata = resource.metadata
    if not resource.namespaced:
        return metadata.name
    return f"{metadata.namespace or DEFAULT_NAMESPACE}/{metadata.name}"


def identity_of(resource: Resource) -> Identity:
    """What identifies an object at one time: group, kind and key."""
    return (*_home_of(type(resource)), key_of(resource))


@cache
def _home_of(kind: type[Resource]) -> tuple[str, str]:
    return group_of(kind), kind_of(kind)


def uid_of(resource: Resource) -> str:
    """The object's uid; for one that no API server has stored, a unique text in its place."""
    return resource.metadata.uid or f"{resource.kind.lower()}/{key_of(resource)}"


def may_be_same(one: Resource, other: Resource) -> bool:
    """Whether two objects of one name may be the same: their uids do not differ."""
    left, right = one.metadata.uid, other.metadata.uid
    return not (left and right) or left == right
