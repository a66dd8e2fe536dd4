"""The differences from Karpenter that are known: each with a name, a reason, and how it is told.

``docs/differences.md`` says the same to users. A difference that none of these explains is a fault
of ours until somebody has looked at it.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from parity import parts as k
from parity.comparing import Difference
from parity.deciding import decide
from parity.problems import Json, Problem

Labels: TypeAlias = Mapping[str, frozenset[str] | None]  # None where any value may come out
_ABSENT: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True)
class Known:
    """A difference that is meant to be."""

    name: str
    reason: str
    explains: Callable[[Difference], bool]


def explained(difference: Difference) -> Known | None:
    """What explains a difference; None when nothing does."""
    return next((known for known in KNOWN if known.explains(difference)), None)


def _impossible_node(difference: Difference) -> bool:
    """Karpenter takes a demand that contradicts itself for one that a node can meet; we do not."""
    problem = difference.problem
    if _misplaced(problem, difference.ours):
        return False
    return _has_impossible_alternative(difference) or all(
        _misplaced(problem, answer) or _forgets_a_label(problem, answer)
        for answer in difference.theirs
    )


def _has_impossible_alternative(difference: Difference) -> bool:
    """Whether a pod that Karpenter places elsewhere has an alternative that no node can meet."""
    ours, theirs = difference.ours, difference.theirs
    return any(
        len(terms) > 1 and any(_contradict(term) for term in terms)
        for pod in difference.problem.of_kind("Pod")
        if all(_place_of(pod, answer) != _place_of(pod, ours) for answer in theirs)
        for terms in [_required_terms(pod["spec"])]
    )


def _forgotten_label(difference: Difference) -> bool:
    """Karpenter lets a pod that wants a label share a node with one that wants it absent."""
    return not _shares_a_contradiction(difference.problem, difference.ours) and all(
        _shares_a_contradiction(difference.problem, answer) for answer in difference.theirs
    )


def _shares_a_contradiction(problem: Problem, answer: Json) -> bool:
    for _, specs in _places(problem, answer):
        absent = {
            wish["key"]
            for spec in specs
            for term in _required_terms(spec)
            for wish in term
            if wish["operator"] == "DoesNotExist"
        }
        wanted = {
            wish["key"]
            for spec in specs
            for term in (*_required_terms(spec), *_preferred_terms(spec))
            for wish in term
            if wish["operator"] == "Exists"
        }
        if absent & wanted:
            return True
    return False


def _unsold_domain(difference: Difference) -> bool:
    """Karpenter chooses a domain in which nobody sells what the pod needs, and fails there."""
    problem = difference.problem
    if not all(set(difference.ours["failed"]) <= set(a["failed"]) for a in difference.theirs):
        return False
    return any(
        _is_unsold(problem, pool, pod, key, domain)
        for pod in problem.of_kind("Pod")
        for key in _spread_keys(problem, pod)
        for domain in sorted(_domains(problem, key))
        for pool in problem.of_kind("NodePool")
    )


def _foreign_zone(difference: Difference) -> bool:
    """A pod keeps away from others by zone, and a node stands in a zone that no pool knows."""
    problem = difference.problem
    keys = {
        term["topologyKey"]
        for pod in problem.of_kind("Pod")
        for term in pod["spec"]
        .get("affinity", {})
        .get("podAntiAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", ())
    } - {k.HOST}
    return any(
        node["metadata"]["labels"].get(key) not in _pool_domains(problem, key)
        for key in keys
        for node in problem.of_kind("Node")
    )


def _unsold_replacement(difference: Difference) -> bool:
    """Karpenter wants a replacement as spot that is not sold as spot, or gives up because of it."""
    if difference.ours.get("method") == "MultiNodeConsolidation" and any(
        k.SPOT not in claim["ways"] and _may_be(difference.problem, claim["pool"], k.SPOT)
        for claim in _replacements(difference.ours)
    ):
        return True
    return all(
        any(
            not claim["types"]
            or (claim["ways"] == [k.SPOT] and _weighs_savings(difference.problem, claim["pool"]))
            for claim in _replacements(answer)
        )
        for answer in difference.theirs
    )


def _contradicting_preference(difference: Difference) -> bool:
    """A pod that Karpenter places elsewhere prefers what it may not have."""
    ours, theirs = difference.ours, difference.theirs
    return any(
        _contradict([*required, *preferred])
        for pod in difference.problem.of_kind("Pod")
        if all(_place_of(pod, answer) != _place_of(pod, ours) for answer in theirs)
        for required in _required_terms(pod["spec"])
        for preferred in _preferred_terms(pod["spec"])
    )


def _place_of(pod: Json, answer: Json) -> Json | str | None:
    """The claim or the node that takes a pod."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    claims = (claim for claim in answer["claims"] if name in claim["pods"])
    nodes = (node for node, pods in answer["existing"].items() if name in pods)
    return next(claims, None) or next(nodes, None)


def _shared_count(difference: Difference) -> bool:
    """Pods spread alike among different nodes; Karpenter counts for all of them as for the first."""
    among: dict[str, set[str]] = {}
    for pod in difference.problem.of_kind("Pod"):
        spec = pod["spec"]
        nodes = (
            spec.get("nodeSelector", {}),
            spec.get("affinity", {})
            .get("nodeAffinity", {})
            .get("requiredDuringSchedulingIgnoredDuringExecution", {}),
        )
        for each in spec.get("topologySpreadConstraints", ()):
            what = (each["topologyKey"], each["maxSkew"], each["labelSelector"])
            among.setdefault(json.dumps(what), set()).add(json.dumps(nodes, sort_keys=True))
    return any(len(nodes) > 1 for nodes in among.values())


def _waiting_pods(difference: Difference) -> bool:
    """The replacements of Karpenter hold machines for pods that wait anyway."""
    ours = difference.ours
    waiting = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in difference.problem.of_kind("Pod")
        if not pod["spec"].get("nodeName")
    }

    def moved(answer: Json) -> list[Json]:
        return [
            {
                "nodes": command["nodes"],
                "replacements": [
                    claim for claim in command["replacements"] if not set(claim["pods"]) <= waiting
                ],
            }
            for command in answer.get("commands", ())
        ]

    return "method" in ours and any(
        answer.get("method") == ours["method"] and moved(answer) == moved(ours)
        for answer in difference.theirs
    )


KNOWN: Final = (
    Known(
        "impossible-node",
        "Karpenter takes two demands that contradict each other for the wish that a label be"
        " absent, and forgets that a label must exist beside one that excludes values; the node"
        " it makes never takes the pod. We say that the pod fits nowhere.",
        _impossible_node,
    ),
    Known(
        "unsold-domain",
        "Spread may choose a zone or capacity type in which nobody sells a machine for the pod."
        " Karpenter gives up on the constraint, or on the pod; we take the next domain that the"
        " skew allows.",
        _unsold_domain,
    ),
    Known(
        "foreign-zone",
        "For pods that others keep away from, Karpenter knows only the zones of its pools; a node"
        " in another zone takes none of them. We count that zone like any other.",
        _foreign_zone,
    ),
    Known(
        "unsold-replacement",
        "Consolidation asks for spot wherever the pool allows it, although no type that is cheap"
        " enough is sold as spot. Karpenter's launch fails, again and again, or the types that"
        " cannot be launched count as free; we ask for what is sold.",
        _unsold_replacement,
    ),
    Known(
        "contradicting-preference",
        "A pod may prefer what one of its required alternatives excludes. Wishes are given up in"
        " Karpenter's order, alternatives first; Karpenter takes the contradiction for the wish"
        " that the label be absent, and so happens to find a place before that.",
        _contradicting_preference,
    ),
    Known(
        "forgotten-label",
        "Beside one that excludes values of a label, Karpenter forgets a preference that the label"
        " exist, and the pod shares a node with one that demands its absence. We keep them apart"
        " until the preference is given up.",
        _forgotten_label,
    ),
    Known(
        "shared-count",
        "Pods with the same spread constraint but other node selectors must be counted apart,"
        " each among the nodes it may use. Karpenter tells constraints apart by the keys of node"
        " selectors without their values, so one count serves all of them. We count apart.",
        _shared_count,
    ),
    Known(
        "waiting-pods",
        "Drift and repair count claims for pods that wait anyway among the replacements and wait"
        " for them. We leave those to provisioning.",
        _waiting_pods,
    ),
)


def _misplaced(problem: Problem, answer: Json) -> bool:
    """Whether a pod is put where no node has, or will have, the labels that it requires."""
    return any(
        not any(_satisfies(spec, labels) for labels in known)
        for known, specs in _places(problem, answer)
        for spec in specs
    )


def _forgets_a_label(problem: Problem, answer: Json) -> bool:
    """Whether pods of which one wants a label to exist share a node that does not have it.

    Another one excludes values of that label, which no node has that lacks it.
    """
    for known, specs in _places(problem, answer):
        excluded = {wish["key"] for wish in _wishes(specs) if wish["operator"] == "NotIn"}
        needed = {wish["key"] for wish in _wishes(specs) if wish["operator"] == "Exists"}
        if any(each.get(key, _ABSENT) == _ABSENT for key in excluded & needed for each in known):
            return True
    return False


def _replacements(answer: Json) -> list[Json]:
    return [each for command in answer.get("commands", ()) for each in command["replacements"]]


def _weighs_savings(problem: Problem, pool: str) -> bool:
    """Whether a pool weighs what a move saves against what it disrupts."""
    return any(
        each["spec"]["disruption"]["consolidationPolicy"] == "Balanced"
        for each in problem.of_kind("NodePool")
        if each["metadata"]["name"] == pool
    )


def _may_be(problem: Problem, pool: str, way: str) -> bool:
    """Whether a pool allows a capacity type."""
    return all(
        _holds(wish, frozenset({way}))
        for each in problem.of_kind("NodePool")
        if each["metadata"]["name"] == pool
        for wish in each["spec"]["template"]["spec"]["requirements"]
        if wish["key"] == k.WAY
    )


def _wishes(specs: list[Json]) -> Iterator[Json]:
    """What pods wish of the labels of their node, required or preferred."""
    for spec in specs:
        for term in (*_required_terms(spec), *_preferred_terms(spec)):
            yield from term


def _required_terms(spec: Json) -> list[list[Json]]:
    """The alternatives of what a pod requires of the labels of its node."""
    chosen = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in spec.get("nodeSelector", {}).items()
    ]
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", [{}])
    return [[*chosen, *term.get("matchExpressions", ())] for term in terms]


def _preferred_terms(spec: Json) -> list[list[Json]]:
    """What a pod would like the labels of its node to be."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return [term["preference"].get("matchExpressions", []) for term in terms]


def _places(problem: Problem, answer: Json) -> Iterator[tuple[list[Labels], list[Json]]]:
    """What each machine that takes pods may be labelled with, and the specs of the pods."""
    pods = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["spec"]
        for pod in problem.of_kind("Pod")
    }
    for claim in [*answer["claims"], *_replacements(answer)]:
        kinds = problem.instance_types.get(claim["pool"], problem.instance_types.get("", []))
        specs = [pods[name] for name in claim["pods"] if name in pods]
        # a label of the user's own that a pod excludes values of is given some other value
        wishes = list(_wishes(specs))
        bound = {wish["key"] for wish in wishes if wish["operator"] in ("In", "DoesNotExist")}
        given = {wish["key"]: None for wish in wishes if wish["operator"] == "NotIn"}
        given = {key: value for key, value in given.items() if key not in bound}
        yield (
            [
                {**given, **_labels_of(problem, claim, each)}
                for each in kinds
                if each["name"] in claim["types"]
            ]
            or [given],
            specs,
        )
    for machine in problem.of_kind("Node", "NodeClaim"):
        held = {key: frozenset({value}) for key, value in machine["metadata"]["labels"].items()}
        names = answer["existing"].get(machine["metadata"]["name"], [])
        yield [held], [pods[name] for name in names if name in pods]


def _labels_of(problem: Problem, claim: Json, kind: Json) -> Labels:
    """The values that the labels of a node may have."""
    (pool,) = (p for p in problem.of_kind("NodePool") if p["metadata"]["name"] == claim["pool"])
    template = pool["spec"]["template"]
    found: dict[str, frozenset[str] | None] = {
        key: frozenset(values) for key, values in kind["labels"].items()
    }
    for wish in template["spec"]["requirements"]:
        if wish["key"] not in found:
            found[wish["key"]] = frozenset(wish["values"]) if wish["operator"] == "In" else None
    found |= {key: frozenset({value}) for key, value in template["metadata"]["labels"].items()}
    return found | {
        k.TYPE: frozenset({kind["name"]}),
        k.POOL: frozenset({claim["pool"]}),
        k.ZONE: frozenset(claim["zones"]),
        k.WAY: frozenset(claim["ways"]),
    }


def _satisfies(spec: Json, labels: Labels) -> bool:
    return any(_all_hold(term, labels) for term in _required_terms(spec))


def _all_hold(wishes: list[Json], labels: Labels) -> bool:
    """Whether all wishes hold for the same values of labels."""
    for key in {wish["key"] for wish in wishes}:
        about = [wish for wish in wishes if wish["key"] == key]
        held = labels.get(key, _ABSENT)
        values = _conceivable(about) if held is None else [frozenset({v}) for v in held]
        if not any(all(_holds(wish, value) for wish in about) for value in values or [_ABSENT]):
            return False
    return True


def _contradict(wishes: list[Json]) -> bool:
    """Whether no node could ever fulfil all of these wishes."""
    keys = {wish["key"] for wish in wishes}
    groups = [[wish for wish in wishes if wish["key"] == key] for key in keys]
    return any(
        not any(
            all(_holds(wish, value) for wish in about) for value in (*_conceivable(about), _ABSENT)
        )
        for about in groups
    )


def _conceivable(about: list[Json]) -> list[frozenset[str]]:
    """The values of a label that make a difference to wishes: those they name, and another one."""
    named = {value for wish in about for value in wish.get("values", ())}
    return [frozenset({value}) for value in (*sorted(named), "0", "1000")]


def _holds(wish: Json, held: frozenset[str]) -> bool:
    match wish["operator"]:
        case "In":
            return bool(held & set(wish["values"]))
        case "NotIn":
            return not held or bool(held - set(wish["values"]))
        case "Exists":
            return bool(held)
        case "DoesNotExist":
            return not held
        case "Gt":
            return any(int(value) > int(wish["values"][0]) for value in held)
        case _:
            return any(int(value) < int(wish["values"][0]) for value in held)


def _spread_keys(problem: Problem, pod: Json) -> set[str]:
    stated = pod["spec"].get("topologySpreadConstraints", [])
    keys = {each["topologyKey"] for each in stated}
    if not stated:
        text = problem.options.get("schedulerConfig", "")
        keys |= {key for key in (k.ZONE, k.WAY) if key in text}
    return keys - {k.HOST}


def _domains(problem: Problem, key: str) -> set[str]:
    """Every domain of a label that somebody could have heard of."""
    field = {k.ZONE: "zone", k.WAY: "capacityType"}[key]
    sold = {
        o[field] for t in problem.instance_types.values() for each in t for o in each["offerings"]
    }
    standing = {n["metadata"]["labels"].get(key) for n in problem.of_kind("Node", "NodeClaim")}
    return sold | (standing - {None})


def _pool_domains(problem: Problem, key: str) -> set[str]:
    """The domains of a label that some pool could make a node in."""
    field = {k.ZONE: "zone", k.WAY: "capacityType"}[key]
    found: set[str] = set()
    for pool in problem.of_kind("NodePool"):
        kinds = problem.instance_types.get(
            pool["metadata"]["name"], problem.instance_types.get("", [])
        )
        sold = {each[field] for kind in kinds for each in kind["offerings"]}
        wishes = [w for w in pool["spec"]["template"]["spec"]["requirements"] if w["key"] == key]
        found |= {each for each in sold if all(_holds(w, frozenset({each})) for w in wishes)}
    return found


def _is_unsold(problem: Problem, pool: Json, pod: Json, key: str, domain: str) -> bool:
    """Whether a pool makes no node for a pod in a domain, although nothing else is asked of it."""
    alone = copy.deepcopy(problem)
    spec = copy.deepcopy(pod["spec"])
    for field in ("topologySpreadConstraints", "nodeName"):
        spec.pop(field, None)
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), key: domain}
    status = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    asked = {**copy.deepcopy(pod), "spec": spec, "status": status}
    gone = ("Pod", "Node", "NodeClaim", "NodePool", "CSINode", "CapacityBuffer")
    alone.objects = [*(each for each in alone.objects if each["kind"] not in gone), pool, asked]
    alone.disrupt, alone.options = False, {**problem.options, "schedulerConfig": ""}
    return bool(decide(alone)["failed"])
