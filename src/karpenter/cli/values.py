"""``karpenter values``: values of Karpenter's own chart, as values of ours."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from karpenter.console import manifest_files, output
from karpenter.console.output import Format

if TYPE_CHECKING:
    from karpenter.manifests.reader import Document

HELP = """\
Translate values of Karpenter's own chart into values of ours, and name what has no counterpart.

Values that have the same name here, which is nearly all of them, stay; names of older charts are replaced. \
Whatever is left out, such as the image of another program, is named in a warning with its line.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  helm get values karpenter --namespace kube-system -o yaml | karpenter values - > values.yaml

  karpenter values upstream-values.yaml -o json
"""
Place: TypeAlias = tuple[str, ...]

# Paths in older charts -> today's paths
_MOVED: Final[Mapping[Place, Place]] = {
    ("clusterName",): ("settings", "clusterName"),
    ("clusterEndpoint",): ("settings", "clusterEndpoint"),
    ("settings", "aws", "clusterName"): ("settings", "clusterName"),
    ("settings", "aws", "clusterEndpoint"): ("settings", "clusterEndpoint"),
    ("settings", "aws", "clusterCABundle"): ("settings", "clusterCABundle"),
    ("settings", "aws", "interruptionQueueName"): ("settings", "interruptionQueue"),
    ("settings", "aws", "isolatedVPC"): ("settings", "isolatedVPC"),
    ("settings", "aws", "reservedENIs"): ("settings", "reservedENIs"),
    ("settings", "aws", "vmMemoryOverheadPercent"): ("settings", "vmMemoryOverheadPercent"),
    ("controller", "logLevel"): ("logLevel",),
    ("controller", "outputPaths"): ("logOutputPaths",),
    ("controller", "errorOutputPaths"): ("logErrorOutputPaths",),
}
# What is left out on purpose, and why
_LEFT_OUT: Final[Mapping[Place, str]] = {
    ("controller", "image"): "is the image of another program; set controller.image to yours",
    ("settings", "aws", "defaultInstanceProfile"): "is gone: name it in each EC2NodeClass",
    ("aws", "defaultInstanceProfile"): "is gone: name it in each EC2NodeClass",
    ("settings", "aws", "tags"): "is gone: name them in each EC2NodeClass",
    ("settings", "aws", "enablePodENI"): "is gone: pods that ask for such interfaces get them",
    ("settings", "aws", "enableENILimitedPodDensity"): "is gone: set maxPods in each EC2NodeClass",
    ("settings", "featureGates", "driftEnabled"): "is gone: drift is always on, within budgets",
    ("settings", "featureGates", "drift"): "is gone: drift is always on, within budgets",
}
_NO_COUNTERPART: Final = "has no counterpart in the chart"


@dataclass(slots=True)
class Translation:
    """Values of our chart, and what could not become one, each with the reason."""

    values: dict[str, Any] = field(default_factory=dict)
    left: dict[Place, str] = field(default_factory=dict)

    def put(self, place: Place, value: object) -> None:
        """Set a value; one that is there already stays."""
        inner = self.values
        for part in place[:-1]:
            inner = inner.setdefault(part, {})
        inner.setdefault(place[-1], value)


def values(
    file: Annotated[
        str,
        typer.Argument(
            help="Values to translate: a file, or - for standard input.", metavar="FILE"
        ),
    ],
    form: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = "yaml",
) -> None:
    """Translate values and print the result."""
    loaded = manifest_files.load_documents([file], recursive=False)
    for error in loaded.errors:
        output.error(str(error))
    if loaded.errors:
        output.fail(f"nothing is translated: {manifest_files.problems(len(loaded.errors))}")
    if len(loaded.documents) > 1:
        output.fail(f"{file}: holds {len(loaded.documents)} documents; values are one")
    given: dict[str, Any] = loaded.documents[0].data if loaded.documents else {}
    schema = _schema()
    made = translated(given, schema)
    for place, why in made.left.items():
        output.warning(f"{_where(loaded.documents[0], place)} {why}")
    wrong = list(_problems(made.values, schema))
    for place, problem in wrong:
        output.error(f"{file}: {'.'.join(place)}: {problem}")
    if wrong:
        output.fail(f"nothing is translated: {manifest_files.problems(len(wrong))}")
    output.write(output.render([made.values], form))


def translated(given: Mapping[str, Any], schema: Mapping[str, Any]) -> Translation:
    """Our values for those of another chart."""
    made = Translation()
    _take(given, (), schema, made)
    for place, target in _MOVED.items():  # values under today's names win
        found = _at(given, place)
        if found is not None:
            made.put(target, found)
    return made


def _take(
    given: Mapping[str, Any], above: Place, schema: Mapping[str, Any], made: Translation
) -> None:
    known: Mapping[str, Any] = schema.get("properties", {})
    for name, value in given.items():
        place = (*above, str(name))
        inner = known.get(str(name))
        if place in _MOVED or value is None:  # Helm takes null as a value that is not given
            continue
        if place in _LEFT_OUT:
            made.left[place] = _LEFT_OUT[place]
        elif isinstance(value, Mapping) and (inner is None or "properties" in inner):
            if inner is None and not _leads_on(place):
                made.left[place] = _NO_COUNTERPART
            else:
                _take(value, place, inner or {}, made)
        elif inner is None:
            made.left[place] = _NO_COUNTERPART
        else:
            made.put(place, value)


def _leads_on(place: Place) -> bool:
    """Whether a path of older charts begins with this."""
    return any(each[: len(place)] == place for each in (*_MOVED, *_LEFT_OUT))


def _at(given: object, place: Place) -> Any:
    for part in place:
        if not isinstance(given, Mapping):
            return None
        given = given.get(part)
    return given


def _where(document: "Document", place: Place) -> str:
    return f"{document.source.name}:{document.line(place)}: {'.'.join(place)}"


def _problems(made: Mapping[str, Any], schema: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    import jsonschema_rs

    for error in jsonschema_rs.Draft7Validator(schema).iter_errors(dict(made)):
        yield tuple(map(str, error.instance_path)), error.message


def _schema() -> dict[str, Any]:
    file = resources.files("karpenter.cli") / "values.schema.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found
