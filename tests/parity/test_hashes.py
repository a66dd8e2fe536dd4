"""Drift hashes beside Karpenter's own, on random templates."""

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from karpenter.api.codec import convert
from karpenter.api.karpenter import NodePool
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash
from parity.peer import Peer, built, obstacle
from parity.problems import NODE_CLASS, Json

LENGTHS: Final = ("0s", "1ns", "30s", "90m", "1h30m", "1.5h", "720h", "1h0m0s")
TIMES: Final = ("2026-08-01T12:00:00Z", "1970-01-01T00:00:00Z", "2026-08-01T12:00:00+02:00")


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    reason = obstacle()
    if reason:
        pytest.skip(reason)
    built()
    monkeypatch.setenv("TZ", "UTC")  # a taint's time is hashed with the zone of the controller
    with Peer() as made:
        yield made


@pytest.mark.slow
def test_pools_are_hashed_as_karpenter_hashes_them(peer: Peer) -> None:
    pools = [random_pool(random.Random(seed)) for seed in range(5000)]
    version, theirs = peer.hashes(pools)
    assert version == NODEPOOL_HASH_VERSION
    different = [
        (pool["spec"]["template"], known)
        for pool, known in zip(pools, theirs, strict=True)
        if _hash_of(pool) != known
    ]
    assert different == []


def _hash_of(pool: Json) -> str:
    made = convert(pool)
    assert isinstance(made, NodePool)
    return node_pool_hash(made)


def random_pool(chance: random.Random) -> Json:
    """A pool whose template says, or leaves out, whatever it may."""
    spec: Json = {
        "nodeClassRef": {**NODE_CLASS, "name": _text(chance)},
        "requirements": [],
        "expireAfter": chance.choice(("Never", *LENGTHS)),  # the API server fills it in
    }
    for field in ("taints", "startupTaints"):
        if chance.random() < 0.5:
            spec[field] = [_taint(chance) for _ in range(chance.randint(0, 3))]
    if chance.random() < 0.5:
        spec["terminationGracePeriod"] = chance.choice(LENGTHS)
    template: Json = {"spec": spec}
    if chance.random() < 0.8:
        template["metadata"] = {
            field: {_text(chance): chance.choice(("", "v", _text(chance))) for _ in range(size)}
            for field in ("labels", "annotations")
            if (size := chance.randint(-1, 3)) >= 0
        }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "np"},
        "spec": {"template": template, "weight": chance.randint(1, 100)},
    }


def _taint(chance: random.Random) -> Json:
    made: dict[str, Any] = {
        "key": _text(chance),
        "effect": chance.choice(("NoSchedule", "NoExecute")),
    }
    if chance.random() < 0.6:
        made["value"] = chance.choice(("", _text(chance)))
    if chance.random() < 0.2:
        made["timeAdded"] = chance.choice(TIMES)
    return made


def _text(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefgü/.-", k=chance.randint(1, 12)))
