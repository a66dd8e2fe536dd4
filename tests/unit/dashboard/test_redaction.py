"""No name that may not be shown leaves the process: not in views, records, plans or explanations."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.builders import NOW
from helpers.cluster_texts import machine, node, pod, pool, running, text_of
from helpers.commands import run
from karpenter.api.codec import convert
from karpenter.api.meta import Resource
from karpenter.dashboard.contract import Notice
from karpenter.dashboard.redaction import HIDDEN, Redaction
from karpenter.dashboard.shown import EVERYTHING, Shown
from karpenter.dashboard.view import Picture, ViewBuilder
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome, Source
from karpenter.state.cluster import ClusterState

Json = dict[str, Any]

MARK = "zq"  # of every name that may not be shown
REDACTED = Shown(is_redacted=True, key=b"k")
ONLY_SHOP = Shown(namespaces=frozenset({"shop"}))


def budget(name: str, namespace: str, app: str) -> Json:
    """A budget that allows nothing."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 0},
        "status": {"disruptionsAllowed": 0, "expectedPods": 1, "currentHealthy": 1},
    }


def owned(manifest: Json, owner: str) -> Json:
    """A pod of a ReplicaSet."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "u"}
    manifest["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return manifest


def cluster(mark: str, of_machines: str) -> list[Json]:
    """A cluster whose names begin with a mark; those of machines and pools with another one."""
    ns, m = f"{mark}payroll", of_machines
    tainted = {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"{mark}-volume"}}
    return [
        pool(f"{m}general"),
        pool(f"{m}-batch", **tainted),
        *machine(f"{m}one", node_pool=f"{m}general"),
        *machine(f"{m}two.internal", "s-8x-amd64-linux", node_pool=f"{m}general"),
        node(f"{m}-foreign"),
        owned(
            running(f"{mark}web-5d8f-a", f"{m}one", namespace=ns, metadata={}), f"{mark}web-5d8f"
        ),
        running(f"{mark}cache", f"{m}two.internal", namespace=ns),
        budget(f"{mark}-guard", ns, f"{mark}cache"),
        running("web-1", f"{m}one", namespace="shop"),
        pod(f"{mark}-huge", "999", namespace=ns),
        pod(f"{mark}-disk", "1", namespace=ns, volumes=[volume]),
        pod(f"{mark}-pinned", "1", namespace=ns, nodeSelector={"team": "a"}),
        pod("waits", "500", namespace="shop"),
    ]


def objects_of(items: list[Json]) -> list[Resource]:
    """The manifests as objects."""
    return [convert(each) for each in items]


def learned(shown: Shown, items: list[Json]) -> Redaction:
    """A redaction that has seen a cluster."""
    redaction = Redaction(shown)
    redaction.learn(objects_of(items))
    return redaction


def documents(items: list[Json]) -> list[Any]:
    """The plan, and the explanation of every pod, node and pool."""
    found = []
    asked = [["plan"]]
    for each in items:
        name, kind = each["metadata"]["name"], each["kind"]
        if kind == "Pod":
            asked.append(["explain", "pod", name, "-n", each["metadata"]["namespace"]])
        elif kind in ("Node", "NodePool"):
            asked.append(["explain", kind.lower(), name])
    for words in asked:
        ran = run(*words, "-o", "json", "-", stdin=text_of(*items))
        assert ran.code == 0, ran.err
        found.append(json.loads(ran.out))
    return found


def test_plans_and_explanations_hold_no_name_when_names_are_hidden() -> None:
    items = cluster(MARK, MARK)
    redaction = learned(REDACTED, items)
    found = documents(items)

    assert MARK in json.dumps(found)
    shown = redaction.document(found)
    assert MARK not in json.dumps(shown)
    plan = shown[0]
    assert set(plan) == set(found[0])
    kinds = {each["reason"] for each in plan["disruption"]["blocked"]}
    assert kinds == {each["reason"] for each in found[0]["disruption"]["blocked"]}


def test_plans_and_explanations_hold_no_name_of_a_hidden_namespace() -> None:
    items = cluster(MARK, "m")
    redaction = learned(ONLY_SHOP, items)
    found = redaction.document(documents(items))

    text = json.dumps(found)
    assert MARK not in text
    assert "shop/web-1" in text
    assert "mgeneral" in text
    assert "mtwo.internal" in text


@pytest.mark.parametrize(("shown", "of_machines"), [(REDACTED, MARK), (ONLY_SHOP, "m")])
def test_a_view_holds_no_hidden_name(shown: Shown, of_machines: str) -> None:
    state, items = ClusterState(), cluster(MARK, of_machines)
    for each in objects_of(items):
        state.apply(each)
    redaction = learned(shown, items)
    said = Notice(
        kind="lost", text=f"pod {MARK}payroll/{MARK}-huge waits", objects=[f"{MARK}-huge"]
    )
    builder = ViewBuilder(
        epoch="e", source="live", provider="kwok", cluster="c", is_live=True, shown=shown
    )
    notices = (redaction.notice(said),)
    view = builder.build(Picture(state.snapshot(), NOW, notices=notices))

    assert len(view.pods.id) == 7
    assert MARK.encode() not in msgspec.json.encode(view)


def drafts() -> list[Draft]:
    """Records about things that were never seen as objects."""
    return [
        Draft(
            Kind.REFUSE,
            Outcome.FAILED,
            "FailedScheduling",
            f"seen: {MARK}new/{MARK}-gone: no place for {MARK}-gone",
            objects=(f"Pod/{MARK}new/{MARK}-gone",),
            source=Source.OBSERVED,
        ),
        Draft(
            Kind.DRAIN,
            Outcome.FAILED,
            "FailedDraining",
            f"seen: mone: evicting pod violates a PDB (Pod={MARK}payroll/{MARK}cache)",
            objects=("Node/mone", "NodeClaim/claim-mone"),
            node_pools=("mgeneral",),
            detail={"placements": {"mone": [f"{MARK}payroll/{MARK}cache"]}},
        ),
    ]


@pytest.mark.parametrize("shown", [REDACTED, ONLY_SHOP])
def test_records_hold_no_hidden_name(shown: Shown) -> None:
    redaction, log = learned(shown, cluster(MARK, "m")), DecisionLog()
    records = [redaction.record(log.add(NOW, draft)) for draft in drafts()]

    text = msgspec.json.encode(records).decode()
    assert MARK not in text
    assert ("mone" in text) is not shown.is_redacted
    assert [each.reason for each in records] == ["FailedScheduling", "FailedDraining"]
    assert all(each.text for each in records)


def test_where_all_names_are_hidden_events_say_no_more_than_their_reason() -> None:
    redaction, log = Redaction(REDACTED), DecisionLog()
    unseen = Draft(Kind.CONFIG, Outcome.FAILED, "Odd", f"seen: {MARK}unheard-of is broken")
    record = redaction.record(log.add(NOW, unseen))
    assert record.text == "Config failed: Odd, the cluster"


def test_a_hash_leads_back_to_its_name() -> None:
    redaction = learned(REDACTED, cluster(MARK, MARK))
    shown = REDACTED.name(f"{MARK}one")
    assert shown != f"{MARK}one"
    assert redaction.original(shown) == f"{MARK}one"
    assert redaction.text(f"node {MARK}one stays") == f"node {shown} stays"
    assert redaction.original("web") == "web"


def test_words_of_formats_stay_even_if_a_pool_is_called_like_them() -> None:
    redaction = learned(REDACTED, [pool("spot"), pool("karpenter")])
    document = {
        "capacityType": "spot",
        "requirements": [{"key": "karpenter.sh/capacity-type", "values": ["spot"]}],
        "labels": {"karpenter.sh/nodepool": "spot", "karpenter.sh/capacity-type": "spot"},
        "detail": "karpenter.sh/nodepool In [spot]",
        "placements": {"spot": []},
    }
    hidden = REDACTED.name("spot")
    assert redaction.document(document) == {
        **document,
        "labels": {"karpenter.sh/nodepool": hidden, "karpenter.sh/capacity-type": "spot"},
        "detail": f"karpenter.sh/nodepool In [{hidden}]",
        "placements": {hidden: []},
    }


def test_a_name_that_is_shown_elsewhere_is_not_hidden() -> None:
    items = [pod("web", namespace="payroll"), pod("web-api", namespace="shop")]
    redaction = learned(ONLY_SHOP, items)
    assert redaction.text("shop/web-api is held by payroll/web") == (
        f"shop/web-api is held by {HIDDEN}/{HIDDEN}"
    )
    redaction.learn(objects_of([pod("web", namespace="shop")]))
    assert redaction.text("payroll/web") == f"{HIDDEN}/web"


def test_nothing_is_changed_where_everything_is_shown() -> None:
    items = cluster(MARK, MARK)
    redaction = learned(EVERYTHING, items)
    document = {"pod": f"{MARK}payroll/{MARK}cache"}
    assert redaction.document(document) is document
    assert redaction.shows(f"{MARK}payroll")


NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
BEFORE = st.sampled_from(["", " ", "/", "(", "[", ", ", ": ", "pod ", "Pod=", ".", "'"])
AFTER = st.sampled_from(["", "-x7k2p", ".internal", "/x", " stays", ")", "]", ",", ":", "."])


@given(st.lists(NAMES, min_size=1, max_size=4), st.data())
def test_no_sentence_holds_a_hidden_name(names: list[str], data: st.DataObject) -> None:
    marked = [MARK + name for name in names]
    redaction = learned(REDACTED, [pool(name) for name in marked])
    pieces = [data.draw(BEFORE) + name + data.draw(AFTER) for name in marked]
    assert MARK not in redaction.text(" ".join(pieces))
