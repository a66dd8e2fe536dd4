"""What happens whatever budgets say: claims whose time is over, static pools that shrink."""

from collections.abc import Iterator
from typing import Final

from karpenter.disruption import budgets, commands
from karpenter.disruption.commands import Command, Decision
from karpenter.disruption.expiration import has_expired
from karpenter.disruption.passes import Pass
from karpenter.scheduling.static import plan_static
from karpenter.state.nodes import StateNode

EXPIRED: Final = "Expired"


def forced_commands(view: Pass) -> Iterator[Command]:
    """Yield a command for each machine that goes without further ado."""
    gone: set[str] = set()
    machines = [*view.snapshot.nodes]
    machines += [StateNode(node=None, node_claim=claim) for claim in view.snapshot.unlaunched]
    by_name = {machine.name: machine for machine in machines}
    for name, machine in sorted(by_name.items()):
        claim = machine.node_claim
        if claim is None or machine.is_deleting or not has_expired(claim, now=view.now):
            continue
        gone.add(name)
        yield _forced_out(view, machine, commands.EXPIRATION, EXPIRED)
    if not view.settings.planning.static:
        return
    for outcome in plan_static(view.ground.pools.static, view.snapshot, now=view.now):
        for name in outcome.delete:
            if name not in gone and name in by_name:
                method, reason = commands.STATIC, budgets.UNDERUTILIZED
                yield _forced_out(view, by_name[name], method, reason)


def _forced_out(view: Pass, machine: StateNode, method: str, reason: str) -> Command:
    candidate = view.inspection.described(machine)
    return Command(method, reason, Decision.DELETE, (candidate,), savings=candidate.price)
