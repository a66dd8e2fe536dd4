"""An example to begin with, and a demonstration of it: 0, 5, 20 and 0 pods, all on its own.

Both are for first-time users. The demonstration does what they would
do with ``kubectl``, waits until the cluster is stable, and prints its state.
"""

from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Final

from karpenter.manifests.reader import Document, read
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.live_view import overview_of

if TYPE_CHECKING:
    from karpenter_sandbox.command.prices import Prices

DEPLOYMENT: Final = "inflate"
STEPS: Final = (5, 20, 0)
_PATIENCE: Final = 120.0
_PAUSE: Final = 0.5


def example(provider: str = "kwok") -> list[Document]:
    """A NodePool of simulated machines, and a Deployment without pods."""
    folder = resources.files("karpenter_sandbox.command").joinpath("quickstart")
    files = [folder.joinpath("inflate.yaml"), folder.joinpath(provider, "nodepool.yaml")]
    return [
        document
        for file in files
        if file.is_file()
        for document in read(file.read_bytes(), file.name)
    ]


def commands_to_try() -> tuple[str, ...]:
    """Commands to try after the example has started."""
    return (
        f"kubectl scale deployment {DEPLOYMENT} --replicas=5",
        "kubectl get nodeclaims,nodes,pods -o wide",
        f"kubectl scale deployment {DEPLOYMENT} --replicas=0",
    )


async def demonstrate(
    cluster: Cluster,
    say: Callable[[str], None],
    prices: "Prices",
) -> None:
    """Scale the example up and down, and print the state of the cluster after each step."""
    for replicas in STEPS:
        say("")
        say(f"$ kubectl scale deployment {DEPLOYMENT} --replicas={replicas}")
        patch = {"spec": {"replicas": replicas}}
        await cluster.client.patch("merge", "apps/v1", "Deployment", "default", DEPLOYMENT, patch)
        began = cluster.clock.monotonic()
        await _rest(cluster, replicas)
        seconds = cluster.clock.monotonic() - began
        say(f"→ after {seconds:.0f} s: {overview_of(cluster, prices).summary}")


async def _rest(cluster: Cluster, replicas: int) -> None:
    """Wait until all requested pods run, and for zero pods until no NodeClaim is left."""
    deadline = cluster.clock.monotonic() + _PATIENCE
    while cluster.clock.monotonic() < deadline:
        await cluster.clock.sleep(_PAUSE)
        pods = [pod for pod in cluster.store.list("", "pods") if _is_ours(pod)]
        running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
        claims = cluster.store.list("karpenter.sh", "nodeclaims")
        is_idle = replicas > 0 or not claims
        if len(pods) == len(running) == replicas and is_idle:
            return


def _is_ours(pod: dict[str, object]) -> bool:
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    return (metadata.get("labels") or {}).get("app") == DEPLOYMENT
