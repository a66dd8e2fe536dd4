"""On AWS the controllers get by with the roles of the installation, and need all of the provider's."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from autoscaler import deployment
from aws_sandbox import aws_sandbox, ec2_pool
from clusters import in_virtual_time
from karpenter.kube.transport import Request, Response, Stream, Transport

pytestmark = pytest.mark.storm

INSTALL: Final = Path(__file__).resolve().parents[2] / "examples" / "install"
VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

Right = tuple[str, str, str]  # group, resource with its subresource, verb


class Recording:
    """Remembers which rights every request takes."""

    def __init__(self, inner: Transport, used: set[Right]) -> None:
        self._inner = inner
        self._used = used

    async def send(self, request: Request) -> Response:
        if request.path != "/version":  # which everybody may read
            self._used.add(right_for(request))
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
    verb = VERBS.get(request.method) or ("get" if name else "list")
    if ("watch", "true") in request.query:
        verb = "watch"
    return group, "/".join(filter(None, (resource, subresource))), verb


def documents() -> Iterator[dict[str, Any]]:
    for path in sorted(INSTALL.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text("utf-8"))


def rights_of(names: set[str]) -> set[Right]:
    return {
        (group, resource, verb)
        for each in documents()
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] in names
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def bound() -> set[str]:
    return {each["roleRef"]["name"] for each in documents() if each["kind"] == "ClusterRoleBinding"}


@in_virtual_time
async def test_a_cluster_on_aws_lives_with_the_roles_of_the_installation() -> None:
    used: set[Right] = set()
    environment = {"ISOLATED_VPC": "true"}
    async with aws_sandbox(
        ec2_pool(), environment=environment, wrap=lambda inner: Recording(inner, used)
    ) as box:
        await box.run.apply(deployment("web", 3, cpu="1"))
        await box.run.until(lambda: len(box.run.running) == 3)
        await box.run.scale("web", 0)
        await box.run.until(lambda: not box.machines)
        await box.run.client.delete("karpenter.sh/v1", "NodePool", None, "default")
        await box.remove_class()

    # The role of the simulated provider is not needed here
    allowed = rights_of(bound() - {"karpenter"})
    every_role = {each["metadata"]["name"] for each in documents() if each["kind"] == "ClusterRole"}
    # Kinds that may be absent or closed to us are looked for, and done without
    optional = {right for right in rights_of(every_role - bound()) if right[2] in ("list", "watch")}

    assert set() == used - allowed - optional
    of_the_provider = rights_of({"karpenter-aws"})
    unused = {right[:2] for right in of_the_provider} - {right[:2] for right in used}
    assert set() == unused
