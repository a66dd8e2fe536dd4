"""What a request is about: a resource, perhaps a namespace, an object and a part of it."""

from dataclasses import dataclass

from karpenter.sandbox.kinds import Resource


@dataclass(frozen=True, slots=True)
class Target:
    """The place a request names; empty strings where it names none."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
