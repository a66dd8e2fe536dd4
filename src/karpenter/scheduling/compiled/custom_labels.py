"""Labels that nodes would have only because pods speak of them.

A pool gives its nodes the labels it defines, and a pod that asks for another one finds no node. But
a pod that only says what a label must not be (``NotIn``) may go to such a pool, and its node is given
some value of the label then. From there on the claim defines it, and a pod that asks for a value
may join. So the answer to such a pod changes while others are placed; it is asked for again after
a claim was told a label it seeks.
"""

from collections.abc import Iterable, Sequence

from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import Operator, Requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.classes import PodClass


def told_labels(classes: Sequence[PodClass], well_known: frozenset[str]) -> frozenset[str]:
    """The labels that some of these pods may tell a claim about, and others seek.

    Well-known labels are not among them: they need no definition.
    """
    # classes that differ in size alone share their requirements, so few are looked at
    different = {
        id(stage.requirements): stage.requirements
        for pod_class in classes
        for stage in pod_class.stages
    }
    places = [place for c in classes if c.has_extras for place in c.volumes.alternatives]
    told: set[str] = set()
    sought: set[str] = set()
    for wanted in (*different.values(), *places):
        told.update(each.key for each in wanted if each.operator is Operator.NOT_IN)
        sought.update(each.key for each in wanted if _seeks(each))
    return frozenset((told & sought) - well_known - {HOSTNAME})


def sought_in(wanted: Requirements, told: frozenset[str]) -> tuple[str, ...]:
    """Those of the labels that a claim must define before it can take a pod that wants this."""
    return tuple(each.key for each in wanted if each.key in told and _seeks(each))


def seeks_any(pod_class: PodClass, told: frozenset[str]) -> bool:
    """Whether such pods may find a place once others have told a claim about a label."""
    return any(sought_in(wanted, told) for wanted in _wants(pod_class))


def _seeks(wanted: Requirement) -> bool:
    return not wanted.allows_absence and wanted.operator is not Operator.NOT_IN


def _wants(pod_class: PodClass) -> Iterable[Requirements]:
    for stage in pod_class.stages:
        yield stage.requirements
    yield from pod_class.volumes.alternatives
