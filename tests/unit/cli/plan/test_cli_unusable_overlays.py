"""Overlays of a running cluster that the controller applies nowhere, and so no plan may apply."""

import pytest

from karpenter.api.karpenter import NodeOverlay, NodeOverlaySpec, NodeRequirement
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.kwok.catalogue import FACTS
from karpenter.inquiry import question as inquiry
from karpenter.state.cluster import snapshot_of


def overlay(name: str, key: str) -> NodeOverlay:
    requirement = NodeRequirement(key=key, operator="NotIn", values=("other",))
    spec = NodeOverlaySpec(requirements=(requirement,), price="1")
    return NodeOverlay(metadata=ObjectMeta(name=name), spec=spec)


def test_an_overlay_that_makes_no_sense_is_named_and_not_planned_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = snapshot_of(
        [overlay("good", "kubernetes.io/arch"), overlay("bad", "karpenter.sh/custom")]
    )
    offer = inquiry.CloudOffer(lambda pool: (), FACTS)
    monkeypatch.setattr(
        inquiry, "_from_cluster", lambda source, settings: ([(snapshot, offer)], None, "")
    )

    asked = inquiry.question(inquiry.Source(()), assignments=(), now=None)

    assert ["good"] == list(asked.snapshot.node_overlays)
    told = [line for line in capsys.readouterr().err.splitlines() if "applies nowhere" in line]
    assert 1 == len(told)
    assert told[0].startswith("warning: NodeOverlay bad applies nowhere: spec.requirements[0].key")
