"""Discovery documents: the served resources, per version or aggregated.

Everything is computed from a list of ``ServedResource``, one per resource and version, in the
order in which groups are listed. Kubernetes' own come from ``builtin_resources``, those of a CRD
from ``crd_resources``. Within a group, versions are ordered as clients prefer them: stable ones
first, then the younger.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.kinds.served import ServedResource, builtin_resources, group_version

AGGREGATED_CONTENT_TYPE: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)
_AGGREGATED: Final = {
    "g": "apidiscovery.k8s.io",
    "v": "v2",
    "as": "APIGroupDiscoveryList",
}
_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY: Final = {None: 2, "beta": 1, "alpha": 0}


def wants_aggregated(accept: str) -> bool:
    """Whether an ``Accept`` header asks for all groups in one document before anything else."""
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        asked = dict(parameter.partition("=")[::2] for parameter in parameters)
        return all(asked.get(key) == value for key, value in _AGGREGATED.items())
    return False


def api_versions(server_address: str) -> JsonObject:
    """The document at ``/api``: versions of the group without a name."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
        ],
    }


def api_groups(resources: Iterable[ServedResource]) -> JsonObject:
    """The document at ``/apis``: every group with a name."""
    groups = [_group(name, versions) for name, versions in _versions(resources).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(resources: Iterable[ServedResource], group: str) -> JsonObject | None:
    """The document at ``/apis/<group>``, or None when nothing of the group is served."""
    versions = _versions(resources).get(group)
    if versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


def api_resources(
    resources: Iterable[ServedResource], group: str, version: str
) -> JsonObject | None:
    """The document of one version: its resources, each followed by its subresources."""
    found = _of(resources, group, version)
    if not found:
        return None
    # the core group's document has no apiVersion: it is older than that field
    envelope = {"apiVersion": "v1"} if group else {}
    return {
        "kind": "APIResourceList",
        **envelope,
        "groupVersion": group_version(group, version),
        "resources": [entry for resource in found for entry in _entries(resource)],
    }


def aggregated_discovery(resources: Iterable[ServedResource], *, legacy: bool) -> JsonObject:
    """Everything at once: the group without a name (``legacy``), or all those with one."""
    known = list(resources)
    groups = []
    for name, versions in _versions(known).items():
        if legacy != (name == ""):
            continue
        documents = [
            {
                "version": version,
                "resources": [_aggregated_entry(r) for r in _of(known, name, version)],
                "freshness": "Current",
            }
            for version in versions
        ]
        metadata = {"name": name} if name else {}
        groups.append({"metadata": metadata, "versions": documents})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups,
    }


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts the version clients should prefer last: stable, then high numbers."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0, version)
    major, stability, minor = found.groups()
    return (_STABILITY[stability], int(major), int(minor or 0), "")


def _versions(resources: Iterable[ServedResource]) -> dict[str, list[str]]:
    """Versions by group, best first; groups in the order they appear."""
    found: dict[str, list[str]] = {}
    for resource in resources:
        versions = found.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    for versions in found.values():
        versions.sort(key=version_rank, reverse=True)
    return found


def _of(resources: Iterable[ServedResource], group: str, version: str) -> list[ServedResource]:
    found = (r for r in resources if (r.group, r.version) == (group, version))
    return sorted(found, key=lambda resource: resource.plural)


def _group(name: str, versions: list[str]) -> JsonObject:
    entries = [{"groupVersion": group_version(name, v), "version": v} for v in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _entries(resource: ServedResource) -> Iterator[JsonObject]:
    yield _without_empty(
        {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.short_names),
            "categories": list(resource.categories),
            "storageVersionHash": resource.storage_version_hash,
        }
    )
    for part in resource.subresources:
        yield _without_empty(
            {
                "name": f"{resource.plural}/{part.name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "group": part.group,
                "version": part.version,
                "kind": part.kind,
                "verbs": list(part.verbs),
            }
        )


def _aggregated_entry(resource: ServedResource) -> JsonObject:
    # built-in kinds omit group and version where they are those of the document
    home = ("", "") if _is_builtin(resource) else (resource.group, resource.version)
    return _without_empty(
        {
            "resource": resource.plural,
            "responseKind": _response_kind(home, resource.kind),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.short_names),
            "categories": list(resource.categories),
            "subresources": [
                {
                    "subresource": part.name,
                    "responseKind": _response_kind(
                        (part.group, part.version) if part.version else home, part.kind
                    ),
                    "verbs": list(part.verbs),
                }
                for part in resource.subresources
            ],
        }
    )


def _response_kind(home: tuple[str, str], kind: str) -> dict[str, str]:
    return {"group": home[0], "version": home[1], "kind": kind}


def _is_builtin(resource: ServedResource) -> bool:
    return resource in _builtin_set()


@functools.cache
def _builtin_set() -> frozenset[ServedResource]:
    return frozenset(builtin_resources())


def _without_empty(entry: JsonObject) -> JsonObject:
    """Omit empty fields, except ``singularName``, which is always present."""
    return {
        key: value for key, value in entry.items() if value not in ("", []) or key == "singularName"
    }
