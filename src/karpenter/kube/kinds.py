"""Where each kind of object is found on an API server."""

from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

from karpenter.api.meta import Resource, kind_of


@dataclass(frozen=True, slots=True)
class KubeResource:
    """A kind as it stands in a URL."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of all of them when there is no name."""
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


@cache
def resource_of(kind: type[Resource]) -> KubeResource:
    """Where objects of this kind are found."""
    return KubeResource(kind.api_version, _plural(kind_of(kind)), kind.namespaced)


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith(("s", "x")):
        return f"{lower}es"
    if lower.endswith("y") and lower[-2] not in "aeiou":
        return f"{lower[:-1]}ies"
    return f"{lower}s"
