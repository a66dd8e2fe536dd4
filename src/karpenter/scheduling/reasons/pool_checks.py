"""Every check a pool makes of a pod, passed or not, with the figures that decided it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from karpenter.model.resources import CPU, MEMORY, readable_amount
from karpenter.model.taints import first_untolerated, format_taint
from karpenter.scheduling.compiled.pod_classes import PodClass, Stage
from karpenter.scheduling.compiled.templates import Template
from karpenter.scheduling.packing.claims import OpenClaim
from karpenter.scheduling.packing.joining import Refusal
from karpenter.scheduling.packing.topology import (
    Choice,
    Closed,
    Membership,
    open_domains,
    open_hosts,
)
from karpenter.scheduling.plan import Launch, Why
from karpenter.scheduling.reasons.pool_refusals import Diagnosis, PoolCheck
from karpenter.scheduling.reasons.preferences import described
from karpenter.scheduling.result import launch_of

_DOMAINS_SHOWN = 8
_FOUND_BY_TOPOLOGY = {
    Why.MIN_VALUES: PoolCheck.MIN_VALUES,
    Why.RESERVED_CAPACITY: PoolCheck.RESERVATIONS,
}


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    step: PoolCheck
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """The verdict of a pool on a pod, alone on a new node."""

    node_pool: str
    weight: int
    is_possible: bool
    why: Why | None  # none when it is possible
    detail: str
    checks: tuple[Check, ...] = ()  # up to the first that fails; taints do not end them
    instance_types: int = 0  # how many would do
    cheapest: Launch | None = None


def pool_verdicts(
    diagnosis: Diagnosis, pod_class: PodClass, stage: Stage, used: int | None = None
) -> list[PoolVerdict]:
    """The verdict of every pool on a pod at one stage, in the order they are tried.

    ``used`` is the number of the pool of its node, whose verdict is positive.
    """
    return [
        _granted(diagnosis, template, pod_class, stage)
        if template.number == used
        else _verdict(diagnosis, template, pod_class, stage)
        for template in diagnosis.templates
    ]


def _granted(
    diagnosis: Diagnosis, template: Template, pod_class: PodClass, stage: Stage
) -> PoolVerdict:
    """The verdict of the pool of a pod's node; for the pod alone that node may be impossible."""
    types, cheapest = _alone(diagnosis, template, pod_class, stage)
    steps = (step for step, _ in diagnosis.steps(template, pod_class, stage))
    passed = [
        Check(step, True, text)
        for step in steps
        for text in _passed(diagnosis, step, template, pod_class, stage)
    ]
    return PoolVerdict(
        node_pool=template.name,
        weight=template.node_pool.spec.weight or 0,
        is_possible=True,
        why=None,
        detail="makes its node",
        checks=(_taints(template, stage), *passed, *_last_passed(template)),
        instance_types=types,
        cheapest=cheapest,
    )


def _verdict(
    diagnosis: Diagnosis, template: Template, pod_class: PodClass, stage: Stage
) -> PoolVerdict:
    checks = tuple(_checks(diagnosis, template, pod_class, stage))
    passed = all(check.passed for check in checks)
    types, cheapest = _alone(diagnosis, template, pod_class, stage) if passed else (0, None)
    why, detail = None, f"{types} instance types would do"
    if not types:
        why, detail = diagnosis.reason(template, pod_class, stage)
    return PoolVerdict(
        node_pool=template.name,
        weight=template.node_pool.spec.weight or 0,
        is_possible=bool(types),
        why=why,
        detail=detail,
        checks=checks,
        instance_types=types,
        cheapest=cheapest,
    )


def _checks(
    diagnosis: Diagnosis, template: Template, pod_class: PodClass, stage: Stage
) -> Iterator[Check]:
    yield _taints(template, stage)
    for step, finding in diagnosis.steps(template, pod_class, stage):
        at = step if finding is None else _FOUND_BY_TOPOLOGY.get(finding[0], step)
        if finding is None or at is not step:
            for passed in _passed(diagnosis, step, template, pod_class, stage):
                yield Check(step, True, passed)
        if finding is not None:
            yield Check(at, False, finding[1])
            return
    yield from _last_passed(template)


def _last_passed(template: Template) -> Iterator[Check]:
    if template.min_values:
        asked = ", ".join(f"{least} of {key}" for key, least in template.min_values)
        yield Check(PoolCheck.MIN_VALUES, True, f"enough choice is left: at least {asked}")
    if template.has_reserved:
        yield Check(PoolCheck.RESERVATIONS, True, "no reservation it needs is taken")


def _taints(template: Template, stage: Stage) -> Check:
    untolerated = first_untolerated(template.taints, stage.tolerations)
    if untolerated is not None:
        return Check(PoolCheck.TAINTS, False, f"does not tolerate {format_taint(untolerated)}")
    if not template.taints:
        return Check(PoolCheck.TAINTS, True, "the pool has none")
    shown = ", ".join(map(format_taint, template.taints))
    return Check(PoolCheck.TAINTS, True, f"tolerates {shown}")


def _passed(
    diagnosis: Diagnosis, step: PoolCheck, template: Template, pod_class: PodClass, stage: Stage
) -> Iterator[str]:
    """What a passed check compared; empty when there was nothing to compare."""
    match step:
        case PoolCheck.LABELS if len(stage.requirements):
            yield f"the pool goes with {stage.requirements}"
        case PoolCheck.LIMITS if template.limits:
            remaining = diagnosis.joining.remaining[template.number]
            # Without any offering within the limits, an earlier check has excluded them all
            if template.base & template.within(remaining):
                yield _limits(template, remaining)
        case PoolCheck.ROOM:
            yield _room(template, pod_class, stage)
        case PoolCheck.PORTS if pod_class.ports:
            yield f"{_listed(pod_class)} free"
        case PoolCheck.VOLUMES if pod_class.volumes.alternatives:
            wanted = " or ".join(str(each) for each in pod_class.volumes.alternatives)
            yield f"its volumes can be reached with {wanted}"
        case PoolCheck.VOLUMES if pod_class.volumes.attached:
            yield "its volumes can be attached"
        case PoolCheck.DEVICES if pod_class.uses_devices:
            yield "its devices can be had"
        case PoolCheck.TOPOLOGY if stage.hosts or stage.domains:
            members = (*stage.hosts, *stage.domains)
            yield from (_topology(diagnosis, member) for member in members)


def _limits(template: Template, remaining: Mapping[str, int]) -> str:
    return ", ".join(
        f"{readable_amount(name, remaining[name])} of {readable_amount(name, limit)} {name} left"
        for name, limit in sorted(template.limits.items())
    )


def _room(template: Template, pod_class: PodClass, stage: Stage) -> str:
    universe = template.universe
    shape = template.shapes.merged(template.shape, stage.requirements)
    allowed = template.base & shape.bits if shape is not None else 0
    fitting = allowed
    for name, amount in pod_class.needs:
        fitting &= template.levels(name).at_least(amount)
    largest = " and ".join(
        f"{readable_amount(name, template.levels(name).largest(allowed))} {name}"
        for name in (CPU, MEMORY)
    )
    count, total = len(universe.types_in(fitting)), len(universe.types_in(allowed))
    besides = " besides its daemons" if any(g.overhead for g in template.daemon_groups) else ""
    return f"{count} of {total} instance types have it; the largest leaves {largest}{besides}"


def _listed(pod_class: PodClass) -> str:
    ports = sorted({f"{port.port}/{port.protocol}" for port in pod_class.ports})
    return f"host port{'s' if len(ports) > 1 else ''} {', '.join(ports)}"


def _topology(diagnosis: Diagnosis, member: Membership) -> str:
    state = diagnosis.states[member.number]
    rule = described(state.group)
    if state.is_hostname:
        hosts = open_hosts(diagnosis.states, (member,))
        new = not isinstance(hosts, Closed) and hosts.new
        return f"{rule}: {'a new node will do' if new else 'only nodes that hold such pods'}"
    open_now = open_domains(diagnosis.states, (member,))
    allowed = _domains(open_now) if not isinstance(open_now, Closed) else "nothing"
    counts = sorted(state.counts.items())
    shown = ", ".join(f"{domain}={count}" for domain, count in counts[:_DOMAINS_SHOWN])
    more = f" and {len(counts) - _DOMAINS_SHOWN} more" if len(counts) > _DOMAINS_SHOWN else ""
    return f"{rule}: open to {allowed} (counts {shown}{more})"


def _domains(choices: list[Choice]) -> str:
    domains = [domain for choice in choices for domain in choice.domains]
    more = f" and {len(domains) - _DOMAINS_SHOWN} more" if len(domains) > _DOMAINS_SHOWN else ""
    return f"{', '.join(domains[:_DOMAINS_SHOWN])}{more}"


def _alone(
    diagnosis: Diagnosis, template: Template, pod_class: PodClass, stage: Stage
) -> tuple[int, Launch | None]:
    """How many types suit a pod that is alone on its node, and the cheapest launch."""
    choices = open_domains(diagnosis.states, stage.domains) if stage.domains else []
    opened = diagnosis.joining.open(template, 0, pod_class, stage)
    if isinstance(choices, Closed) or isinstance(opened, Refusal):
        return 0, None
    joined = diagnosis.joining.to_claim(template, opened, pod_class, stage, choices, is_new=True)
    if isinstance(joined, Refusal):
        return 0, None
    bits = joined[1]
    return len(template.universe.types_in(bits)), launch_of(template, bits)


def other_ways(template: Template, claim: OpenClaim, launch: Launch) -> tuple[int, Launch | None]:
    """How many other types a claim could be at the same price, and the next more expensive way."""
    universe = template.universe
    bits = claim.bits & universe.launchable
    same = 0
    for index in universe.types_in(bits):
        way = launch_of(template, bits & universe.type_bits[index])
        if way is not None and way.price > launch.price:
            return same, way
        same += way is not None and way.instance_type != launch.instance_type
    return same, None
