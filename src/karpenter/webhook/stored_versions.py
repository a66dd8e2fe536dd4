"""Migrates stored versions: rewrites every object, then removes the version from the status.

The API server stores an object in the storage version of its CRD whenever it is written, also when
nothing changes, and never removes a version from ``status.storedVersions`` itself. A CRD without a
version that is listed there is refused, because objects may still be stored in it.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from karpenter.api.extensions import CustomResourceDefinition
from karpenter.api.meta import Resource
from karpenter.clock import Clock
from karpenter.kube.client import Kube
from karpenter.kube.errors import ApiError, ConflictError, NotFoundError, UnauthorizedError

# An API server that has not loaded a changed CRD still stores the previous version
SETTLING: Final = 5.0
_PAGE: Final = 500
_AT_ONCE: Final = 8
_ATTEMPTS: Final = 5
_WEBHOOK: Final = "Webhook"


class _StoredNodePool(Resource, frozen=True, tag="NodePool"):
    api_version: ClassVar[str] = "karpenter.sh/v1"
    namespaced: ClassVar[bool] = False


class _StoredNodeClaim(Resource, frozen=True, tag="NodeClaim"):
    api_version: ClassVar[str] = "karpenter.sh/v1"
    namespaced: ClassVar[bool] = False


class _StoredNodeClass(Resource, frozen=True, tag="EC2NodeClass"):
    api_version: ClassVar[str] = "karpenter.k8s.aws/v1"
    namespaced: ClassVar[bool] = False


# By the name of their CRD; only metadata is decoded, so an invalid spec is no obstacle
STORED: Final[dict[str, type[Resource]]] = {
    "nodepools.karpenter.sh": _StoredNodePool,
    "nodeclaims.karpenter.sh": _StoredNodeClaim,
    "ec2nodeclasses.karpenter.k8s.aws": _StoredNodeClass,
}


class MigrationError(Exception):
    """Why a kind must not be rewritten now; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A CRD as it matters here."""

    name: str
    storage: str
    old: tuple[str, ...]  # versions that objects may be stored in besides
    resource_version: str
    is_converted: bool  # by a webhook

    @classmethod
    def read(cls, crd: CustomResourceDefinition) -> "Definition":
        """Read a CRD."""
        storage = next((each.name for each in crd.spec.versions if each.storage), "")
        return cls(
            crd.metadata.name,
            storage,
            tuple(each for each in crd.status.stored_versions if each != storage),
            crd.metadata.resource_version,
            crd.spec.conversion.strategy == _WEBHOOK,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one kind."""

    definition: str
    is_installed: bool = True
    storage: str = ""
    old: tuple[str, ...] = ()  # versions that were stored before
    objects: int = 0  # that were rewritten, or would be
    failures: dict[str, str] = field(default_factory=dict)  # name -> error of the API server
    is_done: bool = False  # whether the old versions are gone from storedVersions


async def migrate(kube: Kube, clock: Clock, name: str, *, is_rehearsal: bool) -> Outcome:
    """Store all objects of a kind in the storage version, and take the others off the list.

    Args:
        kube: a client that may read and write the objects and the status of their CRD.
        clock: for the wait before the first write.
        name: the name of the CRD, a key of ``STORED``.
        is_rehearsal: only count.

    Raises:
        MigrationError: objects would lose what only the old version has.
        KubeError: the API server does not answer, or refuses a request.
    """
    definition = await _definition(kube, name)
    if definition is None:
        return Outcome(name, is_installed=False)
    if not definition.old:
        return Outcome(name, storage=definition.storage, is_done=True)
    objects = await _names(kube, STORED[name])
    _check(definition, STORED[name], objects)
    failures: dict[str, str] = {}
    if not is_rehearsal:
        if objects:
            await clock.sleep(SETTLING)
        failures = await _rewritten(kube, STORED[name], objects)
        if not failures:
            await _unlist(kube, definition)
    return Outcome(
        name,
        storage=definition.storage,
        old=definition.old,
        objects=len(objects),
        failures=failures,
        is_done=not is_rehearsal and not failures,
    )


def sentences(outcome: Outcome, *, is_rehearsal: bool) -> Iterator[str]:
    """An outcome in sentences, one line each."""
    name, storage, old = outcome.definition, outcome.storage, ", ".join(outcome.old)
    many = f"{outcome.objects} object{'' if outcome.objects == 1 else 's'}"
    if not outcome.is_installed:
        yield f"{name}: not installed"
    elif not outcome.old:
        yield f"{name}: only {storage} is stored"
    elif is_rehearsal:
        yield f"{name}: would rewrite {many} as {storage}, and take {old} out of storedVersions"
    elif outcome.is_done:
        yield f"{name}: {many} rewritten as {storage}, and {old} taken out of storedVersions"
    else:
        left = len(outcome.failures)
        yield f"{name}: {left} of {many} not rewritten, so {old} stays in storedVersions"
        yield from (f'  "{each}": {said}' for each, said in outcome.failures.items())


async def _definition(kube: Kube, name: str) -> Definition | None:
    try:
        return Definition.read(await kube.get(CustomResourceDefinition, name))
    except NotFoundError:
        return None


def _check(definition: Definition, kind: type[Resource], objects: dict[str, str]) -> None:
    wanted = kind.api_version.rpartition("/")[2]
    remedy = "apply the output of 'karpenter crds --conversion-webhook NAMESPACE/SERVICE' first"
    if definition.storage != wanted:
        raise MigrationError(f"{definition.name} stores {definition.storage}: {remedy}")
    if objects and not definition.is_converted:
        raise MigrationError(
            f"{definition.name} has no conversion webhook, so objects stored as"
            f" {', '.join(definition.old)} would lose fields: {remedy}"
        )


async def _names(kube: Kube, kind: type[Resource]) -> dict[str, str]:
    """The uids of all objects of a kind, by name."""
    found: dict[str, str] = {}
    token = ""
    while True:
        page = await kube.page(kind, limit=_PAGE, continue_token=token)
        found |= {each.metadata.name: each.metadata.uid for each in page.items}
        token = page.metadata.continue_token
        if not token:
            return found


async def _rewritten(kube: Kube, kind: type[Resource], objects: dict[str, str]) -> dict[str, str]:
    """Rewrite every object, a few at a time; return the errors of those that failed, by name."""
    names = list(objects)
    failures: dict[str, str] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        said = await asyncio.gather(*(_refusal(kube, kind, name) for name in some))
        failures |= {name: words for name, words in zip(some, said, strict=True) if words}
    return failures


async def _refusal(kube: Kube, kind: type[Resource], name: str) -> str:
    """Rewrite one object; return the API server's error, empty on success."""
    try:
        await kube.patch(kind, name, {})
    except NotFoundError:
        return ""  # deleted since
    except UnauthorizedError:
        raise
    except ApiError as error:
        return str(error)
    return ""


async def _unlist(kube: Kube, definition: Definition) -> None:
    """Remove the old versions from ``storedVersions``, unless the storage version has changed."""
    for _ in range(_ATTEMPTS):
        body = {
            "metadata": {"resourceVersion": definition.resource_version},
            "status": {"storedVersions": [definition.storage]},
        }
        try:
            await kube.patch(CustomResourceDefinition, definition.name, body, subresource="status")
        except ConflictError:
            latest = await _definition(kube, definition.name)
            if latest is None or latest.storage != definition.storage:
                break
            definition = latest
        else:
            return
    raise MigrationError(
        f"{definition.name} was changed again and again while its objects were rewritten;"
        " run the command once more"
    )
