"""Node classes: the base that the core reads of any provider, and the kinds of EC2 and KWOK beside it.

A provider derives the model of its kind from ``NodeClass``, with whatever it reads itself::

    class MachineClass(NodeClass, frozen=True):
        api_version: ClassVar[str] = "machines.example.com/v1"

Where no provider is at hand, as with files, ``node_class_model`` makes a model of a kind by name.
"""

from functools import cache
from typing import ClassVar

import msgspec

from karpenter.api.meta import Condition, Model, Resource


class NodeClassStatus(Model, frozen=True):
    conditions: tuple[Condition, ...] = ()


class NodeClass(Resource, frozen=True):
    namespaced: ClassVar[bool] = False

    status: NodeClassStatus = NodeClassStatus()


@cache  # objects of one kind have one type
def node_class_model(api_version: str, kind: str) -> type[NodeClass]:
    """The wire model of a node class of which only its name is known."""
    return msgspec.defstruct(  # type: ignore[return-value]  # it derives from its base
        kind, (), bases=(NodeClass,), namespace={"api_version": api_version}, frozen=True, tag=kind
    )
