"""The two clusters that operations run against, and what they answer."""

import base64
import http.client
import json
import re
import shlex
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from string import Template
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from differential.normal import normal, normal_lines, without_order
from differential.operations import Operation
from differential.paths import at
from helpers.kubectl import run_kubectl

_REPOSITORY: Final = Path(__file__).parents[2]
_SECONDS: Final = 60
_SETTLE_SECONDS: Final = 40
_POLL_SECONDS: Final = 0.25
_WARNING: Final = re.compile(r'299 - "(?:\\.|[^"\\])*"')
_JSON_OUTPUT: Final = re.compile(r"-o[ =]?json(?!path)")
_YAML_OUTPUT: Final = re.compile(r"-o[ =]?yaml")
_PATCHES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}

Answer = dict[str, Any]


@dataclass(slots=True)
class Cluster:
    """A cluster that can be asked, and what it said so far."""

    url: str
    token: str
    kubeconfig: Path
    tls: ssl.SSLContext | None = None
    saved: dict[str, str] = field(default_factory=dict)

    def perform(self, operation: Operation) -> Answer:
        """Carry out an operation and return its answer, in normal form."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            answer = self._answer(operation)
            is_settled = all(at(answer, path) == value for path, value in operation.until.items())
            if is_settled or time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
        for name, path in operation.save.items():
            self.saved[name] = str(at(answer, path))
        return _chosen(answer, operation)

    def exists(self, path: str) -> bool:
        """Whether something answers at a path."""
        return bool(self._send(Operation(id="", send=f"GET {path}"))["status"] == HTTPStatus.OK)

    def _answer(self, operation: Operation) -> Answer:
        return self._send(operation) if operation.send else self._run(operation)

    def _send(self, operation: Operation) -> Answer:
        method, _, path = self._filled(operation.send, operation).partition(" ")
        base = urlsplit(self.url)
        connection = self._connection(base.netloc)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "User-Agent": "differential",
            "Accept": "application/json",
            **_content_type(operation),
            **operation.headers,
        }
        kept = {name: value for name, value in headers.items() if value}
        try:
            connection.request(method, path, self._body(operation), kept)
            response = connection.getresponse()
            return _http_answer(response, response.read())
        finally:
            connection.close()

    def _connection(self, address: str) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(address, timeout=_SECONDS)
        return http.client.HTTPSConnection(address, timeout=_SECONDS, context=self.tls)

    def _body(self, operation: Operation) -> bytes | None:
        if operation.base64 is not None:
            return base64.b64decode(operation.base64)
        if operation.text is not None:
            return self._filled(operation.text, operation).encode()
        if operation.body is not None:
            return self._filled(json.dumps(operation.body), operation).encode()
        return None

    def _run(self, operation: Operation) -> Answer:
        try:
            done = run_kubectl(
                shlex.split(self._filled(operation.kubectl, operation)),
                self.kubeconfig,
                stdin=self._filled(operation.input, operation),
                folder=_REPOSITORY,
                seconds=_SECONDS,
                KUBECACHEDIR=str(self.kubeconfig.parent / "kubectl-cache"),
            )
        except subprocess.TimeoutExpired:
            return {"exit": f"none after {_SECONDS} s"}
        return {
            "exit": done.returncode,
            "output": _printed(done.stdout, operation.kubectl),
            "errors": normal_lines(done.stderr),
        }

    def _filled(self, text: str, operation: Operation) -> str:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        repeated = {name: part * times for name, (part, times) in operation.repeat.items()}
        return Template(text).safe_substitute(self.saved, **repeated, now=now)


def _content_type(operation: Operation) -> Mapping[str, str]:
    given = operation.type
    if not given and (operation.body is not None or operation.text is not None):
        given = "application/json"
    return {"Content-Type": _PATCHES.get(given, given)} if given else {}


def _http_answer(response: http.client.HTTPResponse, body: bytes) -> Answer:
    kind = response.headers.get("Content-Type", "")
    answer: Answer = {"status": response.status, "type": kind, "body": _parsed(body, kind)}
    warnings = _WARNING.findall(", ".join(response.headers.get_all("Warning") or ()))
    return {**answer, "warnings": warnings} if warnings else answer


def _parsed(body: bytes, kind: str) -> Any:
    text = body.decode(errors="replace")
    if "json" not in kind:
        return text
    found = list(_documents(text))
    is_watch = bool(found) and set(found[0]) == {"type", "object"}
    return found[0] if len(found) == 1 and not is_watch else found


def _documents(text: str) -> Iterator[Any]:
    """The JSON documents of a text, one after the other, as a watch sends them."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()


def _printed(text: str, command: str) -> Any:
    if _JSON_OUTPUT.search(command) and text:
        return json.loads(text)
    if _YAML_OUTPUT.search(command):
        # The base loader leaves times as text
        return list(yaml.load_all(text, yaml.BaseLoader))
    return normal_lines(text)


def _chosen(answer: Answer, operation: Operation) -> Answer:
    """The part of an answer that is compared, in normal form.

    What has a normal form is told by its place in the whole answer, so that comes first.
    """
    answer = {key: normal(value) for key, value in answer.items()}
    if operation.pick:
        kept: Answer = {key: answer[key] for key in ("status", "exit") if key in answer}
        answer = {**kept, "picked": at(answer, operation.pick)}
    if operation.only:
        wanted = re.compile(operation.only)
        lines = [line for line in answer["output"] if wanted.search("  ".join(line))]
        answer = {**answer, "output": lines}
    if not operation.unordered:
        return answer
    return {key: _sorted(without_order(value)) for key, value in answer.items()}


def _sorted(value: Any) -> Any:
    for name in ("items", "resources"):
        if isinstance(value, dict) and isinstance(value.get(name), list):
            value = {**value, name: sorted(value[name], key=str)}
    return sorted(value, key=str) if isinstance(value, list) else value
