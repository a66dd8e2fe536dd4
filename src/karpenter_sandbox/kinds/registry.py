"""The resources a cluster serves: Kubernetes' own, and those of CRDs while they are there.

A resource is served in one or more versions and stored in one of them. The registry finds a
resource by its place in a path or by its kind, and numbers its changes so that documents built
from it (discovery, OpenAPI) can be kept until the next one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from karpenter.admission.schemas.engine import CompiledVersion
from karpenter_sandbox.kinds.schema import Schema
from karpenter_sandbox.kinds.served import ServedResource, Subresource, builtin_resources
from karpenter_sandbox.status import qualified

# Kinds that two API versions show in different shapes, and the version they are stored in
_STORED_IN: Final = {
    ("autoscaling", "horizontalpodautoscalers"): ("autoscaling", "v2"),
    ("events.k8s.io", "events"): ("", "v1"),
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of a resource, as it is asked for and as it is stored."""

    served: ServedResource
    storage_group: str
    storage_version: str
    custom: CompiledVersion | None = None
    schema: Schema | None = None  # of a CRD's version; Kubernetes' own are looked up
    selectable_fields: tuple[str, ...] = ()  # what a CRD lets lists be narrowed by

    @property
    def group(self) -> str:
        return self.served.group

    @property
    def version(self) -> str:
        return self.served.version

    @property
    def kind(self) -> str:
        return self.served.kind

    @property
    def plural(self) -> str:
        return self.served.plural

    @property
    def namespaced(self) -> bool:
        return self.served.namespaced

    @property
    def api_version(self) -> str:
        """Group and version as they stand in an object."""
        return _api_version(self.group, self.version)

    @property
    def storage_api_version(self) -> str:
        """Group and version as they stand in a stored object."""
        return _api_version(self.storage_group, self.storage_version)

    @property
    def list_kind(self) -> str:
        """The kind of a list of these."""
        return self.custom.names.list_kind if self.custom else f"{self.kind}List"

    @property
    def qualified(self) -> str:
        """The resource as messages name it, such as ``deployments.apps``."""
        return qualified(self.group, self.plural)

    def subresource(self, name: str) -> Subresource | None:
        """The subresource called ``name``, if there is one."""
        return next((part for part in self.served.subresources if part.name == name), None)

    @property
    def has_status(self) -> bool:
        """Whether status is written on its own."""
        return self.subresource("status") is not None


class Registry:
    """What is served now."""

    def __init__(self, builtin: Iterable[ServedResource] | None = None) -> None:
        resources = builtin_resources() if builtin is None else builtin
        self.revision = 0
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._custom: dict[str, tuple[Resource, ...]] = {}  # name of the CRD -> its versions
        self._crds: dict[str, dict[str, Any]] = {}
        for served in resources:
            group, version = _STORED_IN.get(
                (served.group, served.plural), (served.group, served.version)
            )
            self._insert(Resource(served, group, version))

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at ``/apis/<group>/<version>/<plural>``."""
        return self._by_path.get((group, version, plural))

    def named(self, api_version: str, name: str) -> Resource | None:
        """The resource of an API version, by its kind or its plural."""
        group, _, version = api_version.rpartition("/")
        return self._by_kind.get((api_version, name)) or self.find(group, version, name)

    def stored(self, group: str, plural: str) -> Resource | None:
        """A resource in the version it is stored in."""
        for resource in self._by_path.values():
            if (resource.group, resource.plural) == (group, plural) and (
                resource.version == resource.storage_version
            ):
                return resource
        return None

    def serves(self, group: str, version: str) -> bool:
        """Whether anything is served in a group and version."""
        return any(key[:2] == (group, version) for key in self._by_path)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())

    def served(self) -> tuple[ServedResource, ...]:
        """Every resource, for discovery."""
        return tuple(resource.served for resource in self._by_path.values())

    def crds(self) -> tuple[dict[str, Any], ...]:
        """The CRDs whose kinds are served."""
        return tuple(self._crds.values())

    def add_custom(self, crd: dict[str, Any], resources: Iterable[Resource]) -> None:
        """Serve the versions of a CRD, instead of those it had before."""
        name = crd["metadata"]["name"]
        self.remove_custom(name)
        self._custom[name] = tuple(resources)
        self._crds[name] = crd
        for resource in self._custom[name]:
            self._insert(resource)
        self.revision += 1

    def remove_custom(self, name: str) -> None:
        """Stop serving a CRD."""
        self._crds.pop(name, None)
        for resource in self._custom.pop(name, ()):
            del self._by_path[resource.group, resource.version, resource.plural]
            del self._by_kind[resource.api_version, resource.kind]
            self.revision += 1

    def _insert(self, resource: Resource) -> None:
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version
