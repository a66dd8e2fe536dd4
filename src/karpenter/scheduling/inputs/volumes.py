"""Where a pod's volumes can be reached: alternatives, any one of which will do.

A bound volume lists the nodes that reach it as alternatives; a class that has yet to make the
volume lists the places where it may. A pod with several volumes needs a node that reaches all of
them, so the alternatives of each are combined and those that contradict one another fall away.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from karpenter.api.pods import Pod
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.model.labels import HOSTNAME, normalise
from karpenter.model.requirement import Operator, RequirementError, requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.storage import Storage
from karpenter.state.pods import key_of

MOST_ALTERNATIVES: Final = 4096

_ALTERNATIVES_SHOWN: Final = 3
_ANYWHERE: Final = Requirements()


class VolumeError(ValueError):
    """A pod's volumes cannot be resolved, or can be reached from no node; says why."""


def volume_alternatives(pod: Pod, storage: Storage) -> tuple[Requirements, ...]:
    """The requirements on a node that reaches all of a pod's volumes; none means any node does.

    Claims that do not exist are passed over. The order of the alternatives is the order in which
    they are to be tried.

    Raises:
        VolumeError: when a volume does not exist, makes no sense, or is out of reach of another.
    """
    combined: list[Requirements] = []
    for mount in storage.mounts(pod):
        if mount.claim is None:
            continue
        alternatives = _of_claim(mount.key, mount.claim, storage)
        if combined and alternatives:
            combined = _combined(key_of(pod), mount.key, combined, alternatives)
        else:
            combined = combined or alternatives
    return tuple(combined) if combined != [_ANYWHERE] else ()


def _of_claim(key: str, claim: PersistentVolumeClaim, storage: Storage) -> list[Requirements]:
    name = claim.spec.volume_name
    if name:
        volume = storage.volumes.get(name)
        if volume is None:
            raise VolumeError(f"persistent volume {name} of claim {key} does not exist")
        return _of_volume(name, volume)
    storage_class = storage.classes.get(storage.class_name_of(claim))
    return _of_class(storage_class) if storage_class is not None else []


def _of_volume(name: str, volume: PersistentVolume) -> list[Requirements]:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return []
    # What lies on one host's disk does not outlive it; its pod may start afresh on another
    moves = volume.spec.local is not None or volume.spec.host_path is not None
    try:
        return _distinct(
            _of_term(term, without_host=moves) for term in affinity.required.node_selector_terms
        )
    except RequirementError as error:
        raise VolumeError(f"node affinity of persistent volume {name}: {error}") from error


def _of_term(term: NodeSelectorTerm, *, without_host: bool) -> Requirements:
    return Requirements.from_wire(
        expression
        for expression in term.match_expressions
        if not (without_host and normalise(expression.key) == HOSTNAME)
    )


def _of_class(storage_class: StorageClass) -> list[Requirements]:
    return _distinct(
        Requirements(
            requirement(expression.key, Operator.IN, expression.values)
            for expression in term.match_label_expressions
        )
        for term in storage_class.allowed_topologies
    )


def _combined(
    pod: str, claim: str, so_far: Sequence[Requirements], more: Sequence[Requirements]
) -> list[Requirements]:
    together = _distinct(
        left & right for left, right in product(so_far, more) if left.intersects(right)
    )
    if not together:
        places, others = _either(more), _either(so_far)
        raise VolumeError(
            f"claim {claim} can only be reached with {places},"
            f" but the other volumes of pod {pod} only with {others}"
        )
    if len(together) > MOST_ALTERNATIVES:
        raise VolumeError(
            f"the volumes of pod {pod} can be reached in more than {MOST_ALTERNATIVES} ways;"
            " use volumes with fewer alternatives"
        )
    return together


def _distinct(alternatives: Iterable[Requirements]) -> list[Requirements]:
    return list(dict.fromkeys(alternatives))


def _either(alternatives: Sequence[Requirements]) -> str:
    shown = [str(alternative) or "any node" for alternative in alternatives[:_ALTERNATIVES_SHOWN]]
    left_out = len(alternatives) - len(shown)
    return " or ".join([*shown, f"{left_out} other ways"] if left_out else shown)
