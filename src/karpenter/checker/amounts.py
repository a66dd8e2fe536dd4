"""Quantities and requests of pods, computed with fractions straight from the manifests.

Amounts are whole numbers by resource name: thousandths of a cpu, units of everything else, rounded
away from zero as Kubernetes does.
"""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from karpenter.api.pods import Container, Pod, PodSpec
from karpenter.cloud.types import InstanceType, Offering

Amounts: TypeAlias = dict[str, int]

_QUANTITY: Final = re.compile(r"([+-]?[0-9]*\.?[0-9]*)([a-zA-Z]*)([+-]?[0-9]*)")
_FACTORS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")},
}


def quantity(value: object) -> Fraction:
    """Read a Kubernetes quantity exactly."""
    written = _QUANTITY.fullmatch(str(value))
    if written is None:
        raise ValueError(f"{value!r} is not a quantity")
    number, suffix, exponent = written.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * _FACTORS[suffix]


def amounts(wire: Mapping[str, object]) -> Amounts:
    """Read quantities by resource name."""
    return {
        name: _away_from_zero(quantity(value) * (1000 if name == "cpu" else 1))
        for name, value in wire.items()
    }


def plus(*several: Mapping[str, int]) -> Amounts:
    """Add amounts up."""
    names = {name for one in several for name in one}
    return {name: sum(one.get(name, 0) for one in several) for name in names}


def minus(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """Subtract amounts."""
    return {name: left.get(name, 0) - right.get(name, 0) for name in {*left, *right}}


def largest(*several: Mapping[str, int]) -> Amounts:
    """The larger amount of each resource; a missing one counts as zero."""
    names = {name for one in several for name in one}
    return {name: max([0, *(one.get(name, 0) for one in several)]) for name in names}


def overdrawn(left: Mapping[str, int]) -> list[str]:
    """The resources with a negative amount left."""
    return sorted(name for name, amount in left.items() if amount < 0)


def pod_amounts(pod: Pod) -> Amounts:
    """The requests of a pod, its pod slot included."""
    return spec_amounts(pod.spec, _resized(pod))


def daemon_amounts(spec: PodSpec) -> Amounts:
    """The requests of a pod made from a template, with limits in place of missing requests."""
    known = {
        c.name: amounts({**c.resources.limits, **c.resources.requests})
        for c in (*spec.containers, *spec.init_containers)
    }
    return spec_amounts(spec, known)


def spec_amounts(spec: PodSpec, known: Mapping[str, Amounts]) -> Amounts:
    """The requests of a pod with this spec; ``known`` replaces requests of containers by name."""

    def asked(container: Container) -> Amounts:
        return known.get(container.name, amounts(container.resources.requests))

    sidecars: list[Amounts] = []
    phases: list[Amounts] = []
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            sidecars.append(asked(container))
            phases.append(plus(*sidecars))
        else:
            phases.append(plus(asked(container), *sidecars))
    running = plus(*map(asked, spec.containers), *sidecars)
    whole = largest(running, *phases)
    if spec.resources is not None:
        for name, amount in largest(amounts(spec.resources.requests)).items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                whole[name] = amount
    return plus(whole, largest(amounts(spec.overhead)), {"pods": 1})


def room_of(instance_type: InstanceType, offering: Offering) -> Amounts:
    """What an offering has for pods and daemons."""
    capacity = dict(instance_type.capacity.items())
    overhead = dict(instance_type.overhead.items())
    if offering.capacity is not None:
        capacity |= dict(offering.capacity.items())
    if offering.overhead is not None:
        overhead |= dict(offering.overhead.items())
    room = minus(capacity, overhead)
    huge = sum(amount for name, amount in room.items() if name.startswith("hugepages-"))
    if huge:
        room["memory"] = max(0, room.get("memory", 0) - huge)
    return room


def pods_total(pods: Iterable[Pod]) -> Amounts:
    """The requests of several pods together."""
    return plus(*map(pod_amounts, pods))


def _resized(pod: Pod) -> dict[str, Amounts]:
    infeasible = pod.status.resize == "Infeasible" or any(
        c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions
    )
    spec = {c.name: c for c in (*pod.spec.containers, *pod.spec.init_containers)}
    found: dict[str, Amounts] = {}
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        actual = status.resources.requests if status.resources is not None else None
        if status.name not in spec or (actual is None and not status.allocated_resources):
            continue
        stated = {} if infeasible else spec[status.name].resources.requests
        found[status.name] = largest(
            amounts(stated), amounts(actual or {}), amounts(status.allocated_resources)
        )
    return found


def _away_from_zero(value: Fraction) -> int:
    return math.ceil(value) if value > 0 else math.floor(value)
