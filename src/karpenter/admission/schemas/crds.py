"""The CRDs of this project, read from the package when they are needed.

A file is named after its CRD, ``<group>_<plural>.yaml``, and the plural follows from the kind by
English rules. So a kind's file is found without reading any other, which matters because reading
YAML is the slowest step of checking a manifest.
"""

import functools
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

import yaml

_PACKAGE: Final = "karpenter.api.crds"
_SUFFIX: Final = ".yaml"
_VOWELS: Final = frozenset("aeiou")
# Kinds of the alpha APIs, which new clusters do not serve
LEGACY: Final = frozenset({"provisioners.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws"})

# Descriptions make up most of a CRD; the C reader is ten times as fast as the Python one
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Crds(Mapping[str, dict[str, Any]]):
    """CRDs by name, such as ``nodepools.karpenter.sh``; each is read on first use."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in self._names:
            raise KeyError(name)
        return _read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def builtin_crds(*, legacy: bool = True) -> Crds:
    """All CRDs, in the order of their names; ``legacy`` includes those of the alpha kinds."""
    return Crds(tuple(name for name in sorted(_files()) if legacy or name not in LEGACY))


def stored_only(crd: Mapping[str, Any]) -> dict[str, Any]:
    """The CRD for an API server without a conversion webhook: other versions refuse every write.

    Without conversion the API server stores an old object after pruning what only the old version
    has, so a pool would silently lose its kubelet settings. The version stays in the list, since
    a CRD may not drop one that its ``status.storedVersions`` names. It also stays served: otherwise
    the error would be ``no matches for kind``, which does not tell the user what to do.
    """
    group = crd["spec"]["group"]
    versions = [
        each if each["storage"] else _refusing(each, group) for each in crd["spec"]["versions"]
    ]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def converted_by(crd: Mapping[str, Any], namespace: str, service: str) -> dict[str, Any]:
    """The CRD with every version, converted by a webhook behind a Service."""
    if len(crd["spec"]["versions"]) == 1:
        return dict(crd)
    path = f"/convert/{crd['spec']['group']}"
    client = {"service": {"namespace": namespace, "name": service, "port": 443, "path": path}}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    return {**crd, "spec": {**crd["spec"], "conversion": conversion}}


def _refusing(version: Mapping[str, Any], group: str) -> dict[str, Any]:
    """A version with a rule that refuses every object."""
    message = (
        f"{group}/{version['name']} is not served here: rewrite the manifest with"
        " 'karpenter convert FILE' and apply the result"
    )
    schema = {
        "description": message,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": [{"rule": "false", "message": message}],
    }
    kept = ("name", "served", "storage", "deprecated", "deprecationWarning", "subresources")
    return {
        **{key: version[key] for key in kept if key in version},
        "schema": {"openAPIV3Schema": schema},
    }


def crd_name(group: str, kind: str) -> str | None:
    """Name the CRD that defines a kind, or return None when the project has none."""
    name = f"{plural(kind)}.{group}"
    return name if name in _files() else None


def plural(kind: str) -> str:
    """The plural of a kind, in lower case as in names and paths."""
    singular = kind.lower()
    if singular.endswith("s"):
        return f"{singular}es"
    if singular.endswith("y") and singular[-2:-1] not in _VOWELS:
        return f"{singular[:-1]}ies"
    return f"{singular}s"


@functools.cache
def _files() -> Mapping[str, Traversable]:
    files = {}
    for file in resources.files(_PACKAGE).iterdir():
        group, _, plural_name = file.name.removesuffix(_SUFFIX).rpartition("_")
        if file.name.endswith(_SUFFIX) and group:
            files[f"{plural_name}.{group}"] = file
    return files


@functools.cache
def _read(name: str) -> dict[str, Any]:
    text = _files()[name].read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.load(text, Loader=_Loader)  # noqa: S506 safe loader
    return document
