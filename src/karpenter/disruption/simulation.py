"""Where pods would be placed if machines were removed: the simulations of disruption.

The cluster is compiled lazily, once for each use. For consolidation, machines with a recent pod
event take no pods that already have a place; otherwise every machine does. Repair moves all pods of
a machine, the other methods only those that may be evicted.

A machine that is not initialized may never become ready, so a pod that would move there counts as
stranded. But such a machine was created for other pods. So the simulation is repeated with pending
and departing pods first, which may leave the candidates' pods a place elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.disruption.candidates import Candidate
from karpenter.disruption.claim_conditions import patience
from karpenter.model.conditions import READY, is_true
from karpenter.scheduling.attempt import HasTime, always
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.packer import Recipe
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.problem import CostOptions
from karpenter.scheduling.provisioning import PassInputs
from karpenter.scheduling.what_if import MovablePod, Outcome, WhatIf
from karpenter.state.departing_pods import pods_to_move
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot


class NoPoolsError(Exception):
    """No pool could create a replacement."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Where pods would be placed, and which would be without a place."""

    outcome: Outcome
    stranded: tuple[str, ...]  # names of pods, each with a place now
    cluster: WhatIf

    @property
    def is_early(self) -> bool:
        """Whether all would have a place, but some of them on a machine that is not initialized."""
        placed = {pod for pods in self.outcome.existing.values() for pod in pods}
        return bool(self.stranded) and placed.issuperset(self.stranded)

    @property
    def claims(self) -> tuple[OpenClaim, ...]:
        """The claims that would have to be created, including those for pending pods."""
        return self.outcome.claims

    def template(self, claim: OpenClaim) -> Template:
        """The template a claim is made from."""
        return self.cluster.template(claim)

    def written(self, claim: OpenClaim) -> PlannedClaim | None:
        """A claim as it would be created; None when it does not reach ``minValues``."""
        return self.cluster.written(claim)

    def replacements(self) -> tuple[PlannedClaim, ...] | None:
        """The replacements of the machines; None when a claim does not reach ``minValues``.

        Claims for pending pods alone are left to provisioning.
        """
        needed = [claim for claim in self.claims if self.cluster.is_needed(claim)]
        written = [self.written(claim) for claim in needed]
        return tuple(filter(None, written)) if all(written) else None


class Simulation:
    """A cluster to simulate on; made once for a pass, which works at one fixed moment."""

    def __init__(
        self,
        snapshot: Snapshot,
        ground: PassInputs,
        candidates: Sequence[Candidate],
        *,
        now: datetime,
        compiler: Compiler | None = None,
        ignores_ratios: bool = False,
        cost: CostOptions | None = None,
    ) -> None:
        """Prepare to remove any of these candidates, alone or together.

        Args:
            ignores_ratios: place pods as if no pool and no workload had a spot ratio.
            cost: how prices shape packing, in place of the settings.
        """
        self._ignores_ratios = ignores_ratios
        self._snapshot = snapshot
        self._ground = ground
        self._candidates = candidates
        self._now = now
        self._compiler = compiler
        self._cost = cost

    def consolidating(self, candidates: Sequence[Candidate]) -> Answer:
        """Where pods would be placed if consolidation removed these machines."""
        return self._ask(self._for_consolidation, candidates, heals_ratios=False)

    def rebalancing(
        self,
        candidates: Sequence[Candidate],
        *,
        recipes: Sequence[Recipe] | None = None,
        has_time: HasTime = always,
    ) -> Answer:
        """Where pods would be placed by price if these machines were removed together.

        ``recipes``: the claims to open, in place of packing anew.
        """
        return self._ask(
            self._for_consolidation,
            candidates,
            heals_ratios=False,
            by_price=True,
            recipes=recipes,
            has_time=has_time,
        )

    def replacing(
        self,
        candidates: Sequence[Candidate],
        *,
        is_strict: bool = False,
        credit: Mapping[str, int] | None = None,
    ) -> Answer:
        """Where pods would be placed if these machines were replaced."""
        return self._in_either_order(
            self._for_replacement, candidates, is_strict=is_strict, credit=credit
        )

    def repairing(
        self,
        candidate: Candidate,
        *,
        is_strict: bool = False,
        credit: Mapping[str, int] | None = None,
    ) -> Answer:
        """Where all pods of an unhealthy machine would go, protected ones included."""
        return self._in_either_order(
            self._for_repair, [candidate], is_strict=is_strict, credit=credit
        )

    def _in_either_order(
        self,
        cluster: "_Cluster",
        candidates: Sequence[Candidate],
        *,
        is_strict: bool,
        credit: Mapping[str, int] | None,
    ) -> Answer:
        """Simulate again with the candidates' pods last, if some would be on a starting machine.

        In the usual order they may take the room of the pods that the machine was created for.
        """
        answer = self._ask(cluster, candidates, is_strict=is_strict, credit=credit)
        if not answer.is_early:
            return answer
        last = self._ask(
            cluster, candidates, is_strict=is_strict, credit=credit, homeless_first=True
        )
        return answer if last.stranded else last

    def _ask(
        self,
        cluster: "_Cluster",
        candidates: Sequence[Candidate],
        *,
        is_strict: bool = False,
        credit: Mapping[str, int] | None = None,
        homeless_first: bool = False,
        heals_ratios: bool = True,
        by_price: bool = False,
        recipes: Sequence[Recipe] | None = None,
        has_time: HasTime = always,
    ) -> Answer:
        if not self._ground.pools.dynamic:
            raise NoPoolsError("no dynamic node pool is ready")
        machines = [candidate.machine for candidate in candidates]
        outcome = cluster.what_if.without(
            machines,
            is_strict=is_strict,
            credit=credit or {},
            homeless_first=homeless_first,
            heals_ratios=heals_ratios,
            ignores_ratios=self._ignores_ratios,
            by_price=by_price,
            recipes=recipes,
            has_time=has_time,
        )
        lost = [key_of(pod) for pod in outcome.stranded]
        for machine in machines:
            lost += cluster.lost.get(machine.name, ())
        return Answer(outcome, (*cluster.lost.get("", ()), *lost), cluster.what_if)

    @cached_property
    def _for_consolidation(self) -> "_Cluster":
        closed = [m.name for m in self._snapshot.nodes if self._has_just_changed(m)]
        return self._compiled(lambda candidate: candidate.movable, closed)

    @cached_property
    def _for_replacement(self) -> "_Cluster":
        return self._compiled(lambda candidate: candidate.movable, ())

    @cached_property
    def _for_repair(self) -> "_Cluster":
        return self._compiled(lambda candidate: candidate.reschedulable, ())

    def _compiled(
        self, pods_of: Callable[[Candidate], Sequence[Pod]], closed: Sequence[str]
    ) -> "_Cluster":
        waiting = [*self._ground.intake.pods, *self._ground.virtual]
        departing = pods_to_move(self._snapshot.nodes, self._snapshot.pdbs.values(), now=self._now)
        by_name = {key_of(pod): MovablePod(pod, is_pending=True) for pod in waiting}
        for pod in departing:
            by_name.setdefault(key_of(pod), MovablePod(pod))
        for candidate in self._candidates:
            home = candidate.name
            for pod in pods_of(candidate):
                by_name.setdefault(key_of(pod), MovablePod(pod, home=home))
        everybody = list(by_name.values())
        problem, failures = self._ground.problem(
            [mover.pod for mover in everybody], ignores_ratios=self._ignores_ratios
        )
        if self._cost is not None:
            problem = replace(problem, options=replace(problem.options, cost=self._cost))
        movers: list[MovablePod] = [] if failures else everybody
        lost: dict[str, list[str]] = {}
        for mover in everybody if failures else ():
            if mover.pod.metadata.uid not in failures:
                movers.append(mover)
            elif not mover.is_pending:
                lost.setdefault(mover.home, []).append(key_of(mover.pod))
        what_if = WhatIf(problem, movers, closed=closed, compiler=self._compiler)
        return _Cluster(what_if, lost)

    def _has_just_changed(self, machine: StateNode) -> bool:
        """Whether ``consolidateAfter`` has not passed since a machine's last pod event."""
        pool = self._snapshot.node_pools.get(machine.node_pool)
        if pool is None or machine.node_claim is None or not _is_ready(pool):
            return False
        wait = patience(
            machine.node_claim, pool, now=self._now, is_initialized=machine.is_initialized
        )
        return wait is not None and not wait.is_over


@dataclass(frozen=True, slots=True)
class _Cluster:
    what_if: WhatIf
    lost: Mapping[
        str, Sequence[str]
    ]  # home -> pods that fit nowhere, for example because of their volumes


def _is_ready(pool: NodePool) -> bool:
    return is_true(pool.status.conditions, READY)
