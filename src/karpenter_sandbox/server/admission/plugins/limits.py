"""LimitRanges: what a namespace gives to containers that ask for nothing, and what it refuses.

Defaults are filled in before a pod is checked; bounds are checked last, when everything else about
the object is in order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model.quantity import Family, canonical, format_quantity, parse
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.status import forbidden

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_CONTAINERS: Final = {"containers": "container", "initContainers": "init container"}
_NANO: Final = 10**9

Amounts = Mapping[str, Any]


def with_defaults(backend: Backend, pod: JsonObject) -> JsonObject:
    """A new pod with what the LimitRanges of its namespace give to its containers."""
    for limit_range in _limit_ranges(backend, pod):
        pod = _with_defaults_of(limit_range, pod)
    return pod


def check_limits(
    backend: Backend, resource: Resource, obj: JsonObject, old: JsonObject | None
) -> None:
    """Refuse a pod or claim that a LimitRange does not allow.

    Raises:
        ApiError: a request or limit is too large, too small, or missing.
    """
    is_new_pod = resource.kind == "Pod" and old is None
    if resource.group or not (is_new_pod or resource.kind == "PersistentVolumeClaim"):
        return
    read = _pod_problems if is_new_pod else _claim_problems
    for limit_range in _limit_ranges(backend, obj):
        problems = list(dict.fromkeys(read(limit_range, obj)))
        if problems:
            message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise forbidden("", resource.plural, obj["metadata"]["name"], message)


def _limit_ranges(backend: Backend, obj: JsonObject) -> Iterable[JsonObject]:
    return backend.store.list("", "limitranges", obj["metadata"]["namespace"])


def _items(limit_range: JsonObject, kind: str) -> Iterator[JsonObject]:
    for item in (limit_range.get("spec") or {}).get("limits") or []:
        if item.get("type") == kind:
            yield item


def _with_defaults_of(limit_range: JsonObject, pod: JsonObject) -> JsonObject:
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for item in _items(limit_range, "Container"):
        limits |= item.get("default") or {}
        requests |= item.get("defaultRequest") or {}
    spec, added_defaults = dict(pod["spec"]), []
    for part, called in _CONTAINERS.items():
        containers = []
        for container in spec.get(part) or []:
            resources = container.get("resources") or {}
            for name, defaults in (("requests", requests), ("limits", limits)):
                known = resources.get(name) or {}
                added = {key: defaults[key] for key in sorted(defaults.keys() - known.keys())}
                if added:
                    resources = {**resources, name: {**known, **added}}
                    added_defaults.append(
                        f"{', '.join(added)} {name[:-1]} for {called} {container['name']}"
                    )
            containers.append({**container, "resources": resources})
        if containers:
            spec[part] = containers
    if not added_defaults:
        return pod
    metadata = pod["metadata"]
    note = f"LimitRanger plugin set: {'; '.join(added_defaults)}"
    annotations = {**(metadata.get("annotations") or {}), _ANNOTATION: note}
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _pod_problems(limit_range: JsonObject, pod: JsonObject) -> Iterator[str]:
    spec = pod["spec"]
    for item in _items(limit_range, "Container"):
        for part in _CONTAINERS:
            for container in spec.get(part) or []:
                resources = container.get("resources") or {}
                requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
                yield from _problems(item, requests, limits)
    for item in _items(limit_range, "Pod"):
        yield from _problems(item, _total(spec, "requests"), _total(spec, "limits"))


def _claim_problems(limit_range: JsonObject, claim: JsonObject) -> Iterator[str]:
    resources = (claim.get("spec") or {}).get("resources") or {}
    requests = resources.get("requests") or {}
    for item in _items(limit_range, "PersistentVolumeClaim"):
        for name, bound in (item.get("min") or {}).items():
            yield from _too_little(item, name, bound, {"request": requests})
        for name, bound in (item.get("max") or {}).items():
            yield from _too_much(item, name, bound, {"request": requests})


def _problems(item: JsonObject, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in (item.get("min") or {}).items():
        yield from _too_little(item, name, bound, {"request": requests, "limit": limits})
    for name, bound in (item.get("max") or {}).items():
        yield from _too_much(item, name, bound, {"limit": limits, "request": requests})
    for name, bound in (item.get("maxLimitRequestRatio") or {}).items():
        yield from _too_loose(item, name, bound, requests, limits)


def _too_little(
    item: JsonObject, name: str, bound: Any, asked: Mapping[str, Amounts]
) -> Iterator[str]:
    head = f"minimum {name} usage per {item['type']} is {canonical(bound)}"
    yield from _beyond(head, name, asked, lambda amount: amount < parse(bound))


def _too_much(
    item: JsonObject, name: str, bound: Any, asked: Mapping[str, Amounts]
) -> Iterator[str]:
    head = f"maximum {name} usage per {item['type']} is {canonical(bound)}"
    yield from _beyond(head, name, asked, lambda amount: amount > parse(bound))


def _beyond(
    head: str, name: str, asked: Mapping[str, Amounts], is_wrong: Callable[[Decimal], bool]
) -> Iterator[str]:
    """Violations of one bound: a missing amount, or an amount beyond it."""
    for index, (called, amounts) in enumerate(asked.items()):
        if name not in amounts:
            if index == 0:
                yield f"{head}.  No {called} is specified"
                return
        elif is_wrong(parse(amounts[name])):
            yield f"{head}, but {called} is {canonical(amounts[name])}"
            return


def _too_loose(
    item: JsonObject, name: str, bound: Any, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    head = f"{name} max limit to request ratio per {item['type']} is {canonical(bound)}"
    request, limit = parse(requests.get(name, 0)), parse(limits.get(name, 0))
    if not request:
        yield f"{head}, but no request is specified or request is 0"
    elif not limit:
        yield f"{head}, but no limit is specified or limit is 0"
    elif limit / request > parse(bound):
        yield f"{head}, but provided ratio is {limit / request:.6f}"


def _total(spec: JsonObject, kind: str) -> Amounts:
    """What all containers of a pod ask for together, at the moment when it is most."""
    total = _sum(_asked(each, kind) for each in spec.get("containers") or [])
    beside: dict[str, Decimal] = {}
    most: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or []:
        asked = _asked(container, kind)
        if container.get("restartPolicy") == "Always":
            total, beside = _sum((total, asked)), _sum((beside, asked))
            asked = beside
        else:
            asked = _sum((beside, asked))
        most = _largest(most, asked)
    total = _largest(total, most)
    whole = (spec.get("resources") or {}).get(kind) or {}
    total |= {name: parse(amount) for name, amount in whole.items()}
    return {name: _text(name, amount) for name, amount in total.items()}


def _asked(container: JsonObject, kind: str) -> dict[str, Decimal]:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return {name: parse(amount) for name, amount in amounts.items()}


def _sum(parts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _largest(left: Mapping[str, Decimal], right: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {
        name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0)))
        for name in {**left, **right}
    }


def _text(name: str, amount: Decimal) -> str:
    family = Family.DECIMAL if name == "cpu" else Family.BINARY
    return format_quantity(int(amount * _NANO), family)
