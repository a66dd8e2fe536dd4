"""What ignores budgets: expiration, the former node repair, and static pools that shrink."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import RepairPolicy
from karpenter.disruption import budgets, commands
from karpenter.disruption.candidates import Blocked, Why
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.expiration import has_expired
from karpenter.disruption.methods.legacy_repair import diagnosis, too_many_fail
from karpenter.scheduling.provisioning import Announcement
from karpenter.scheduling.static_pools import plan_static
from karpenter.state.nodes import StateNode

EXPIRED: Final = "Expired"


def forced_commands(
    view: DisruptionContext, legacy_policies: Sequence[RepairPolicy] = ()
) -> Iterator[Command]:
    """Yield a command for each machine that is removed regardless of budgets."""
    gone: set[str] = set()
    machines = [*view.snapshot.nodes]
    machines += [StateNode(node=None, node_claim=claim) for claim in view.snapshot.unlaunched]
    by_name = {machine.name: machine for machine in machines}
    for name, machine in sorted(by_name.items()):
        claim = _standing_claim(view, machine)
        if claim is not None and has_expired(claim, now=view.now):
            gone.add(name)
            yield _forced_out(view, machine, commands.EXPIRATION, EXPIRED)
    for machine, problem in _broken(view, legacy_policies):
        if not problem and machine.name not in gone:
            gone.add(machine.name)
            yield _forced_out(view, machine, commands.REPAIR, budgets.UNHEALTHY)
    if not view.settings.planning.static:
        return
    going = tuple(
        replace(machine, is_marked=True) if machine.name in gone else machine
        for machine in view.snapshot.nodes
    )
    left = replace(view.snapshot, nodes=going)
    ours = view.settings.planning.deletion_cost_is_ours
    pools = view.ground.pools.static
    for outcome in plan_static(pools, left, now=view.now, deletion_cost_is_ours=ours):
        for name in outcome.delete:
            command = _forced_out(view, by_name[name], commands.STATIC, budgets.UNDERUTILIZED)
            yield replace(command, savings=command.candidates[0].price)


def _forced_out(view: DisruptionContext, machine: StateNode, method: str, reason: str) -> Command:
    candidate = view.inspection.described(machine)
    return Command(method, reason, Decision.DELETE, (candidate,))


def _standing_claim(view: DisruptionContext, machine: StateNode) -> NodeClaim | None:
    """The claim of a machine, if it is of our provider and not on its way out."""
    claim = machine.node_claim
    if claim is None or machine.is_deleting or not view.is_ours(claim.spec.node_class_ref):
        return None
    return claim


def repairs_held_back(
    view: DisruptionContext, legacy_policies: Sequence[RepairPolicy]
) -> Iterator[tuple[Blocked, Announcement]]:
    """Yield the machines that stay because too many are unhealthy, and the text of their event."""
    for machine, problem in _broken(view, legacy_policies):
        if problem:
            # the event is on the node only, unlike that of repair within budgets
            told = Announcement(f"Node/{machine.name}", "NodeRepairBlocked", problem)
            yield Blocked(machine.name, Why.REPAIR_BLOCKED, problem, has_event=False), told


def _broken(
    view: DisruptionContext, policies: Sequence[RepairPolicy]
) -> Iterator[tuple[StateNode, str]]:
    """Yield the machines that are due for repair, and what stands in its way."""
    nodes = [machine.node for machine in view.snapshot.nodes if machine.node is not None]
    for machine in sorted(view.snapshot.nodes, key=lambda machine: machine.name):
        if machine.node is None or _standing_claim(view, machine) is None:
            continue
        found = diagnosis(machine.node, policies)
        if found is not None and view.now >= found.due:
            yield machine, too_many_fail(machine.node, nodes, policies)
