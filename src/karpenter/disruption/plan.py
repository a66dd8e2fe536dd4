"""The ordered methods of disruption: what one pass decides, and what a sequence of passes decides.

The first method that finds a command decides a pass. A whole plan is a sequence of passes at one
fixed moment: every command is begun and none is finished, so budgets fill up, machines that are
nominated for pods stay, and in the end every machine is part of a command or has a reason to stay.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, TypeAlias, Unpack

from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.types import ProviderFacts
from karpenter.disruption import budgets, commands
from karpenter.disruption.budgets import Allowance
from karpenter.disruption.candidates import Blocked, Kind, Why
from karpenter.disruption.commands import Command, Finding
from karpenter.disruption.context import (
    DisruptionContext,
    DisruptionSettings,
)
from karpenter.disruption.events import announced, announced_command, announced_pods
from karpenter.disruption.forecast import DisruptionForecast, ForecastOptions
from karpenter.disruption.methods.consolidation import Consolidation
from karpenter.disruption.methods.drift import find_drift
from karpenter.disruption.methods.emptiness import find_empty
from karpenter.disruption.methods.forced import repairs_held_back
from karpenter.disruption.methods.multi_node import find_multi
from karpenter.disruption.methods.repair import find_repair
from karpenter.disruption.methods.single_node import find_single
from karpenter.disruption.methods.static_drift import find_static_drift
from karpenter.disruption.rebalance.settings import is_wanted
from karpenter.scheduling.provisioning import Announcement, Catalogue
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

MOST_COMMANDS: Final = 1000  # of a plan; bounds the size of its output


class Search:
    """A pass, with the inputs that several methods share."""

    def __init__(self, view: DisruptionContext) -> None:
        """Begin the search."""
        self.view: Final = view

    @cached_property
    def consolidation(self) -> Consolidation:
        """The machines that both kinds of consolidation consider."""
        return Consolidation(self.view)


Find: TypeAlias = Callable[[Search], Finding]


def _rebalance(search: Search) -> Finding:
    # few clusters use it, and loading it delays the start of every plan
    from karpenter.disruption.rebalance.search import find_rebalance

    return find_rebalance(search.consolidation)


METHODS: Final[Mapping[str, Find]] = {
    commands.REPAIR: lambda search: find_repair(search.view),  # unhealthy nodes are most urgent
    commands.EMPTY: lambda search: find_empty(search.view),  # no pods to move: cheapest and safest
    commands.STATIC_DRIFT: lambda search: find_static_drift(search.view),  # one node for another
    commands.DRIFT: lambda search: find_drift(search.view),  # differs from the pool's template
    commands.MULTI: lambda search: find_multi(search.consolidation),  # several into one or none
    commands.SINGLE: lambda search: find_single(search.consolidation),  # one into a cheaper one
    commands.REBALANCE: _rebalance,  # several into several
}


@dataclass(frozen=True)
class MethodResult:
    """The decision of one pass, and the finding of each method it tried."""

    commands: tuple[Command, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class DisruptionPlan:
    """All commands that disruption would begin now, and why the other machines stay."""

    commands: tuple[Command, ...]
    blocked: tuple[Blocked, ...]  # every machine that stays, by name
    budgets: Mapping[str, Mapping[str, Allowance]]  # pool -> reason -> what was left before
    events: tuple[Announcement, ...] = ()


def next_commands(search: Search, skip: Container[str] = ()) -> MethodResult:
    """Decide one pass: the first method that finds a command, of those not skipped."""
    view = search.view
    findings = []
    for name, find in METHODS.items():
        if name in skip:
            continue
        if name == commands.REBALANCE and not is_wanted(
            view.snapshot.node_pools.values(), view.settings.rebalance.mode
        ):
            continue
        finding = find(search)
        findings.append(finding)
        if finding.commands:
            return MethodResult(finding.commands, tuple(findings))
    return MethodResult((), tuple(findings))


def plan_disruption(
    snapshot: Snapshot,
    catalogue: Catalogue,
    facts: ProviderFacts,
    settings: DisruptionSettings,
    *,
    now: datetime,
    most: int = MOST_COMMANDS,
    legacy_policies: Sequence[RepairPolicy] = (),
    **options: Unpack[ForecastOptions],
) -> DisruptionPlan:
    """Plan everything that would be begun now, each command after the one before it.

    Args:
        legacy_policies: when legacy repair deletes a machine, whatever the settings are.
        options: the optional arguments of the forecast.
    """
    cluster = (snapshot, catalogue, facts, settings)
    outlook = DisruptionForecast(*cluster, now=now, legacy_policies=legacy_policies, **options)
    ours = outlook.before.snapshot
    before = {
        pool: {reason: outlook.before.allowance(pool, reason) for reason in budgets.REASONS}
        for pool in sorted(ours.node_pools)
    }
    begun = list(outlook.forced)
    events = dict.fromkeys(announced_pods(ours))
    while True:
        view = outlook.context()
        step = MethodResult((), ()) if outlook.is_paused else next_commands(Search(view))
        events.update((event, None) for finding in step.findings for event in finding.events)
        if not step.commands or len(begun) >= most:
            break
        for command in step.commands:
            outlook.begin(command)
            events.update((event, None) for event in announced_command(command))
        begun += step.commands
    going = {name for command in begun for name in command.names}
    held = {each.node: (each, event) for each, event in repairs_held_back(view, legacy_policies)}
    events.update((event, None) for _, event in held.values())
    blocked = [
        held[machine.name][0] if machine.name in held else _why_it_stays(view, step, machine)
        for machine in sorted(ours.nodes, key=lambda machine: machine.name)
        if machine.name not in going
    ]
    events.update((event, None) for verdict in blocked for event in announced(verdict, ours))
    return DisruptionPlan(tuple(begun), tuple(blocked), before, tuple(events))


def _why_it_stays(view: DisruptionContext, step: MethodResult, machine: StateNode) -> Blocked:
    """The first reason why a machine is not disrupted.

    The verdict of a method that evaluated the machine precedes what blocks other methods.
    """
    said = {finding.method: finding.verdicts.get(machine.name) for finding in step.findings}
    repair = said.get(commands.REPAIR)
    if repair is not None:
        return repair
    if _goes_with_its_pool(view, machine):
        detail = f"NodePool {machine.node_pool} is being deleted, and its nodes go with it"
        return Blocked(machine.name, Why.DELETING, detail, has_event=False)
    drift = said.get(commands.STATIC_DRIFT) or said.get(commands.DRIFT)
    if drift is not None:
        return drift
    standing = view.standing(Kind.GRACEFUL)[machine.name]
    if isinstance(standing, Blocked):
        return standing
    for method in (commands.EMPTY, commands.SINGLE, commands.MULTI):
        verdict = said.get(method)
        if verdict is not None:
            return verdict
    if not step.findings:
        detail = "nothing is decided about it before every NodeClaim has launched"
        return Blocked(machine.name, Why.NOT_EVALUATED, detail, has_event=False)
    # a pass that finds nothing has checked all candidates, and has a reason for each to stay
    detail = "the plan ended before its turn came"
    return Blocked(machine.name, Why.NOT_EVALUATED, detail, has_event=False)


def _goes_with_its_pool(view: DisruptionContext, machine: StateNode) -> bool:
    pool = view.snapshot.node_pools.get(machine.node_pool)
    if pool is None or pool.metadata.deletion_timestamp is None or machine.node_claim is None:
        return False
    owners = machine.node_claim.metadata.owner_references
    return any(owner.kind == "NodePool" and owner.name == machine.node_pool for owner in owners)
