"""KWOKNodeClass: the node class of the simulated provider."""

from typing import ClassVar

from karpenter.api.meta import Condition, Model, Resource


class KWOKNodeClassSpec(Model, frozen=True):
    node_registration_delay: str | None = None


class KWOKNodeClassStatus(Model, frozen=True):
    conditions: tuple[Condition, ...] = ()


class KWOKNodeClass(Resource, frozen=True):
    api_version: ClassVar[str] = "karpenter.kwok.sh/v1alpha1"

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
    status: KWOKNodeClassStatus = KWOKNodeClassStatus()
