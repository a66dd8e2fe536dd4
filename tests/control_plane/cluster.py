"""A real Kubernetes control plane for tests: etcd, API server, controllers, scheduler, kwok.

``ControlPlane`` runs them as plain processes on loopback, with certificates and a token of their
own, in a folder that can be thrown away. It needs no containers and no rights. The programs come
from ``build.py``. ``ControlPlane.kubeconfig`` gives cluster-admin rights; RBAC is on, and
``access.py`` makes kubeconfigs with fewer rights.
"""

import json
import secrets
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import yaml

from control_plane.build import ASSETS, HERE, build, find, missing
from control_plane.certificates import Certificates, make_certificates
from control_plane.processes import Process, free_ports

_START_SECONDS: Final = 180
_API_SERVER: Final = "kube-apiserver"
_REQUEST_SECONDS: Final = 10
_KWOK_NODE: Final = "kwok.x-k8s.io/node=fake"
_KWOK_STAGES: Final = HERE / "kwok" / "stages.yaml"
_PUBLIC: Final = ("/healthz", "/livez", "/readyz", "/version")
# Created by the control plane at its start; pods need them
_FIRST_OBJECTS: Final = (
    "/api/v1/namespaces/default/serviceaccounts/default",
    "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
    "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
)


def obstacle() -> str | None:
    """Why no control plane can be started on this machine, if so."""
    if shutil.which("openssl") is None:
        return "no control plane: openssl is not installed"
    absent = [program.name for program in missing()]
    if absent and shutil.which("go") is None:
        return (
            f"no control plane: {', '.join(absent)} not found, and no Go to build them with;"
            f" install Go, or set {ASSETS} to a folder that holds them"
        )
    return None


class RefusedError(Exception):
    """The API server did not do what a test needs."""

    def __init__(self, method: str, path: str, status: int, answer: str) -> None:
        super().__init__(f"{method} {path} was answered with {status}: {answer}")
        self.status = status


class ControlPlane:
    """A Kubernetes cluster without machines; nodes are objects, which kwok brings to life."""

    def __init__(
        self, folder: Path, *, audits: bool = False, admission: Sequence[str] = ()
    ) -> None:
        """Prepare a cluster in a folder.

        Args:
            folder: where everything of it is kept.
            audits: whether it writes down every request.
            admission: admission plugins beyond those that are on by default.
        """
        self.folder = folder
        self._audits = audits
        self._admission = admission
        self.token = secrets.token_urlsafe(24)
        self._etcd_port, self._etcd_peer_port, port = free_ports(3)
        self.url = f"https://127.0.0.1:{port}"
        self._port = port
        self._running: list[Process] = []
        self._certificates: Certificates | None = None

    @property
    def certificates(self) -> Certificates:
        """The keys of the running cluster."""
        assert self._certificates is not None, "not started"
        return self._certificates

    @property
    def kubeconfig(self) -> Path:
        """The file that leads ``kubectl`` here."""
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Where the API server writes down requests, one JSON object to a line."""
        return self.folder / "audit.log"

    @property
    def tls(self) -> ssl.SSLContext:
        """What a client needs to trust the API server."""
        return ssl.create_default_context(cafile=str(self.certificates.server))

    def start(self) -> Self:
        """Start everything but kwok, and wait until pods can be created.

        Raises:
            StartError: a program does not come up.
            BuildError: a program is missing and cannot be built.
        """
        try:
            self._certificates = make_certificates(self.folder)
            self.write_kubeconfig(self.kubeconfig, {"token": self.token})
            self._start_etcd()
            self._start_api_server(self._certificates)
            self._start_controllers(self._certificates)
        except BaseException:
            self.stop()
            raise
        return self

    def start_kwok(self, *, every_node: bool = False) -> None:
        """Let kwok play the kubelet of nodes annotated for it, or of every node.

        Raises:
            StartError: it does not come up.
            BuildError: it is missing and cannot be built.
        """
        whose = f"--manage-nodes-with-annotation-selector={_KWOK_NODE}"
        (port,) = free_ports(1)
        kwok = self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={_KWOK_STAGES}",
            "--manage-all-nodes=true" if every_node else whose,
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
        )
        kwok.wait_until(
            lambda: _answers(f"http://127.0.0.1:{port}/healthz"), seconds=_START_SECONDS
        )

    def stop(self) -> None:
        """End all programs, the last one first."""
        while self._running:
            self._running.pop().stop()

    def restart_etcd(self) -> None:
        """Kill etcd, and start it again with what it has stored."""
        self._restart("etcd", lambda: _answers(f"{self._etcd}/health"))

    def restart_api_server(self) -> None:
        """Kill the API server, and start it again."""
        self._restart(_API_SERVER, lambda: self.has("/readyz"))

    @contextmanager
    def without_api_server(self) -> Iterator[None]:
        """Have no API server for as long as a block runs.

        Raises:
            StartError: it does not come up again.
        """
        process = self._process(_API_SERVER)
        process.kill()
        try:
            yield
        finally:
            process.start_again()
        process.wait_until(lambda: self.has("/readyz"), seconds=_START_SECONDS)

    def _restart(self, name: str, is_up: Callable[[], bool]) -> None:
        """Kill a program, start it again and wait for it.

        Raises:
            StartError: it does not come up.
        """
        process = self._process(name)
        process.kill()
        process.start_again()
        process.wait_until(is_up, seconds=_START_SECONDS)

    def has(self, path: str) -> bool:
        """Whether the API server answers a request for ``path``."""
        return _answers(f"{self.url}{path}", token=self.token, tls=self.tls)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Send a request with cluster-admin rights, and return the answer.

        Raises:
            RefusedError: it refuses.
        """
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
            method=method,
        )
        try:
            with urllib.request.urlopen(
                request, timeout=_REQUEST_SECONDS, context=self.tls
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")
            raise RefusedError(method, path, error.code, said) from error

    def write_kubeconfig(self, path: Path, user: Mapping[str, Any]) -> Path:
        """Write a kubeconfig that leads here as ``user``, which is how it proves who it is."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificates.server)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": path.stem, "user": dict(user)}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": path.stem}}],
            "current-context": "tests",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    @property
    def _etcd(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    def _process(self, name: str) -> Process:
        (found,) = [each for each in self._running if each.name == name]
        return found

    def _run(self, name: str, *arguments: str) -> Process:
        build_missing()
        program = find(name)
        assert program is not None, f"{name} was built"
        process = Process(name, [program, *arguments], self.folder)
        self._running.append(process)
        return process

    def _start_etcd(self) -> None:
        client = self._etcd
        peer = f"http://127.0.0.1:{self._etcd_peer_port}"
        etcd = self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync=true",
            "--log-level=warn",
        )
        etcd.wait_until(lambda: _answers(f"{client}/health"), seconds=_START_SECONDS)

    def _start_api_server(self, certificates: Certificates) -> None:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n', encoding="utf-8")
        server = self._run(
            _API_SERVER,
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={certificates.server}",
            f"--tls-private-key-file={certificates.server_key}",
            f"--client-ca-file={certificates.server}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificates.service_account_key}",
            f"--service-account-signing-key-file={certificates.service_account_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={tokens}",
            f"--authentication-config={self._authentication()}",
            "--authorization-mode=RBAC",
            "--enable-priority-and-fairness=false",
            *(self._auditing() if self._audits else ()),
            *(f"--enable-admission-plugins={each}" for each in self._admission),
        )
        server.wait_until(lambda: self.has("/readyz"), seconds=_START_SECONDS)

    def _start_controllers(self, certificates: Certificates) -> None:
        manager = self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={certificates.service_account_key}",
            f"--root-ca-file={certificates.server}",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--secure-port=0",
            "--controllers=*,-certificatesigningrequest-signing-controller",
        )
        self._run(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
        )
        manager.wait_until(lambda: all(map(self.has, _FIRST_OBJECTS)), seconds=_START_SECONDS)

    def _auditing(self) -> tuple[str, ...]:
        """The flags that let every request be written down, those about leases with their body."""
        leases = {"group": "coordination.k8s.io", "resources": ["leases"]}
        content = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Request", "resources": [leases]}, {"level": "Metadata"}],
        }
        path = self.folder / "audit-policy.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return f"--audit-policy-file={path}", f"--audit-log-path={self.audit_log}"

    def _authentication(self) -> Path:
        """A configuration that allows anonymous requests to the health endpoints only."""
        path = self.folder / "authentication.yaml"
        content = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "anonymous": {"enabled": True, "conditions": [{"path": each} for each in _PUBLIC]},
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path


def build_missing() -> None:
    """Build the programs that are not there yet.

    Raises:
        BuildError: one of them cannot be built.
    """
    for program in tuple(missing()):
        build(program)


@contextmanager
def control_plane(
    folder: Path, *, audits: bool = False, admission: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """A control plane that runs for as long as a block does."""
    cluster = ControlPlane(folder, audits=audits, admission=admission).start()
    try:
        yield cluster
    finally:
        cluster.stop()


def _answers(url: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS, context=tls) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False
