"""First-fit decreasing, in Karpenter's order: machines, then planned claims, then a new claim.

Notation
    pod order    largest cpu first, then memory, then age, then uid; a pod that fails goes to the
                 end of the queue and is tried again until a whole round brings no progress
    claim order  the claim with the fewest pods first
    best domain  the one with the fewest pods; a runner-up is another that the spread allows, and is
                 used only when no claim, open or new, can be in a better one
    stage        a class of pods after some of its preferences were dropped
    alive        per stage: a mask of the machines or claims that have not finally refused it

A claim only ever gets fuller and its requirements narrower, so a refusal for lack of room, by labels
or by ports is final: its bit is cleared. A refusal by topology is not final, since counts change,
nor is one for a label that the claim may come to define by another pod. Those are evaluated for each
pod, but for all claims at once by masks, so a pod costs a few operations on integers however many
claims there are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from karpenter.scheduling.compiled.custom_labels import seeks_any, sought_in
from karpenter.scheduling.compiled.existing_nodes import NodeIndex
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.devices.protocol import Grant
from karpenter.scheduling.packing.claims import ClaimIndex, OpenClaim, Shape
from karpenter.scheduling.packing.joining import Joining, Refusal
from karpenter.scheduling.packing.room import FullClaims, NodeRoom
from karpenter.scheduling.packing.topology import (
    Choice,
    Closed,
    GroupState,
    Hosts,
    open_domains,
    open_hosts,
)

_Kind: TypeAlias = tuple[int, int]  # the number of a class, and the machines barred to a pod

_EVERYWHERE: Final = Hosts(-1, -1, True)
_PODS_BETWEEN_TIME_CHECKS: Final = 64
_NEVER: Final = -1
# Runners-up are tried by how many more pods they have, for so many different numbers at most: a
# label may have thousands of values
_MOST_LEVELS: Final = 4


@dataclass(slots=True)
class Packing:
    """Where the pods of a pass were placed; pods are given by their position in the pass."""

    claims: list[OpenClaim] = field(default_factory=list)
    on_nodes: dict[int, list[int]] = field(default_factory=dict)  # machine -> pods
    failed: list[int] = field(default_factory=list)
    deferred: list[int] = field(default_factory=list)  # waiting for a reservation
    unevaluated: list[int] = field(default_factory=list)  # time ran out before they were tried
    has_insisted: bool = False  # whether a claim was skipped because its domain is a runner-up


@dataclass(frozen=True, slots=True)
class Recipe:
    """A claim that was planned before, to be opened again with the same pods."""

    node_pool: str
    names: tuple[str, ...]  # of its pods
    instance_types: tuple[str, ...]  # that it may be launched as
    pods: tuple[int, ...] = ()  # the positions of those that are still to be placed


class Packer:
    """One attempt to place the pods of a pass."""

    def __init__(
        self,
        nodes: NodeIndex,
        templates: Sequence[Template],
        states: Sequence[GroupState],
        joining: Joining,
        classes: Sequence[PodClass],
        *,
        topology_keys: Sequence[str],
        without_nodes: int = 0,
        barred: Mapping[int, int] | None = None,
        suitable: dict[Stage, int] | None = None,
        custom_labels: frozenset[str] = frozenset(),
        insists: bool = True,
    ) -> None:
        """Begin with empty claims.

        Args:
            states: counts before the pass; they are changed.
            classes: of the pods that will come.
            topology_keys: the labels, but for the hostname, that any group is about.
            without_nodes: machines to omit.
            barred: position of a pod -> machines that it may not go to, as a mask.
            suitable: a cache of suitable machines, shared by attempts on the same machines.
            custom_labels: those that claims may come to define by the pods on them.
            insists: whether a claim for the best domain is preferred to one for a runner-up.
        """
        self._nodes = nodes
        self._templates = templates
        self._states = states  # counts, as they stand after the pods placed so far
        self._joining = joining
        self._index = ClaimIndex(topology_keys, custom_labels)
        self._custom_labels = custom_labels
        self._insists = insists
        self._sought: dict[Stage, tuple[str, ...]] = {}  # of those, what a claim must define
        self._room = NodeRoom(nodes, joining.devices, classes)
        self._full = FullClaims(classes)
        self._without_nodes = without_nodes
        self._barred = barred or {}
        self._suitable = {} if suitable is None else suitable
        self._alive_nodes: dict[Stage, int] = {}
        self._alive_claims: dict[Stage, int] = {}
        self._packing = Packing(claims=self._index.claims)
        # Classes whose latest refusal was for a reservation that is used up
        self._reserved_out: set[int] = set()
        self._closed = 0  # mask of the claims between ``close_claims`` and ``reopen_claims``

    def pack(
        self,
        order: Iterable[int],
        class_of: Sequence[PodClass],
        has_time: Callable[[], bool] = lambda: True,
    ) -> Packing:
        """Place pods, given by position, in this order; ``class_of`` holds the class of each.

        It may be called again for further pods, which use the room that earlier ones left.
        """
        queue = deque(order)
        length_at_push: dict[int, int] = {}
        failed_at: dict[_Kind, int] = {}  # how many pods were placed when such a pod failed
        # How many labels claims defined when such a pod failed: before they define another, it fails
        # again; ``_NEVER`` where no label would help
        retried_at: dict[_Kind, int] = {}
        placed = seen = 0
        while queue:
            position = queue.popleft()
            if length_at_push.get(position) == len(queue) + 1:
                queue.appendleft(position)
                break
            seen += 1
            pod_class = class_of[position]
            checks_time = seen % _PODS_BETWEEN_TIME_CHECKS == 0 or pod_class.is_costly
            if checks_time and not has_time():
                queue.appendleft(position)
                self._packing.unevaluated += [p for p in queue if p not in length_at_push]
                break
            # Barred machines are part of the key, since pods of one class may differ in them
            kind = pod_class.number, self._barred.get(position, 0)
            known_to_fail = failed_at and (
                retried_at.get(kind) in (_NEVER, self._index.label_definitions)
                or failed_at.get(kind) == placed
            )
            if not known_to_fail and self._place(pod_class, position):
                placed += 1
                continue
            failed_at[kind] = placed
            if pod_class.number not in self._reserved_out and not _may_change(pod_class):
                retried_at[kind] = self._retried_at(pod_class)
            queue.append(position)
            length_at_push[position] = len(queue)
        self._sort_failures(queue, class_of)
        return self._packing

    def take_back(self) -> list[int]:
        """Remove the pods without a place from the packing and return them, to be tried again."""
        packing = self._packing
        found = sorted([*packing.failed, *packing.deferred])
        packing.failed, packing.deferred = [], []
        return found

    def close_claims(self) -> None:
        """Let no further pod join the present claims."""
        self._closed = (1 << len(self._index.claims)) - 1

    def reopen_claims(self) -> None:
        """Let pods join every claim again."""
        self._closed = 0

    @property
    def claims(self) -> Sequence[OpenClaim]:
        """The claims opened so far."""
        return self._index.claims

    def buy(
        self,
        template: Template,
        pods: Sequence[tuple[int, PodClass, Stage]],
        keep: Callable[[OpenClaim], int],
    ) -> list[int]:
        """Open a claim for these pods, and return those that it refuses.

        Args:
            pods: each with its position and the stage to place it by; none has topology rules.
            keep: returns the offerings a filled claim keeps; limits are charged for those alone.
        """
        refused: list[int] = []
        claim: OpenClaim | None = None
        for position, pod_class, stage in pods:
            if claim is None:
                opened = self._joining.open(template, len(self._index.claims), pod_class, stage)
                if isinstance(opened, Refusal) or not self._joined(
                    template, opened, pod_class, stage, position, is_new=True
                ):
                    refused.append(position)
                    continue
                claim = opened
            elif not self._joined(template, claim, pod_class, stage, position):
                refused.append(position)
        if claim is not None:
            claim.bits = keep(claim)
            if template.has_reserved:
                self._joining.book(template, claim)
            self._joining.charge(template, claim)
        return refused

    def join(self, claim: OpenClaim, pod_class: PodClass, stage: Stage, position: int) -> bool:
        """Put a pod without topology rules on a claim if the claim takes it."""
        template = self._templates[claim.template]
        return self._joined(template, claim, pod_class, stage, position)

    def _joined(
        self,
        template: Template,
        claim: OpenClaim,
        pod_class: PodClass,
        stage: Stage,
        position: int,
        *,
        is_new: bool = False,
    ) -> bool:
        outcome = self._joining.to_claim(template, claim, pod_class, stage, (), is_new=is_new)
        if isinstance(outcome, Refusal):
            return False
        if is_new:
            self._index.add(claim)
        self._join(claim, outcome, pod_class, position)
        return True

    def _retried_at(self, pod_class: PodClass) -> int:
        """The number of label definitions at which a class fails; it is tried again at another."""
        if self._custom_labels and seeks_any(pod_class, self._custom_labels):
            return self._index.label_definitions
        return _NEVER

    def _sort_failures(self, queue: Iterable[int], class_of: Sequence[PodClass]) -> None:
        left_out = set(self._packing.unevaluated)
        for position in sorted(set(queue) - left_out):
            waiting = class_of[position].number in self._reserved_out
            (self._packing.deferred if waiting else self._packing.failed).append(position)

    def _place(self, pod_class: PodClass, position: int) -> bool:
        self._reserved_out.discard(pod_class.number)
        if pod_class.uses_devices and self._joining.devices.refusal(pod_class):
            return False
        any_nodes = bool(self._nodes.targets)
        for stage in pod_class.stages:
            hosts = open_hosts(self._states, stage.hosts) if stage.hosts else _EVERYWHERE
            if isinstance(hosts, Closed):
                continue
            choices = open_domains(self._states, stage.domains) if stage.domains else []
            if isinstance(choices, Closed):
                continue
            if any_nodes and self._on_node(pod_class, stage, position, hosts, choices):
                return True
            if (
                (choices and self._on_best(pod_class, stage, position, hosts, choices))
                or self._on_claim(pod_class, stage, position, hosts, choices)
                or (hosts.new and self._on_new_claim(pod_class, stage, position, choices))
            ):
                return True
            if pod_class.number in self._reserved_out:
                return False
        return False

    def _on_best(
        self,
        pod_class: PodClass,
        stage: Stage,
        position: int,
        hosts: Hosts,
        choices: Sequence[Choice],
    ) -> bool:
        """Place a pod in the best domain it can have, if its spread allows runners-up at all."""
        for choice in choices:
            if choice.counts and self._insists:
                break
        else:
            return False
        for slack in _levels(choices):
            good = [choice._replace(slack=slack) for choice in choices]
            if self._on_claim(pod_class, stage, position, hosts, good) or (
                hosts.new and self._on_new_claim(pod_class, stage, position, good)
            ):
                return True
        # The caller goes on to runners-up, which may need no reservation
        self._reserved_out.discard(pod_class.number)
        return False

    def _on_node(
        self,
        pod_class: PodClass,
        stage: Stage,
        position: int,
        hosts: Hosts,
        choices: Sequence[Choice],
    ) -> bool:
        alive = self._alive_nodes.get(stage)
        if alive is None:
            alive = self._suitable_nodes(pod_class, stage) & ~self._without_nodes
            self._alive_nodes[stage] = alive
        open_nodes = alive & hosts.nodes & self._room.perhaps(pod_class)
        open_nodes &= ~self._barred.get(position, 0)
        for choice in choices:
            open_nodes &= self._nodes.in_domains(choice.key, choice.domains)
        while open_nodes:
            low = open_nodes & -open_nodes
            number = low.bit_length() - 1
            if self._room.take(number, pod_class):
                self._packing.on_nodes.setdefault(number, []).append(position)
                self._count_on_node(pod_class, number)
                return True
            self._alive_nodes[stage] &= ~low
            open_nodes ^= low
        return False

    def _suitable_nodes(self, pod_class: PodClass, stage: Stage) -> int:
        known = self._suitable.get(stage)
        if known is None:
            known = self._suitable[stage] = self._nodes.suitable(pod_class, stage)
        return known

    def _on_claim(
        self,
        pod_class: PodClass,
        stage: Stage,
        position: int,
        hosts: Hosts,
        choices: Sequence[Choice],
    ) -> bool:
        alive = self._alive_claims.get(stage, -1)
        open_claims = alive & hosts.claims & self._full.others(pod_class) & ~self._closed
        for choice in choices:
            open_claims &= self._index.open_to(choice.key, choice.domains)
        if self._custom_labels:
            open_claims &= self._claims_defining(stage)
        if not open_claims:
            return False
        for claim in self._index.fewest_pods_first(open_claims):
            template = self._templates[claim.template]
            outcome = self._joining.to_claim(template, claim, pod_class, stage, choices)
            if isinstance(outcome, Refusal):
                if outcome.is_final:
                    self._alive_claims[stage] = alive = alive & ~(1 << claim.index)
                    self._full.note(template, claim)
                self._note_insistence(choices)
                continue
            self._join(claim, outcome, pod_class, position)
            return True
        return False

    def _claims_defining(self, stage: Stage) -> int:
        """Claims that define every custom label that a stage requires."""
        sought = self._sought.get(stage)
        if sought is None:
            sought = self._sought[stage] = sought_in(stage.requirements, self._custom_labels)
        claims = -1
        for key in sought:
            claims &= self._index.defining(key)
        return claims

    def _on_new_claim(
        self, pod_class: PodClass, stage: Stage, position: int, choices: Sequence[Choice]
    ) -> bool:
        for template in self._templates:
            claim = self._joining.open(template, len(self._index.claims), pod_class, stage)
            if isinstance(claim, Refusal):
                continue
            outcome = self._joining.to_claim(
                template, claim, pod_class, stage, choices, is_new=True
            )
            if isinstance(outcome, Refusal):
                if outcome is Refusal.RESERVED:
                    self._reserved_out.add(pod_class.number)
                    return False
                self._note_insistence(choices)
                continue
            self._index.add(claim)
            self._join(claim, outcome, pod_class, position)
            self._joining.charge(template, claim)
            return True
        return False

    def _note_insistence(self, choices: Sequence[Choice]) -> None:
        if choices and choices[0].slack is not None:
            self._packing.has_insisted = True

    def _join(
        self,
        claim: OpenClaim,
        outcome: tuple[Shape, int, Grant | None],
        pod_class: PodClass,
        position: int,
    ) -> None:
        shape, bits, grant = outcome
        if grant is not None:
            grant.commit()
        if shape is not claim.shape:
            self._index.reshape(claim, shape)
        claim.take(pod_class, position, bits)
        self._index.grow(claim, len(claim.members) - 1, len(claim.members))
        template = self._templates[claim.template]
        if template.has_reserved:
            self._joining.book(template, claim)
        if pod_class.counted or pod_class.repels:
            self._count_on_claim(pod_class, claim)

    def _count_on_node(self, pod_class: PodClass, number: int) -> None:
        if not (pod_class.counted or pod_class.repels):
            return
        target = self._nodes.targets[number]
        for group in (*pod_class.counted, *pod_class.repels):
            state = self._states[group]
            if not state.admits(target.requirements, target.taints):
                continue
            if state.is_hostname:
                state.nodes.add(number, 1)
            elif (domain := self._nodes.domain_of(number, state.group.key)) is not None:
                state.add(domain)

    def _count_on_claim(self, pod_class: PodClass, claim: OpenClaim) -> None:
        node, taints = claim.shape.requirements, self._templates[claim.template].taints
        for group in pod_class.counted:
            self._states[group].count_claim(claim.index, node, taints)
        for group in pod_class.repels:
            self._states[group].count_claim(claim.index, node, taints)


def _levels(choices: Sequence[Choice]) -> list[int]:
    """The slack levels to try: how many more pods than the best the runners-up have."""
    found = {count - choice.counts[0] for choice in choices for count in choice.counts}
    return sorted(found)[:-1][:_MOST_LEVELS]


def _may_change(pod_class: PodClass) -> bool:
    """Whether later placements could lift the refusal of a class that fails now."""
    first = pod_class.stages[0]  # later stages have fewer rules, never others
    return pod_class.uses_devices or bool(first.hosts or first.domains)
