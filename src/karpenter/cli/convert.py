"""``karpenter convert``: legacy manifests to v1, all of them or none."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from karpenter.console import manifest_files, output
from karpenter.console.help_pages import unset_argument, unset_option
from karpenter.console.manifest_files import Filenames, Recursive
from karpenter.console.output import Format

if TYPE_CHECKING:
    from karpenter.conversion.convert import Result
    from karpenter.manifests.files import Loaded

HELP = """\
Convert legacy manifests to karpenter.sh/v1.

Provisioner (v1alpha5), AWSNodeTemplate (v1alpha1) and the v1beta1 kinds become NodePool, NodeClaim \
and EC2NodeClass v1; other kinds are ignored with a warning. If an object cannot be \
converted, all problems are listed, no manifest is printed, and the exit code is 2.
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
        unset_argument(
            "Manifests to convert: files, folders, or - for standard input.", metavar="FILE"
        ),
    ] = None,
    filenames: Filenames = None,
    recursive: Recursive = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = ("yaml"),
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
            help="Which defaults to add: those of the first releases (architecture and capacity "
            "type only) or those of all later ones."
        ),
    ] = "late",
    node_role: Annotated[
        str | None,
        unset_option(
            "The IAM role of nodes, if a manifest names no instance profile.",
            metavar="NAME",
            callback=_not_empty,
        ),
    ] = None,
    instance_profile: Annotated[
        str | None,
        unset_option(
            "The instance profile of nodes, if a manifest names none.",
            metavar="NAME",
            callback=_not_empty,
        ),
    ] = None,
    ami_family: Annotated[
        Literal["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"],
        typer.Option(help="The AMI family of nodes, if a manifest names none."),
    ] = "AL2",
    default_node_class: Annotated[
        str | None,
        unset_option(
            "The EC2NodeClass of Provisioners that name no AWSNodeTemplate.",
            metavar="NAME",
            callback=_not_empty,
        ),
    ] = None,
) -> None:
    """Convert legacy manifests to v1 and print the result."""
    from karpenter.conversion.convert import Options, convert_all

    loaded = manifest_files.load_documents(
        [*(files or ()), *(filenames or ())], recursive=recursive
    )
    options = Options(
        node_role=node_role,
        instance_profile=instance_profile,
        ami_family=ami_family,
        default_node_class=default_node_class,
        ignore_defaults=ignore_defaults,
        legacy_defaults=legacy_defaults,
    )
    results = convert_all([document.data for document in loaded.documents], options).results
    errors = _report(loaded, results)
    if errors:
        output.fail(f"nothing is converted: {manifest_files.problems(errors)}")
    objects = [item for result in results for item in result.objects]
    if not objects:
        what = "holds no object that needs it" if loaded.documents else "is empty"
        output.note(f"nothing to convert: the input {what}")
    if objects or form == "json":
        output.write(output.render(objects, form))


def _report(loaded: "Loaded", results: "Sequence[Result]") -> int:
    """Print every finding in the order of the input and return how many of them are errors."""
    for unreadable in loaded.errors:
        output.error(str(unreadable))
    for document, result in zip(loaded.documents, results, strict=True):
        manifest_files.report(document, result.errors, result.warnings)
    return len(loaded.errors) + sum(len(result.errors) for result in results)
