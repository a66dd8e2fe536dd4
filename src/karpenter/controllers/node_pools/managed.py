"""Which pools and node classes this controller manages."""

from typing import Any

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import kind_of
from karpenter.controllers.context import Context
from karpenter.kube.mirror import Mirror
from karpenter.model.conditions import NODE_CLASS_READY, is_true


def is_served(context: Context, pool: NodePool) -> bool:
    """Whether the pool is for the cloud of this process; all others are left alone."""
    return context.cloud.facts.serves(pool.spec.template.spec.node_class_ref)


def can_be_asked_for(pool: NodePool) -> bool:
    """Whether missing instance types of a pool are an error of its provider.

    Before its node class is ready the provider may not be able to list them, and the status of
    the class reports what is missing.
    """
    return is_true(pool.status.conditions, NODE_CLASS_READY)


def node_class_mirrors(context: Context) -> list[Mirror[Any]]:
    """The mirrors of the node classes of this process's cloud."""
    served = context.cloud.facts.node_classes
    return [
        mirror
        for mirror in context.mirrors.all()
        if (mirror.kind.api_version.partition("/")[0], kind_of(mirror.kind)) in served
    ]
