"""Replicas that keep one Secret: whatever happens to it, the API server trusts what they show."""

import asyncio
import base64
import ssl
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.clusters import in_virtual_time
from karpenter.clock import Clock, run_virtual
from karpenter.kube.client import Client
from karpenter.kube.errors import ConflictError
from karpenter.telemetry import Metrics
from karpenter.webhook.certificates import (
    Certificate,
    TlsIdentity,
    make_authority,
    make_leaf,
    read_certificates,
)
from karpenter.webhook.keeper import CertificateKeeper
from karpenter.webhook.rotation import Holdings, read_holdings, written
from karpenter.webhook.trust import DEFAULTING, DEFINITIONS, VALIDATION, Place
from unit.kube.flaky import FlakyCluster, Refusal

PLACE = Place("kube-system", "karpenter", "karpenter-cert")
SERVICE = {"namespace": "kube-system", "name": "karpenter", "port": 443}
TICK = 10.0
LAG = timedelta(seconds=10)  # of an API server that hears of new bundles late


class Identity(TlsIdentity):
    """Notes what a replica shows, and since when."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.history: list[tuple[datetime, Certificate]] = []

    def show(self, leaf: Certificate) -> bool:
        is_new = super().show(leaf)
        if is_new:
            self.history.append((self._clock.now(), leaf))
        return is_new


class Replica:
    def __init__(self, cluster: FlakyCluster, *, makes: bool = True) -> None:
        self.transport = cluster.new_transport()
        self.identity = Identity(cluster.clock)
        self.metrics = Metrics()
        self.keeper = CertificateKeeper(
            Client(self.transport, cluster.clock),
            cluster.clock,
            structlog.get_logger(),
            self.metrics,
            identity=self.identity,
            place=PLACE,
            makes_certificates=makes,
        )


class Cluster(FlakyCluster):
    """A cluster with everything that leads to a webhook, and an empty Secret."""

    def __init__(self) -> None:
        super().__init__()
        self.bundles: list[tuple[datetime, bytes]] = []  # what the first CRD said, since when

    async def install(self) -> None:
        await self.begin("kube-system")
        for name in DEFINITIONS:
            await self.direct.create(definition(name))
        for kind, name in (("Mutating", DEFAULTING), ("Validating", VALIDATION)):
            await self.direct.create(configuration(f"{kind}WebhookConfiguration", name))
        await self.fill({})
        self.store.on_change(self._note)

    def _note(self, event: Any) -> None:
        if event.stored.key.name == DEFINITIONS[0]:
            self.bundles.append((self.clock.now(), self.bundle(DEFINITIONS[0])))

    def bundle(self, name: str) -> bytes:
        found = self.stored("apiextensions.k8s.io", "customresourcedefinitions", name)
        text = found["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", "")
        return base64.b64decode(text)

    def stored(self, group: str, plural: str, name: str) -> dict[str, Any]:
        (found,) = [
            each for each in self.store.list(group, plural) if each["metadata"]["name"] == name
        ]
        return found

    async def fill(self, data: dict[str, str]) -> None:
        body = {"metadata": {"name": PLACE.secret, "namespace": PLACE.namespace}, "data": data}
        await self.remove()
        await self.direct.create({"apiVersion": "v1", "kind": "Secret", **body})

    async def remove(self) -> None:
        if self.secrets():
            await self.direct.delete("v1", "Secret", PLACE.namespace, PLACE.secret)

    def secrets(self) -> list[dict[str, Any]]:
        return list(self.store.list("", "secrets"))

    def held(self) -> Holdings:
        (secret,) = self.secrets()
        return read_holdings(secret.get("data") or {})


def definition(name: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    kind = plural.capitalize()
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "plural": plural,
                "singular": plural,
                "listKind": f"{kind}List",
            },
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {**SERVICE, "path": f"/convert/{group}"}},
                },
            },
        },
    }


def configuration(kind: str, name: str) -> dict[str, Any]:
    common = {"admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": []}
    ours = {"name": name, **common, "clientConfig": {"service": dict(SERVICE)}}
    foreign = {"name": "a.example.com", **common, "clientConfig": {"url": "https://a.example.com"}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [foreign, ours],
    }


async def ticks(replicas: list[Replica], clock: Clock, count: int = 1) -> None:
    """Let every replica look, at the same time, so many times."""
    for _ in range(count):
        done = await asyncio.gather(
            *(each.keeper.step() for each in replicas), return_exceptions=True
        )
        assert all(isinstance(each, float | ConflictError) for each in done), done
        await clock.sleep(TICK)


def shown_by(replica: Replica) -> Certificate:
    assert replica.identity.shown is not None
    return replica.identity.shown


@in_virtual_time
async def test_an_empty_secret_is_filled_and_everything_that_leads_here_trusts_it() -> None:
    cluster = Cluster()
    await cluster.install()
    replica = Replica(cluster)

    await ticks([replica], cluster.clock)

    held = cluster.held()
    assert shown_by(replica) == held.leaf
    assert {cluster.bundle(name) for name in DEFINITIONS} == {held.bundle}
    for plural, name in (
        ("mutatingwebhookconfigurations", DEFAULTING),
        ("validatingwebhookconfigurations", VALIDATION),
    ):
        found = cluster.stored("admissionregistration.k8s.io", plural, name)
        foreign, ours = found["webhooks"]
        assert base64.b64decode(ours["clientConfig"]["caBundle"]) == held.bundle
        assert ours["clientConfig"]["service"]["name"] == "karpenter"
        assert foreign["clientConfig"] == {"url": "https://a.example.com"}


@in_virtual_time
async def test_what_leads_elsewhere_is_left_alone() -> None:
    cluster = Cluster()
    await cluster.install()
    other = Place("kube-system", "other", "other-cert")
    replica = Replica(cluster)
    replica.keeper._place = other

    await ticks([replica], cluster.clock)

    assert cluster.bundle(DEFINITIONS[0]) == b""


@in_virtual_time
async def test_a_second_look_writes_nothing() -> None:
    cluster = Cluster()
    await cluster.install()
    replica = Replica(cluster)
    await ticks([replica], cluster.clock)
    replica.transport.requests.clear()

    await ticks([replica], cluster.clock, 3)

    assert {request.method for request in replica.transport.requests} == {"GET"}


@in_virtual_time
async def test_replicas_that_begin_together_end_with_one_certificate() -> None:
    cluster = Cluster()
    await cluster.install()
    await cluster.remove()
    replicas = [Replica(cluster) for _ in range(3)]

    await ticks(replicas, cluster.clock, 2)

    assert {shown_by(each) for each in replicas} == {cluster.held().leaf}
    assert cluster.bundle(DEFINITIONS[0]) == cluster.held().bundle


@pytest.mark.case("OPS-27")
@in_virtual_time
async def test_a_deleted_secret_gives_a_new_certificate_within_a_minute() -> None:
    cluster = Cluster()
    await cluster.install()
    replicas = [Replica(cluster), Replica(cluster)]
    await ticks(replicas, cluster.clock, 2)
    before = cluster.held()
    await cluster.remove()

    await ticks(replicas, cluster.clock, 5)

    after = cluster.held()
    assert after.leaf != before.leaf
    assert {shown_by(each) for each in replicas} == {after.leaf}
    assert len(after.authorities) == 2
    await ticks(replicas, cluster.clock, 40)
    assert [each.pem for each in cluster.held().authorities] == [after.authorities[0].pem]
    assert cluster.bundle(DEFINITIONS[0]) == after.authorities[0].pem
    assert_always_trusted(cluster, replicas)


@pytest.mark.case("OPS-27")
@in_virtual_time
async def test_an_expired_leaf_is_replaced_and_never_shown() -> None:
    cluster = Cluster()
    await cluster.install()
    now = cluster.clock.now()
    authority = make_authority(now - timedelta(days=100))
    names = ("karpenter.kube-system.svc",)
    expired = make_leaf(authority, names, now - timedelta(days=100))
    await cluster.fill(written(Holdings((authority,), expired)))
    replica = Replica(cluster)

    await ticks([replica], cluster.clock)

    assert [leaf for _, leaf in replica.identity.history] == [cluster.held().leaf]
    assert cluster.held().authorities == (authority,)


@in_virtual_time
async def test_a_certificate_of_another_maker_is_shown_and_nothing_is_written() -> None:
    cluster = Cluster()
    await cluster.install()
    now = cluster.clock.now()
    authority = make_authority(now)
    leaf = make_leaf(authority, ("karpenter.kube-system.svc",), now)
    await cluster.fill(written(Holdings((authority,), leaf)))
    replica = Replica(cluster, makes=False)

    await ticks([replica], cluster.clock, 2)

    assert shown_by(replica) == leaf
    assert set(replica.transport.paths("GET")) == {
        "/api/v1/namespaces/kube-system/secrets/karpenter-cert"
    }
    assert replica.transport.paths("PATCH") == []


@in_virtual_time
async def test_an_unusable_certificate_does_not_replace_the_one_that_is_shown() -> None:
    cluster = Cluster()
    await cluster.install()
    replica = Replica(cluster, makes=False)
    now = cluster.clock.now()
    authority = make_authority(now)
    leaf = make_leaf(authority, ("karpenter.kube-system.svc",), now)
    await cluster.fill(written(Holdings((authority,), leaf)))
    await ticks([replica], cluster.clock)

    await cluster.fill({"tls.crt": "bm9uc2Vuc2U="})
    await ticks([replica], cluster.clock)

    assert shown_by(replica) == leaf


@in_virtual_time
async def test_definitions_that_may_not_be_read_do_not_keep_the_certificate_from_being_shown() -> (
    None
):
    cluster = Cluster()
    await cluster.install()
    replica = Replica(cluster)
    replica.transport.refuse(
        Refusal(403, times=99, where=lambda request: "customresourcedefinitions" in request.path)
    )

    await ticks([replica], cluster.clock)

    assert shown_by(replica) == cluster.held().leaf


@in_virtual_time
async def test_the_metric_counts_the_seconds_that_are_left() -> None:
    cluster = Cluster()
    await cluster.install()
    replica = Replica(cluster)
    assert b"karpenter_certificate_expiry_seconds{" not in replica.metrics.exposition()

    await ticks([replica], cluster.clock)

    lines = replica.metrics.exposition().decode().splitlines()
    left = {
        line.partition(" ")[0]: float(line.partition(" ")[2])
        for line in lines
        if line.startswith("karpenter_certificate_expiry_seconds{")
    }
    day = 86400.0
    assert left == {
        'karpenter_certificate_expiry_seconds{certificate="leaf"}': 90 * day - TICK,
        'karpenter_certificate_expiry_seconds{certificate="authority"}': 3650 * day - TICK,
    }


def assert_always_trusted(cluster: Cluster, replicas: list[Replica], since: int = 1) -> None:
    """Whatever a replica showed was vouched for by what API servers knew, even late ones.

    The first ``since`` certificates of a replica are excused: before them there was nothing to trust.
    """
    for replica in replicas:
        history = replica.identity.history
        for index, (shown, leaf) in enumerate(history):
            end = history[index + 1][0] if index + 1 < len(history) else cluster.clock.now()
            begin = min(end, shown + LAG) if index < since else shown
            for bundle in in_force(cluster.bundles, begin, end):
                authorities = read_certificates(bundle)
                assert any(map(leaf.is_signed_by, authorities)), (index, begin, end)


def in_force(bundles: list[tuple[datetime, bytes]], begin: datetime, end: datetime) -> set[bytes]:
    """The bundles that some API server may have gone by in a while."""
    found = set()
    for index, (since, bundle) in enumerate(bundles):
        until = bundles[index + 1][0] + LAG if index + 1 < len(bundles) else end
        if since < end and until > begin:
            found.add(bundle)
    return found


ACTIONS = st.sampled_from(
    ["delete", "empty", "ca.crt", "ca.key", "tls.crt", "tls.key", "month", "wait"]
)


@pytest.mark.case("OPS-27")
@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.tuples(ACTIONS, st.lists(st.floats(0, 1.5), min_size=3, max_size=3)),
        min_size=1,
        max_size=3,
    )
)
def test_no_conversion_fails_whatever_happens_to_the_secret(
    story: list[tuple[str, list[float]]],
) -> None:
    async def run() -> None:
        cluster = Cluster()
        await cluster.install()
        replicas = [Replica(cluster) for _ in range(3)]
        await ticks(replicas, cluster.clock, 3)
        for replica in replicas:
            replica.identity.history = replica.identity.history[-1:]
        cluster.bundles = cluster.bundles[-1:]
        for action, delays in story:
            for replica, delay in zip(replicas, delays, strict=True):
                replica.transport.delay = delay
            await happen(cluster, action)
            await ticks(replicas, cluster.clock, 12)
            await cluster.clock.sleep(300.0)  # until the old authority is retired
            await ticks(replicas, cluster.clock, 4)
            assert len(cluster.held().authorities) == 1
        assert {shown_by(each) for each in replicas} == {cluster.held().leaf}
        assert_always_trusted(cluster, replicas)

    run_virtual(run())


async def happen(cluster: Cluster, action: str) -> None:
    (secret,) = cluster.secrets()
    data = dict(secret["data"])
    if action == "delete":
        await cluster.remove()
    elif action == "empty":
        await cluster.fill({})
    elif action == "month":
        # As long as a leaf lasts after it should have been renewed
        await cluster.clock.sleep(29 * 86400.0)
    elif action != "wait":
        await cluster.fill({**data, action: base64.b64encode(b"nonsense").decode()})


def test_old_versions_of_tls_are_refused() -> None:
    assert TlsIdentity().context.minimum_version is ssl.TLSVersion.TLSv1_2
