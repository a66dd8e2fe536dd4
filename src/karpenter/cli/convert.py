"""``karpenter convert``: legacy manifests to v1, all of them or none."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from karpenter.cli import output
from karpenter.cli.output import Format

if TYPE_CHECKING:
    from karpenter.conversion.convert import Result
    from karpenter.manifests.files import Loaded
    from karpenter.manifests.reader import Document

HELP = """\
Convert legacy manifests to karpenter.sh/v1.

Provisioner (v1alpha5), AWSNodeTemplate (v1alpha1) and the v1beta1 kinds become NodePool, NodeClaim \
and EC2NodeClass v1; other kinds are passed over with a warning. Where any object cannot be \
converted, every problem is listed, nothing is printed as a result, and the exit code is 2.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter convert provisioner.yaml --node-role KarpenterNodeRole-demo

  karpenter convert -R manifests/ -o json > v1.json

  kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -
"""


def _not_empty(name: str | None) -> str | None:
    if name == "":
        raise typer.BadParameter("the name is empty")
    return name


def convert(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Manifests to convert: files, folders, or - for standard input.",
            show_default=False,
        ),
    ] = None,
    filenames: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="The same as FILE, for those who are used to kubectl.",
            show_default=False,
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Look into the subfolders of folders, too.")
    ] = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print the result.")] = (
        "yaml"
    ),
    ignore_defaults: Annotated[
        bool,
        typer.Option(
            "--ignore-defaults",
            help="Do not add the requirements that the old admission webhook would have added.",
        ),
    ] = False,
    legacy_defaults: Annotated[
        Literal["early", "late"],
        typer.Option(
            help="Whose defaults to add: those of the first releases (architecture and capacity "
            "type only) or of all later ones."
        ),
    ] = "late",
    node_role: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The IAM role of nodes, where a manifest names no instance profile.",
            callback=_not_empty,
            show_default=False,
        ),
    ] = None,
    instance_profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The instance profile of nodes, where a manifest names none.",
            callback=_not_empty,
            show_default=False,
        ),
    ] = None,
    default_node_class: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The EC2NodeClass of Provisioners that name no template of their own.",
            callback=_not_empty,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Convert legacy manifests to v1 and print the result."""
    from karpenter.conversion.convert import Options, convert_all

    loaded = _load([*(files or ()), *(filenames or ())], recursive=recursive)
    options = Options(
        node_role=node_role,
        instance_profile=instance_profile,
        default_node_class=default_node_class,
        ignore_defaults=ignore_defaults,
        legacy_defaults=legacy_defaults,
    )
    results = convert_all([document.data for document in loaded.documents], options).results
    errors = _report(loaded, results)
    if errors:
        output.fail(f"nothing is converted: {errors} problem{'s' if errors > 1 else ''} above")
    objects = [item for result in results for item in result.objects]
    if not objects:
        what = "holds no object that needs it" if loaded.documents else "is empty"
        output.note(f"nothing to convert: the input {what}")
    if objects or form == "json":
        output.write(output.render(objects, form))


def _load(names: Sequence[str], *, recursive: bool) -> "Loaded":
    from karpenter.manifests.files import STANDARD_INPUT, load

    if not names:
        output.fail("no input: name a file or a folder, or - for standard input (see --help)")
    if names.count(STANDARD_INPUT) > 1:
        output.fail("standard input can be read only once: name - only once")
    standard_input = sys.stdin.buffer if sys.stdin else None  # None where a shell closed it
    return load(names, recursive=recursive, standard_input=standard_input)


def _report(loaded: "Loaded", results: "Sequence[Result]") -> int:
    """Print every finding in the order of the input and return how many of them are errors."""
    for unreadable in loaded.errors:
        output.error(str(unreadable))
    for document, result in zip(loaded.documents, results, strict=True):
        _report_one(document, result)
    return len(loaded.errors) + sum(len(result.errors) for result in results)


def _report_one(document: "Document", result: "Result") -> None:
    """Print the findings of one object from top to bottom, with file, line, object and field."""
    said = [(output.warning, warning.path, str(warning)) for warning in result.warnings]
    said += [(output.error, error.path, str(error)) for error in result.errors]
    lines = {path: document.line(path) for _, path, _ in said}
    for say, path, text in sorted(said, key=lambda item: lines[item[1]]):
        title = _title(document.data) + ("" if path else ":")
        say(f"{document.source.name}:{lines[path]}: {title} {text}")


def _title(data: dict[str, Any]) -> str:
    """Name an object the way kubectl does, as far as it has a kind and a name."""
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    parts = [part for part in (data.get("kind"), name) if isinstance(part, str) and part]
    return "/".join(parts) or "object"
