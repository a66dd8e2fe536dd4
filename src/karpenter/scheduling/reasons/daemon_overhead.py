"""Which DaemonSet leaves no room for pods.

Every node has to run its daemons first, so a DaemonSet that requests more than a machine has leaves
every pod of a pool, or of the cluster, without a place. The owners of those pods do not see that
DaemonSet, so the reason names it.
"""

from collections.abc import Iterable, Mapping, Sequence

from karpenter.model.requirements import Requirements
from karpenter.model.resources import NO_RESOURCES, PODS, readable_amount
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.inputs.daemons import Daemon, daemon_terms_met, reserve_on
from karpenter.state.nodes import StateNode

_SHOWN = 3


def blame_on_new_nodes(
    template: Template, bits: int, needs: Sequence[tuple[str, int]]
) -> str | None:
    """Name the DaemonSets that keep a pod off every offering in ``bits``; None when none does.

    Args:
        bits: offerings that suit the pod in everything but room, none of which has enough.
        needs: what it asks for.
    """
    universe = template.universe
    bare = universe.room(((universe.all_bits, NO_RESOURCES),))
    roomy = bare.fitting(bits & bare.possible, {}, needs)
    # the cheapest of those that suffice represents the others
    would_do = [
        (universe.cheapest_bit(roomy & group.bits), group)
        for group in template.daemon_groups
        if group.daemons and roomy & group.bits
    ]
    if not would_do:
        return None
    bit, group = min(would_do, key=lambda each: each[0])
    instance_type = universe.types[universe.type_of[bit]]
    has = dict(instance_type.allocatable_of(universe.offerings[bit]).items())
    for name, amount in needs:
        has[name] = has.get(name, 0) - amount
    return _blame(group.daemons, has)


def blame_on_machine(
    node: StateNode,
    requirements: Requirements,
    daemons: Iterable[Daemon],
    name: str,
    missing: int,
) -> str | None:
    """Name the DaemonSets whose reserved room keeps a pod off a machine; None when none does."""
    expected = [
        daemon
        for daemon in daemons
        if daemon.tolerates(node.taints) and daemon_terms_met(daemon, requirements)
    ]
    if reserve_on(node, requirements, expected)[name] < missing:
        return None
    running = {
        f"{pod.metadata.namespace}/{owner.name}"
        for pod in node.pods
        for owner in pod.metadata.owner_references
        if owner.kind == "DaemonSet"
    }
    awaited = [daemon for daemon in expected if daemon.name not in running]
    return f"{name} is kept for {_named(awaited or expected, name)}"


def _blame(daemons: Sequence[Daemon], left: Mapping[str, int]) -> str:
    """Name the daemons that take more than is ``left`` besides a pod; one, where one is enough."""
    asked = {name for daemon in daemons for name, _ in daemon.requests.items()}
    short = [
        name
        for name in sorted(asked, key=lambda name: (name == PODS, name))
        if sum(daemon.requests[name] for daemon in daemons) > left.get(name, 0)
    ]
    for name in short:
        # ties are broken by name, so that the order of the input never matters
        largest = min(daemons, key=lambda daemon: (-daemon.requests[name], daemon.name))
        others = [daemon for daemon in daemons if daemon is not largest]
        if all(sum(d.requests[each] for d in others) <= left.get(each, 0) for each in short):
            return _named((largest,), name)
    return _named(daemons, short[0] if short else PODS)


def _named(daemons: Sequence[Daemon], name: str) -> str:
    """Name those that request the most of a resource."""
    asking = sorted(
        (daemon for daemon in daemons if daemon.requests[name]),
        key=lambda daemon: (-daemon.requests[name], daemon.name),
    )
    shown = [
        f"{daemon.name} ({readable_amount(name, daemon.requests[name])} {name})"
        for daemon in asking[:_SHOWN]
    ]
    more = f" and {len(asking) - _SHOWN} more" if len(asking) > _SHOWN else ""
    noun = "DaemonSet" if len(asking) == 1 else "DaemonSets"
    return f"{noun} {', '.join(shown)}{more}"
