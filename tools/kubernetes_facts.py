"""Gather the facts about Kubernetes' own kinds that the sandbox cluster needs.

    python tools/kubernetes_facts.py [VERSION]          (default: the version below)

Downloads the published Go modules of one Kubernetes release from the Go module proxy into a
temporary folder and writes two files beside the sandbox's code:

``structs.json``
    for every struct its fields: protobuf number, type, how lists and maps merge, what is required;
``resources.json``
    for every resource its names, scope, verbs and subresources.

Only names, numbers and types are taken; no sentence of the sources is.
"""

import io
import json
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from go_structs import GoField, GoPackage, read_package

VERSION: Final = "1.35.4"
TARGET: Final = Path(__file__).parent.parent / "src/karpenter_sandbox/kinds/schemas"
PROXY: Final = "https://proxy.golang.org"
MODULES: Final = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator")
META: Final = "k8s.io/apimachinery/pkg/apis/meta/v1"
PACKAGES: Final = {
    **{
        f"{group}.{version}": f"k8s.io/api/{group}/{version}"
        for group, version in (
            ("admissionregistration", "v1"),
            ("apps", "v1"),
            ("authentication", "v1"),
            ("authorization", "v1"),
            ("autoscaling", "v1"),
            ("autoscaling", "v2"),
            ("batch", "v1"),
            ("certificates", "v1"),
            ("coordination", "v1"),
            ("core", "v1"),
            ("discovery", "v1"),
            ("events", "v1"),
            ("flowcontrol", "v1"),
            ("networking", "v1"),
            ("node", "v1"),
            ("policy", "v1"),
            ("rbac", "v1"),
            ("resource", "v1"),
            ("scheduling", "v1"),
            ("storage", "v1"),
        )
    },
    "apiextensions.v1": "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "apiregistration.v1": "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
    "meta.v1": META,
}
SCALARS: Final = frozenset({"string", "bool", "int32", "int64", "float64", "byte", "uint8"})
# Types with their own JSON marshalling: their Go fields do not appear in JSON
OPAQUE: Final = {
    f"{META}.Time": "Time",
    f"{META}.MicroTime": "MicroTime",
    f"{META}.FieldsV1": "FieldsV1",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "Quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "IntOrString",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "RawExtension",
    **{
        f"{PACKAGES['apiextensions.v1']}.{name}": name
        for name in (
            "JSON",
            "JSONSchemaPropsOrArray",
            "JSONSchemaPropsOrBool",
            "JSONSchemaPropsOrStringArray",
        )
    },
}
FOREIGN_SCALARS: Final = {"k8s.io/apimachinery/pkg/types.UID": "string"}
LIST_TYPE: Final = "x-kubernetes-list-type"


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else VERSION
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        download("kubernetes", f"v{version}", folder)
        for module in MODULES:
            download(module, f"v0.{version.partition('.')[2]}", folder)
        api = folder / "kubernetes/api"
        write("structs.json", structs(folder, api))
        write("resources.json", {"version": f"v{version}", "resources": list(resources(api))})


def download(module: str, version: str, folder: Path) -> None:
    """Unpack a module as ``folder/<module>``."""
    url = f"{PROXY}/k8s.io/{module}/@v/{version}.zip"
    with urllib.request.urlopen(url) as answer:  # noqa: S310 the proxy is reached by https
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    prefix = f"k8s.io/{module}@{version}/"
    for name in archive.namelist():
        is_source = module == "api" or (name.endswith(".go") and "/apis/" in name)
        if is_source or name.startswith(
            (f"{prefix}api/openapi-spec/v3/", f"{prefix}api/discovery/")
        ):
            target = folder / module / name.removeprefix(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))


def write(name: str, content: Mapping[str, Any]) -> None:
    """Write JSON with one struct or resource per line, so that changes can be read."""
    parts = []
    for key, value in content.items():
        if isinstance(value, dict):
            body = ",\n".join(f"{dumps(k)}:{dumps(v)}" for k, v in value.items())
            parts.append(f"{dumps(key)}:{{\n{body}\n}}")
        elif isinstance(value, list):
            body = ",\n".join(dumps(entry) for entry in value)
            parts.append(f"{dumps(key)}:[\n{body}\n]")
        else:
            parts.append(f"{dumps(key)}:{dumps(value)}")
    (TARGET / name).write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def structs(folder: Path, api: Path) -> dict[str, Any]:
    """Merge what Go tags say about structs with what the OpenAPI documents add."""
    documents = openapi_definitions(api)
    types = Types(folder)
    result = {}
    for short, definition in sorted(documents.items()):
        package, _, name = short.rpartition(".")
        if package in PACKAGES and name in types.packages[package].structs:
            if types.is_opaque(package, name):
                continue
            result[short] = types.struct(package, name, definition)
            check(short, set(flat(result, short, types)), definition)
    for inlined, outer in sorted(types.inlined.items()):
        package, _, name = inlined.rpartition(".")
        if inlined not in result:
            result[inlined] = types.struct(package, name, outer)
    kinds = {
        f"{kind['group']}/{kind['version']}/{kind['kind']}".lstrip("/"): short
        for short, definition in sorted(documents.items())
        for kind in definition.get("x-kubernetes-group-version-kind", ())[:1]
        if short in result
    }
    return {
        "packages": {short: f"io.{dotted(path)}" for short, path in PACKAGES.items()},
        "kinds": kinds,
        "structs": result,
    }


def dotted(path: str) -> str:
    host, _, rest = path.partition("/")
    return ".".join([*reversed(host.split(".")), *rest.split("/")]).removeprefix("io.")


def openapi_definitions(api: Path) -> dict[str, dict[str, Any]]:
    """Every definition of the stable versions, by short name such as ``core.v1.Pod``."""
    by_prefix = {f"io.{dotted(path)}.": short for short, path in PACKAGES.items()}
    found: dict[str, dict[str, Any]] = {}
    for file in sorted((api / "openapi-spec/v3").glob("*__v[0-9]_openapi.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        for name, definition in document["components"]["schemas"].items():
            prefix, dot, last = name.rpartition(".")
            if prefix + dot in by_prefix:
                found[f"{by_prefix[prefix + dot]}.{last}"] = definition
    return found


class Types:
    """Go types, spelled in the words of ``structs.json``."""

    def __init__(self, folder: Path) -> None:
        self.packages = {
            short: read_package(folder / path.removeprefix("k8s.io/"), path)
            for short, path in PACKAGES.items()
        }
        self.inlined: dict[str, Mapping[str, Any]] = {}  # struct -> definition it is part of
        self._shorts = {path: short for short, path in PACKAGES.items()}

    def is_opaque(self, package: str, name: str) -> bool:
        return f"{PACKAGES[package]}.{name}" in OPAQUE

    def struct(self, package: str, name: str, definition: Mapping[str, Any]) -> dict[str, str]:
        """The fields of a struct by JSON name; ``<name`` is one whose fields stand in its place."""
        found = self.packages[package]
        required = definition.get("required", ())
        fields = {}
        if definition.get("x-kubernetes-map-type") == "atomic":
            fields["."] = "map:atomic"
        for field in found.structs[name]:
            spelled = self.spell(field.go_type, found)
            if not field.json_name and "inline" in field.json_options:
                if definition:
                    self.inlined.setdefault(spelled, definition)
                fields[f"<{spelled}"] = field.number
            elif field.json_name not in ("", "-"):
                stated = definition.get("properties", {}).get(field.json_name, {})
                words = [
                    field.number,
                    spelled,
                    *options(field, stated, field.json_name in required),
                ]
                fields[field.json_name] = " ".join(words)
        return fields

    def spell(self, go_type: str, package: GoPackage) -> str:
        """A type with its package's short name; named scalars show what they are made of."""
        for prefix in ("*", "[]"):
            if go_type.startswith(prefix):
                inner = self.spell(go_type.removeprefix(prefix), package)
                return "bytes" if (prefix, inner) == ("[]", "byte") else prefix + inner
        if go_type.startswith("map["):
            value = self.spell(go_type.partition("]")[2], package)
            return f"map[string]{value}"
        return self.spell_name(go_type, package)

    def spell_name(self, go_type: str, package: GoPackage) -> str:
        if go_type in SCALARS:
            return go_type
        alias, dot, name = go_type.rpartition(".")
        path = package.imports[alias] if dot else package.path
        if f"{path}.{name}" in OPAQUE:
            return OPAQUE[f"{path}.{name}"]
        if f"{path}.{name}" in FOREIGN_SCALARS:
            return f"{FOREIGN_SCALARS[f'{path}.{name}']}:{path.rsplit('/', 1)[-1]}.{name}"
        home = self.packages[self._shorts[path]]
        if name in home.structs:
            return f"{self._shorts[path]}.{name}"
        made_of = self.spell(home.named[name], home)
        if made_of.partition(":")[0] in SCALARS:
            return f"{made_of.partition(':')[0]}:{path.rsplit('/', 1)[-1]}.{name}"
        return made_of


def options(field: GoField, stated: Mapping[str, Any], required: bool) -> Iterator[str]:
    """What else there is to say about a field, one word each."""
    if "omitempty" not in field.json_options:
        yield "always"
    if "omitzero" in field.json_options:
        yield "omitzero"
    if required:
        yield "required"
    if stated.get("default") not in (None, {}):
        yield f"default:{dumps(stated['default'])}"
    if LIST_TYPE in stated:
        keys = ",".join(stated.get("x-kubernetes-list-map-keys", ()))
        yield f"list:{stated[LIST_TYPE]}" + (f":{keys}" if keys else "")
    if "x-kubernetes-map-type" in stated:
        yield f"map:{stated['x-kubernetes-map-type']}"
    if "patchStrategy" in field.tags:
        yield f"patch:{field.tags['patchStrategy']}"
    if "patchMergeKey" in field.tags:
        yield f"key:{field.tags['patchMergeKey']}"


def flat(result: Mapping[str, Mapping[str, str]], short: str, types: Types) -> Iterable[str]:
    """The JSON names of a struct with those of the structs it inlines."""
    for name in result[short]:
        if name.startswith("<"):
            package, _, inner = name[1:].rpartition(".")
            yield from flat({name[1:]: types.struct(package, inner, {})}, name[1:], types)
        elif name != ".":
            yield name


def check(short: str, names: set[str], definition: Mapping[str, Any]) -> None:
    """Stop when the two sources disagree about the fields of a struct."""
    published = set(definition.get("properties", ()))
    if names != published:
        raise SystemExit(f"{short}: Go has {names - published}, OpenAPI {published - names}")


def resources(api: Path) -> Iterator[dict[str, Any]]:
    """Every stable resource with its subresources folded in."""
    for group, version in group_versions(api):
        path = f"apis__{group}__{version}.json" if group else f"api__{version}.json"
        document = json.loads((api / "discovery" / path).read_text(encoding="utf-8"))
        entries = document["resources"]
        for entry in entries:
            if "/" not in entry["name"]:
                yield resource(group, version, entry, entries)
        mains = {entry["name"] for entry in entries}
        orphans = [e for e in entries if "/" in e["name"] and e["name"].split("/")[0] not in mains]
        assert not orphans, orphans


def group_versions(api: Path) -> Iterator[tuple[str, str]]:
    """Every stable group and version, in the order a server lists them."""
    yield "", "v1"
    aggregated = json.loads((api / "discovery/aggregated_v2.json").read_text(encoding="utf-8"))
    for group in aggregated["items"]:
        for entry in group["versions"]:
            if "alpha" not in entry["version"] and "beta" not in entry["version"]:
                yield group["metadata"]["name"], entry["version"]


def resource(
    group: str, version: str, entry: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    name = entry["name"]
    subresources = [
        {
            key: value
            for key, value in (
                ("name", other["name"].partition("/")[2]),
                ("group", other.get("group")),
                ("version", other.get("version")),
                ("kind", other["kind"]),
                ("verbs", other["verbs"]),
            )
            if value is not None
        }
        for other in entries
        if other["name"].startswith(f"{name}/")
    ]
    content = {
        "group": group,
        "version": version,
        "kind": entry["kind"],
        "plural": name,
        "singular": entry["singularName"],
        "namespaced": entry["namespaced"],
        "verbs": entry["verbs"],
        "short_names": entry.get("shortNames", []),
        "categories": entry.get("categories", []),
        "subresources": subresources,
    }
    return {key: value for key, value in content.items() if value not in ([],)}


if __name__ == "__main__":
    main()
