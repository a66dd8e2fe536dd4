"""Forced removal, without budgets: expiration, legacy node repair, and static pools that shrink."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.types import ProviderFacts
from karpenter.disruption import budgets, commands
from karpenter.disruption.candidates import Blocked, Why
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.expiration import has_expired
from karpenter.disruption.methods.legacy_repair import diagnosis, too_many_fail
from karpenter.scheduling.provisioning import Announcement
from karpenter.scheduling.static_pools import plan_static
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot, with_going

EXPIRED: Final = "Expired"


def forced_commands(
    view: DisruptionContext, legacy_policies: Sequence[RepairPolicy] = ()
) -> Iterator[Command]:
    """Yield a command for each machine that is removed regardless of budgets."""
    ended = ended_machines(view.snapshot, view.facts, legacy_policies, now=view.now)
    by_name = {machine.name: machine for machine in _machines(view.snapshot)}
    for name, (method, reason) in ended.items():
        yield _forced_out(view, by_name[name], method, reason)
    if not view.settings.planning.static:
        return
    left = with_going(view.snapshot, ended)
    ours = view.settings.planning.deletion_cost_is_ours
    pools = view.ground.pools.static
    for outcome in plan_static(pools, left, now=view.now, deletion_cost_is_ours=ours):
        for name in outcome.delete:
            command = _forced_out(view, by_name[name], commands.STATIC, budgets.UNDERUTILIZED)
            yield replace(command, savings=view.savings(command.candidates))


def ended_machines(
    snapshot: Snapshot,
    facts: ProviderFacts,
    legacy_policies: Sequence[RepairPolicy] = (),
    *,
    now: datetime,
) -> dict[str, tuple[str, str]]:
    """The machines that are removed for their own state: by name, with method and reason."""
    ended = {
        machine.name: (commands.EXPIRATION, EXPIRED)
        for machine in _machines(snapshot)
        if (claim := _standing_claim(facts, machine)) is not None and has_expired(claim, now=now)
    }
    for machine, problem in _broken(snapshot, facts, legacy_policies, now=now):
        if not problem:
            ended.setdefault(machine.name, (commands.REPAIR, budgets.UNHEALTHY))
    return ended


def _machines(snapshot: Snapshot) -> list[StateNode]:
    """Every machine by name, including claims that have not launched."""
    machines = [*snapshot.nodes]
    machines += [StateNode(node=None, node_claim=claim) for claim in snapshot.unlaunched]
    by_name = {machine.name: machine for machine in machines}
    return [machine for _, machine in sorted(by_name.items())]


def _forced_out(view: DisruptionContext, machine: StateNode, method: str, reason: str) -> Command:
    candidate = view.inspection.described(machine)
    return Command(method, reason, Decision.DELETE, (candidate,))


def _standing_claim(facts: ProviderFacts, machine: StateNode) -> NodeClaim | None:
    """The claim of a machine, if it is of this provider and not being deleted."""
    claim = machine.node_claim
    if claim is None or machine.is_deleting or not facts.serves(claim.spec.node_class_ref):
        return None
    return claim


def repairs_held_back(
    view: DisruptionContext, legacy_policies: Sequence[RepairPolicy]
) -> Iterator[tuple[Blocked, Announcement]]:
    """Yield the machines that stay because too many are unhealthy, and the text of their event."""
    for machine, problem in _broken(view.snapshot, view.facts, legacy_policies, now=view.now):
        if problem:
            # the event is on the node only, unlike that of repair within budgets
            event = Announcement(f"Node/{machine.name}", "NodeRepairBlocked", problem)
            yield Blocked(machine.name, Why.REPAIR_BLOCKED, problem, has_event=False), event


def _broken(
    snapshot: Snapshot,
    facts: ProviderFacts,
    policies: Sequence[RepairPolicy],
    *,
    now: datetime,
) -> Iterator[tuple[StateNode, str]]:
    """Yield the machines that are due for repair, and what blocks it."""
    if not policies:
        return
    nodes = [machine.node for machine in snapshot.nodes if machine.node is not None]
    for machine in sorted(snapshot.nodes, key=lambda machine: machine.name):
        if machine.node is None or _standing_claim(facts, machine) is None:
            continue
        found = diagnosis(machine.node, policies)
        if found is not None and now >= found.due:
            yield machine, too_many_fail(machine.node, nodes, policies)
