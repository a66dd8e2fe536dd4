"""Custom labels: those that nodes get only because pods mention them.

A pool gives its nodes the labels it defines, and a pod that requires another one finds no node. But
a pod that only excludes values of a label (``NotIn``) may go to such a pool, and its node is then
given some value of the label. From then on the claim defines the label, and a pod that requires a
value may join. So a refusal of such a pod is not final; it is tried again after a claim has come to
define a label it requires.
"""

from collections.abc import Iterable, Sequence

from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import Operator, Requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled.pod_classes import PodClass


def custom_labels(classes: Sequence[PodClass], well_known: frozenset[str]) -> frozenset[str]:
    """The labels that some of these pods may make a claim define, and others require.

    Well-known labels are not among them: they need no definition.
    """
    # classes that differ in size alone share their requirements, so few are checked
    different = {
        id(stage.requirements): stage.requirements
        for pod_class in classes
        for stage in pod_class.stages
    }
    places = [place for c in classes if c.has_extras for place in c.volumes.alternatives]
    custom: set[str] = set()
    sought: set[str] = set()
    for wanted in (*different.values(), *places):
        custom.update(each.key for each in wanted if each.operator is Operator.NOT_IN)
        sought.update(each.key for each in wanted if _seeks(each))
    return frozenset((custom & sought) - well_known - {HOSTNAME})


def sought_in(wanted: Requirements, custom: frozenset[str]) -> tuple[str, ...]:
    """Those of the labels that a claim must define before it can take a pod that wants this."""
    return tuple(each.key for each in wanted if each.key in custom and _seeks(each))


def seeks_any(pod_class: PodClass, custom: frozenset[str]) -> bool:
    """Whether such pods may find a place once others have made a claim define a label."""
    return any(sought_in(wanted, custom) for wanted in _wants(pod_class))


def _seeks(wanted: Requirement) -> bool:
    return not wanted.allows_absence and wanted.operator is not Operator.NOT_IN


def _wants(pod_class: PodClass) -> Iterable[Requirements]:
    for stage in pod_class.stages:
        yield stage.requirements
    yield from pod_class.volumes.alternatives
