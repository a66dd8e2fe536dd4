"""Why a pool does not take a pod, diagnosed after the pass, in terms a user can act on.

The solver only records that a pod failed. Here the same checks run once more against the state at
the end of the pass, in the order in which they are decided, and the first that fails is the reason.
Where a single change would have been enough, the reason names it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum

from karpenter.cloud.types import InstanceType
from karpenter.model.min_values import Shortfall
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, NODES, readable_amount
from karpenter.model.taints import first_untolerated, format_taint
from karpenter.scheduling.compiled.host_ports import conflict
from karpenter.scheduling.compiled.node_requirements import CONTRADICTION
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.joining import Joining, Refusal
from karpenter.scheduling.packing.topology import (
    Choice,
    Closed,
    GroupState,
    Hosts,
    open_domains,
    open_hosts,
)
from karpenter.scheduling.plan import Reason, Why
from karpenter.scheduling.reasons.daemon_overhead import blame_on_new_nodes

_ANYTHING = Requirements()
_TYPES_SHOWN = 3
_A_MILLION_CPUS = 1_000_000_000  # in millicores


class PoolCheck(StrEnum):
    """The checks of a pool, in the order in which they are decided."""

    TAINTS = "taints"
    LABELS = "labels"
    LIMITS = "limits"
    ROOM = "room"
    PORTS = "ports"
    VOLUMES = "volumes"
    DEVICES = "devices"
    TOPOLOGY = "topology"  # also covers the next two
    MIN_VALUES = "minValues"
    RESERVATIONS = "reservations"


class Diagnosis:
    """The state at the end of a pass, for diagnosis."""

    def __init__(
        self,
        templates: Sequence[Template],
        states: Sequence[GroupState],
        joining: Joining,
        well_known: frozenset[str],
    ) -> None:
        """Take the state at the end of a pass; nothing is changed."""
        self.templates = templates
        self.states = states
        self.joining = joining
        self._well_known = well_known

    def with_limits(self, number: int, left: Mapping[str, int]) -> "Diagnosis":
        """The same state with other remaining limits of the pool with that number."""
        remaining = [dict(held) for held in self.joining.remaining]
        remaining[number] = dict(left)
        joining = self.joining.with_limits(remaining)
        return Diagnosis(self.templates, self.states, joining, self._well_known)

    def with_states(self, states: Sequence[GroupState]) -> "Diagnosis":
        """The same state with other topology counts."""
        return Diagnosis(self.templates, states, self.joining, self._well_known)

    def reasons(self, pod_class: PodClass) -> tuple[Reason, ...]:
        """Why each pool does not take such a pod in its last stage, without preferences."""
        if pod_class.uses_devices and (why := self.joining.devices.refusal(pod_class)):
            return (Reason("", Why.DEVICES, why),)
        stage = pod_class.stages[-1]
        return tuple(
            Reason(template.name, *self.reason(template, pod_class, stage))
            for template in self.templates
        )

    def reason(self, template: Template, pod_class: PodClass, stage: Stage) -> tuple[Why, str]:
        """Why one pool does not take such a pod; the pool must have refused it."""
        taint = first_untolerated(template.taints, stage.tolerations)
        rest = self._apart_from_taints(template, pod_class, stage)
        if taint is None:
            return rest or (Why.NO_OFFERING, "no offering satisfies everything at once")
        shown = format_taint(taint)
        if rest is None and len(template.taints) == 1:
            return Why.UNTOLERATED_TAINT, f"would fit if it tolerated {shown}"
        return Why.UNTOLERATED_TAINT, f"does not tolerate {shown}"

    def _apart_from_taints(
        self, template: Template, pod_class: PodClass, stage: Stage
    ) -> tuple[Why, str] | None:
        found = (finding for _, finding in self.steps(template, pod_class, stage))
        return next((finding for finding in found if finding is not None), None)

    def steps(
        self, template: Template, pod_class: PodClass, stage: Stage
    ) -> Iterator[tuple[PoolCheck, tuple[Why, str] | None]]:
        """Run the checks of a pool one after the other; yield each with its objection.

        Taints are omitted. The result of a step is valid only while those before it pass.
        """
        remaining = self.joining.remaining[template.number]
        yield PoolCheck.LABELS, self._labels(template, stage)
        yield PoolCheck.LIMITS, _limits(template, remaining, pod_class, stage)
        yield PoolCheck.ROOM, _room(template, pod_class, stage)
        yield PoolCheck.PORTS, _ports(template, pod_class)
        yield PoolCheck.VOLUMES, _volumes(template, pod_class, stage)
        yield PoolCheck.DEVICES, self._lacking_devices(template, pod_class, stage)
        yield PoolCheck.TOPOLOGY, self._topology(template, pod_class, stage)

    def _labels(self, template: Template, stage: Stage) -> tuple[Why, str] | None:
        contradiction = stage.requirements.get(CONTRADICTION)
        if contradiction is not None:
            return Why.REQUIREMENT_CONFLICT, f"its own demands conflict: {contradiction.any()}"
        incompatible = template.requirements.incompatibility(stage.requirements, self._well_known)
        if incompatible is None:
            return None
        if incompatible.own is not None:
            return Why.REQUIREMENT_CONFLICT, str(incompatible)
        meant = f"; did you mean {incompatible.hint}?" if incompatible.hint else ""
        return Why.UNDEFINED_LABEL, f"the pool gives its nodes no label {incompatible.key}{meant}"

    def _lacking_devices(
        self, template: Template, pod_class: PodClass, stage: Stage
    ) -> tuple[Why, str] | None:
        shape = template.shapes.merged(template.shape, stage.requirements)
        if not pod_class.uses_devices or shape is None:
            return None
        bits = _fitting(template, template.base & shape.bits, pod_class)
        why = self.joining.devices.why_not(template, shape, bits, pod_class)
        return None if why is None else (Why.DEVICES, why)

    def _topology(
        self, template: Template, pod_class: PodClass, stage: Stage
    ) -> tuple[Why, str] | None:
        hosts = open_hosts(self.states, stage.hosts) if stage.hosts else Hosts(-1, -1, True)
        if isinstance(hosts, Closed):
            return Why.TOPOLOGY, str(hosts)
        if not hosts.new:
            return Why.TOPOLOGY, "pod affinity binds it to nodes that do not take it"
        choices = open_domains(self.states, stage.domains) if stage.domains else []
        if isinstance(choices, Closed):
            return Why.TOPOLOGY, str(choices)
        return self._last(template, pod_class, stage, choices)

    def _last(
        self, template: Template, pod_class: PodClass, stage: Stage, choices: Sequence[Choice]
    ) -> tuple[Why, str] | None:
        claim = OpenClaim(0, template.number, template.shape, template.base)
        outcome = self.joining.to_claim(
            template, claim, pod_class, stage, choices, is_new=True, despite_taints=True
        )
        if outcome is Refusal.RESERVED:
            return Why.RESERVED_CAPACITY, "every reservation it could use is taken in this pass"
        if not isinstance(outcome, Refusal):
            return None
        short = self._short_of_choice(template, claim, pod_class, stage, choices)
        if short:
            shown = ", ".join(map(str, short))
            return Why.MIN_VALUES, f"too little choice would be left: {shown}"
        if choices and not isinstance(
            self.joining.to_claim(
                template, claim, pod_class, stage, (), is_new=True, despite_taints=True
            ),
            Refusal,
        ):
            wanted = "; ".join(f"{c.key} {_one_of(c.domains)}" for c in choices)
            return Why.TOPOLOGY, f"topology asks for {wanted}, where nothing that fits is offered"
        return None

    def _short_of_choice(
        self,
        template: Template,
        claim: OpenClaim,
        pod_class: PodClass,
        stage: Stage,
        choices: Sequence[Choice],
    ) -> list[Shortfall]:
        """The ``minValues`` that alone prevent a new claim."""
        if not template.min_values:
            return []
        outcome = self.joining.content_with_less().to_claim(
            template, claim, pod_class, stage, choices, is_new=True, despite_taints=True
        )
        if isinstance(outcome, Refusal):
            return []
        held = outcome[0].requirements
        return [
            Shortfall(key, wanted, held[key].min_values or 0)
            for key, wanted in template.min_values
            if held[key].min_values != wanted
        ]


def _one_of(domains: Collection[str]) -> str:
    return f"{'one of ' if len(domains) > 1 else ''}{', '.join(domains)}"


def _limits(
    template: Template, remaining: Mapping[str, int], pod_class: PodClass, stage: Stage
) -> tuple[Why, str] | None:
    shape = template.shapes.merged(template.shape, stage.requirements)
    if not remaining or not template.base or shape is None:
        return None
    if remaining.get(NODES, 1) <= 0:
        return Why.LIMIT_EXCEEDED, f"limit of {template.limits[NODES]} nodes is reached"
    bits = template.within(remaining)
    fitting = _fitting(template, template.base & shape.bits, pod_class)
    if bits & fitting or not fitting:
        return None
    left = ", ".join(
        f"{readable_amount(name, amount) if amount >= 0 else 'less than no'} {name} left of"
        f" {readable_amount(name, template.limits[name])}"
        for name, amount in sorted(remaining.items())
    )
    return Why.LIMIT_EXCEEDED, (
        f"every type that fits exceeds the pool's limits ({left}; a node that is planned counts as"
        " the largest it may become)"
    )


def _room(template: Template, pod_class: PodClass, stage: Stage) -> tuple[Why, str] | None:
    shape = template.shapes.merged(template.shape, stage.requirements)
    wanted = stage.requirements
    if not template.offered:
        return nothing_offered(template)
    if shape is None or not template.offered & shape.bits:
        if gone := template.sold_out(wanted):
            return Why.SOLD_OUT, f"sold out: {_types(gone)} with {wanted}, unavailable now"
        return Why.NO_OFFERING, f"no available offering has {wanted}"
    allowed = template.base & shape.bits
    if _fitting(template, allowed, pod_class):
        return None
    if large := [kind for kind in template.sold_out(wanted) if _holds(kind, pod_class)]:
        more = (
            f"; of what is left, {_nearest_miss(template, allowed, pod_class)}" if allowed else ""
        )
        return Why.SOLD_OUT, f"sold out: {_types(large)} with room for it, unavailable now{more}"
    offered = template.offered & shape.bits
    message = "daemons alone need more than any type it could use has"
    if allowed:
        message = _nearest_miss(template, allowed, pod_class)
    elif foremost := blame_on_new_nodes(template, offered, ()):
        message = f"{message}, foremost {foremost}"
    if blamed := blame_on_new_nodes(template, offered, pod_class.needs):
        message = (
            f"{message}; would fit but for {blamed}"
            if allowed
            else f"{message}; would fit otherwise"
        )
    return Why.INSUFFICIENT_RESOURCES, message


def nothing_offered(template: Template) -> tuple[Why, str]:
    """Why a pool has no offering at all, whatever the pod."""
    if gone := template.sold_out(_ANYTHING):
        return Why.SOLD_OUT, (
            f"sold out: every offering that the pool's requirements allow ({_types(gone)}) is"
            " unavailable now"
        )
    return Why.NO_INSTANCE_TYPES, "no instance type satisfies the pool's own requirements"


def _types(types: Sequence[InstanceType]) -> str:
    if len(types) <= _TYPES_SHOWN:
        return ", ".join(kind.name for kind in types)
    return f"{len(types)} instance types"


def _holds(kind: InstanceType, pod_class: PodClass) -> bool:
    return all(kind.allocatable[name] >= amount for name, amount in pod_class.needs)


def _nearest_miss(template: Template, allowed: int, pod_class: PodClass) -> str:
    for name, amount in pod_class.needs:
        largest = template.levels(name).largest(allowed)
        if largest < amount:
            has = (
                f"the largest type has {readable_amount(name, largest)}"
                if largest
                else "no type has any"
            )
            return f"needs {readable_amount(name, amount)} {name}; {has}{_unit_hint(name, amount)}"
    shown = ", ".join(f"{readable_amount(name, n)} {name}" for name, n in pod_class.needs)
    return f"no single type has all of {shown}"


def _unit_hint(name: str, amount: int) -> str:
    if name == CPU and amount >= _A_MILLION_CPUS:
        return "; M means millions, m means thousandths"
    return ""


def _fitting(template: Template, bits: int, pod_class: PodClass) -> int:
    for name, amount in pod_class.needs:
        bits &= template.levels(name).at_least(amount)
    return bits


def _ports(template: Template, pod_class: PodClass) -> tuple[Why, str] | None:
    if not pod_class.ports:
        return None
    free = template.base
    taken = None
    for group in template.daemon_groups:
        clash = conflict(pod_class.ports, group.ports)
        if clash is not None:
            free &= ~group.bits
            taken = clash
    if _fitting(template, free, pod_class) or taken is None:
        return None
    return Why.HOST_PORT, f"a daemon already takes host port {taken.port}/{taken.protocol}"


def _volumes(template: Template, pod_class: PodClass, stage: Stage) -> tuple[Why, str] | None:
    volumes = pod_class.volumes
    shape = template.shapes.merged(template.shape, stage.requirements)
    if shape is None:
        return None
    possible = together = template.base & shape.bits
    for driver, attached in sorted(volumes.attached.items()):
        attaching = template.attaching(driver, len(attached))
        if not possible & attaching:
            limit = template.largest_attach_limit(driver, possible)
            return Why.VOLUME_LIMIT, (
                f"would exceed volume limit for all instance type options: {driver} attaches"
                f" at most {limit} volumes, the pod has {len(attached)}"
            )
        together &= attaching
    if not together:
        return Why.VOLUME_LIMIT, "would exceed volume limit for all instance type options"
    if volumes.alternatives and not any(
        (reached := template.shapes.merged(shape, alternative)) is not None
        and reached.bits & together
        for alternative in volumes.alternatives
    ):
        wanted = " or ".join(str(alternative) for alternative in volumes.alternatives)
        return Why.VOLUME_CONFLICT, f"its volumes can only be reached with {wanted}"
    return None
