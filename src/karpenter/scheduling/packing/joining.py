"""Whether a pod may join a planned claim, and what the claim becomes if it does.

The checks run from cheap and final to expensive and temporary: labels and taints, ports, volumes,
room, devices, topology, ``minValues``, reservations. Each passed check leaves a narrower shape and
fewer offerings; nothing is changed until the caller applies the result.

Where topology requires a domain, the claim takes the best domain of each label that has an
offering. The best domains of two labels may have no offering in common, so the next best are tried
before the claim refuses. Those beyond the allowed slack are not tried, because another claim may
have better ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from karpenter.model.min_values import lowered
from karpenter.model.requirements import Requirements
from karpenter.model.resources import NODES
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.compiled.host_ports import conflict
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.devices.protocol import IGNORING_DEVICES, Devices, Grant
from karpenter.scheduling.packing.claims import OpenClaim, Shape, Shapes
from karpenter.scheduling.packing.reservations import Reservations, ReservedOut
from karpenter.scheduling.packing.topology import Choice


def settled_in(
    shapes: Shapes, shape: Shape, bits: int, choices: Sequence[Choice]
) -> tuple[Shape, int] | None:
    """Narrow a claim to open domains of every label, or return None when no offering has them all.

    Args:
        bits: the offerings the claim has left.
        choices: at least one, each about another label.
    """
    ways = _ways(shapes, shape, bits, choices[0])
    if len(choices) == 1:
        return next(ways, None)
    rest = choices[1:]
    for narrowed, left in ways:
        found = settled_in(shapes, narrowed, left, rest)
        if found is not None:
            return found
    return None


def _ways(shapes: Shapes, shape: Shape, bits: int, choice: Choice) -> Iterator[tuple[Shape, int]]:
    if not choice.pin:
        ways: Iterator[tuple[str, ...]] = iter((choice.domains,))
    elif choice.slack is not None and choice.counts:
        ways = _good_enough(shapes, shape, choice, choice.slack)
    else:
        ways = ((domain,) for domain in choice.domains)
    for domains in ways:
        narrowed = shapes.settled(shape, choice.key, domains)
        if narrowed is not None and (left := bits & narrowed.bits):
            yield narrowed, left


def _good_enough(shapes: Shapes, shape: Shape, choice: Choice, slack: int) -> Iterator[tuple[str]]:
    """Yield the domains that are nearly as good as the best of those the claim itself allows."""
    most = None
    for domain, count in zip(choice.domains, choice.counts, strict=True):
        if most is not None and count > most:
            return
        if shapes.settled(shape, choice.key, (domain,)) is not None:
            most = count + slack if most is None else most
            yield (domain,)


class Refusal(Enum):
    """Why a pod may not join: finally, for now, or because a reservation is used up."""

    FINAL = "final"
    PASSING = "passing"
    RESERVED = "reserved"

    @property
    def is_final(self) -> bool:
        """Whether no later change of the claim can lift the refusal."""
        return self is Refusal.FINAL


class Joining:
    """The rules of joining, with the limits and reservations that the pass uses up."""

    def __init__(
        self,
        remaining: Sequence[dict[str, int]],
        reservations: Reservations | None,
        *,
        best_effort_min_values: bool,
        devices: Devices = IGNORING_DEVICES,
    ) -> None:
        """Begin with what is left of each pool's limits, by the number of its template."""
        self.devices = devices
        self._remaining = remaining
        self._reservations = reservations
        self._best_effort = best_effort_min_values
        self._tolerated: dict[tuple[int, Stage], bool] = {}  # (template, stage)

    def open(
        self, template: Template, index: int, pod_class: PodClass, stage: Stage
    ) -> OpenClaim | Refusal:
        """Open an empty claim for a pod, when pool and pod are compatible and limits allow it."""
        shape = template.shape
        if (template.taints and not self._tolerates(template, stage)) or template.shapes.merged(
            shape, stage.requirements
        ) is None:
            return Refusal.FINAL
        remaining = self._remaining[template.number]
        bits = template.within(remaining) if remaining else template.base
        if self._reservations is None and template.has_reserved:
            bits &= template.universe.launchable  # without used-up reservations
        if not bits:
            return Refusal.FINAL
        return OpenClaim(index, template.number, shape, bits)

    def to_claim(
        self,
        template: Template,
        claim: OpenClaim,
        pod_class: PodClass,
        stage: Stage,
        choices: Sequence[Choice],
        *,
        is_new: bool = False,
        despite_taints: bool = False,
    ) -> tuple[Shape, int, Grant | None] | Refusal:
        """Return what the claim becomes with one more pod, or why it cannot take it.

        The grant holds the devices it would use, if any; they are not taken yet. ``is_new``: the
        pod would be the first; ``despite_taints``: ignore taints, for diagnosis.
        """
        if template.taints and not despite_taints and not self._tolerates(template, stage):
            return Refusal.FINAL
        shape = template.shapes.merged(claim.shape, stage.requirements)
        if shape is None:
            return Refusal.FINAL
        bits = claim.bits if shape is claim.shape else claim.bits & shape.bits
        bits = template.room.fitting(bits, claim.requests, pod_class.needs)
        if pod_class.has_extras:
            bits = _with_extras(template, claim, pod_class, bits)
        if not bits:
            return Refusal.FINAL
        if not (choices or pod_class.has_extras or pod_class.uses_devices or template.is_picky):
            return shape, bits, None
        for alternative in pod_class.volumes.alternatives or (None,):
            outcome = self._narrowed(
                template, claim, pod_class, shape, bits, alternative, choices, is_new
            )
            if not isinstance(outcome, Refusal):
                return outcome
        return outcome

    def _narrowed(
        self,
        template: Template,
        claim: OpenClaim,
        pod_class: PodClass,
        shape: Shape,
        bits: int,
        alternative: Requirements | None,
        choices: Sequence[Choice],
        is_new: bool,
    ) -> tuple[Shape, int, Grant | None] | Refusal:
        if alternative is not None:
            reached = template.shapes.merged(shape, alternative)
            if reached is None or not bits & reached.bits:
                return Refusal.PASSING
            shape, bits = reached, bits & reached.bits
        grant = None
        if pod_class.uses_devices:
            granted = self.devices.to_claim(template, claim, shape, bits, pod_class)
            if granted is None:
                return Refusal.FINAL if alternative is None else Refusal.PASSING
            shape, bits, grant = granted
        if choices:
            narrowed = settled_in(template.shapes, shape, bits, choices)
            if narrowed is None:
                return Refusal.PASSING
            shape, bits = narrowed
        if template.is_picky:
            settled = self._settled(template, claim, shape, bits, is_new)
            if isinstance(settled, Refusal):
                return settled
            shape = settled
        return shape, bits, grant

    def _settled(
        self, template: Template, claim: OpenClaim, shape: Shape, bits: int, is_new: bool
    ) -> Shape | Refusal:
        if template.min_values:
            enough = self._with_choice(template, shape, bits, is_new)
            if enough is None:
                return Refusal.PASSING
            shape = enough
        if self._reservations is not None and template.has_reserved:
            outcome = self._reservations.judge(template.universe, bits, claim.bookings)
            if outcome is ReservedOut.DEFER:
                return Refusal.RESERVED
            if outcome is ReservedOut.FAIL:
                return Refusal.PASSING
        return shape

    def _with_choice(
        self, template: Template, shape: Shape, bits: int, is_new: bool
    ) -> Shape | None:
        short = template.shortfalls(shape.requirements, bits)
        if not short:
            return shape
        if not (is_new and self._best_effort):
            return None
        return template.shapes.of(lowered(shape.requirements, short))

    def _tolerates(self, template: Template, stage: Stage) -> bool:
        key = (template.number, stage)
        known = self._tolerated.get(key)
        if known is None:
            known = first_untolerated(template.taints, stage.tolerations) is None
            self._tolerated[key] = known
        return known

    def charge(self, template: Template, claim: OpenClaim) -> None:
        """Take a new claim's largest possible size off what is left of its pool's limits."""
        remaining = self._remaining[template.number]
        for name in remaining:
            taken = 1 if name == NODES else template.largest_size(name, claim.bits)
            remaining[name] -= taken

    def could_book(self, template: Template, bits: int) -> bool:
        """Whether a claim with these offerings has to do with a reservation that is not used up."""
        universe = template.universe
        if self._reservations is None:
            return bool(bits & universe.reserved)
        return self._reservations.could_hold(universe, bits)

    def book(self, template: Template, claim: OpenClaim) -> None:
        """Hold the reservations a claim could use, and release those it no longer can."""
        if self._reservations is not None and template.has_reserved:
            claim.bookings = self._reservations.rebook(
                template.universe, claim.bits, claim.bookings
            )

    def with_limits(self, remaining: Sequence[dict[str, int]]) -> "Joining":
        """The same rules with other remaining limits."""
        return Joining(
            remaining,
            self._reservations,
            best_effort_min_values=self._best_effort,
            devices=self.devices,
        )

    def content_with_less(self) -> "Joining":
        """The same rules with best-effort ``minValues``."""
        return Joining(
            self._remaining, self._reservations, best_effort_min_values=True, devices=self.devices
        )

    @property
    def remaining(self) -> Sequence[Mapping[str, int]]:
        """What is left of each pool's limits."""
        return self._remaining


def _with_extras(template: Template, claim: OpenClaim, pod_class: PodClass, bits: int) -> int:
    if pod_class.ports:
        if conflict(pod_class.ports, claim.ports) is not None:
            return 0
        for group in template.daemon_groups:
            if group.ports and conflict(pod_class.ports, group.ports) is not None:
                bits &= ~group.bits
    for driver, attached in pod_class.volumes.attached.items():
        count = len(attached | claim.volumes.get(driver, frozenset()))
        bits &= template.attaching(driver, count)
    return bits
