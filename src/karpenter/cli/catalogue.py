"""``karpenter catalogue``: what the pools of a cluster could buy, as a file for those who may not ask."""

from typing import TYPE_CHECKING, Annotated, Final

from karpenter.console import output
from karpenter.console.help_pages import unset_option
from karpenter.console.manifest_files import Filenames, Recursive
from karpenter.inquiry.question import Assignments, Context, Files, Kubeconfig, Provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.cloud.types import InstanceType, Offering
    from karpenter.inquiry.question import Question

HELP = """\
Write the instance types and prices that the NodePools of a cluster could buy, as a file.

A person with access to the cloud writes it once; with --instance-types, plan, explain and the dashboard of others need no \
credentials then. Sizes are those of the nodes: what the system keeps for itself is told apart, and prices that the \
cloud has not told stay marked as estimates. Nothing is changed.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter catalogue > types.json

  karpenter catalogue --context production --nodepool general --nodepool batch > types.json

  karpenter catalogue --provider aws nodepool.yaml nodeclass.yaml > types.json

  karpenter plan --instance-types types.json
"""
_NAMED: Final = 3  # types and pools in a sentence


def catalogue(
    files: Files = None,
    filenames: Filenames = None,
    recursive: Recursive = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    provider: Provider = None,
    assignments: Assignments = None,
    pools: Annotated[
        list[str] | None,
        unset_option(
            "Only what this NodePool could buy; may be repeated.", "--nodepool", metavar="NAME"
        ),
    ] = None,
) -> None:
    """Read the pools, ask for their types, and print them as a file."""
    from karpenter.cloud.kwok.written import as_file, is_told
    from karpenter.inquiry.question import Source, question

    names = [*(files or ()), *(filenames or ())]
    source = Source(names, recursive, context, provider, kubeconfig=kubeconfig)
    asked = question(source, assignments=assignments or (), now=None)
    by_pool = _types_by_pool(asked, pools or ())
    types = merged(by_pool)
    if not any(map(is_told, types)):
        output.fail(
            "no instance types are known for"
            f" {_listed('NodePool', by_pool)}; name the cloud with --provider",
            output.EXIT_FAILED,
        )
    _point_out_differences(by_pool)
    output.write(as_file(types))


def _types_by_pool(
    asked: "Question", wanted: "Iterable[str]"
) -> "Mapping[str, tuple[InstanceType, ...]]":
    pools = asked.snapshot.node_pools
    if not pools:
        output.fail("there is no NodePool to list instance types for")
    for name in wanted:
        if name not in pools:
            known = _listed("NodePool", sorted(pools))
            output.fail(f"--nodepool: there is no NodePool {name}; there is {known}")
    names = sorted(set(wanted) or pools)
    return {name: tuple(asked.offer.catalogue(pools[name])) for name in names}


def merged(by_pool: "Mapping[str, tuple[InstanceType, ...]]") -> "tuple[InstanceType, ...]":
    """The types of all pools, each once: with the offerings of all, and the least room of any."""
    from dataclasses import replace

    found: dict[str, InstanceType] = {}
    for types in by_pool.values():
        for each in types:
            known = found.get(each.name)
            if known is None:
                found[each.name] = each
            elif known is not each:
                smaller = min(known, each, key=_room)
                ways = {_place(way): way for way in (*each.offerings, *known.offerings)}
                found[each.name] = replace(smaller, offerings=tuple(ways.values()))
    return tuple(found[name] for name in sorted(found))


def _room(kind: "InstanceType") -> tuple[int, ...]:
    room = kind.allocatable
    return room.cpu, room.memory, room.pods, room.ephemeral_storage


def _place(way: "Offering") -> tuple[str, str, str]:
    return way.zone, way.capacity_type, way.reservation_id


def _point_out_differences(by_pool: "Mapping[str, tuple[InstanceType, ...]]") -> None:
    """Say which types have less room in one pool than in another: the file has one size of each."""
    rooms: dict[str, set[tuple[int, ...]]] = {}
    for types in by_pool.values():
        for each in types:
            rooms.setdefault(each.name, set()).add(_room(each))
    differing = sorted(name for name, sizes in rooms.items() if len(sizes) > 1)
    if differing:
        output.note(
            f"note: {_listed('instance type', differing)} leaves more room in some pools than in"
            " others; the least is written, and --nodepool writes a file for one pool"
        )


def _listed(noun: str, names: "Iterable[str]") -> str:
    known = list(names)
    more = len(known) - _NAMED
    return f"{noun} {', '.join(known[:_NAMED])}" + (f" and {more} more" if more > 0 else "")
