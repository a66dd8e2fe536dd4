"""What a request is about, read from its path and method: a resource, a namespace, an object, a part of it."""

from dataclasses import dataclass
from typing import Final

from karpenter_sandbox.kinds.registry import Resource

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
# Below a namespace, these are parts of the namespace itself rather than resources in it
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """The place a request names; empty strings where it names none."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A path to a resource; empty strings where it names nothing."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows a subresource such as proxy
    is_watch: bool = False

    def verb(self, method: str, *, is_watch: bool = False) -> str | None:
        """What a method means here; None for methods that mean nothing."""
        if method == "GET":
            if self.name:
                return "get"
            return "watch" if is_watch else "list"
        if method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return _VERBS.get(method)


def parse_path(parts: list[str]) -> ResourcePath | None:
    """Read the parts of a path below ``/``; None when it cannot lead to a resource."""
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    is_watch = rest[0] == "watch"
    if is_watch:
        rest = rest[1:]
    if not rest or not all(rest) or any("/" in part for part in rest):
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            rest = rest[2:]
    name, subresource = [*rest[1:3], "", ""][:2]
    if rest[0] == "namespaces":
        namespace = ""
    tail = "/".join(rest[3:])
    return ResourcePath(group, version, rest[0], namespace, name, subresource, tail, is_watch)
