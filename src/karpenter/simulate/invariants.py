"""Invariants of a cluster after any faults, once it has had time to settle."""

from collections.abc import Sequence
from typing import Final, Protocol

from karpenter.api.meta import JsonObject

FINALIZER: Final = "karpenter.sh/termination"
MACHINE: Final = "kwok://"  # how the provider ids of simulated machines begin


class Settled(Protocol):
    """The objects of a cluster, as they are stored."""

    @property
    def nodes(self) -> Sequence[JsonObject]: ...
    @property
    def claims(self) -> Sequence[JsonObject]: ...
    @property
    def pods(self) -> Sequence[JsonObject]: ...


def problems(run: Settled) -> list[str]:
    """Everything that is wrong with a cluster at rest."""
    return [
        *leaked_instances(run),
        *doubled_instances(run),
        *orphaned_finalizers(run),
        *waiting_pods(run),
        *unfinished_claims(run),
    ]


def leaked_instances(run: Settled) -> list[str]:
    """Nodes that were made for a claim which is no more."""
    claimed = {claim.get("status", {}).get("providerID") for claim in run.claims}
    return [
        f"node {_name(node)} belongs to no claim"
        for node in made_nodes(run)
        if node["spec"]["providerID"] not in claimed
    ]


def doubled_instances(run: Settled) -> list[str]:
    """Claims that have more than one node."""
    hosts = [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in made_nodes(run)]
    ids = [claim.get("status", {}).get("providerID") for claim in run.claims]
    return [
        *(f"claim {host} has two nodes" for host in sorted(set(hosts)) if hosts.count(host) > 1),
        *(f"{one} has two claims" for one in sorted(set(filter(None, ids))) if ids.count(one) > 1),
    ]


def orphaned_finalizers(run: Settled) -> list[str]:
    """Objects that are held back though nothing is left to do for them."""
    return [
        f"{obj['kind']} {_name(obj)} is held back by its finalizer"
        for obj in (*run.nodes, *run.claims)
        if "deletionTimestamp" in obj["metadata"]
        and FINALIZER in obj["metadata"].get("finalizers", ())
    ]


def waiting_pods(run: Settled) -> list[str]:
    """Pods that do not run."""
    return [
        f"pod {_name(pod)} is {pod.get('status', {}).get('phase', 'unseen')}"
        for pod in run.pods
        if pod.get("status", {}).get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]
    ]


def unfinished_claims(run: Settled) -> list[str]:
    """Claims that are neither going nor ready."""
    return [
        f"claim {_name(claim)} is not ready"
        for claim in run.claims
        if not any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in claim.get("status", {}).get("conditions", ())
        )
    ]


def made_nodes(run: Settled) -> list[JsonObject]:
    """The nodes that the simulated cloud made."""
    return [n for n in run.nodes if n["spec"].get("providerID", "").startswith(MACHINE)]


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])
