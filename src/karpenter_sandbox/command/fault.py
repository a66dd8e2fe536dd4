"""Injects faults into the simulated AWS of a running sandbox, from another process."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeVar

from karpenter.api.cluster import ConfigMap
from karpenter.api.nodes import Node
from karpenter.cloud.aws.simulated.fault_injection import (
    CONFIG_MAP,
    CONFIG_MAP_NAMESPACE,
    InjectedFault,
    InjectedFaultError,
    Kind,
    Market,
    kind_named,
    listed,
    written,
)
from karpenter.console import output
from karpenter.console.screen import counted
from karpenter.kube.client import Kube
from karpenter.kube.errors import NotFoundError
from karpenter.model.labels import ZONE
from karpenter.visible import visible
from karpenter_sandbox.command.aws import REGION, ZONES
from karpenter_sandbox.command.running import in_sandbox

T = TypeVar("T")

_EXAMPLES: Final[dict[Kind, str]] = {
    "sold-out": "'m5.*/*/spot'",
    "lost-zone": "us-west-2a",
    "throttled": "CreateFleet",
    "denied": "RunInstances",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    kind: str  # empty: every kind
    what: tuple[str, ...]  # nothing: everything of the kind
    is_undone: bool


def show_faults(kubeconfig: Path | None) -> None:
    """Print the faults that are injected now."""
    troubles = _in_aws(kubeconfig, _listed)
    lines = [f"{each.kind:<9}  {each.what}" for each in troubles]
    output.write("\n".join(lines or ["nothing is wrong with this AWS"]) + "\n")


def change_faults(asked: Asked, kubeconfig: Path | None) -> None:
    """Inject or remove faults and print the result, or print why that is not possible."""
    try:
        kind = kind_named(asked.kind) if asked.kind else None
    except InjectedFaultError as error:
        output.fail(str(error))
    if kind is not None and not asked.what and not asked.is_undone:
        output.fail(f"name what is {_noun(kind)}, such as {_EXAMPLES[kind]}")
    lines = _in_aws(kubeconfig, lambda kube: _change(kube, asked))
    output.write("".join(f"{visible(line)}\n" for line in lines))


def _in_aws(kubeconfig: Path | None, work: Callable[[Kube], Awaitable[T]]) -> T:
    """Do something with the simulated AWS of a sandbox, or end the command with one sentence."""
    try:
        return in_sandbox(kubeconfig, work)
    except NotFoundError:
        output.fail(
            "this cluster has no simulated AWS; karpenter sandbox --provider aws starts one that has"
        )
    except InjectedFaultError as error:
        output.fail(str(error))


async def _listed(kube: Kube) -> list[InjectedFault]:
    held = await kube.get(ConfigMap, CONFIG_MAP, CONFIG_MAP_NAMESPACE)
    return listed(held.data)


async def _change(kube: Kube, asked: Asked) -> list[str]:
    held = await kube.get(ConfigMap, CONFIG_MAP, CONFIG_MAP_NAMESPACE)
    market = _market(held)
    current = listed(held.data)
    meant = _meant(asked, current, market)
    if asked.is_undone:
        wanted = [each for each in current if each not in meant]
    else:
        wanted = [*current, *meant]
    body = {
        # optimistic lock: concurrent commands must not undo each other
        "metadata": {"resourceVersion": held.metadata.resource_version},
        "data": {**dict.fromkeys(held.data), **written(dict.fromkeys(wanted))},
    }
    await kube.patch(ConfigMap, CONFIG_MAP, body, CONFIG_MAP_NAMESPACE)
    if asked.is_undone:
        gone = [f"no longer {_noun(each.kind)}: {each.what}" for each in meant]
        wrong = _noun(kind_named(asked.kind)) if asked.kind else "wrong with this AWS"
        return gone or [f"nothing was {wrong}"]
    nodes = await kube.list(Node) if any(each.kind == "lost-zone" for each in meant) else ()
    return [_said(each, market, nodes) for each in meant]


def _meant(asked: Asked, current: list[InjectedFault], market: Market) -> list[InjectedFault]:
    """The faults to inject or to remove."""
    if not asked.what:
        return [each for each in current if asked.kind in ("", each.kind)]
    meant = [market.check(kind_named(asked.kind), word) for word in asked.what]
    if asked.is_undone:
        for each in meant:
            if each not in current:
                raise InjectedFaultError(
                    f"{each.what} is not {_noun(each.kind)}; karpenter sandbox fault --list shows"
                    " what is wrong"
                )
    return list(dict.fromkeys(meant))


def _market(held: ConfigMap) -> Market:
    annotations = held.metadata.annotations or {}
    if not annotations.get(REGION) or not annotations.get(ZONES):
        raise InjectedFaultError(
            f"ConfigMap {CONFIG_MAP_NAMESPACE}/{CONFIG_MAP} has lost its annotations; start the sandbox"
            " again"
        )
    return Market(annotations[REGION], tuple(annotations[ZONES].split(",")))


def _said(trouble: InjectedFault, market: Market, nodes: Iterable[Node]) -> str:
    if trouble.kind == "sold-out":
        name, zone, _ = trouble.what.split("/")
        types = {n for n, z in market.offered if fnmatchcase(n, name) and fnmatchcase(z, zone)}
        return f"{trouble}: {counted(len(types), 'type')}; launches find out when they ask for it"
    if trouble.kind == "lost-zone":
        there = sum((node.metadata.labels or {}).get(ZONE) == trouble.what for node in nodes)
        return (
            f"{trouble.what} is lost: nothing can be launched there, and the kubelets of"
            f" {counted(there, 'node')} fall silent"
        )
    return str(trouble)


def _noun(kind: Kind) -> str:
    return "lost" if kind == "lost-zone" else kind.replace("-", " ")
