"""A real control plane as a user sees it: plain ``kubectl``, and controllers as processes.

Everything here talks to programs, none of it to the code under test. What a controller may do is
what ``examples/install/rbac.yaml`` allows its service account; what it did is read from the API
server's audit log.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from control_plane.access import service_account_kubeconfig
from control_plane.cluster import ControlPlane, control_plane
from control_plane.processes import free_ports
from helpers.rights import CORE, OPTIONAL, documents

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
NAMESPACE: Final = "kube-system"
ACCOUNT: Final = "karpenter"
LEASE: Final = "karpenter-leader-election"

_PATIENCE: Final = 60.0  # for one command of kubectl, or one end of a process
_POLL_SECONDS: Final = 0.25
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Json = dict[str, Any]


def run_kubectl(kubeconfig: Path, *arguments: str, given: str | None = None) -> str:
    """Run ``kubectl`` and return what it prints; it must succeed."""
    program = shutil.which("kubectl")
    assert program is not None, "kubectl is not installed"
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        input=given,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def until(condition: Callable[[], bool], what: str, *, seconds: float) -> float:
    """Wait until something holds, and say how long that took."""
    began = time.monotonic()
    while not condition():
        passed = time.monotonic() - began
        assert passed < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - began


class Kubectl:
    """What ``kubectl`` shows of a cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig: Final = kubeconfig

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        return run_kubectl(self.kubeconfig, *arguments, given=given)

    def items(self, kind: str, *options: str) -> list[Json]:
        """Objects of a kind, in all namespaces unless options say otherwise."""
        listed = json.loads(self("get", kind, "--all-namespaces", *options, "-o", "json"))
        found: list[Json] = listed["items"]
        return found

    def names(self, kind: str) -> set[str]:
        """The names of all objects of a kind."""
        return {each["metadata"]["name"] for each in self.items(kind)}


@contextmanager
def sandbox_process(
    process: subprocess.Popen[bytes], kubeconfig: Path, log: Path
) -> Iterator[Kubectl]:
    """The cluster of a sandbox that was just started; Ctrl-C ends it after the block."""
    try:
        until(kubeconfig.exists, "a kubeconfig is written", seconds=_PATIENCE)
        yield Kubectl(kubeconfig)
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(_PATIENCE)
        assert "Traceback" not in log.read_text("utf-8")
    finally:
        process.kill()
        process.wait()


class RealCluster(Kubectl):
    """A control plane with kwok for a kubelet, our CRDs and roles, and nothing else."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.kubeconfig)
        self.plane: Final = plane

    def install(self, *, legacy: bool = False) -> None:
        """Install CRDs and roles, as a user does."""
        command = [sys.executable, "-m", "karpenter", "crds", *(["--legacy"] if legacy else [])]
        crds = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self("apply", "--server-side", "-f", "-", given=crds)
        self("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        self("apply", "-f", str(CORE))
        roles = [each for each in documents(*OPTIONAL.iterdir()) if each["kind"] == "ClusterRole"]
        self("apply", "-f", "-", given=yaml.safe_dump_all(roles))  # not bound to any account yet

    def account(self, name: str = ACCOUNT, roles: Sequence[str] = ()) -> Path:
        """A kubeconfig for the controller's service account, or for another one just like it.

        Args:
            name: of the service account.
            roles: cluster roles to bind besides those that every controller has.
        """
        bindings = _bindings_for(name) if name != ACCOUNT else []
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        bindings += [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{each}-{name}"},
                "roleRef": {**role, "name": each},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
            }
            for each in roles
        ]
        kubeconfig = service_account_kubeconfig(self.plane, NAMESPACE, name)
        if bindings:
            self("apply", "-f", "-", given=yaml.safe_dump_all(bindings))
        return kubeconfig

    def audit(self, containing: str = "") -> list["Request"]:
        """Every request that has been answered so far, in the order of the answers.

        ``containing`` is in the text of each, which spares reading the others.
        """
        lines = self.plane.audit_log.read_text("utf-8").split("\n")[:-1]
        events = [json.loads(line) for line in lines if containing in line]
        return [Request.read(event) for event in events if event["stage"] != "ResponseStarted"]

    def holder(self) -> str:
        """The holder of the election's lease; empty when it is released."""
        for lease in self.items("leases"):
            if lease["metadata"]["name"] == LEASE:
                return str(lease["spec"].get("holderIdentity") or "")
        return ""


def _bindings_for(name: str) -> list[Json]:
    """The bindings of the controller's service account, for another one."""
    bindings: list[Json] = [each for each in documents(CORE) if "roleRef" in each]
    for binding in bindings:
        binding["metadata"]["name"] += f"-{name}"
        binding["subjects"][0]["name"] = name
    return bindings


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the API server's audit log."""

    account: str  # the service account; empty for other users
    pod: str  # that its token is bound to; empty if it is bound to none
    verb: str
    group: str
    resource: str  # with its subresource
    name: str
    status: int
    received: datetime
    answered: datetime
    body: Mapping[str, Any]

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> "Request":
        """Read an entry of the audit log."""
        target = event.get("objectRef", {})
        user = event["user"].get("username", "")
        path = [target.get("resource", event["requestURI"]), target.get("subresource", "")]
        return cls(
            account=user.removeprefix(f"system:serviceaccount:{NAMESPACE}:")
            if user.startswith(f"system:serviceaccount:{NAMESPACE}:")
            else "",
            pod=event["user"].get("extra", {}).get(_POD_NAME, [""])[0],
            verb=event["verb"],
            group=target.get("apiGroup", ""),
            resource="/".join(filter(None, path)),
            name=target.get("name", ""),
            status=event.get("responseStatus", {}).get("code", 0),
            received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
            answered=datetime.fromisoformat(event["stageTimestamp"]),
            body=event.get("requestObject") or {},
        )

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change."""
        return self.verb in _WRITES

    @property
    def is_refused(self) -> bool:
        """Whether a role was missing."""
        return self.status == HTTPStatus.FORBIDDEN


class Controller:
    """A running ``karpenter controller``, or a program that takes the same settings."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        environment: Mapping[str, str],
        *,
        command: Sequence[str] = (sys.executable, "-m", "karpenter", "controller"),
    ) -> None:
        self._log = log
        metrics, health = free_ports(2)
        self.metrics_url = f"http://127.0.0.1:{metrics}/metrics"
        self.readiness_url = f"http://127.0.0.1:{health}/readyz"
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                list(command),
                env={
                    **os.environ,
                    "KUBECONFIG": str(kubeconfig),
                    "LEADER_ELECTION_NAMESPACE": NAMESPACE,
                    "METRICS_PORT": str(metrics),
                    "HEALTH_PROBE_PORT": str(health),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self) -> str:
        """Its whole output."""
        return self._log.read_text("utf-8", "replace")

    def lines(self, message: str = "") -> list[Json]:
        """The complete lines it has logged, or those with one message."""
        texts = self.text.split("\n")[:-1]
        found = [json.loads(text) for text in texts]
        return [line for line in found if message in ("", line["message"])]

    def until_leading(self, *, terms: int = 1, seconds: float = _PATIENCE) -> float:
        """Wait until it has become the leader so many times."""
        return until(
            lambda: self._is_alive() and len(self.lines("became leader")) >= terms,
            f"leader {terms} times\n{self.text[-2000:]}",
            seconds=seconds,
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """End it in order, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        return self.process.wait(_PATIENCE)

    def _is_alive(self) -> bool:
        assert self.process.poll() is None, f"the controller ended\n{self.text[-2000:]}"
        return True


@contextmanager
def real_cluster(
    folder: Path, *, audits: bool = True, legacy: bool = False
) -> Iterator[RealCluster]:
    """A cluster for as long as a block runs."""
    with control_plane(folder, audits=audits) as plane:
        plane.start_kwok()
        cluster = RealCluster(plane)
        cluster.install(legacy=legacy)
        yield cluster


@contextmanager
def controller(
    cluster: RealCluster, kubeconfig: Path, name: str = ACCOUNT, **environment: str
) -> Iterator[Controller]:
    """A controller for as long as a block runs; it ends by force if it does not in order."""
    running = Controller(kubeconfig, cluster.plane.folder / f"{name}.controller.log", environment)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
