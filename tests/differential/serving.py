"""Run a bare sandbox cluster in a process of its own: ``python -m differential.serving FILE``.

``FILE`` is the kubeconfig that leads to it, which appears once it answers. There are no nodes and
no part of the product beside it, so that only the cluster itself is compared.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

from karpenter.clock import SystemClock
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig


async def serve(kubeconfig: Path) -> None:
    """Serve until told to stop."""
    cluster = Cluster(SystemClock())
    await cluster.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with serving(Server(cluster.api, token=new_token())) as server:
        write_kubeconfig(server, kubeconfig)
        await stopped.wait()
    with contextlib.suppress(asyncio.CancelledError):
        await cluster.stop()


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    asyncio.run(serve(Path(sys.argv[1])))
