"""The parts of a pod's JSON that say where it may go: affinity, spread constraints, selectors."""

from typing import Any

from helpers.scheduler_bench import HOSTNAME, ZONE, Json


def labelled(**labels: str) -> Json:
    """A label selector."""
    return {"matchLabels": labels}


def spread(
    key: str = ZONE, *, selector: Json | None, max_skew: int = 1, hard: bool = True, **more: Any
) -> Json:
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    constraint = {"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": action, **more}
    return constraint if selector is None else {**constraint, "labelSelector": selector}


def term(selector: Json | None, key: str = HOSTNAME, **more: Any) -> Json:
    return {"topologyKey": key, **more, **({} if selector is None else {"labelSelector": selector})}


def required(kind: str, *terms: Json) -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def preferred(kind: str, *weighted: tuple[int, Json]) -> Json:
    terms = [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def node_affinity(*terms: list[Json], fields: list[Json] | None = None) -> Json:
    alternatives: list[Json] = [{"matchExpressions": expressions} for expressions in terms]
    if fields is not None:
        alternatives = alternatives or [{}]
        for alternative in alternatives:
            alternative["matchFields"] = fields
    selector = {"nodeSelectorTerms": alternatives}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def pinned_to(name: str) -> Json:
    """The affinity of a DaemonSet's pod."""
    return node_affinity(fields=[expression("metadata.name", "In", name)])
