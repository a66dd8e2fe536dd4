"""Where no cluster can be found, ``plan`` and ``explain`` say so in one sentence."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from helpers.commands import run

COMMANDS = [
    pytest.param(["plan"], id="plan"),
    pytest.param(["explain", "pod", "web"], id="explain pod"),
    pytest.param(["explain", "node", "n1"], id="explain node"),
    pytest.param(["explain", "nodepool", "general"], id="explain nodepool"),
]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "CLOUD_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("words", COMMANDS)
def test_no_kubeconfig(words: list[str]) -> None:
    ran = run(*words)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "error: no cluster is configured: set KUBECONFIG" in ran.err
    assert ran.err.endswith("; or name files with the manifests of one\n")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_kubeconfig_that_is_not_there(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "gone")

    ran = run(*words)

    assert (2, "", ["error: there is no kubeconfig at gone; create it, or set KUBECONFIG"]) == (
        ran.code,
        ran.out,
        ran.errors,
    )


def test_a_context_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\ncontexts: []\n", "utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    ran = run("plan", "--context", "production")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert "there is no context 'production'" in ran.err


def test_a_provider_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(
        "apiVersion: v1\n"
        "kind: Config\n"
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {}}]\n",
        "utf-8",
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    ran = run("plan", "--provider", "kwk")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert "no provider is called kwk" in ran.err
    assert "did you mean kwok?" in ran.err


class SaysTheSame(BaseHTTPRequestHandler):
    """Gives one answer to whatever it is asked."""

    protocol_version = "HTTP/1.1"
    answer: ClassVar[tuple[int, str, bytes]]

    def do_GET(self) -> None:
        status, media_type, body = self.answer
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its name there
        """Leave the output to what is tested."""


class Server(ThreadingHTTPServer):
    """Does not mind a client that hangs up."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Leave the output to what is tested."""


@contextmanager
def serving(status: int, media_type: str, body: bytes) -> Iterator[int]:
    handler = type("Handler", (SaysTheSame,), {"answer": (status, media_type, body)})
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


NOT_FOUND = "GET /api/v1/nodes is 404 not found; is it an API server?"


@pytest.mark.parametrize(
    ("status", "media_type", "body", "said"),
    [
        pytest.param(404, "text/plain", b"not found", NOT_FOUND, id="404"),
        pytest.param(404, "text/html", b"<html>no</html>", NOT_FOUND, id="404 in HTML"),
        pytest.param(404, "application/json", b"{}", NOT_FOUND, id="404 in JSON"),
        pytest.param(
            200, "application/json", b"{}", "it is no list; is it an API server?", id="{}"
        ),
        pytest.param(200, "text/html", b"<html>hi</html>", "; is it an API server?", id="a page"),
        pytest.param(401, "text/html", b"<html>", "does not know who asks", id="401"),
        pytest.param(403, "text/html", b"<html>", "the server answered 403", id="403"),
    ],
)
def test_somebody_who_is_no_api_server(
    status: int,
    media_type: str,
    body: bytes,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(status, media_type, body) as port:
        (tmp_path / "config").write_text(
            "apiVersion: v1\n"
            "kind: Config\n"
            "current-context: c\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
            "users: [{name: u, user: {}}]\n",
            "utf-8",
        )
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

        ran = run("plan")

    assert (1, "", 1) == (ran.code, ran.out, len(ran.errors)), ran.err
    assert ran.err.startswith("error: the cluster cannot be read: ")
    assert said in ran.err
