"""What a recorder learns of times, refusals and interruptions, as fields of a scenario."""

from typing import Any

from karpenter.simulate.record.facts import Facts
from karpenter.simulate.record.mishaps import Mishaps
from karpenter.simulate.record.segments import Change, key_of, moment

Json = dict[str, Any]
T = 1_900_000_000.0


def change(before: Json | None, after: Json | None, at: float = 0.0) -> Change:
    obj = after or before
    assert obj is not None
    return Change(T + at, key_of(obj), before, after)


def pod(name: str, image: str, node: str, *, bound: float, runs: float) -> Json:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(T + bound)}
    state = {"state": {"running": {"startedAt": moment(T + runs)}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"nodeName": node, "containers": [{"image": image}]},
        "status": {"conditions": [scheduled], "containerStatuses": [state]},
    }


def node(name: str, *, ready: bool) -> Json:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    condition["lastTransitionTime"] = moment(T)
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}


def claim(name: str, *, launched: bool = True) -> Json:
    held = {"karpenter.sh/nodepool": "default"}
    if launched:
        held |= {
            "node.kubernetes.io/instance-type": "m.large",
            "topology.kubernetes.io/zone": "zone-a",
            "karpenter.sh/capacity-type": "spot",
        }
    asked = {
        "node.kubernetes.io/instance-type": ["m.large", "c.large"],
        "karpenter.sh/capacity-type": ["spot"],
        "topology.kubernetes.io/zone": ["zone-a"],
    }
    terms = [{"key": key, "operator": "In", "values": values} for key, values in asked.items()]
    terms.append({"key": "shop/tier", "operator": "Exists"})
    return {
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": held},
        "spec": {"requirements": terms},
    }


def event(of: str, reason: str, at: float, name: str = "") -> Json:
    return {
        "kind": "Event",
        "metadata": {"name": name or f"{of}.{reason}", "namespace": "default"},
        "involvedObject": {"name": of},
        "reason": reason,
        "firstTimestamp": moment(T + at),
    }


def test_starts_are_told_apart_by_image_and_by_whether_a_new_node_has_it() -> None:
    facts = Facts()
    facts.take(change(None, node("old", ready=True)))
    facts.take(change(None, node("new", ready=False)))
    facts.take(change(None, pod("a", "web:1", "old", bound=0, runs=2)))
    facts.take(change(None, pod("b", "web:1", "new", bound=0, runs=30)))
    facts.take(change(None, pod("c", "web:1", "new", bound=40, runs=43)))
    facts.take(change(None, pod("d", "mail:1", "new", bound=40, runs=45)))

    found = facts.machines()["start"]

    assert found == [
        {"image": "mail:1", "is": {"empirical": ["5s"]}, "first": {"empirical": ["5s"]}},
        {"image": "web:1", "is": {"empirical": ["2s", "3s"]}, "first": {"empirical": ["30s"]}},
        {"is": {"empirical": ["2s", "3s", "5s", "30s"]}},
    ]


def test_a_node_that_is_gone_is_forgotten_with_its_images() -> None:
    facts = Facts()
    new = node("new", ready=False)
    facts.take(change(None, new))
    facts.take(change(None, pod("a", "web:1", "new", bound=0, runs=20)))
    facts.take(change(new, None))
    facts.take(change(None, new))
    facts.take(change(None, pod("b", "web:1", "new", bound=50, runs=80)))

    (entry, _) = facts.machines()["start"]

    assert entry["first"] == {"empirical": ["20s", "30s"]}


def test_a_refused_launch_sells_out_what_its_claim_asked_for_until_karpenter_asks_again() -> None:
    mishaps = Mishaps()
    mishaps.take(change(None, claim("a", launched=False)))
    mishaps.take(change(None, event("a", "InsufficientCapacityError", 100)))
    mishaps.take(change(claim("a", launched=False), None))
    # The Event of another claim is read before the claim is
    mishaps.take(change(None, event("b", "InsufficientCapacityError", 160)))
    mishaps.take(change(None, claim("b", launched=False)))

    assert mishaps.timeline(T, T + 3600) == [
        {
            "at": "100s",
            "soldOut": ["m.large/zone-a/spot", "c.large/zone-a/spot"],
            "for": "240s",
        }
    ]


def test_interruptions_of_one_moment_and_offering_are_one_step() -> None:
    mishaps = Mishaps()
    for name in "ab":
        mishaps.take(change(None, claim(name)))
        mishaps.take(change(None, event(name, "SpotInterrupted", 50)))
        # Repeated, it is the same Event
        known = event(name, "SpotInterrupted", 50)
        mishaps.take(change(known, {**known, "count": 2}))

    pick = {"pool": "default", "type": "m.large", "zone": "zone-a", "capacityType": "spot"}
    step = {"at": "50s", "interrupt": {**pick, "count": 2}, "notice": "2m"}
    assert mishaps.timeline(T, T + 3600) == [step]


def test_what_happened_before_the_recording_is_no_step() -> None:
    mishaps = Mishaps()
    mishaps.take(change(None, claim("a")))
    mishaps.take(change(None, event("a", "SpotInterrupted", -10)))
    mishaps.take(change(None, event("a", "InsufficientCapacityError", -10)))

    assert mishaps.timeline(T, T + 3600) == []
