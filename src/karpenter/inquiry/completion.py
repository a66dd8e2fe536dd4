"""What a shell offers when Tab is pressed: names from the kubeconfig, the cluster and the settings.

The shell blocks until the answer comes, so requests have a timeout of one second, or of
``KARPENTER_COMPLETION_SECONDS``. Any failure (no kubeconfig, no answer, no rights) means that
nothing is offered and nothing is printed.
"""

import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from karpenter.api.meta import Resource

Offer = Callable[[typer.Context, str], list[str]]

_SECONDS: Final = 1.0
_LIMIT: Final = "KARPENTER_COMPLETION_SECONDS"  # for clusters that are slow to answer
_LONGEST: Final = 3600.0
_MOST: Final = 500  # names; a longer list is of no use
_GATES: Final = "FEATURE_GATES="


def contexts(context: typer.Context, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    return _within_time(lambda: _beginning(_contexts(context), incomplete))


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    from karpenter.api.cluster import Namespace

    return _offered(Namespace, context, incomplete)


def pods(context: typer.Context, incomplete: str) -> list[str]:
    """Pods of the namespace that was named, or namespace/name of all."""
    from karpenter.api.pods import Pod

    return _offered(Pod, context, incomplete)


def deployments(context: typer.Context, incomplete: str) -> list[str]:
    """Deployments of the namespace that was named, or namespace/name of all."""
    from karpenter.api.workloads import Deployment

    return _offered(Deployment, context, incomplete)


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """The nodes of the cluster."""
    from karpenter.api.nodes import Node

    return _offered(Node, context, incomplete)


def node_pools(context: typer.Context, incomplete: str) -> list[str]:
    """The NodePools of the cluster."""
    from karpenter.api.karpenter import NodePool

    return _offered(NodePool, context, incomplete)


def assignments(context: typer.Context, incomplete: str) -> list[str]:
    """The settings that ``--set`` takes, and behind FEATURE_GATES= the gates."""
    from dataclasses import fields

    from karpenter.settings import DEFAULT_GATES, Settings

    if incomplete.upper().startswith(_GATES):
        before, comma, gate = incomplete.rpartition(",")
        start = before + comma if comma else incomplete[: len(_GATES)]
        gate = gate if comma else incomplete[len(_GATES) :]
        return [f"{start}{each}" for each in _beginning((f"{g}=" for g in DEFAULT_GATES), gate)]
    return _beginning((f"{each.name.upper()}=" for each in fields(Settings)), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))[:_MOST]


def _offered(kind: "type[Resource]", context: typer.Context, incomplete: str) -> list[str]:
    def ask() -> list[str]:
        import asyncio

        return asyncio.run(_listed(kind, context, incomplete))

    return _within_time(ask)


def _within_time(ask: Callable[[], list[str]]) -> list[str]:
    """What ``ask`` returns within the time there is, and nothing where it fails or is too slow."""
    answers: list[list[str]] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception:  # noqa: BLE001 the shell would offer an error message as a name
            answers.append([])

    # In a daemon thread, because a DNS lookup runs in an executor and cannot be cancelled
    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(_limit())
    return answers[0] if answers else []


def _limit() -> float:
    try:
        seconds = float(os.environ.get(_LIMIT, _SECONDS))
    except ValueError:
        return _SECONDS
    return seconds if 0 < seconds < _LONGEST else _SECONDS


async def _listed(kind: "type[Resource]", context: typer.Context, incomplete: str) -> list[str]:
    from karpenter import __version__
    from karpenter.clock import SystemClock
    from karpenter.kube.access.config import load_config
    from karpenter.kube.http import HttpTransport

    environment = _environment(context)
    config = load_config(environment, context=_given(context, "context"))
    transport = HttpTransport(
        config,
        SystemClock(),
        user_agent=f"karpenter-completion/{__version__}",
        environment=environment,
    )
    try:
        return await _names(kind, transport.send, context, incomplete, config.namespace)
    finally:
        await transport.close()


async def _names(
    kind: "type[Resource]",
    send: Callable[[Any], Coroutine[Any, Any, Any]],
    context: typer.Context,
    incomplete: str,
    usual_namespace: str,
) -> list[str]:
    import msgspec

    from karpenter.kube.kinds import resource_of
    from karpenter.kube.transport import Request

    resource = resource_of(kind)
    namespace = _given(context, "namespace") if resource.namespaced else ""
    query = (("limit", str(_MOST)),)
    answer = await send(Request("GET", resource.path(namespace), query, seconds=_limit()))
    if answer.status != 200:
        return []
    items = [item["metadata"] for item in msgspec.json.decode(answer.body)["items"]]
    if not resource.namespaced or namespace:
        return _beginning((item["name"] for item in items), incomplete)
    # As explain takes them: a name alone is one of the usual namespace
    usual = usual_namespace or "default"
    names = [
        item["name"]
        if item["namespace"] == usual and "/" not in incomplete
        else f"{item['namespace']}/{item['name']}"
        for item in items
    ]
    return _beginning(names, incomplete)


def _contexts(context: typer.Context) -> list[str]:
    from pathlib import Path

    from karpenter.kube.access.kubeconfig import context_names

    environment = _environment(context)
    files = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    usual = Path(environment.get("HOME", "")) / ".kube" / "config"
    return context_names([Path(name) for name in files] or [usual])


def _environment(context: typer.Context) -> Mapping[str, str]:
    kubeconfig = _given(context, "kubeconfig")
    return {**os.environ, "KUBECONFIG": kubeconfig} if kubeconfig else os.environ


def _given(context: typer.Context, option: str) -> str:
    return str(context.params.get(option) or "")
