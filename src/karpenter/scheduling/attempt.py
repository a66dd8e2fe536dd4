"""One packing of a problem's pods in Karpenter's order, and what every other packing begins with."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from karpenter.api.pods import Pod
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.devices.protocol import IGNORING_DEVICES, Devices
from karpenter.scheduling.packing.joining import Joining
from karpenter.scheduling.packing.packer import Packer, Packing
from karpenter.scheduling.packing.reservations import Reservations
from karpenter.scheduling.reasons.pool_refusals import Diagnosis

HasTime = Callable[[], bool]


def always() -> bool:
    """The deadline check of a caller without a deadline."""
    return True


@dataclass(frozen=True, slots=True)
class Attempt:
    """One packing of a problem's pods, with the counts and rules at its end, to explain it."""

    packing: Packing
    diagnosis: Diagnosis


class Beginning(NamedTuple):
    """A packer that has placed nothing so far, with the rules it places by."""

    packer: Packer
    joining: Joining
    diagnosis: Diagnosis


class Begin(Protocol):
    """Prepares an attempt; each call starts again with nothing placed."""

    def __call__(
        self, *, insists: bool = True, barred: Mapping[int, int] | None = None
    ) -> Beginning:
        """Prepare to place pods; the arguments are those of ``begin``."""


def begin(
    compiled: CompiledProblem, *, insists: bool = True, barred: Mapping[int, int] | None = None
) -> Beginning:
    """Prepare to place the pods of a compiled problem.

    Args:
        insists: whether a claim for the best domain of a spread is preferred to a runner-up.
        barred: position of a pod -> machines that it may not go to, as a mask.
    """
    problem = compiled.problem
    options = problem.options
    reservations = None
    if options.reserved_capacity:
        reservations = Reservations(
            (template.universe for template in compiled.templates),
            strict=options.strict_reservations,
            credits=options.reservation_credits,
        )
    joining = Joining(
        compiled.remaining_limits(),
        reservations,
        best_effort_min_values=options.best_effort_min_values,
        devices=devices_for(compiled, compiled.classes),
    )
    states = compiled.states()
    packer = Packer(
        compiled.nodes,
        compiled.templates,
        states,
        joining,
        compiled.classes,
        topology_keys=compiled.topology_keys,
        without_nodes=compiled.leaving_nodes,
        custom_labels=compiled.custom_labels,
        insists=insists,
        barred=barred,
    )
    well_known = problem.facts.well_known_labels
    return Beginning(packer, joining, Diagnosis(compiled.templates, states, joining, well_known))


def pack(
    compiled: CompiledProblem,
    has_time: HasTime = always,
    first: Sequence[str] = (),
    *,
    insists: bool = True,
    last: Collection[str] = (),
) -> Attempt:
    """Place the pods of a compiled problem greedily, in Karpenter's order.

    ``insists``: whether a claim for the best domain of a spread is preferred to a runner-up.
    """
    beginning = begin(compiled, insists=insists)
    order = pod_order(compiled.problem.pods, compiled.class_of, first, last)
    packing = beginning.packer.pack(order, compiled.class_of, has_time)
    return Attempt(packing, beginning.diagnosis)


def devices_for(compiled: CompiledProblem, classes: Iterable[PodClass]) -> Devices:
    """The device allocator, or a stub where none is needed."""
    if compiled.problem.options.ignore_device_claims or not any(
        pod_class.uses_devices for pod_class in classes
    ):
        return IGNORING_DEVICES
    # Imported on demand: few clusters have devices, and the import slows the start of a command
    from karpenter.scheduling.devices.allocator import DeviceAllocator

    return DeviceAllocator(compiled)


def pod_order(
    pods: Sequence[Pod],
    class_of: Sequence[PodClass],
    first: Sequence[str] = (),
    last: Collection[str] = (),
) -> list[int]:
    """The order in which pods are tried: largest cpu, then memory, then oldest, then by uid.

    Pods that are costly to plan for come after all others, in the same order. A pod without a
    creation time, such as a virtual pod of a buffer, counts as the youngest. Pods without a uid are
    ordered by name, so that the order of the input never matters.
    """
    # One stable sort per key, the least significant key first: keys that are one number or text
    # each sort several times as fast as tuples
    metas = [pod.metadata for pod in pods]
    uids = [meta.uid for meta in metas]
    order = list(range(len(pods)))
    if len(set(uids)) < len(uids):
        order.sort(key=lambda position: (metas[position].namespace, metas[position].name))
    order.sort(key=uids.__getitem__)
    created = [meta.creation_timestamp for meta in metas]
    if any(created):
        ages = [moment.timestamp() if moment else math.inf for moment in created]
        order.sort(key=ages.__getitem__)
    sizes = _ranks_by_size(class_of)
    order.sort(key=sizes.__getitem__)
    if first:
        place = {uid: number for number, uid in enumerate(first)}
        order.sort(key=lambda n: (class_of[n].is_costly, place.get(uids[n], len(place))))
    if last:
        order.sort(key=lambda n: uids[n] in last)
    return order


def _ranks_by_size(class_of: Sequence[PodClass]) -> list[int]:
    """A number for each pod: the larger the pod, the lower, and highest for costly ones."""
    sizes = {c.number: (c.is_costly, -c.requests.cpu, -c.requests.memory) for c in class_of}
    ranks = {size: rank for rank, size in enumerate(sorted(set(sizes.values())))}
    rank_of = {number: ranks[size] for number, size in sizes.items()}
    return [rank_of[c.number] for c in class_of]
