"""A webhook on a real control plane without kube-proxy: an ExternalName Service and a balancer.

The API server resolves a Service of the type ExternalName itself, and takes the port from the
webhook's client configuration. Behind that port a balancer forwards connections to the replicas
that listen.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import yaml

from helpers.real_cluster import NAMESPACE, RealCluster
from helpers.rights import OPTIONAL, documents

SERVICE: Final = "karpenter-webhook"
SECRET: Final = "karpenter-webhook-cert"
Json = dict[str, Any]


class Balancer:
    """A port that leads to the first of several others that listens, in turn."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listening.getsockname()[1]
        self._turn = 0
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening, and end every connection."""
        for each in (self._listening, *tuple(self._open)):
            _shut(each)
        for thread in tuple(self._threads):
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._threads = [each for each in self._threads if each.is_alive()]
                thread = threading.Thread(target=self._lead, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _lead(self, client: socket.socket) -> None:
        with client:
            server = self._connected()
            if server is None:
                return
            with server:
                self._open |= {client, server}
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()
                self._open -= {client, server}

    def _connected(self) -> socket.socket | None:
        self._turn += 1
        for index in range(len(self._ports)):
            port = self._ports[(self._turn + index) % len(self._ports)]
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", port))
        return None


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _shut(source)
    _shut(target)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def balancer(ports: list[int]) -> Iterator[Balancer]:
    """A balancer for as long as a block runs."""
    running = Balancer(ports)
    try:
        yield running
    finally:
        running.close()


def printed_crds(*options: str) -> list[Json]:
    """The definitions that ``karpenter crds`` prints."""
    command = [sys.executable, "-m", "karpenter", "crds", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def webhook_crds(port: int) -> list[Json]:
    """Definitions that are converted by the webhook behind a port."""
    crds = printed_crds("--conversion-webhook", f"{NAMESPACE}/{SERVICE}")
    for crd in crds:
        if "webhook" in crd["spec"].get("conversion", {}):
            crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] = port
    return crds


def install_webhook(cluster: RealCluster, port: int) -> None:
    """Apply the manifests of the webhook, with a Service that leads to a port of this machine."""
    manifests = list(documents(OPTIONAL / "webhook.yaml"))
    for each in manifests:
        if each["kind"] == "Service":
            each["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        for webhook in each.get("webhooks", ()):
            webhook["clientConfig"]["service"]["port"] = port
    cluster("apply", "-f", "-", given=yaml.safe_dump_all(manifests))


def apply(cluster: RealCluster, objects: list[Json]) -> None:
    """Apply objects as the documentation says: on the server's side."""
    cluster("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(objects))
