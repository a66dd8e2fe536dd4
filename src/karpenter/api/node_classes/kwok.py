"""KWOKNodeClass: the node class of the simulated provider."""

from typing import ClassVar

from karpenter.api.meta import Model
from karpenter.api.node_classes import NodeClass


class KWOKNodeClassSpec(Model, frozen=True):
    node_registration_delay: str | None = None


class KWOKNodeClass(NodeClass, frozen=True):
    api_version: ClassVar[str] = "karpenter.kwok.sh/v1alpha1"

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
