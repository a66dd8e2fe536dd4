"""What the roles of the installation allow, and what the controllers really take.

``Recording`` goes between a controller and its API server. Group, resource and verb of every request
are what an API server would ask its roles about, and what its audit log would show.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import yaml

from karpenter.kube.client import PatchType
from karpenter.kube.transport import Request, Response, Stream, Transport

INSTALL: Final = Path(__file__).resolve().parents[2] / "examples" / "install"
CORE: Final = INSTALL / "rbac.yaml"
AWS: Final = INSTALL / "rbac-aws.yaml"
OPTIONAL: Final = INSTALL / "optional"

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_READS: Final = ("list", "watch")

Json = dict[str, Any]
Right = tuple[str, str, str]  # group, resource with its subresource, verb


class Recording:
    """A transport that records the rights that every request needs.

    The first few patches of a kind can be made to conflict, as with a concurrent writer: they are
    sent twice, and the second answer counts. The read before the retry needs a right as well.
    """

    def __init__(self, inner: Transport, used: set[Right], *, conflicts: int = 0) -> None:
        self._inner = inner
        self._used = used
        self._conflicts = conflicts
        self._writes: Counter[Right] = Counter()

    async def send(self, request: Request) -> Response:
        if request.path == "/version":  # readable without a right
            return await self._inner.send(request)
        right = right_for(request)
        self._used.add(right)
        if request.content_type == PatchType.APPLY:
            self._used.add((*right[:2], "create"))  # apply creates a missing object
        if request.method == "PATCH":
            self._writes[right] += 1
            if self._writes[right] <= self._conflicts:
                await self._inner.send(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        self._used.add(right_for(request))
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def right_for(request: Request) -> Right:
    """What an API server asks its roles about a request."""
    first, *rest = request.path.strip("/").split("/")
    group = "" if first == "api" else rest.pop(0)
    _version, *rest = rest
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(request.method) or ("get" if name else "list")
    if ("watch", "true") in request.query:
        verb = "watch"
    return group, "/".join(filter(None, (resource, subresource))), verb


def documents(*paths: Path) -> Iterator[Json]:
    """The objects of files."""
    for path in paths:
        yield from yaml.safe_load_all(path.read_text("utf-8"))


def granted(*paths: Path, besides: Iterable[str] = ()) -> set[Right]:
    """What the roles that files bind allow; ``besides`` names bindings to leave out."""
    found = [each for each in documents(*paths) if each["metadata"]["name"] not in besides]
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"]) for each in found if "roleRef" in each
    }
    return {
        (group, resource, verb)
        for each in found
        if (each["kind"], each["metadata"]["name"]) in bound
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def looked_for() -> set[Right]:
    """Reads of optional kinds: the controllers do without those that are missing or forbidden."""
    return {right for right in granted(*sorted(OPTIONAL.iterdir())) if right[2] in _READS}


def only_for_admission(rights: Iterable[Right]) -> set[Right]:
    """Rights that no request uses: OwnerReferencesPermissionEnforcement checks them."""
    return {right for right in rights if right[1].endswith("/finalizers") and right[2] == "update"}
