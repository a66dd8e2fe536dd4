"""Writes the pages of ``docs/reference`` that follow from the code: commands, settings, reasons, keys.

Flags and settings are those of the program, reasons those of the schema of plans, keys the constants
of the code. What such a name means stands in the tables here; a name without a meaning is an error, so
that none is added without one. Run without arguments to write the pages; a test compares them.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from karpenter.cli.app import app
from karpenter.cli.controller_flags import OTHERS, SETTINGS, Flag
from karpenter.settings import DEFAULT_GATES
from reference_keys import MEANINGS

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "reference"
NOTE: Final = "<!-- Written by tools/reference.py -->"
_SCHEMA: Final = ROOT / "src" / "karpenter" / "report" / "plan.schema.json"
_MARKUP: Final = re.compile(r"\[/?(?:dim|bold|cyan|green|yellow|red|italic)\]")

# Why a pool does not take a pod
_OF_POOLS: Final = {
    "NoDynamicNodePools": "there is no pool that makes nodes for pods",
    "NoCompatibleInstanceTypes": "the pool's own requirements leave no instance type",
    "UntoleratedTaint": "the pod does not tolerate a taint of the pool",
    "UndefinedLabel": "the pod asks for a label that the pool gives its nodes no value of",
    "RequirementConflict": "pod and pool ask for different values of a label",
    "InsufficientResources": "no instance type that is left has enough room",
    "NoOffering": "the types that are left are not sold in the zone and capacity type asked for",
    "SoldOut": "they are sold there, and sold out now",
    "LimitExceeded": "every type that fits is beyond what is left of the pool's limits",
    "MinValues": "too few values would be left for `minValues`",
    "Topology": "a spread or affinity rule allows no place",
    "VolumeConflict": "a volume of the pod can only be used elsewhere",
    "VolumeLimit": "no type can attach that many volumes",
    "HostPortConflict": "a port on the host is taken",
    "ReservedCapacityTaken": "the reservations of the pool are all in use",
    "DynamicResources": "no type has the devices that the pod claims",
    "NotEvaluated": "the pass ended before the pod was looked at",
    "TooManyTopologyRules": "the pod has more required rules than are planned for",
    "NodePoolNotReady": "the pool is not Ready",
    "NodePoolDeleting": "the pool is being deleted",
    "NodeClassNotFound": "the pool's node class does not exist",
    "NodeClassNotReady": "the pool's node class is not Ready",
    "NodeClassUnsupported": "the pool's node class belongs to another provider",
}
# Why a pod is left alone
_OF_IGNORED: Final = {
    "AlreadyBound": "it runs already",
    "DaemonSetPod": "it belongs to a DaemonSet, which follows nodes",
    "MirrorPod": "it belongs to a Node itself",
    "Nominated": "the scheduler makes room for it by preemption",
    "NotUnschedulable": "the scheduler has not found it unschedulable",
    "OptedOut": "it excludes nodes that a pool makes",
    "InvalidRequirement": "one of its node requirements cannot be read",
    "MatchFieldsUnsupported": "it selects nodes by field",
    "RestrictedLabel": "it asks for a label that nobody may set",
    "UnknownCapacityType": "it asks for a capacity type that does not exist",
    "PersistentVolumeClaimNotFound": "its volume claim does not exist",
    "PersistentVolumeClaimDeleting": "its volume claim is being deleted",
    "PersistentVolumeClaimLost": "its volume claim has lost its volume",
    "PersistentVolumeClaimBindingIncomplete": "its volume claim is being bound",
    "PersistentVolumeNotFound": "its volume does not exist",
    "PersistentVolumeDeleting": "its volume is being deleted",
    "StorageClassNotNamed": "its volume claim names no storage class, and there is no default",
    "StorageClassNotFound": "the storage class of its volume claim does not exist",
    "ImmediateBinding": "its volume claim waits for a volume, which is bound without a pod",
    "UnsupportedVolumeTopology": "its storage class allows places that no node can match",
    "UnsupportedVolumeDriver": "its volume needs a driver that no node of a pool has",
}
# Why a pod waits for another pass
_OF_DEFERRED: Final = {
    "ReservedCapacityTaken": "a reservation it would use is in use until another pod leaves",
    "NotEvaluated": "the pass ended before the pod was looked at",
    "ClusterStateNotSynced": "claims that have not launched yet may be for it",
    "NextPass": "the next pass takes it, once the nodes of this one are up",
}
# Why a node goes
_OF_COMMANDS: Final = {
    "Empty": "it has no pods that would have to move",
    "Drifted": "it is no longer what its pool or node class asks for",
    "Underutilized": "its pods fit elsewhere, or on something cheaper",
    "Expired": "it has reached its `expireAfter`",
    "Unhealthy": "its conditions match a repair policy",
}
# Why a node stays
_OF_BLOCKED: Final = {
    "DisruptionInProgress": "it is part of a command that is being carried out",
    "NotManaged": "it has no NodeClaim, so it is not ours",
    "NodeNotFound": "its claim has no Node yet",
    "Rebooting": "repair is restarting it",
    "Deleting": "it is on its way out already",
    "NotInitialized": "it is not initialized yet",
    "Nominated": "pods are expected on it",
    "DoNotDisrupt": "it carries `karpenter.sh/do-not-disrupt`",
    "NodePoolNotFound": "its NodePool does not exist",
    "NoInstanceTypes": "its pool has no instance types now",
    "PodDoNotDisrupt": "a pod on it carries `karpenter.sh/do-not-disrupt`",
    "PodDisruptionBudget": "a PodDisruptionBudget lets none of a pod's kind go now",
    "Budget": "the pool's budgets allow no more nodes now",
    "Unconsolidatable": "moving its pods would save nothing, or may not be done",
    "Unschedulable": "its pods would fit nowhere",
    "SpotRatio": "it would take the pool or a workload further from its [spot ratio](../spot.md)",
    "DoNotRepair": "it carries `karpenter.sh/do-not-repair`",
    "RepairBlocked": "too many nodes are unhealthy for any to be repaired",
    "StaticNodePool": "its pool has a fixed number of nodes",
    "NotEvaluated": "the search ended before it was looked at",
    "NothingToDo": "nothing calls for it to go",
}


# Commands that work on simulated clusters, or make scenarios for them; on a page of their own
SIMULATED = ("record", "sandbox", "simulate")


def pages() -> dict[str, str]:
    """The text of every page, by its name."""
    return {
        "cli.md": cli("Command line", is_simulated=False),
        "cli-simulation.md": cli("Command line: sandbox and simulation", is_simulated=True),
        "settings.md": settings(),
        "reasons.md": reasons(),
        "keys.md": keys(),
    }


def cli(title: str, *, is_simulated: bool) -> str:
    """The commands that work on simulated clusters, or those that do not, with their options."""
    lines = [
        NOTE,
        f"# {title}",
        "",
        (
            "`karpenter COMMAND --help` says the same. Exit codes: 0 done, 1 failed, 2 wrong usage or bad"
            " input, 130 interrupted."
        ),
    ]
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    for words, command in _commands(program, ("karpenter",)):
        if (words[1] in SIMULATED) != is_simulated:
            continue
        if words == ("karpenter", "controller"):
            options = "Its flags are the [settings](settings.md)."
        else:
            options = "\n".join(_table(("option", "meaning"), _options(command)))
        usage = " ".join([*words, *_arguments(command)])
        lines += ["", f"## {' '.join(words)}", "", f"`{usage} [OPTIONS]`", ""]
        lines += [_prose(command.help or ""), "", options]
    return "\n".join([*lines, ""])


def settings() -> str:
    """The settings of the controller."""
    rows = [_setting(flag) for flag in SETTINGS]
    others = [_setting(flag) for flag in OTHERS]
    gates = [(f"`{name}`", "on" if default else "off") for name, default in DEFAULT_GATES.items()]
    return "\n".join(
        [
            NOTE,
            "# Settings",
            "",
            (
                "Each is an environment variable and a flag of `karpenter controller`; a flag takes"
                " precedence. The chart's values for them are in [its own page]"
                "(../../charts/karpenter/README.md)."
            ),
            "",
            *_table(("environment", "flag", "default", "meaning"), rows),
            "",
            "## Providers",
            "",
            "Those of AWS are described in [Karpenter on AWS](../aws.md#settings).",
            "",
            *_table(("environment", "flag", "default", "meaning"), others),
            "",
            "## Feature gates",
            "",
            "Values of `FEATURE_GATES`; [what each enables](../controller.md).",
            "",
            *_table(("gate", "default"), gates),
            "",
        ]
    )


def reasons() -> str:
    """The reasons that plans and explanations give."""
    definitions = json.loads(_SCHEMA.read_text("utf-8"))["$defs"]
    disruption = definitions["disruption"]["properties"]
    groups: list[tuple[str, Any, Mapping[str, str]]] = [
        ("Why a pool does not take a pod", definitions["poolReason"], _OF_POOLS),
        ("Why a pod is left alone", definitions["ignored"], _OF_IGNORED),
        ("Why a pod waits for another pass", definitions["deferred"], _OF_DEFERRED),
        ("Why a node goes", disruption["commands"]["items"], _OF_COMMANDS),
        ("Why a node stays", disruption["blocked"]["items"], _OF_BLOCKED),
    ]
    lines = [
        NOTE,
        "# Reasons",
        "",
        (
            "The names that `karpenter plan -o json` and `karpenter explain -o json` give, from the schema of"
            " plans (`karpenter plan --schema`). The `detail` beside them is a sentence for people."
        ),
    ]
    for title, schema, meanings in groups:
        names = schema["properties"]["reason"]["enum"]
        rows = [(f"`{name}`", _meaning(name, meanings)) for name in names]
        _refuse_unused(meanings, names)
        lines += ["", f"## {title}", "", *_table(("reason", "meaning"), rows)]
    return "\n".join([*lines, ""])


def keys() -> str:
    """The labels, annotations, taints, finalizers and tags that the code gives a meaning."""
    lines = [NOTE, "# Labels, annotations, taints, finalizers and tags", ""]
    files = {
        "Every provider": "karpenter/model/labels.py",
        "AWS": "karpenter/api/node_classes/ec2_labels.py",
        "The simulated provider": "karpenter/api/node_classes/kwok_labels.py",
    }
    seen: list[str] = []
    for title, name in files.items():
        lines += [f"## {title}", ""]
        for group, found in _constants((ROOT / "src" / name).read_text("utf-8")):
            rows = [(f"`{key}`", _meaning(key, MEANINGS)) for key in found]
            lines += [f"### {group}", "", *_table(("key", "meaning"), rows), ""]
            seen += found
    _refuse_unused(MEANINGS, seen)
    return "\n".join(lines)


def _constants(source: str) -> Iterator[tuple[str, list[str]]]:
    """The keys of a module by the comment above each group."""
    lines = source.splitlines()
    group, found = "Labels", list[str]()
    for node in ast.parse(source).body:
        match node:
            case ast.AnnAssign(value=ast.Constant(value=str(key))) if "/" in key or ":" in key:
                above = lines[node.lineno - 2]
                if above.startswith("# "):
                    if found:
                        yield group, found
                    group, found = above.removeprefix("# "), []
                found.append(key)
    if found:
        yield group, found


def _commands(group: TyperGroup, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*words, name), command
        if isinstance(command, TyperGroup):
            yield from _commands(command, (*words, name))


def _arguments(command: Any) -> list[str]:
    return [
        parameter.metavar or str(parameter.name).upper()
        for parameter in command.params
        if isinstance(parameter, TyperArgument)
    ]


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        if isinstance(parameter, TyperOption) and not parameter.hidden:
            value = parameter.metavar or str(parameter.name).upper()
            follows = "" if parameter.is_flag else f" {value}"
            names = (*parameter.opts, *parameter.secondary_opts)
            yield ", ".join(f"`{name}{follows}`" for name in names), _prose(parameter.help or "")


def _setting(flag: Flag) -> tuple[str, str, str, str]:
    default = f"`{flag.default}`" if re.fullmatch(r"[\w.-]+", flag.default) else flag.default
    return f"`{flag.variable}`", f"`{flag.text}`", default or "none", flag.meaning


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    if name not in meanings:
        raise SystemExit(f"tools/reference.py has no meaning for {name}; add it")
    return meanings[name]


def _refuse_unused(meanings: Mapping[str, str], names: Iterable[str]) -> None:
    unused = sorted(meanings.keys() - set(names))
    if unused:
        raise SystemExit(
            f"tools/reference.py explains {unused[0]}, which does not exist; remove it"
        )


def _prose(text: str) -> str:
    """A help text as one paragraph, safe in a table."""
    return " ".join(_MARKUP.sub("", text).split()).replace("|", r"\|").replace("<", r"\<")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, "utf-8")
        sys.stdout.write(f"wrote docs/reference/{name}\n")


if __name__ == "__main__":
    main()
