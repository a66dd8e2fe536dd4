"""``karpenter crds``: print the custom resource definitions."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from karpenter.console import output
from karpenter.console.help_pages import unset_argument, unset_option
from karpenter.console.output import Format

HELP = """\
Print the custom resource definitions, ready for kubectl apply.

All current kinds, or those that are named: by kind, plural, singular or short name. Without a conversion \
webhook, objects of v1beta1 are refused with a message that says how to convert them.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter crds | kubectl apply --server-side -f -

  karpenter crds nodepool ec2nodeclass -o json
"""
# Names of namespaces are DNS labels; so are those of Services, which begin with a letter besides
_SERVICE: Final = re.compile(
    r"(?P<namespace>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)/(?P<name>[a-z]([a-z0-9-]{0,61}[a-z0-9])?)"
)


def crds(
    kinds: Annotated[
        list[str] | None,
        unset_argument("Kinds to print, for example NodePool, nodepools or ec2nc.", metavar="KIND"),
    ] = None,
    legacy: Annotated[
        bool, typer.Option("--legacy", help="Include the alpha kinds that v1 replaced.")
    ] = False,
    webhook: Annotated[
        str | None,
        unset_option(
            "Serve v1beta1 too, converted by the webhook behind this Service.",
            "--conversion-webhook",
            metavar="NAMESPACE/SERVICE",
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = "yaml",
) -> None:
    """Print custom resource definitions."""
    from karpenter.admission.schemas.crds import builtin_crds, converted_by, stored_only

    service = _service(webhook) if webhook is not None else None
    definitions = builtin_crds(legacy=True)
    if kinds:
        names = [_named(kind, definitions) for kind in kinds]
    else:
        names = sorted(builtin_crds(legacy=legacy))
    names = list(dict.fromkeys(names))
    printed = [
        converted_by(definitions[name], *service) if service else stored_only(definitions[name])
        for name in names
    ]
    output.write(output.render(printed, form))


def _service(given: str) -> tuple[str, str]:
    """The namespace and name of a Service."""
    found = _SERVICE.fullmatch(given)
    if found is None:
        output.fail(
            f'--conversion-webhook: "{given}" is not the NAMESPACE/SERVICE of a webhook;'
            " give both names, for example karpenter/karpenter"
        )
    return found["namespace"], found["name"]


def _named(kind: str, definitions: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the definition of a kind, whichever of its names is given."""
    by_alias = {
        alias.lower(): name
        for name, definition in definitions.items()
        for alias in _aliases(name, definition["spec"]["names"])
    }
    if kind.lower() not in by_alias:
        kinds = {name: item["spec"]["names"]["kind"] for name, item in definitions.items()}
        close = difflib.get_close_matches(kind.lower(), by_alias, n=1)
        advice = f"did you mean {kinds[by_alias[close[0]]]}? " if close else ""
        output.fail(f'no kind "{kind}": {advice}the kinds are {", ".join(sorted(kinds.values()))}')
    return by_alias[kind.lower()]


def _aliases(name: str, names: Mapping[str, Any]) -> Iterable[str]:
    yield name
    yield names["kind"]
    yield names["plural"]
    yield names.get("singular") or names["kind"]
    yield from names.get("shortNames", ())
