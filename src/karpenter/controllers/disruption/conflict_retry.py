"""Optimistic locking: on a write conflict, read the object again and decide again."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from karpenter.api.meta import Resource
from karpenter.controllers.context import Context
from karpenter.kube.errors import ConflictError, NotFoundError

R = TypeVar("R", bound=Resource)

_ATTEMPTS: Final = 4
_PAUSE: Final = 0.1


class GoneError(Exception):
    """What was to be changed is gone or on its way out; the text is one sentence."""


async def change(
    context: Context,
    obj: R,
    body_of: Callable[[R], Mapping[str, Any] | None],
    *,
    subresource: str = "",
) -> R:
    """Patch an object with the body computed from its current version, and return the result.

    Nothing is written when ``body_of`` returns None.

    Raises:
        GoneError: the object is gone or being deleted.
        KubeError: the object could not be written.
    """
    kind, metadata = type(obj), obj.metadata
    found = context.mirror(kind).get(metadata.name, metadata.namespace)
    for attempt in range(_ATTEMPTS):
        if found is None or found.metadata.uid != metadata.uid:
            raise GoneError(f"{obj.kind} {metadata.name} is gone")
        if found.metadata.deletion_timestamp is not None:
            raise GoneError(f"{obj.kind} {metadata.name} is being deleted")
        body = body_of(found)
        if body is None:
            return found
        try:
            return await context.patch(found, body, locked=True, subresource=subresource)
        except NotFoundError:
            found = None
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            await context.clock.sleep(_PAUSE * 2**attempt)
            found = await read_again(context, found)
    raise GoneError(f"{obj.kind} {metadata.name} is gone")


async def read_again(context: Context, obj: R) -> R | None:
    """The object as the API server has it, None when it is gone."""
    metadata = obj.metadata
    try:
        found = await context.kube.get(type(obj), metadata.name, metadata.namespace)
    except NotFoundError:
        return None
    context.mirrors.absorb(found)
    return found if found.metadata.uid == metadata.uid else None
