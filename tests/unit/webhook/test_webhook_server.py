"""The webhook over TLS on loopback: reviews are answered, everything else gets one sentence."""

import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from karpenter.clock import SystemClock
from karpenter.operator.serving import ServingError, listen
from karpenter.operator.webhook import webhook_place
from karpenter.settings import Settings
from karpenter.telemetry import Metrics
from karpenter.webhook.certificates import Certificate, TlsIdentity, make_authority, make_leaf
from karpenter.webhook.server import WebhookApp
from karpenter.webhook.trust import Place
from unit.kube.flaky import FlakyCluster, Refusal
from unit.webhook.test_webhook_conversion_review import OLD_CLAIM, OLD_CLASS, OLD_POOL, review

NAME = "karpenter.kube-system.svc"
HERE = "127.0.0.1"


@dataclass(slots=True)
class Told(Refusal):
    """An object that is given in place of the real answer."""

    obj: dict[str, Any] = field(default_factory=dict)

    def body(self) -> bytes:
        return json.dumps({"apiVersion": "karpenter.sh/v1", **self.obj}).encode()


class Served:
    """A running webhook and a client that trusts it."""

    def __init__(self, port: int, identity: TlsIdentity, authority: Certificate) -> None:
        self.port = port
        self.identity = identity
        self.authority = authority
        self.metrics = Metrics()
        self.cluster = FlakyCluster(SystemClock())

    async def post(self, path: str, **how: Any) -> tuple[int, str]:
        async with self._session() as session:
            url = f"https://{HERE}:{self.port}{path}"
            async with session.post(url, server_hostname=NAME, **how) as response:
                return response.status, await response.text()

    async def answer(self, path: str, body: Any) -> dict[str, Any]:
        async with self._session() as session:
            url = f"https://{HERE}:{self.port}{path}"
            async with session.post(url, server_hostname=NAME, json=body) as response:
                assert response.status == 200
                found: dict[str, Any] = (await response.json())["response"]
                return found

    def _session(self) -> aiohttp.ClientSession:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    clock = SystemClock()
    authority = make_authority(clock.now())
    identity = TlsIdentity()
    identity.show(make_leaf(authority, (NAME,), clock.now()))
    async with AsyncExitStack() as stack:
        webhook = Served(0, identity, authority)
        app = WebhookApp(
            webhook.cluster.kube, clock, structlog.get_logger(), webhook.metrics, provider="aws"
        )
        webhook.port = await listen(stack, app.routes(), HERE, 0, "WEBHOOK_PORT", identity.context)
        yield webhook


async def test_reviews_of_both_kinds_are_answered() -> None:
    async with served() as webhook:
        pool = await webhook.answer("/convert/karpenter.sh", review(OLD_POOL))
        node_class = await webhook.answer(
            "/convert/karpenter.k8s.aws", review(OLD_CLASS, to="karpenter.k8s.aws/v1")
        )
        bad = {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "metadata": {"name": "a"},
            "spec": {"providerRef": {"name": "a"}, "weight": 101},
        }
        request = {"uid": "1", "operation": "CREATE", "object": bad}
        admission = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request,
        }
        refused = await webhook.answer("/validate", admission)
        completed = await webhook.answer("/default", admission)
        text = webhook.metrics.exposition().decode()

    assert pool["convertedObjects"][0]["apiVersion"] == "karpenter.sh/v1"
    assert node_class["convertedObjects"][0]["apiVersion"] == "karpenter.k8s.aws/v1"
    assert refused["status"]["message"].startswith("spec.weight: ")
    assert completed["patchType"] == "JSONPatch"
    assert 'karpenter_webhook_requests_total{code="200",path="/convert/karpenter.sh"} 1.0' in text
    assert 'karpenter_webhook_requests_total{code="200",path="/validate"} 1.0' in text


async def test_claims_expire_as_their_pools_say() -> None:
    spec = {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
                "requirements": [],
                "expireAfter": "48h",
            }
        }
    }
    async with served() as webhook:
        webhook.cluster.transport.refuse(
            Told(200, obj={"kind": "NodePool", "metadata": {"name": "old"}, "spec": spec})
        )
        answer = await webhook.answer("/convert/karpenter.sh", review(OLD_CLAIM))
        without = await webhook.answer("/convert/karpenter.sh", review(OLD_CLAIM))

    assert answer["convertedObjects"][0]["spec"]["expireAfter"] == "48h"
    assert without["convertedObjects"][0]["spec"]["expireAfter"] == "720h"


async def test_a_pool_that_cannot_be_read_fails_the_review_with_the_reason() -> None:
    async with served() as webhook:
        webhook.cluster.transport.refuse(Refusal(403))
        answer = await webhook.answer("/convert/karpenter.sh", review(OLD_CLAIM))

    assert answer["result"]["status"] == "Failure"
    assert "NodePools of the NodeClaims cannot be read" in answer["result"]["message"]


@pytest.mark.case("OPS-28")
@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/convert/karpenter.sh", b"", 400, "no JSON"),
        ("/convert/karpenter.sh", b"{", 400, "no JSON"),
        ("/convert/karpenter.sh", b'"\xff"', 400, "no JSON"),
        ("/convert/karpenter.sh", b"[" * 100_000, 400, "no JSON"),
        ("/convert/karpenter.sh", b"null", 400, "no ConversionReview"),
        ("/validate", b"{}", 400, "AdmissionReview"),
        ("/validate", b" " * (8 * 2**20 + 1), 413, "larger than 8388608 bytes"),
        ("/elsewhere", b"{}", 404, "no webhook for POST /elsewhere"),
    ],
)
async def test_bad_requests_are_answered_in_one_sentence_and_the_server_goes_on(
    path: str, body: bytes, status: int, said: str
) -> None:
    async with served() as webhook:
        answered, text = await webhook.post(path, data=io.BytesIO(body))
        afterwards = await webhook.answer("/convert/karpenter.sh", review(OLD_POOL))

    assert (answered, text.count("\n")) == (status, 1)
    assert said in text
    assert "Traceback" not in text
    assert afterwards["result"]["status"] == "Success"


async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * 2**20

    async with served() as webhook:
        status, text = await webhook.post("/validate", data=endless())

    assert status == 413
    assert "larger" in text


async def test_an_unforeseen_error_has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret text")

    monkeypatch.setattr("karpenter.webhook.conversion_review.converted", broken)
    async with served() as webhook:
        status, text = await webhook.post("/convert/karpenter.sh", json=review(OLD_POOL))

    assert status == 500
    assert text == "the review failed with an unexpected ZeroDivisionError\n"


async def test_a_new_certificate_is_shown_from_the_next_connection_on() -> None:
    async with served() as webhook:
        now = SystemClock().now()
        old, webhook.authority = webhook.authority, make_authority(now)
        assert webhook.identity.show(make_leaf(webhook.authority, (NAME,), now))
        answer = await webhook.answer("/convert/karpenter.sh", review(OLD_POOL))
        webhook.authority = old
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await webhook.answer("/convert/karpenter.sh", review(OLD_POOL))

    assert answer["result"]["status"] == "Success"


async def test_no_connection_is_made_with_an_old_version_of_tls() -> None:
    async with served() as webhook:
        context = ssl.create_default_context(cadata=webhook.authority.pem.decode())
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.post(f"https://{HERE}:{webhook.port}/validate", server_hostname=NAME)


def test_a_certificate_is_loaded_without_memory_files_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("karpenter.webhook.certificates._DESCRIPTORS", tmp_path / "absent")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    now = SystemClock().now()
    leaf = make_leaf(make_authority(now - timedelta(days=1)), (NAME,), now)
    identity = TlsIdentity()

    assert identity.show(leaf)
    assert not identity.show(leaf)
    assert list(tmp_path.iterdir()) == []


def test_the_place_follows_from_the_settings() -> None:
    given = Settings(leader_election_namespace="nodes", karpenter_service="karp")

    assert webhook_place(given) == Place("nodes", "karp", "karp-cert")
    assert webhook_place(Settings(leader_election_namespace="nodes")) == Place(
        "nodes", "karpenter-webhook", "karpenter-webhook-cert"
    )
    with pytest.raises(ServingError, match="LEADER_ELECTION_NAMESPACE"):
        webhook_place(Settings())
