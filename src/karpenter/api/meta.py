"""What every object on the wire shares: type and object metadata, conditions, lists, statuses.

Wire models are partial: they hold the fields the project reads, and decoding skips the rest. They
are therefore never written back whole; a write is a patch of exactly the fields it is about.

Collections are tuples and read-only mappings, so an object can be shared without copying it, an
absent list costs nothing, and the garbage collector untracks them after their first collection.
Quantities and durations keep the text they were written with; ``karpenter.model`` gives them
meaning.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec

JsonObject: TypeAlias = dict[str, Any]  # an object as in its JSON, with every field
Quantity: TypeAlias = str | int | float
ResourceMap: TypeAlias = Mapping[str, Quantity]  # resource name -> amount
IntOrString: TypeAlias = int | str
Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class UnstatedList(tuple[Any, ...]):
    """An empty list that is absent from the object; ``[]`` in an object is an ordinary one."""

    __slots__ = ()


class UnstatedMap(dict[str, Any]):
    """An empty map that is absent from the object; ``{}`` in an object is an ordinary one."""


UNSTATED: Final = UnstatedList()


def is_stated(collection: Collection[object]) -> bool:
    """Whether a list or map is present in the object, empty or not.

    Only fields with such a default record it, and only hashes need it.
    """
    return not isinstance(collection, UnstatedList | UnstatedMap)


class Model(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """Base of every wire model: immutable, camelCase on the wire, defaults left out.

    ``gc=False`` is sound because models hold only decoded data, which cannot form a cycle.
    """


class OwnerReference(Model, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Resource(Model, frozen=True, tag=True, tag_field="kind"):
    """Base of every top-level object; the class holds its apiVersion and kind.

    Both are left out of the instance: items of a list come without them, and they would only
    repeat the type.
    """

    api_version: ClassVar[str]
    namespaced: ClassVar[bool] = True  # whether its objects live in a namespace

    metadata: ObjectMeta = ObjectMeta()

    @property
    def kind(self) -> str:
        """The kind as the API server spells it."""
        return kind_of(type(self))


def kind_of(resource: type[Resource]) -> str:
    """Return the kind ``resource`` stands for; classes of older versions share it."""
    return str(resource.__struct_config__.tag)


def group_of(resource: type[Resource]) -> str:
    """Return the API group ``resource`` belongs to, which is empty for the core of Kubernetes."""
    return resource.api_version.rpartition("/")[0]


class Condition(Model, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0


class ObjectReference(Model, frozen=True):
    """A reference to another object; which fields are filled depends on its writer."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class TypeMeta(Model, frozen=True):
    """The two fields that say how to read the rest of an object."""

    api_version: str = ""
    kind: str = ""


class ListMeta(Model, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


Item = TypeVar("Item")


class ObjectList(Model, Generic[Item], frozen=True):
    """The envelope around the answer to a list request, or one page of it."""

    metadata: ListMeta = ListMeta()
    items: tuple[Item, ...] = ()


class StatusCause(Model, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Model, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int | None = None


class Status(Model, frozen=True, tag=True, tag_field="kind"):
    """The API server's response where it has no object to return, such as an error."""

    api_version: ClassVar[str] = "v1"

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None
