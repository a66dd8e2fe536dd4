"""What if some machines were removed: where would their pods go?

Consolidation asks this for every machine of a large cluster. The cluster is compiled once; every
pod that may have to move is among the pods to place, and also counted where it runs. A question
then costs about as much as placing its few pods: only the counts of their groups are copied, less
the pods that leave, and machines are bits of a mask.

Notation
    mover     a pod to be placed: always, or only when its home is removed
    home      the number of the machine a mover is on
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from karpenter.api.pods import Pod
from karpenter.model.resources import NODES
from karpenter.scheduling.attempt import (
    Attempt,
    Begin,
    Beginning,
    HasTime,
    always,
    devices_for,
    pod_order,
)
from karpenter.scheduling.commitments import Balance
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.compiled.topology_groups import GroupKind
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.joining import Joining
from karpenter.scheduling.packing.packer import Packer, Packing, Recipe
from karpenter.scheduling.packing.reservations import Reservations
from karpenter.scheduling.packing.topology import GroupState
from karpenter.scheduling.plan import Plan, PlannedClaim, Unplaced
from karpenter.scheduling.problem import Problem
from karpenter.scheduling.reasons.pool_refusals import Diagnosis
from karpenter.scheduling.result import ClaimWriter
from karpenter.scheduling.spot.pool_ratio import RatioRule
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of

_NO_CREDIT: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class MovablePod:
    """A pod that a question may be about."""

    pod: Pod
    home: str = ""  # the pod is placed if this machine is removed; empty: in any case
    is_pending: bool = False  # it has no node now either, so it cannot be stranded

    @property
    def is_settled(self) -> bool:
        """Whether it runs on its machine."""
        return bool(self.home) and self.pod.status.phase != "Pending"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where pods would go."""

    claims: tuple[OpenClaim, ...]
    existing: Mapping[str, tuple[str, ...]]  # machine -> pods
    stranded: tuple[Pod, ...]  # pods that have a place now and would have none
    pods: int  # how many were placed or failed


class WhatIf:
    """A compiled cluster that answers what-if questions."""

    def __init__(
        self,
        problem: Problem,
        movers: Sequence[MovablePod],
        *,
        closed: Iterable[str] = (),
        compiler: Compiler | None = None,
    ) -> None:
        """Compile a cluster.

        Args:
            problem: the cluster; its pods are those of ``movers``, in the same order.
            movers: every pod that any question may be about.
            closed: machines that take no pods from other machines, only pending ones.
            compiler: the cache of earlier passes.
        """
        self.compiled: Final = CompiledProblem(problem, compiler)
        self._problem = problem
        self._movers = movers
        self._numbers = {node.name: n for n, node in enumerate(self.compiled.state_nodes)}
        self._closed = _mask(self._numbers[name] for name in closed if name in self._numbers)
        self._unfinished = _mask(
            number
            for number, node in enumerate(self.compiled.state_nodes)
            if node.is_managed and not node.is_initialized
        )
        self._always = [p for p, mover in enumerate(movers) if not mover.home]
        self._at_home: dict[int, list[int]] = {}  # home -> its movers
        for position, mover in enumerate(movers):
            if mover.home and mover.home in self._numbers:
                self._at_home.setdefault(self._numbers[mover.home], []).append(position)
        order = pod_order(problem.pods, self.compiled.class_of)
        self._rank = {position: rank for rank, position in enumerate(order)}
        self._suitable: dict[Stage, int] = {}
        self._limits = self.compiled.remaining_limits()
        self._keys = self.compiled.topology_keys
        self._homeless = {key_of(movers[p].pod) for p in self._always}
        self._groups_of: dict[Hashable, tuple[int, ...]] = {}  # kind -> groups that count such pods
        self._counted: dict[int, Counter[int]] = {}  # machine -> group -> pods
        self._settled = self._count_homes()

    def has(self, machine: str) -> bool:
        """Whether a machine of that name is known."""
        return machine in self._numbers

    def without(
        self,
        machines: Sequence[StateNode],
        *,
        is_strict: bool = True,
        credit: Mapping[str, int] = _NO_CREDIT,
        homeless_first: bool = False,
        by_price: bool = False,
        recipes: Sequence[Recipe] | None = None,
        heals_ratios: bool = True,
        ignores_ratios: bool = False,
        has_time: HasTime = always,
    ) -> Outcome:
        """Place the pods of ``machines`` as if these were gone.

        Args:
            machines: those that go.
            is_strict: leave a pod without a place rather than use other capacity than reserved.
            credit: reservation -> instances that the removal frees.
            homeless_first: place pods without a home before pods whose home is removed.
            by_price: pack by price the pods that no machine has room for, in pools that allow it.
            recipes: the claims to open, in place of packing anew.
            heals_ratios: keep new claims off spot until the ratios of their pools hold; otherwise
                only until these are no further off than with the machines.
            ignores_ratios: leave new claims as if no pool had a ratio.
            has_time: the deadline check of packing by price.
        """
        going = [self._numbers[machine.name] for machine in machines]
        without = _mask(going) | self.compiled.leaving_nodes
        positions = [*self._always]
        for number in going:
            positions += self._at_home.get(number, ())
        positions.sort(key=self._rank.__getitem__)
        if homeless_first:
            positions.sort(key=lambda position: bool(self._movers[position].home))
        class_of = self.compiled.class_of
        classes = list({id(class_of[p]): class_of[p] for p in positions}.values())
        closed = (
            {p: self._closed for p in positions if self._movers[p].is_settled}
            if self._closed
            else {}
        )

        def begin(*, insists: bool = True, barred: Mapping[int, int] | None = None) -> Beginning:
            joining = Joining(
                self._limits_without(machines),
                self._reservations(is_strict, credit),
                best_effort_min_values=self._problem.options.best_effort_min_values,
                devices=devices_for(self.compiled, classes),
            )
            states = _States(self, going, classes)
            packer = Packer(
                self.compiled.nodes,
                self.compiled.templates,
                states,
                joining,
                classes,
                topology_keys=self._keys,
                without_nodes=without,
                barred=closed if barred is None else barred,
                suitable=self._suitable,
                custom_labels=self.compiled.custom_labels,
                insists=insists,
            )
            well_known = self._problem.facts.well_known_labels
            diagnosis = Diagnosis(self.compiled.templates, states, joining, well_known)
            return Beginning(packer, joining, diagnosis)

        names = frozenset(machine.name for machine in machines)
        ratios = RatioRule(names, heals=heals_ratios, is_ignored=ignores_ratios)
        if recipes is not None:
            packing = self._replayed(positions, recipes, begin)
            ratios.pin(self.compiled, packing.claims)
        else:
            ledger = self._problem.ledger
            packing = self._packed(
                positions,
                begin,
                ratios,
                ledger.balance(names) if ledger and by_price else None,
                by_price=by_price,
                has_time=has_time,
            )
        failed = [*packing.failed, *packing.deferred]
        existing: dict[str, tuple[str, ...]] = {}
        for number, placed in sorted(packing.on_nodes.items()):
            name = self.compiled.nodes.targets[number].name
            existing[name] = tuple(key_of(self._movers[p].pod) for p in placed)
            if self._unfinished >> number & 1:
                # the machine is not initialized and may never be, so its pods count as stranded
                failed += [p for p in placed if self._movers[p].home]
        stranded = tuple(self._movers[p].pod for p in failed if not self._movers[p].is_pending)
        return Outcome(tuple(packing.claims), existing, stranded, len(positions))

    def _packed(
        self,
        positions: Sequence[int],
        begin: Begin,
        ratios: RatioRule,
        balance: Balance | None,
        *,
        by_price: bool,
        has_time: HasTime,
    ) -> Packing:
        def attempt(*, insists: bool) -> Attempt:
            start = begin(insists=insists)
            packing = start.packer.pack(positions, self.compiled.class_of)
            ratios.pin(self.compiled, packing.claims)
            return Attempt(packing, start.diagnosis)

        insists = True
        found = attempt(insists=True)
        if found.packing.has_insisted and self._left_out(found.packing):
            # as in ``solve``: more pods may fit if spreads may use runner-up domains
            other = attempt(insists=False)
            if self._left_out(other.packing) < self._left_out(found.packing):
                found, insists = other, False
        if not by_price:
            return found.packing
        # Imported on demand: few clusters are packed by price
        from karpenter.scheduling.cheapest.candidates import choose

        chosen, _ = choose(
            self.compiled,
            found,
            self._plan(found),
            self._plan,
            has_time,
            insists=insists,
            order=positions,
            begin=begin,
            ratios=ratios,
            balance=balance,
        )
        return chosen.packing

    def _replayed(
        self, positions: Sequence[int], recipes: Sequence[Recipe], begin: Begin
    ) -> Packing:
        from karpenter.scheduling.cheapest.candidates import replayed

        number = {key_of(self._movers[p].pod): p for p in positions}
        known = [
            replace(recipe, pods=tuple(number[pod] for pod in recipe.names if pod in number))
            for recipe in recipes
        ]
        return replayed(self.compiled, positions, known, begin)

    def _plan(self, attempt: Attempt) -> Plan:
        """What candidates for a packing are compared by."""
        packing = attempt.packing
        written = [self.written(claim) for claim in packing.claims]
        unmade = [
            p
            for claim, made in zip(packing.claims, written, strict=True)
            if made is None
            for p in claim.members
        ]
        claims = tuple(filter(None, written))
        names = [key_of(mover.pod) for mover in self._movers]
        targets = self.compiled.nodes.targets
        return Plan(
            claims=claims,
            existing={
                targets[number].name: tuple(names[p] for p in placed)
                for number, placed in sorted(packing.on_nodes.items())
            },
            unplaced=tuple(Unplaced(names[p], ()) for p in sorted([*packing.failed, *unmade])),
            deferred=tuple(sorted(names[p] for p in packing.deferred)),
            unevaluated=tuple(names[p] for p in packing.unevaluated),
            hourly_cost=sum(claim.launch.price for claim in claims if claim.launch),
        )

    def _left_out(self, packing: Packing) -> int:
        """How many pods a plan made from a packing would leave out."""
        unmade = sum(len(claim.members) for claim in packing.claims if self.written(claim) is None)
        return len(packing.failed) + len(packing.deferred) + unmade

    def template(self, claim: OpenClaim) -> Template:
        """The template a claim is made from."""
        return self.compiled.templates[claim.template]

    def names(self, claim: OpenClaim) -> tuple[str, ...]:
        """The pods of a claim."""
        return tuple(key_of(self._movers[p].pod) for p in claim.members)

    def is_needed(self, claim: OpenClaim) -> bool:
        """Whether a claim holds a pod that has a node now, and not only pending ones."""
        return any(not self._movers[p].is_pending for p in claim.members)

    def written(self, claim: OpenClaim) -> PlannedClaim | None:
        """A claim as it would be created; None when its types do not reach ``minValues``."""
        writer = ClaimWriter(self._problem.facts, self._problem.options)
        planned = writer.planned(self.template(claim), claim, self.names(claim))
        return planned if isinstance(planned, PlannedClaim) else None

    def state_without(self, group: int, going: Sequence[int]) -> GroupState:
        """The counts of a group without some machines and all pods on them."""
        state = self._settled[group].copy()
        for number in going:
            if pods := self._counted_on(number).get(group):
                self._move(state, number, -pods)
        if not state.is_hostname:
            self._forget_domains(state, going)
        return state

    def is_void(self, group: int, going: Sequence[int]) -> bool:
        """Whether all pods that state the rule of an inverse group are on removed machines."""
        gone = sum(self._counted_on(number).get(group, 0) for number in going)
        return bool(gone) and gone == self._speakers[group]

    @cached_property
    def _speakers(self) -> Counter[int]:
        """How many pods that stay where they are each group counts, on all machines together."""
        total: Counter[int] = Counter()
        for number in range(len(self.compiled.state_nodes)):
            total.update(self._counted_on(number))
        return total

    def _count_homes(self) -> list[GroupState]:
        states = self.compiled.states()
        for number, positions in self._at_home.items():
            for position in positions:
                pod_class = self.compiled.class_of[position]
                for group in self._counting((pod_class.number,), pod_class.pod):
                    self._move(states[group], number, 1)
        return states

    def _counted_on(self, number: int) -> Counter[int]:
        """How many pods each group counts on a machine that stays."""
        known = self._counted.get(number)
        if known is None:
            known = self._counted[number] = Counter()
            machine = self.compiled.state_nodes[number]
            kinds = self.compiled.nodes.targets[number].kinds
            for pod, kind in zip(machine.pods, kinds, strict=True) if machine.node else ():
                if key_of(pod) not in self._homeless:
                    known.update(self._counting(kind, pod))
        return known

    def _counting(self, kind: Hashable, pod: Pod) -> tuple[int, ...]:
        """The groups that count pods of a kind."""
        known = self._groups_of.get(kind)
        if known is None:
            known = self._groups_of[kind] = self.compiled.groups_counting(pod)
        return known

    def _move(self, state: GroupState, number: int, pods: int) -> None:
        target = self.compiled.nodes.targets[number]
        if not state.admits(target.requirements, target.taints):
            return
        if state.is_hostname:
            if pods > 0:
                state.nodes.add(number, pods)
            for _ in range(-pods):
                state.nodes.remove(number)
        elif (domain := self.compiled.nodes.domain_of(number, state.group.key)) is not None:
            state.add(domain, pods)

    def _forget_domains(self, state: GroupState, going: Sequence[int]) -> None:
        """Remove the domains that only removed machines are in."""
        nodes = self.compiled.nodes
        gone = _mask(going) | self.compiled.leaving_nodes
        for number in going:
            domain = nodes.domain_of(number, state.group.key)
            if domain is None or state.counts.get(domain, 1):
                continue
            others = nodes.domains(state.group.key)[domain] & ~gone
            if not self.compiled.makes_domain(state, others) and not self._is_offered(
                state, domain
            ):
                del state.counts[domain]

    def _is_offered(self, state: GroupState, domain: str) -> bool:
        tolerations = state.group.tolerations
        return any(
            domain in template.domains(state.group.key)
            for template in self.compiled.templates
            if tolerations is None or template.is_tolerated(tolerations)
        )

    def _limits_without(self, machines: Sequence[StateNode]) -> list[dict[str, int]]:
        limits = [dict(left) for left in self._limits]
        by_pool = {t.name: limits[t.number] for t in self.compiled.templates}
        for machine in machines:
            left = by_pool.get(machine.node_pool, {})
            for name in left:
                left[name] += 1 if name == NODES else machine.capacity[name]
        return limits

    def _reservations(self, is_strict: bool, credit: Mapping[str, int]) -> Reservations | None:
        options = self._problem.options
        if not options.reserved_capacity:
            return None
        if not any(template.has_reserved for template in self.compiled.templates):
            return None
        universes = (template.universe for template in self.compiled.templates)
        return Reservations(universes, strict=is_strict, credits=credit)


class _States(Sequence[GroupState]):
    """The counts of one question, each made lazily."""

    __slots__ = ("_classes", "_going", "_made", "_what_if")

    def __init__(self, what_if: WhatIf, going: Sequence[int], classes: Sequence[PodClass]) -> None:
        self._what_if = what_if
        self._going = going
        self._classes = classes
        self._made: dict[int, GroupState] = {}

    def __getitem__(self, group: int) -> GroupState:  # type: ignore[override]
        state = self._made.get(group)
        if state is None:
            state = self._made[group] = self._what_if.state_without(group, self._going)
            if state.group.kind is GroupKind.INVERSE and not state.is_hostname:
                state.is_void = self._what_if.is_void(group, self._going) and not any(
                    group in pod_class.repels for pod_class in self._classes
                )
        return state

    def __len__(self) -> int:
        return len(self._what_if.compiled.groups.known)


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
